//! RFC 9411: what an iteration showed, and which one to run next.
//!
//! ```text
//! step 1, a tenth --> step 2, the target --> step 3: search -> the maximum, at full length
//!    | criteria missed     | criteria met
//!    `-> end               `-> end
//! ```
//!
//! Pure, as everything in this crate. KPIs come from the sustain phase alone. The RFC's criteria
//! take the place of an SLO; whether the generator was the limit is decided by the same checks as
//! in every other trial, of the whole load.

mod criteria;
mod kpi;
mod procedure;
#[cfg(test)]
mod tests;

pub use criteria::{IterationRecord, JudgedIteration, isolation, judge, thresholds};
pub use kpi::SustainFigures;
pub use procedure::{Conclusion, Iterate, Settings, initial_load, proceed};
