//! Judgement over records: what a trial says, and which trial to run next.
//!
//! Pure: the same results give the same verdict and the same next step. Nothing here runs a trial, reads a clock or
//! shows anything; the caller that runs trials asks [`RateSearch::next_step`] and answers with
//! [`RateSearch::handle_result`].
#![forbid(unsafe_code)]

pub mod cliffs;
pub mod compare;
pub mod connections;
pub mod cycles;
pub mod diagnose;
pub mod disruptions;
pub mod gate;
pub mod holding;
mod losses;
mod pauses;
pub mod repeats;
pub mod rfc9411;
pub mod search;
pub mod speed;
pub mod stability;
pub mod staircase;
pub mod stats;
pub mod storm;
pub mod validity;
pub mod verdict;

pub use connections::{ConnectionSearch, ConnectionSettings};
pub use holding::{Held, judge_hold};
pub use losses::{Context, Unloaded};
pub use search::{GoalSearch, Mode, RateSearch, SearchSettings, SearchStep};
pub use staircase::{Staircase, StaircaseSettings};
pub use storm::{StormSearch, StormSettings};
pub use verdict::{judge, judge_load};
