//! Was it the generator? Checks whose failure makes a trial INVALID instead of BAD.
//!
//! | check | input beside the tally | can fail |
//! |---|---|---|
//! | `rate-fidelity` | | always |
//! | `send-lag` | | with a missed goal |
//! | `arrivals` | `arrivals` | with a missed goal |
//! | `accounting` | | always |
//! | `littles-law` | | always |
//! | `peer-counters` | `peer` | always |
//! | `generator-cpu`, `host-cpu` | `host_cpu` | with a missed goal |
//! | `scheduling` | `scheduling` | with a missed goal |
//! | `local-errors` | | always |
//! | `own-timers` | | when the verdict rests on an interrupt |
//! | `generator-network` | `network` | with a missed goal |
//! | `reference` | `reference` | with a missed goal |
//! | `generator-memory` | `memory` | with a missed goal |
//! | `stationarity` | `halves` | never: it does not speak against the generator; a confirmation is repeated, longer |
//! | `monitor` | `monitor_gap` | never: the evidence is thin, the load was right |
//! | `co-location` | `shared_cpus` | never |
//! | `pool` | | with a missed goal |
//!
//! Late sending and a busy generator make latency worse and never better, because latency counts
//! from the intended start. So they can only spoil a trial that missed a goal: a GOOD one stays
//! GOOD and they become warnings. What always fails says that the load was not the one asked for,
//! or that the figures are wrong. A plain load without goals has only its figures, so that there
//! "with a missed goal" is always. Where the server is on this host, a full host is no fault.

mod accounting;
mod host;
mod offer;
mod subject;

pub(crate) use accounting::{is_drifting, local};
pub use offer::REFERENCE_FAIL;
pub(crate) use subject::Subject;

use plimsoll_model::trial::Check;

/// Every check that applies.
pub(crate) fn checks(subject: &Subject<'_>) -> Vec<Check> {
    let open = subject.open;
    [
        open.then(|| offer::rate_fidelity(subject)),
        open.then(|| offer::send_lag(subject)),
        open.then(|| offer::arrivals(subject)).flatten(),
        Some(accounting::accounting(subject)),
        open.then(|| accounting::littles_law(subject)).flatten(),
        accounting::peer_counters(subject),
        Some(host::generator_cpu(subject)),
        host::host_cpu(subject),
        host::scheduling(subject),
        Some(accounting::local_errors(subject)),
        open.then(|| offer::pool(subject)).flatten(),
        accounting::own_timers(subject),
        host::network(subject),
        open.then(|| offer::reference(subject)).flatten(),
        host::memory(subject),
        accounting::stationarity(subject),
        accounting::monitor(subject),
        host::co_location(subject),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The checks that apply to requests on held connections, which keep no schedule of rates.
pub(crate) fn held_checks(subject: &Subject<'_>) -> Vec<Check> {
    vec![offer::send_lag(subject), accounting::accounting(subject), host::generator_cpu(subject)]
}

#[cfg(test)]
mod tests;
