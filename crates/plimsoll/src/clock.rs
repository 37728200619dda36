//! The clock of a run.

use plimsoll_model::Nanos;
use plimsoll_sys::clock;

/// Returns the present time on CLOCK_MONOTONIC.
pub(crate) fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}
