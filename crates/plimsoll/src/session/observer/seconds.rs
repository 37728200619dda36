//! The seconds of a load: what was sent and answered, and the speed of the host meanwhile.
//!
//! The figures of `/proc` and of the yardstick are those between two looks. A look is made when a second of the load
//! arrives, some milliseconds after its end.

use std::path::Path;

use plimsoll_model::Nanos;
use plimsoll_model::observation::SutCpu;
use plimsoll_model::tally::Interval;
use plimsoll_model::trial::TrialSecond;
use plimsoll_probe::host;
use plimsoll_probe::threads::{RunTimes, ThreadTimes};
use plimsoll_probe::yardstick::{Pieces, Totals};

use crate::clock::now;
use crate::kernel_files::PROC;

/// The server's threads and the yardstick at one instant.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at: Nanos,
    pub(super) threads: ThreadTimes,
    pub(super) ran: Option<RunTimes>,
    /// The threads of the backends.
    pub(super) backends: Option<RunTimes>,
    /// On each CPU of the server, and of the clients.
    pieces: [Vec<Pieces>; 2],
}

/// The threads and CPUs to look at.
#[derive(Debug)]
pub(super) struct View {
    /// Processes of the server.
    watched: Vec<u32>,
    /// Processes of its backends.
    backends: Vec<u32>,
    yardstick: Totals,
    /// CPUs of the server and of the clients; none if they are elsewhere or not known.
    cpus: [Vec<u32>; 2],
}

impl View {
    /// Looks at the server with processes `watched`, at its `backends`, and at clients on the CPUs `clients`.
    pub(super) fn of(
        watched: Vec<u32>,
        backends: Vec<u32>,
        clients: Vec<u32>,
        yardstick: Totals,
    ) -> Self {
        let server = host::cpus_allowed(Path::new(PROC), &watched).into_iter().collect();
        Self { watched, backends, yardstick, cpus: [server, clients] }
    }

    /// Returns the processes of the server, with all behind it.
    pub(super) fn sut(&self) -> Vec<u32> {
        [&self.watched[..], &self.backends].concat()
    }

    /// Reports whether the server's processes are known.
    pub(super) fn is_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    pub(super) fn look(&self) -> Look {
        let pieces = |cpus: &[u32]| match cpus {
            [] => Vec::new(),
            cpus => self.yardstick.read(cpus).map(|(_, pieces)| pieces).collect(),
        };
        let (proc_root, watched) = (Path::new(PROC), self.watched.as_slice());
        Look {
            at: now(),
            threads: ThreadTimes::read(proc_root, watched),
            ran: RunTimes::read(proc_root, watched),
            backends: RunTimes::read(proc_root, &self.backends),
            pieces: [pieces(&self.cpus[0]), pieces(&self.cpus[1])],
        }
    }
}

impl Look {
    /// Returns the CPU time of the server's threads since `earlier`; `None` if its processes are not known.
    pub(super) fn sut_cpu_since(&self, earlier: &Self) -> Option<SutCpu> {
        let RunTimes { ran, waited } = self.ran?.since(&earlier.ran?);
        let system = self.threads.system_since(&earlier.threads).min(ran);
        Some(SutCpu { ran, system, waited })
    }

    /// Returns the mean CPU time of the yardstick's piece of work since `earlier`: on the server's CPUs, and on the
    /// clients'.
    fn yardstick_since(&self, earlier: &Self) -> [Option<Nanos>; 2] {
        let mean = |side: usize| {
            let cpus = self.pieces[side].iter().zip(&earlier.pieces[side]);
            let means = cpus.filter_map(|(now, before)| now.since(*before).mean());
            let (sum, count) = means.fold((0, 0), |(sum, count), mean| (sum + mean.0, count + 1));
            Nanos(sum).0.checked_div(count).map(Nanos)
        };
        [mean(0), mean(1)]
    }
}

/// Two looks that are closer or farther apart are not of one second: the coordinator was held up, or an agent.
const SPAN_MIN: Nanos = Nanos::from_millis(700);
const SPAN_MAX: Nanos = Nanos::from_millis(1_300);
/// Time that the last second may lack and still counts.
const CUT_SHORT: Nanos = Nanos::from_millis(800);
/// Seconds that are recorded: no trial of a search is longer.
const SECONDS_MAX: usize = 300;

/// The seconds so far.
#[derive(Debug, Default)]
pub(super) struct TrialSeconds(Vec<TrialSecond>);

impl TrialSeconds {
    /// Adds the next second of the load, between two looks.
    pub(super) fn add(&mut self, interval: &Interval, looks: Option<(&Look, &Look)>) {
        // A second in which nothing happened at any agent may be missing.
        let at = interval.second as usize;
        if at < self.0.len() || at >= SECONDS_MAX {
            return;
        }
        self.0.resize(at, TrialSecond::default());
        let tally = &interval.tally;
        let is_a_second = |(before, after): &(&Look, &Look)| {
            (SPAN_MIN..=SPAN_MAX).contains(&after.at.since(before.at))
        };
        let looks = looks.filter(is_a_second);
        let cpu = looks.and_then(|(before, after)| after.sut_cpu_since(before));
        let [yardstick, client_yardstick] =
            looks.map_or([None; 2], |(before, after)| after.yardstick_since(before));
        self.0.push(TrialSecond {
            sent: tally.scheduled.saturating_sub(tally.unsent),
            ok: tally.ok,
            bad: tally.bad(),
            sut_cpu: cpu,
            yardstick,
            client_yardstick,
        });
    }

    /// Returns the seconds of a load that sent for `window`; the last one may be cut short, to 0.2 s or more.
    pub(super) fn within(mut self, window: Nanos) -> Vec<TrialSecond> {
        self.0.truncate(((window.0 + CUT_SHORT.0) / 1_000_000_000) as usize);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;
    use plimsoll_model::tally::Tally;

    use super::*;

    fn look(ms: u64, took: [u64; 2], count: u64) -> Look {
        let pieces = |took| Pieces { count, took: Nanos(took) };
        Look {
            at: Nanos::from_millis(ms),
            threads: ThreadTimes::default(),
            ran: Some(RunTimes { ran: Nanos(1_000 * ms), waited: Nanos(ms) }),
            backends: None,
            pieces: [took.map(pieces).into(), Vec::new()],
        }
    }

    fn second(second: u32) -> Interval {
        let mut tally = Tally { scheduled: 10, ok: 8, late: 1, unsent: 1, ..Tally::default() };
        tally.failures.operations.add(ErrorClass::Status5xx, 1);
        Interval { second, tally }
    }

    #[test]
    fn seconds_have_the_differences_of_looks() {
        let mut seconds = TrialSeconds::default();
        let looks = [look(0, [500, 900], 1), look(1_000, [700, 1_300], 3)];
        seconds.add(&second(0), Some((&looks[0], &looks[1])));
        // Too late, one is missing, and one more than the window has.
        seconds.add(&second(1), Some((&looks[0], &look(2_000, [900; 2], 5))));
        seconds.add(&second(3), None);
        seconds.add(&second(4), None);
        let within = seconds.within(Nanos::from_millis(4_100));
        assert_eq!(within.len(), 4);
        let first = within[0];
        assert_eq!((first.sent, first.ok, first.bad), (9, 8, 3));
        assert_eq!(first.yardstick, Some(Nanos(150)));
        assert_eq!(first.client_yardstick, None);
        let cpu = first.sut_cpu.expect("both looks have it");
        assert_eq!((cpu.ran, cpu.waited), (Nanos(1_000_000), Nanos(1_000)));
        assert_eq!((within[1].sut_cpu, within[1].yardstick, within[1].sent), (None, None, 9));
        assert_eq!((within[2], within[3].sent), (TrialSecond::default(), 9));
    }

    #[test]
    fn this_process_and_its_cpus_are_looked_at() {
        let view = View::of(vec![std::process::id()], Vec::new(), Vec::new(), Totals::default());
        let first = view.look();
        assert!(view.look().sut_cpu_since(&first).is_some());
        let nobody = View::of(Vec::new(), Vec::new(), Vec::new(), Totals::default());
        let first = nobody.look();
        assert!(nobody.look().sut_cpu_since(&first).is_none());
    }
}
