//! Was it the generator? Checks whose failure makes a trial INVALID instead of BAD.
//!
//! | check | input beside the tally | can fail |
//! |---|---|---|
//! | `rate-fidelity` | | always |
//! | `own-delay` | | with a missed goal |
//! | `send-lag` | | with a missed goal, if stamps do not settle it |
//! | `arrivals` | `arrivals` | with a missed goal, if stamps do not settle it |
//! | `accounting` | | always |
//! | `littles-law` | | always |
//! | `peer-counters` | `peer` | always |
//! | `generator-cpu`, `host-cpu` | `host_cpu` | with a missed goal and without stamps |
//! | `scheduling` | `scheduling` | with a missed goal and without stamps |
//! | `local-errors` | | always |
//! | `own-timers` | | when the verdict rests on an interrupt |
//! | `generator-network` | `network` | with a missed goal |
//! | `path-loss` | `network`, `loss_unloaded` | with a missed goal |
//! | `reference` | `reference` | with a missed goal |
//! | `generator-memory` | `memory` | with a missed goal and without stamps |
//! | `stationarity` | `halves` | never: it does not speak against the generator; a confirmation is repeated, longer |
//! | `unrequested` | | never: which of the messages were answers is not known |
//! | `monitor` | `monitor_gap` | never: the evidence is thin, the load was right |
//! | `co-location` | `shared_cpus` | never |
//! | `pool` | `pool_grown_in_vain`, `connections_are_fixed` | with a missed goal |
//!
//! The kernel's stamps show the effect of our own delay on the operations: a load that misses a goal without it, too,
//! is BAD however busy the generator was, one that would meet all of them is
//! INVALID, and shares of CPU and waits only explain. Without stamps they have to decide.
//!
//! Late sending and a busy generator make latency worse and never better, because latency counts
//! from the intended start. So they can only spoil a trial that missed a goal: a GOOD one stays
//! GOOD and they become warnings. What always fails says that the load was not the one asked for,
//! or that the figures are wrong. A plain load without goals has only its figures, so that there
//! "with a missed goal" is always. Where the server is on this host, a full host is no fault.

mod accounting;
mod host;
mod offer;
mod own_delay;
mod path;
mod subject;

pub(crate) use accounting::{is_drifting, local_held};
pub(crate) use host::HOST_CPU_WARN;
pub use offer::REFERENCE_FAIL;
pub(crate) use subject::Subject;

use plimsoll_model::observation::Observations;
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::Check;

use crate::losses::Losses;

/// Makes every check that applies.
pub(crate) fn checks(subject: &Subject<'_>) -> Vec<Check> {
    let open = subject.open;
    [
        open.then(|| offer::rate_fidelity(subject)),
        own_delay::own_delay(subject),
        open.then(|| offer::send_lag(subject)),
        open.then(|| offer::arrivals(subject)).flatten(),
        Some(accounting::accounting(subject)),
        open.then(|| accounting::littles_law(subject)).flatten(),
        accounting::peer_counters(subject),
        accounting::unrequested(subject),
        Some(host::generator_cpu(subject)),
        host::host_cpu(subject),
        host::scheduling(subject),
        Some(accounting::local_errors(subject)),
        open.then(|| offer::pool(subject)).flatten(),
        accounting::own_timers(subject),
        host::network(subject),
        path::path_loss(subject),
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

/// Makes the checks that need only the tally of one second.
pub(crate) fn second_checks(subject: &Subject<'_>) -> Vec<Check> {
    let is_sending = subject.open && subject.tally.scheduled > 0;
    let mut checks = vec![accounting::local_errors(subject)];
    if is_sending {
        checks.extend([offer::rate_fidelity(subject), offer::send_lag(subject)]);
    }
    checks
}

/// Makes the checks that apply to requests on held connections, which keep no schedule of rates. `missed` if a goal was
/// missed for no other reason.
pub(crate) fn held_checks(
    losses: &Losses<'_>,
    tally: &Tally,
    slo: &Slo,
    missed: bool,
) -> Vec<Check> {
    let observations = Observations::default();
    let subject = Subject { missed, ..Subject::of(tally, losses, &observations, Some(slo)) };
    let mut checks: Vec<_> = own_delay::own_delay(&subject).into_iter().collect();
    checks.extend([
        offer::send_lag(&subject),
        accounting::accounting(&subject),
        host::generator_cpu(&subject),
    ]);
    checks
}

#[cfg(test)]
mod tests;
