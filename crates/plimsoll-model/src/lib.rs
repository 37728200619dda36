//! The nouns of plimsoll: units, time, pacing, histograms, plans and records.
//!
//! Everything here is pure: no clock, no randomness of the system, no I/O. `now`
//! and random seeds are arguments.
#![forbid(unsafe_code)]

#[macro_use]
mod add_fields;
#[macro_use]
mod named;

pub mod announced;
mod catalogue;
pub mod cause;
pub mod cliff;
pub mod compare;
pub mod confirmation;
pub mod criterion;
pub mod cycles;
mod deliveries;
pub mod disruption;
pub mod ending;
pub mod error_class;
pub mod event;
pub mod framed;
pub mod gate;
pub mod hist;
pub mod hold;
pub mod host;
pub mod lines;
pub mod observation;
pub mod pace;
pub mod plan;
mod quantiles;
pub mod reason;
pub mod repeat;
pub mod result;
pub mod rfc9411;
pub mod row;
pub mod search;
pub mod seconds;
pub mod secret;
pub mod segments;
pub mod settings;
pub mod sizing;
pub mod slo;
pub mod spans;
pub mod starts;
pub mod stats;
pub mod storm;
pub mod summary;
pub mod sut;
pub mod tally;
pub mod target;
pub mod time;
pub mod trial;
pub mod units;

pub use error_class::{ErrorClass, Fault};
pub use hist::Histogram;
pub use sut::SutKind;
pub use time::Nanos;
pub use units::Rate;
