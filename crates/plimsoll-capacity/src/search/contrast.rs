//! The difference between the trials in which the server carried less and the others: the machine, or
//! the server itself?

use plimsoll_model::trial::{Contrast, Witness};

use crate::stats::median_of;

use super::conditions::Conditions;
use super::trials::Trial;

/// A server that carries this share of its best, or more, is as it was.
const AS_BEFORE: f64 = 0.9;
/// Shares of CPU time that differ by less are alike.
const SHARE_APART: f64 = 0.05;
/// Costs in CPU time per answer that differ by less are alike, relative.
const COST_APART: f64 = 0.15;
/// A host whose CPUs are busy for this share of the time has none to spare.
const FULL: f64 = 0.95;
/// Share of the time in which a process wants a CPU and waits for one, from which on it waits for others.
pub(crate) const WAITED: f64 = 0.5;

fn typical(trials: &[&Trial], figure: fn(&Conditions) -> Option<f64>) -> Option<f64> {
    median_of(trials.iter().filter_map(|trial| figure(&trial.conditions)))
}

/// Returns the differences between the overloads in which the server carried most and those in which it carried less;
/// empty if it never carried less, or if the conditions were not read.
pub(crate) fn differed<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<Contrast> {
    let saturated: Vec<&Trial> = trials.filter(|trial| trial.saturated().is_some()).collect();
    let most = saturated.iter().filter_map(|trial| trial.saturated()).fold(0.0, f64::max);
    let (fast, slow): (Vec<&Trial>, Vec<&Trial>) =
        saturated.into_iter().partition(|trial| trial.saturated() >= Some(AS_BEFORE * most));
    let both = |figure| Some((typical(&fast, figure)?, typical(&slow, figure)?));
    let share = |witness, figure| {
        // Less trouble explains nothing.
        let (then, now) = both(figure).filter(|(then, now)| now - then > SHARE_APART)?;
        Some(Contrast { witness, then, now })
    };
    let cost = both(|seen| seen.cost_us)
        .filter(|(then, now)| (now / then - 1.0).abs() > COST_APART)
        .map(|(then, now)| Contrast { witness: Witness::CostUs, then, now });
    [
        share(Witness::Steal, |seen| seen.steal),
        share(Witness::Starved, |seen| seen.starved),
        share(Witness::RunDelay, |seen| seen.run_delay),
        share(Witness::HostCpu, |seen| seen.host_cpu),
        cost,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Describes how full this host's CPUs were while `trials` missed the objective; `None` if they were not full, or not
/// read. A server on the same host waits for them, too.
pub(crate) fn full_host<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<String> {
    let missed: Vec<&Trial> = trials.filter(|trial| !trial.good).collect();
    let cpu = typical(&missed, |seen| seen.host_cpu).filter(|share| *share >= FULL)?;
    let waited = typical(&missed, |seen| seen.run_delay).filter(|share| *share >= WAITED)?;
    Some(format!(
        "the CPUs of this host were {:.0} % busy while the objective was missed, and the client waited for one in {:.0} % of \
         the time in which it wanted one: a server on this host waited as well. Where other programs used them, search \
         again without these",
        100.0 * cpu,
        100.0 * waited
    ))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;

    use super::super::trials::Role;
    use super::*;

    fn overload(carried: f64, steal: f64) -> Trial {
        Trial {
            load: 2_000.0,
            good: false,
            at_s: 0.0,
            window_s: 3.0,
            number: 1,
            planned: Nanos::from_secs(3),
            loss_ratio: 0.5,
            carried: Some(carried),
            bad: Default::default(),
            scheduled: 6_000,
            rarely_missed: false,
            role: Role::Sentinel,
            conditions: Conditions { steal: Some(steal), ..Conditions::default() },
        }
    }

    #[test]
    fn what_was_worse_while_less_was_carried_is_named() {
        let of = |trials: &[Trial]| differed(trials.iter());
        let stolen = [overload(1_000.0, 0.01), overload(990.0, 0.01), overload(600.0, 0.3)];
        let steal = Contrast { witness: Witness::Steal, then: 0.01, now: 0.3 };
        assert_eq!(of(&stolen), [steal]);
        assert_eq!(of(&[overload(1_000.0, 0.3), overload(600.0, 0.01)]), []);
        assert_eq!(of(&[overload(1_000.0, 0.01)]), []);
    }

    #[test]
    fn a_full_host_is_named() {
        let trial = |host_cpu, run_delay| {
            let conditions = Conditions {
                host_cpu: Some(host_cpu),
                run_delay: Some(run_delay),
                ..Conditions::default()
            };
            Trial { conditions, ..overload(20.0, 0.0) }
        };
        let text = full_host([trial(1.0, 0.98), trial(0.99, 0.9)].iter()).expect("it was full");
        assert!(text.starts_with("the CPUs of this host were 100 % busy"), "{text}");
        assert_eq!(full_host([trial(1.0, 0.1)].iter()), None, "the client alone was quick");
        assert_eq!(full_host([trial(0.5, 0.9)].iter()), None);
        let met = Trial { good: true, ..trial(1.0, 1.0) };
        assert_eq!(full_host([met].iter()), None);
    }
}
