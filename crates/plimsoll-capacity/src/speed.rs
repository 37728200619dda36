//! The speed of host and server in each trial, relative to the run.
//!
//! The yardstick shows the host's speed; the server's CPU time per answer shows both speeds. If only the latter rose in
//! a trial, the server did more work: its own cache misses, more connections, a longer queue.

use plimsoll_model::Nanos;
use plimsoll_model::observation::SutCpu;
use plimsoll_model::trial::{Slow, SlowSeconds, Slower, TrialRecord, TrialSecond};

use crate::stats::median_of;

/// A second is slow when the piece of work took this much longer than in the median second at like loads: a
/// busy CPU has colder caches, so that other loads are no measure.
const SLOW: f64 = 1.15;
/// One slow second is often an interrupt.
const SLOW_SECONDS_MIN: u32 = 2;
/// Median slowness up to which CPUs count as fast as usual.
const USUAL: f64 = 1.05;
/// CPU time per answer that is worth a finding, over that at like loads.
const COSTLY: f64 = 1.1;
/// Loads are alike up to this factor: with more load, a server handles more events per wake-up.
const LIKE: f64 = 1.25;
/// Trials at like loads that a cost is compared with, the trial itself included.
const LIKE_TRIALS_MIN: usize = 3;

/// Time that the yardstick's piece of work took in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slowness {
    /// Median over the median second at like loads: 1.16 is 16 % slower.
    median: f64,
    /// The seconds that were slower; `None` if there were less than two.
    slow: Option<SlowSeconds>,
}

/// CPU time of the server per answer, over the median of the trials at like loads.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CostRatio {
    /// All of it.
    total: f64,
    /// In the server's own code; `None` when there was none at like loads.
    user: Option<f64>,
    /// In the kernel.
    system: Option<f64>,
}

/// CPU time per answer, microseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    load: f64,
    total_us: f64,
    user_us: f64,
    system_us: f64,
}

/// Returns the trials that were slower than the run, and the part that was slower in each.
pub fn slow_trials(trials: &[TrialRecord]) -> Vec<Slow> {
    let costs: Vec<Cost> = trials.iter().filter_map(cost).collect();
    trials.iter().flat_map(|record| slower(record, trials, &costs)).collect()
}

fn slower(
    record: &TrialRecord,
    trials: &[TrialRecord],
    costs: &[Cost],
) -> impl Iterator<Item = Slow> + use<> {
    let slow = |side: Option<Slowness>| side.and_then(|side| side.slow);
    let host = slowness(record, trials, |second| second.yardstick);
    let clients = slowness(record, trials, |second| second.client_yardstick);
    // Without a yardstick on its CPUs, a rise may be the host's.
    let is_usual = host.is_some_and(|host| host.slow.is_none() && host.median < USUAL);
    let ratio = cost(record).and_then(|cost| ratio(cost, costs));
    let server = ratio.filter(|cost| is_usual && cost.total >= COSTLY);
    let trial = record.measurement.request.number;
    let found = [
        slow(host).map(Slower::Host),
        server.map(|cost| {
            let more = |ratio: f64| ratio - 1.0;
            let (user, system) = (cost.user.map(more), cost.system.map(more));
            Slower::Server { by: more(cost.total), user, system }
        }),
        slow(clients).map(Slower::Clients),
    ];
    found.into_iter().flatten().map(move |what| Slow { trial, what })
}

type Read = fn(&TrialSecond) -> Option<Nanos>;

/// Returns the median second of the trials at about the load of `of`, ns; `None` for too few trials.
fn usual(trials: &[TrialRecord], of: &TrialRecord, read: Read) -> Option<f64> {
    let load = |record: &TrialRecord| record.measurement.request.rate.get();
    let alike = || trials.iter().filter(|other| is_like(load(other), load(of)));
    if alike().count() < LIKE_TRIALS_MIN {
        return None;
    }
    let seconds = alike().flat_map(|record| &record.measurement.seconds);
    median_of(seconds.filter_map(read).map(|took| took.0 as f64)).filter(|usual| *usual > 0.0)
}

/// Returns the slowness of one trial; `None` if the yardstick did not run on these CPUs.
fn slowness(record: &TrialRecord, trials: &[TrialRecord], read: Read) -> Option<Slowness> {
    let usual = usual(trials, record, read)?;
    let seconds = record.measurement.seconds.iter().filter_map(read);
    let all: Vec<f64> = seconds.map(|took| took.0 as f64 / usual).collect();
    let slow: Vec<f64> = all.iter().copied().filter(|slowness| *slowness >= SLOW).collect();
    let (seconds, of) = (slow.len() as u32, all.len() as u32);
    let by = slow.iter().sum::<f64>() / f64::from(seconds) - 1.0;
    let slow = (seconds >= SLOW_SECONDS_MIN).then_some(SlowSeconds { by, seconds, of });
    Some(Slowness { median: median_of(all)?, slow })
}

fn cost(record: &TrialRecord) -> Option<Cost> {
    let measured = &record.measurement;
    let SutCpu { ran, system, .. } = measured.observations.sut_cpu?;
    // In an aborted trial, the end of the window differs from the time of the reading.
    let answers = Some(measured.tally.ok).filter(|ok| *ok > 0 && !measured.aborted)? as f64;
    let us = |span: Nanos| span.0 as f64 / 1e3 / answers;
    Some(Cost {
        load: measured.request.rate.get(),
        total_us: us(ran),
        user_us: us(ran.since(system)),
        system_us: us(system),
    })
}

fn is_like(load: f64, other: f64) -> bool {
    (1.0 / LIKE..=LIKE).contains(&(load / other))
}

/// Returns a cost over the usual one; `None` if too few trials had like loads.
fn ratio(cost: Cost, all: &[Cost]) -> Option<CostRatio> {
    let alike = |other: &&Cost| is_like(other.load, cost.load);
    let alike: Vec<&Cost> = all.iter().filter(alike).collect();
    if alike.len() < LIKE_TRIALS_MIN {
        return None;
    }
    let over = |part: fn(&Cost) -> f64| {
        let usual = median_of(alike.iter().map(|other| part(other)));
        usual.filter(|usual| *usual > 0.0).map(|usual| part(&cost) / usual)
    };
    Some(CostRatio {
        total: over(|cost| cost.total_us)?,
        user: over(|cost| cost.user_us),
        system: over(|cost| cost.system_us),
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::observation::Observations;
    use plimsoll_model::tally::Tally;
    use plimsoll_model::trial::{Judgement, Phase, TrialMeasurement, TrialRequest};

    use super::*;

    /// A trial of `yardstick_us.len()` seconds in which an answer cost `user_us` and `system_us`.
    fn trial(number: u32, load: f64, yardstick_us: &[u64], cost_us: [u64; 2]) -> TrialRecord {
        let [user, system] = cost_us.map(|us| Nanos(1_000 * us * 1_000));
        let second = |us: &u64| TrialSecond {
            yardstick: Some(Nanos(1_000 * us)),
            client_yardstick: Some(Nanos(300_000)),
            ..TrialSecond::default()
        };
        let window = Nanos::from_secs(yardstick_us.len() as u64);
        let rate = Rate::per_second(load).unwrap();
        let sut_cpu = SutCpu { ran: user + system, system, waited: Nanos::ZERO };
        TrialRecord {
            measurement: TrialMeasurement {
                request: TrialRequest {
                    number,
                    phase: Phase::Narrow,
                    rate,
                    duration: window,
                    split: 1,
                },
                window,
                aborted: false,
                tally: Tally { ok: 1_000, ..Tally::default() },
                sut_busiest_thread: None,
                split: 1,
                observations: Observations { sut_cpu: Some(sut_cpu), ..Observations::default() },
                seconds: yardstick_us.iter().map(second).collect(),
            },
            judgement: Judgement::of(Vec::new(), 0.0),
            further: Vec::new(),
        }
    }

    fn run() -> Vec<TrialRecord> {
        (1..=6).map(|number| trial(number, 1_000.0, &[400, 404, 396, 400], [10, 10])).collect()
    }

    fn cost_of(trials: &[TrialRecord], index: usize) -> Option<CostRatio> {
        let costs: Vec<Cost> = trials.iter().filter_map(cost).collect();
        ratio(cost(&trials[index])?, &costs)
    }

    #[test]
    fn a_steady_run_has_nothing_to_tell() {
        assert_eq!(slow_trials(&run()), []);
        assert_eq!(slow_trials(&[]), []);
        let host = slowness(&run()[0], &run(), |second| second.yardstick).unwrap();
        assert!((host.median - 1.0).abs() < 0.01 && host.slow.is_none(), "{host:?}");
        assert_eq!(cost_of(&run(), 0).map(|cost| cost.total), Some(1.0));
    }

    #[test]
    fn a_slow_host_is_not_a_costly_server() {
        let mut trials = run();
        // The server's cost follows its host.
        trials.push(trial(7, 1_000.0, &[400, 464, 464, 400], [12, 11]));
        let [Slow { trial: 7, what: Slower::Host(slow) }] = slow_trials(&trials)[..] else {
            panic!("{:?}", slow_trials(&trials))
        };
        assert!((slow.by - 0.16).abs() < 0.01 && (slow.seconds, slow.of) == (2, 4), "{slow:?}");
    }

    #[test]
    fn a_server_that_costs_more_on_a_usual_host_is_named_with_its_parts() {
        let mut trials = run();
        trials.push(trial(7, 1_000.0, &[400, 470, 400, 400], [14, 10]));
        let [Slow { trial: 7, what: Slower::Server { by, user, system } }] =
            slow_trials(&trials)[..]
        else {
            panic!("{:?}", slow_trials(&trials))
        };
        let near = |seen: Option<f64>, expected: f64| {
            assert!(seen.is_some_and(|seen| (seen - expected).abs() < 1e-9), "{seen:?}");
        };
        near(Some(by), 0.2);
        near(user, 0.4);
        near(system, 0.0);
    }

    #[test]
    fn without_a_witness_or_like_loads_nothing_is_claimed() {
        let mut trials = run();
        let mut blind = trial(7, 1_000.0, &[], [14, 10]);
        blind.measurement.seconds = vec![TrialSecond::default(); 4];
        trials.push(blind);
        // Far from every other load.
        trials.push(trial(8, 200.0, &[400; 4], [30, 30]));
        assert_eq!(slow_trials(&trials), []);
        assert_eq!((trials[7].measurement.request.number, cost_of(&trials, 7)), (8, None));
    }

    #[test]
    fn slow_clients_are_ours() {
        let mut trials = run();
        for second in &mut trials[3].measurement.seconds[1..] {
            (second.yardstick, second.client_yardstick) = (None, Some(Nanos(360_000)));
        }
        let [Slow { trial: 4, what: Slower::Clients(slow) }] = slow_trials(&trials)[..] else {
            panic!("{:?}", slow_trials(&trials))
        };
        assert_eq!((slow.seconds, slow.of), (3, 4));
    }
}
