//! Sees what happens beside a load: on this host, on the SUT's processes, and from one second to
//! the next. Reads `/proc` and the sums of the yardstick when a load begins, once a second, and when its last
//! operation has been started; agents and their threads do nothing for it.

use std::net::SocketAddr;
use std::path::Path;

use plimsoll_fleet::coordinator::LoadOutcome;
use plimsoll_lab::{Isolated, WatchedServer};
use plimsoll_model::event::Event;
use plimsoll_model::observation::{
    HalfWindow, MemoryUse, Observations, PeerCounts, Scheduling, SecondCounts,
};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{TrialMeasurement, TrialRequest, TrialSecond};
use plimsoll_model::{ErrorClass, Histogram, Nanos, Rate};
use plimsoll_probe::host;
use plimsoll_probe::limits::CgroupLimits;
use plimsoll_probe::memory::HostMemory;
use plimsoll_probe::server_counters::ServerCounters;
use plimsoll_probe::threads::RunTimes;
use plimsoll_probe::yardstick::Totals;
use plimsoll_sys::affinity::usable_cpus;

use self::host_use::{Carriers, HostReading, HostUse};
use self::seconds::{Look, TrialSeconds, View};
use crate::clock::now;
use crate::kernel_files::{PROC, ROOT};
use crate::plan::load::LoadJob;

mod far;
mod host_use;
mod seconds;

pub(super) use far::FarReadings;

/// The first second of a load is its warm-up.
const WARM_UP_S: u32 = 1;

/// The observed parts, the same for every load of a run.
#[derive(Clone, Debug)]
pub(super) struct ObservationScope {
    /// CPUs that the generating threads may use.
    cpus: Vec<u32>,
    /// Every server has an address of this host.
    both_ends_here: bool,
    /// Other hosts make the load: what this one does says nothing of it.
    is_elsewhere: bool,
    /// Interfaces of this host that carry the load.
    carriers: Carriers,
}

impl ObservationScope {
    /// Returns the scene of `job`.
    pub(super) fn of(job: &LoadJob) -> Self {
        let pinned = &job.plan.cpus;
        let cpus = if pinned.is_empty() { usable_cpus() } else { pinned.clone() };
        let is_elsewhere = job.hosts.is_some();
        let carriers = match job.both_ends_here {
            true => Carriers::Loopback,
            false => Carriers::towards(
                job.plan.destinations.iter().flat_map(|one| &one.addresses).map(SocketAddr::ip),
            ),
        };
        Self { cpus, both_ends_here: job.both_ends_here, is_elsewhere, carriers }
    }

    /// Returns the share of the generator's CPUs that the SUT may use, too. One whose processes are not known
    /// is taken to be free to use them all.
    fn shared_cpus(&self, sut: &[u32]) -> Option<f64> {
        if !self.both_ends_here {
            return None;
        }
        let theirs = host::cpus_allowed(Path::new(PROC), sut);
        let shared = self.cpus.iter().filter(|cpu| theirs.is_empty() || theirs.contains(cpu));
        Some(shared.count() as f64 / self.cpus.len().max(1) as f64)
    }
}

/// Looks at the SUT's threads and the yardstick.
#[derive(Debug, Default)]
struct Looks {
    first: Option<Look>,
    /// The last two. No second has been counted between them yet.
    between: Option<Look>,
    last: Option<Look>,
    longest_gap: Nanos,
}

impl Looks {
    fn add(&mut self, look: Look) {
        if let Some(before) = &self.last {
            self.longest_gap = self.longest_gap.max(look.at.since(before.at));
        }
        self.first.get_or_insert_with(|| look.clone());
        self.between = self.last.replace(look);
    }

    fn busiest_thread(&self) -> Option<f64> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        last.threads.busiest_since(&first.threads, last.at.since(first.at))
    }
}

/// Equal numbers of whole seconds from the beginning and from the end of a load.
#[derive(Debug)]
struct Halves {
    seconds: u32,
    /// First second of each.
    begin: [u32; 2],
    ok: [u64; 2],
    latency: [Histogram; 2],
}

impl Halves {
    /// Creates the halves of a load of the length `planned`; returns `None` if it is too short.
    fn of(planned: Nanos) -> Option<Self> {
        let whole = u32::try_from(planned.0 / 1_000_000_000).ok()?;
        let seconds = whole.checked_sub(WARM_UP_S)? / 2;
        (seconds > 0).then(|| Self {
            seconds,
            begin: [WARM_UP_S, whole - seconds],
            ok: [0; 2],
            latency: [Histogram::default(), Histogram::default()],
        })
    }

    fn add(&mut self, interval: &Interval) {
        for half in 0..2 {
            let within = self.begin[half]..self.begin[half] + self.seconds;
            if within.contains(&interval.second) {
                self.ok[half] += interval.tally.ok;
                self.latency[half].merge(&interval.tally.spans.corrected);
            }
        }
    }

    fn observed(&self) -> Option<[HalfWindow; 2]> {
        let half = |index: usize| {
            Some(HalfWindow {
                p50: self.latency[index].quantile(0.5)?,
                completed: Rate::per_second(self.ok[index] as f64 / f64::from(self.seconds))?,
            })
        };
        Some([half(0)?, half(1)?])
    }
}

/// Bad operations, second by second.
#[derive(Default)]
struct BadSeconds {
    failed: SecondCounts,
    late_or_lost: SecondCounts,
}

impl BadSeconds {
    /// Adds a second. A second of the wait for the last answers counts only if operations failed in it.
    fn add(&mut self, second: &Tally, is_draining: bool) {
        let interrupted = second.failures.operations.get(ErrorClass::Interrupted);
        let failed = second.failed_by_peer().saturating_sub(interrupted);
        let late_or_lost = second.late + failed + second.unsent;
        if !is_draining || late_or_lost > 0 {
            self.failed.add(failed);
            self.late_or_lost.add(late_or_lost);
        }
    }
}

/// The use of the threads of a server and of its backends, from the beginning of a load to its last answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerUse {
    /// `None` if its processes are not known.
    pub(crate) server: Option<RunTimes>,
    pub(crate) backends: Option<RunTimes>,
    /// The server's busiest thread: its process, its number, and the CPU time that it used per second of sending.
    pub(crate) busiest: Option<(u32, u32, f64)>,
}

impl ServerUse {
    fn between(first: &Look, last: &Look, window: Nanos) -> Self {
        let since = |of: fn(&Look) -> Option<RunTimes>| Some(of(last)?.since(&of(first)?));
        Self {
            server: since(|look| look.ran),
            backends: since(|look| look.backends),
            busiest: last.threads.busiest_thread_since(&first.threads, window),
        }
    }
}

/// A load that was run, and what was seen beside it.
pub(crate) struct Observed {
    pub(crate) outcome: LoadOutcome,
    /// CPU of the server's busiest thread, 0 to 1, where it could be seen.
    pub(crate) sut_busiest_thread: Option<f64>,
    pub(crate) observations: Observations,
    /// The seconds of the window.
    pub(crate) seconds: Vec<TrialSecond>,
    /// Use of the server's threads until the last answer.
    pub(crate) server: ServerUse,
}

impl Observed {
    /// Returns the load as the trial `request`.
    pub(crate) fn into_measurement(self, request: TrialRequest) -> TrialMeasurement {
        TrialMeasurement {
            request,
            window: self.outcome.window,
            aborted: self.outcome.aborted,
            tally: self.outcome.tally,
            sut_busiest_thread: self.sut_busiest_thread,
            split: 1,
            observations: self.observations,
            seconds: self.seconds,
        }
    }
}

/// Watches one load.
pub(crate) struct Observer<'a> {
    scene: &'a ObservationScope,
    /// The load has one rate, so that its halves are alike.
    is_steady: bool,
    /// Reads threads and yardstick once a second.
    view: View,
    began: Option<Nanos>,
    /// The hosts of the laboratory, where they have networks of their own.
    isolated: Option<Isolated>,
    first: Option<HostReading>,
    last: Option<HostReading>,
    looks: Looks,
    seconds: TrialSeconds,
    halves: Option<Halves>,
    bad: BadSeconds,
}

impl<'a> Observer<'a> {
    /// Watches `server`, as far as it is known, and this host by `yardstick`.
    pub(super) fn new(
        scene: &'a ObservationScope,
        is_steady: bool,
        server: &dyn WatchedServer,
        yardstick: Totals,
    ) -> Self {
        let clients = if scene.is_elsewhere { Vec::new() } else { scene.cpus.clone() };
        Self {
            scene,
            is_steady,
            view: View::of(server.pids(), server.backend_pids(), clients, yardstick),
            began: None,
            isolated: server.isolated(),
            first: None,
            last: None,
            looks: Looks::default(),
            seconds: TrialSeconds::default(),
            halves: None,
            bad: BadSeconds::default(),
        }
    }

    /// Hears what the load does.
    pub(super) fn handle_event(&mut self, event: &Event) {
        match event {
            Event::LoadStarted { planned, .. } => {
                self.began = Some(now());
                let isolated = self.isolated.as_ref();
                self.first = (!self.scene.is_elsewhere).then(|| HostReading::now(isolated));
                self.looks.add(self.view.look());
                self.halves = planned.filter(|_| self.is_steady).and_then(Halves::of);
            }
            Event::Interval(interval) => {
                if let Some(halves) = &mut self.halves {
                    halves.add(interval);
                }
                self.bad.add(&interval.tally, self.last.is_some());
                // What comes later is of the wait for the last answers, or a second that ended with the window.
                if self.last.is_none() {
                    self.looks.add(self.view.look());
                }
                let before = self.looks.between.take();
                self.seconds.add(interval, before.as_ref().zip(self.looks.last.as_ref()));
            }
            Event::Draining { .. } => {
                self.last = Some(HostReading::now(self.isolated.as_ref()));
                self.looks.add(self.view.look());
            }
            _ => {}
        }
    }

    /// Returns the load that ended with `outcome`, and everything that was observed, here and on other hosts. Others
    /// know what the SUT has counted, and what the generator does alone.
    pub(super) fn finish(mut self, outcome: LoadOutcome, far: &FarReadings) -> Observed {
        let sut_busiest_thread = self.looks.busiest_thread();
        let end = self.view.look();
        let first = self.looks.first.as_ref();
        let server = first.map(|first| ServerUse::between(first, &end, outcome.window));
        // A load that ends with its last operation does not drain.
        if self.last.is_none() {
            self.looks.add(end);
        }
        let isolated = self.isolated.as_ref();
        let last = self.last.take().unwrap_or_else(|| HostReading::now(isolated));
        let looks = self.looks.last.as_ref().zip(self.looks.first.as_ref());
        let halves = self.halves.as_ref().filter(|_| !outcome.aborted && !outcome.interrupted);
        let mut observations = Observations {
            began: self.began,
            arrivals: outcome.tally.starts.spread(),
            halves: halves.and_then(Halves::observed),
            failed_by_second: Some(self.bad.failed).filter(|seen| seen.seconds > 0),
            late_or_lost_by_second: Some(self.bad.late_or_lost).filter(|seen| seen.seconds > 0),
            monitor_gap: Some(self.looks.longest_gap)
                .filter(|gap| self.view.is_watched() && *gap > Nanos::ZERO),
            sut_cpu: looks.and_then(|(last, first)| last.sut_cpu_since(first)),
            shared_cpus: self.scene.shared_cpus(&self.view.sut()),
            ..Observations::default()
        };
        let generator = &outcome.tally.generator;
        let mut scheduling = Scheduling {
            run_delay: generator.waited,
            wait_mean: generator.wait_mean,
            ..Scheduling::default()
        };
        if let Some(first) = &self.first {
            let host = HostUse::new(first, &last);
            (observations.host_cpu, scheduling.steal) = host.busy_and_stolen().unzip();
            scheduling.throttled_periods = host.throttled_periods();
            observations.network = match isolated {
                Some(_) => host.network(&Carriers::All),
                None => host.network(&self.scene.carriers),
            };
            observations.memory = memory_use(host, generator.rss_bytes_max);
        }
        far.observe(&mut observations, &mut scheduling);
        // A laboratory's networks have no sockets but its own, at both ends.
        if let Some(network) = observations.network.as_mut().filter(|_| isolated.is_none()) {
            let own = outcome.tally.segments;
            (network.sent_again, network.retransmits) = (own.sent_again, own.sent_again_ratio());
        }
        observations.scheduling = Some(scheduling).filter(|seen| *seen != Scheduling::default());
        Observed {
            sut_busiest_thread,
            observations,
            seconds: self.seconds.within(outcome.window),
            server: server.unwrap_or_default(),
            outcome,
        }
    }
}

/// Returns the agents' memory over what they could have had: theirs, and what was left of the host's and of
/// their control group's.
fn memory_use(seen: HostUse<'_>, resident: u64) -> Option<MemoryUse> {
    let cgroup = CgroupLimits::read(Path::new(ROOT)).memory_bytes.map(|memory| memory.left);
    let host = HostMemory::read(Path::new(PROC)).available_bytes;
    let left = [cgroup, host].into_iter().flatten().min()?;
    let (resident, left) = (resident as f64, left as f64);
    Some(MemoryUse {
        resident: if resident > 0.0 { resident / (resident + left) } else { 0.0 },
        stalled: seen.memory_stalled(),
    })
}

/// Returns the SUT's count beside ours: of requests, or of connections if no request is sent on them. Servers
/// do not count the messages of other protocols than HTTP.
///
/// The load uses all front ends of the SUT or one of them: the one whose count fits best counts. Others are used by
/// other clients, or the SUT itself connects to them.
pub(super) fn peer_counts(
    plan: &LoadPlan,
    tally: &Tally,
    received: &ServerCounters,
) -> Option<PeerCounts> {
    let counted = std::iter::once(received).chain(received.frontends.values());
    let counts = counted.filter_map(|counters| counts_of(plan, tally, counters));
    counts.min_by_key(|counts| {
        let fitting = counts.received.clamp(counts.answered.min(counts.sent), counts.sent);
        counts.received.abs_diff(fitting)
    })
}

fn counts_of(plan: &LoadPlan, tally: &Tally, received: &ServerCounters) -> Option<PeerCounts> {
    let sent = tally.scheduled.saturating_sub(tally.unsent);
    if plan.handshake_only {
        // A connection that fails is opened again for the next operation.
        let attempts = tally.connections.opened + tally.connections.failed;
        return Some(PeerCounts {
            sent: attempts.max(sent),
            answered: tally.ok,
            received: received.connections,
        });
    }
    if !plan.targets.iter().all(|target| target.url.protocol.is_http()) {
        return None;
    }
    let answered = tally.answers.status.iter().map(|(_, answers)| answers).sum();
    // A pool may have more connections than a load has operations: those that close unused are no requests.
    let beyond = received.requests.saturating_sub(sent);
    let received = received.requests - received.incomplete.min(beyond);
    Some(PeerCounts { sent, answered, received })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::load_job;

    fn second(second: u32, ok: u64, ms: u64) -> Interval {
        let mut tally = Tally { ok, ..Tally::default() };
        tally.spans.corrected.record_n(Nanos::from_millis(ms), ok);
        Interval { second, tally }
    }

    #[test]
    fn halves_leave_out_the_warm_up_and_the_middle() {
        let mut halves = Halves::of(Nanos::from_millis(6_500)).expect("long enough");
        assert_eq!((halves.seconds, halves.begin), (2, [1, 4]));
        for (number, ok) in [(0, 900), (1, 10), (2, 30), (3, 700), (4, 40), (5, 80), (6, 500)] {
            halves.add(&second(number, ok, u64::from(number) + 1));
        }
        let [first, last] = halves.observed().expect("answers in both");
        assert_eq!((first.completed.get(), last.completed.get()), (20.0, 60.0));
        assert!(first.p50 < Nanos::from_millis(4) && last.p50 > Nanos::from_millis(5));
        for ms in [0, 900, 2_900] {
            assert!(Halves::of(Nanos::from_millis(ms)).is_none(), "{ms}");
        }
        // Without answers there is no median.
        assert_eq!(Halves::of(Nanos::from_secs(9)).expect("long enough").observed(), None);
    }

    #[test]
    fn bad_operations_are_counted_second_by_second() {
        let mut bad = BadSeconds::default();
        for (refused, late, is_draining) in
            [(0, 0, false), (50, 3, false), (0, 0, true), (1, 0, true)]
        {
            let mut second = Tally { late, ..Tally::default() };
            second.failures.operations.add(ErrorClass::Status5xx, refused);
            // A fault of this host, and our own doing.
            second.failures.operations.add(ErrorClass::LocalPorts, 7);
            second.failures.operations.add(ErrorClass::Interrupted, 9);
            bad.add(&second, is_draining);
        }
        assert_eq!(bad.failed, SecondCounts { seconds: 3, sum: 51, squares: 2_501 });
        assert_eq!(bad.late_or_lost, SecondCounts { seconds: 3, sum: 54, squares: 53 * 53 + 1 });
    }

    #[test]
    fn a_server_that_nobody_knows_may_use_every_cpu() {
        let scene = |cpus, both_ends_here| {
            let carriers = Carriers::All;
            ObservationScope { cpus, both_ends_here, is_elsewhere: false, carriers }
        };
        assert_eq!(scene(vec![0], false).shared_cpus(&[]), None);
        assert_eq!(scene(vec![0, 1], true).shared_cpus(&[]), Some(1.0));
        // No process has this CPU.
        let own = std::process::id();
        assert_eq!(scene(vec![99_999], true).shared_cpus(&[own]), Some(0.0));
        assert_eq!(scene(usable_cpus(), true).shared_cpus(&[own]), Some(1.0));
    }

    #[test]
    fn a_server_counts_requests_or_connections() {
        let mut plan = load_job(&["http://127.0.0.1:9/"]).plan;
        let mut tally = Tally { scheduled: 110, ok: 90, unsent: 10, ..Tally::default() };
        tally.answers.status.add(200, 90);
        tally.answers.status.add(503, 5);
        (tally.connections.opened, tally.connections.failed) = (98, 4);
        let received = ServerCounters {
            requests: 97,
            incomplete: 3,
            connections: 99,
            ..ServerCounters::default()
        };
        let requests = PeerCounts { sent: 100, answered: 95, received: 97 };
        assert_eq!(peer_counts(&plan, &tally, &received), Some(requests));
        // 40 connections closed without a request, and another client sent one.
        let unused = ServerCounters { requests: 141, incomplete: 40, ..received.clone() };
        let one_more = PeerCounts { received: 101, ..requests };
        assert_eq!(peer_counts(&plan, &tally, &unused), Some(one_more));
        // Another client on another front end, and one on ours.
        let on = |ours, theirs| ServerCounters {
            requests: ours + theirs,
            frontends: [("ours", ours), ("theirs", theirs)]
                .map(|(name, requests)| {
                    (name.to_owned(), ServerCounters { requests, ..received.clone() })
                })
                .into(),
            ..received.clone()
        };
        assert_eq!(peer_counts(&plan, &tally, &on(97, 5_000)), Some(requests));
        let both = PeerCounts { received: 300, ..requests };
        assert_eq!(peer_counts(&plan, &tally, &on(303, 5_000)), Some(both));
        // A load on two of them.
        assert_eq!(peer_counts(&plan, &tally, &on(48, 49)), Some(requests));
        plan.handshake_only = true;
        let connections = PeerCounts { sent: 102, answered: 90, received: 99 };
        assert_eq!(peer_counts(&plan, &tally, &received), Some(connections));
    }
}
