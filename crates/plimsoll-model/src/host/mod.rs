//! Readings of a host: raw values as the kernel and the servers report them, one reading after
//! the other.
//!
//! A reading keeps counters as they are, cumulative, with the instants at which reading began and
//! ended; a rate is the difference of two readings over the time between them. What could not be
//! read is named in [`Reading::missing`], and is never 0.

mod limit;
mod metric;
mod reading;
mod source;
mod summary;

pub use limit::{LimitId, LimitKind, LimitUse, fullest_limits, limits};
pub use metric::{Label, Metric, MetricKind, Role};
pub use reading::{Change, Missing, Reading, Sample, Series};
pub use source::{EndStatus, Source, SourceKind, SourceState};
pub use summary::{HostFigures, HostSpeed, HostSummary, SourceSummary};
