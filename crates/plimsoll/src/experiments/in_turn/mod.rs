//! Servers that are measured in turn: all are up all the time, and each is loaded for seconds while the
//! others rest, so that whatever the host does to one it does to the others as well.

use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::thread;

use plimsoll_capacity::compare::ROUNDS_MIN;
use plimsoll_capacity::judge_load;
use plimsoll_fleet::LoadAgents;
use plimsoll_fleet::coordinator::LoadControl;
use plimsoll_lab::Placement;
use plimsoll_model::Nanos;
use plimsoll_model::compare::BlockSummary;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Level, Measure, TrialSecond, Verdict};
use plimsoll_probe::threads::RunTimes;
use plimsoll_report::findings;

use crate::exit::{Result, Stop};
use crate::plan::in_turn::TurnsJob;
use crate::plan::load::LoadJob;
use crate::session::{ExperimentResult, Measurement, Observed, Session, run_beside};

pub(super) mod block;
mod servers;

pub(crate) use servers::{ComparedServers, SideServer};

/// A first load of each server, which opens its pool and warms it up.
pub(super) const FIRST: Nanos = Nanos::from_secs(2);

/// Why no further load is run.
pub(super) enum End {
    Interrupted,
    /// The end of the budget, or of the patience with INVALID rounds.
    Stopped(String),
    /// A lack that no further round would cure.
    Unmeasured(String),
    Failed(Stop),
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        Self::Failed(stop)
    }
}

/// A load that is over.
pub(super) struct FinishedLoad {
    pub(super) tally: Tally,
    pub(super) window: Nanos,
    pub(super) interrupted: bool,
    /// Good answers per second until sending ended.
    pub(super) goodput: f64,
    /// Goodput without its best and its worst second, which a pause of the host moves least. (The median of the
    /// seconds varies a fifth more where a CPU quota makes a server answer in bursts.)
    pub(super) usual_goodput: f64,
    pub(super) sut_busiest_thread: Option<f64>,
    /// Run times of the server's threads, if they could be read.
    pub(super) server: Option<RunTimes>,
    /// CPU use of the backends' threads, per second.
    pub(super) backends: Option<CpuUse>,
    /// The server's busiest thread: its process, its number, and what part of a CPU it used.
    pub(super) busiest: Option<(u32, u32, f64)>,
    /// CPU time of the yardstick's piece of work on the CPUs of the server: the mean of the seconds.
    pub(super) yardstick: Option<Nanos>,
    /// Reason why the load is invalid, if it is not the same for all servers.
    pub(super) invalid: Option<String>,
}

/// CPU time per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuUse {
    pub(super) ran: f64,
    /// Ready, and not on a CPU.
    pub(super) waited: f64,
}

impl CpuUse {
    fn of(times: RunTimes, window: Nanos) -> Option<Self> {
        let per_s = |time: Nanos| time.as_secs_f64() / window.as_secs_f64();
        let (ran, waited) = (per_s(times.ran), per_s(times.waited));
        (window > Nanos::ZERO).then_some(Self { ran, waited })
    }
}

impl FinishedLoad {
    /// Returns the load by `plan` that has ended.
    fn of(plan: &LoadPlan, observed: Observed) -> Self {
        let Observed { outcome, sut_busiest_thread, observations, seconds, server } = observed;
        let whole_s = match &plan.pacing {
            Pacing::Closed { duration: Some(duration), .. } => duration.0 / 1_000_000_000,
            _ => 0,
        };
        let mut answers: Vec<u64> = seconds.iter().map(|second| second.ok).collect();
        answers.resize(whole_s as usize, 0);
        let is_open = matches!(plan.pacing, Pacing::Open { .. });
        let judged = judge_load(&outcome.tally, outcome.window, None, is_open, &observations);
        let mut failed = judged.reasons.iter().filter(|check| {
            check.level == Level::Fail && matters_to_one(&check.id) && !outcome.interrupted
        });
        let lost = (outcome.lost_agents > 0).then(|| "a plimsoll process was lost".to_owned());
        Self {
            window: outcome.window,
            interrupted: outcome.interrupted,
            goodput: outcome.tally.ok_in_window() / outcome.window.as_secs_f64().max(1e-3),
            usual_goodput: usual(&answers),
            sut_busiest_thread,
            server: server.server,
            backends: server.backends.and_then(|times| CpuUse::of(times, outcome.window)),
            busiest: server.busiest,
            yardstick: mean_yardstick(&seconds),
            invalid: lost.or_else(|| failed.next().map(findings::line)),
            tally: outcome.tally,
        }
    }

    /// Returns the CPU use of the server's threads, per second.
    pub(super) fn server_cpu(&self) -> Option<CpuUse> {
        CpuUse::of(self.server?, self.window)
    }
}

/// One of the servers that take turns.
pub(crate) struct Side {
    pub(crate) name: String,
    /// Load that is sent to it.
    pub(crate) load: LoadJob,
    /// Connections that may be tried, at most; at least the number of the load.
    pub(crate) connections_max: u64,
    /// Server that answers.
    pub(crate) server: SideServer,
    /// CPUs of each part of a laboratory.
    pub(crate) placement: Option<Placement>,
}

/// Servers that take turns: their loads so far, and what ended them.
pub(super) struct Turns {
    pub(super) job: TurnsJob,
    pub(super) servers: ComparedServers,
    names: Vec<String>,
    /// The load of each server, by its place.
    pub(super) loads: Vec<LoadJob>,
    /// All that have ended.
    pub(super) blocks: Vec<BlockSummary>,
    /// Rounds that were finished.
    pub(super) rounds_made: u32,
    tally: Tally,
    window: Nanos,
    /// Start of the present round.
    round_began: Option<Nanos>,
    longest_round: Nanos,
    /// Why fewer rounds were made than planned.
    pub(super) stopped: Option<String>,
    unmeasured: Option<String>,
}

impl Turns {
    /// Creates an experiment with at least one of `sides`; `target` is the name of all of them in reports.
    pub(super) fn new(job: TurnsJob, target: &str, sides: Vec<Side>) -> Self {
        let (mut names, mut loads, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        for Side { name, mut load, server, .. } in sides {
            job.adopt(&mut load, target);
            names.push(name.clone());
            loads.push(load);
            servers.push((name, server));
        }
        Self {
            job,
            servers: ComparedServers::new(servers),
            names,
            loads,
            blocks: Vec::new(),
            rounds_made: 0,
            tally: Tally::default(),
            window: Nanos::ZERO,
            round_began: None,
            longest_round: Nanos::ZERO,
            stopped: None,
            unmeasured: None,
        }
    }

    /// Returns the load over most connections: agents are started for it.
    pub(super) fn largest(&mut self) -> &mut LoadJob {
        let most = self.loads.iter().map(|load| load.plan.connections).max();
        let place = self.loads.iter().position(|load| Some(load.plan.connections) == most);
        &mut self.loads[place.unwrap_or(0)]
    }

    /// Runs `plan` against the server at `place`.
    pub(super) fn run(
        &mut self,
        session: &Session<'_>,
        place: usize,
        plan: &LoadPlan,
    ) -> Result<FinishedLoad, End> {
        if session.is_interrupted() {
            return Err(End::Interrupted);
        }
        self.servers.turn_to(place);
        let load = run_load(session, plan)?;
        self.take_in(session, place, load)
    }

    /// Runs two loads at the same time, each against the server at a place: the first by the session's agents, the
    /// second by `agents`. `meanwhile` runs beside them, until the other end of its channel is gone.
    pub(super) fn run_both(
        &mut self,
        session: &Session<'_>,
        [first, second]: [(usize, &LoadPlan); 2],
        agents: &mut LoadAgents,
        meanwhile: &(dyn Fn(&Receiver<()>) + Sync),
    ) -> Result<[FinishedLoad; 2], End> {
        if session.is_interrupted() {
            return Err(End::Interrupted);
        }
        self.servers.turn_to(first.0);
        let observer = self.servers.at(second.0, |server| session.observer(server, false));
        let Some(observer) = observer else {
            return Err(End::Unmeasured("a server is not running".to_owned()));
        };
        let interrupts = session.interrupts;
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                let interrupted = || interrupts.is_raised();
                run_beside(agents, second.1, &LoadControl::new(&interrupted), observer)
            });
            let (running, ended) = mpsc::channel();
            scope.spawn(move || meanwhile(&ended));
            let one = run_load(session, first.1);
            drop(running);
            (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let one = self.take_in(session, first.0, one?)?;
        Ok([one, self.take_in(session, second.0, FinishedLoad::of(second.1, other?))?])
    }

    /// Adds a load that is over to those before.
    fn take_in(
        &mut self,
        session: &Session<'_>,
        place: usize,
        load: FinishedLoad,
    ) -> Result<FinishedLoad, End> {
        self.tally.merge_following(&load.tally);
        self.window = self.window + load.window;
        if load.interrupted {
            return Err(End::Interrupted);
        }
        if let Some(end) = session.server_end() {
            return Err(End::Unmeasured(end.reason().to_owned()));
        }
        with_answers(&self.names[place], load).map_err(End::Unmeasured)
    }

    /// Prepares round `number`, from 1; returns an error if it does not fit into the budget. Starts the servers of
    /// laboratories afresh. One process may be faster than another of the same program for all its life, by several
    /// percent: rounds of the same processes would not be independent.
    pub(super) fn begin_round(&mut self, session: &Session<'_>, number: u32) -> Result<(), End> {
        let at = session.elapsed();
        if let Some(began) = self.round_began.replace(at) {
            self.longest_round = self.longest_round.max(at.since(began));
        }
        if self.job.budget.is_some_and(|budget| at + self.longest_round > budget) {
            let why = "the next round would have ended after the budget";
            return Err(End::Stopped(why.to_owned()));
        }
        if number > 1 {
            self.start_afresh()?;
        }
        Ok(())
    }

    pub(super) fn start_afresh(&self) -> Result<(), End> {
        self.servers.start_afresh().map_err(|error| End::Unmeasured(error.to_string()))
    }

    /// Notes what ended the loads.
    pub(super) fn end(&mut self, ended: Result<(), End>) -> Result<()> {
        match ended {
            Ok(()) | Err(End::Interrupted) => {}
            Err(End::Stopped(why)) => self.stopped = Some(why),
            Err(End::Unmeasured(why)) => {
                self.unmeasured = Some(why.clone());
                self.stopped = Some(why);
            }
            Err(End::Failed(stop)) => return Err(stop),
        }
        Ok(())
    }

    /// Returns the outcome of an experiment of which `usable` of all rounds could be used.
    pub(super) fn outcome(
        &mut self,
        session: &Session<'_>,
        is_settled: bool,
        usable: u32,
    ) -> ExperimentResult {
        let measures = [
            Measure::count("usable", usable.into()).at_least(ROUNDS_MIN as f64),
            Measure::count("of", self.rounds_made.into()),
        ];
        let reasons = vec![Check::new(CheckId::Rounds, Level::of(!is_settled, false), measures)];
        let verdict = if is_settled { Verdict::Good } else { Verdict::Invalid };
        let unmeasured = self.unmeasured.take();
        ExperimentResult {
            partial: session.is_interrupted() || unmeasured.is_some(),
            unmeasured,
            ..ExperimentResult::new(std::mem::take(&mut self.tally), self.window, verdict, reasons)
        }
    }
}

/// Runs `plan`, a load of any kind.
pub(super) fn run_load(session: &Session<'_>, plan: &LoadPlan) -> Result<FinishedLoad> {
    let of = Measurement { plan, trial: None, is_steady: false, is_alone: false, deliveries: None };
    session.run_load(&of, &mut |_| {}).map(|observed| FinishedLoad::of(plan, observed))
}

/// Returns the mean time of the yardstick's piece of work; `None` if the yardstick did not run on the server's CPUs.
fn mean_yardstick(seconds: &[TrialSecond]) -> Option<Nanos> {
    let pieces = || seconds.iter().filter_map(|second| second.yardstick);
    pieces().map(|piece| piece.0).sum::<u64>().checked_div(pieces().count() as u64).map(Nanos)
}

/// Returns the mean of all but the least and the greatest.
fn usual(answers: &[u64]) -> f64 {
    let mut sorted = answers.to_vec();
    sorted.sort_unstable();
    let inner = sorted.get(1..sorted.len().saturating_sub(1)).unwrap_or_default();
    inner.iter().sum::<u64>() as f64 / inner.len().max(1) as f64
}

/// Reports whether a check finds what may hit one server alone. A busy host hits all of them, in turn and by
/// chance: that is noise, which the rounds measure.
const fn matters_to_one(id: &CheckId) -> bool {
    matches!(id, CheckId::Accounting | CheckId::LocalErrors | CheckId::GeneratorMemory)
}

/// Returns the load that saturates: each of `connections` sends its next request when it has its answer.
pub(super) fn saturating(plan: &LoadPlan, connections: u64, duration: Nanos) -> LoadPlan {
    let pacing = Pacing::Closed { duration: Some(duration), ops_total: None };
    LoadPlan { pacing, connections, ..plan.clone() }
}

/// Returns a load that can be compared, or one that invalidates its round: a busy host may send nothing for a second or
/// two, which is not the server's fault. An error where the server answers nothing.
fn with_answers(name: &str, mut load: FinishedLoad) -> Result<FinishedLoad, String> {
    let Tally { ok, scheduled, unsent, .. } = load.tally;
    if ok == 0 && unsent == scheduled {
        load.invalid.get_or_insert_with(|| "nothing was sent: no CPU for it".to_owned());
    } else if ok == 0 && load.invalid.is_none() {
        return Err(no_answer(name, &load.tally));
    }
    Ok(load)
}

/// Returns the error for a server that answered no operation, so that nothing can be compared.
fn no_answer(name: &str, tally: &Tally) -> String {
    let most = tally.failures.operations.iter().max_by_key(|(_, count)| *count);
    let class = most.map_or("all unsent", |(class, _)| class.name());
    format!("{name}: no operation was answered ({class}); see the report for what to do")
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;

    use super::*;

    fn load(ok: u64, refused: u64, unsent: u64) -> FinishedLoad {
        let mut tally = Tally { scheduled: ok + refused + unsent, ok, unsent, ..Tally::default() };
        tally.failures.operations.add(ErrorClass::ConnectRefused, refused);
        FinishedLoad {
            yardstick: None,
            tally,
            window: Nanos::from_secs(1),
            interrupted: false,
            goodput: 0.0,
            usual_goodput: 0.0,
            sut_busiest_thread: None,
            server: None,
            backends: None,
            busiest: None,
            invalid: None,
        }
    }

    #[test]
    fn a_pause_of_one_second_does_not_count() {
        assert_eq!(usual(&[400, 0, 390, 410, 500, 400]), 400.0);
        for few in [&[][..], &[7], &[7, 8]] {
            assert_eq!(usual(few), 0.0);
        }
    }

    #[test]
    fn a_busy_host_spoils_a_round_and_a_silent_server_ends_them() {
        for (one, is_invalid) in [(load(10, 0, 5), false), (load(0, 0, 10), true)] {
            assert_eq!(with_answers("A", one).map(|load| load.invalid.is_some()), Ok(is_invalid));
        }
        for silent in [load(0, 10, 0), load(0, 10, 5)] {
            let why = with_answers("A", silent).map(|_| ()).unwrap_err();
            assert!(why.contains("A: no operation was answered (connect-refused)"), "{why}");
        }
    }
}
