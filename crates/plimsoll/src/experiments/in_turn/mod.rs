//! Servers that are measured in turn: all are up all the time, and each is loaded for seconds while the
//! others rest, so that whatever the host does to one it does to the others as well.

use std::path::Path;

use plimsoll_capacity::compare::ROUNDS_MIN;
use plimsoll_capacity::judge_load;
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Level, Measure, Verdict};
use plimsoll_probe::threads::{RunTimes, ThreadTimes};
use plimsoll_report::findings;

use crate::exit::Stop;
use crate::session::{Measurement, Observed, Outcome, Session};

mod servers;

pub(crate) use servers::{Servers, SideServer};

const PROC: &str = "/proc";

/// A first load of each server, which opens its pool and warms it up.
pub(super) const FIRST: Nanos = Nanos::from_secs(2);
/// Rounds between two fresh starts of a laboratory's servers: one process may be faster than another of
/// the same program for all its life.
pub(super) const ROUNDS_PER_START: u32 = 2;

/// Why no further load is run.
pub(super) enum End {
    Interrupted,
    /// Of the budget, or of the patience with INVALID rounds.
    Stopped(String),
    /// What no further round would change.
    Unmeasured(String),
    Failed(Stop),
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        Self::Failed(stop)
    }
}

/// A load that is over.
pub(super) struct Load {
    pub(super) tally: Tally,
    pub(super) window: Nanos,
    pub(super) interrupted: bool,
    /// Good answers per second until sending ended.
    pub(super) goodput: f64,
    pub(super) sut_busiest_thread: Option<f64>,
    /// What the server's threads did, where they could be seen.
    pub(super) server: Option<RunTimes>,
    /// What the backends' threads did, per second.
    pub(super) backends: Option<CpuUse>,
    /// The server's busiest thread: its process, its number, and what part of a CPU it used.
    pub(super) busiest: Option<(u32, u32, f64)>,
    /// What spoilt it, where something did that is not the same for all servers.
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

impl Load {
    /// What the server's threads did, per second.
    pub(super) fn server_cpu(&self) -> Option<CpuUse> {
        CpuUse::of(self.server?, self.window)
    }
}

/// One look at what the threads of a server and of its backends have done so far.
struct Looked {
    server: Option<RunTimes>,
    backends: Option<RunTimes>,
    threads: ThreadTimes,
}

impl Looked {
    fn at(server: &[u32], backends: &[u32]) -> Self {
        let proc = Path::new(PROC);
        Self {
            server: RunTimes::read(proc, server),
            backends: RunTimes::read(proc, backends),
            threads: ThreadTimes::read(proc, server),
        }
    }
}

/// The loads of all servers so far, and what ended them.
pub(super) struct Loads {
    pub(super) servers: Servers,
    tally: Tally,
    window: Nanos,
    /// Of the present round.
    round_began: Option<Nanos>,
    longest_round: Nanos,
    /// Why fewer rounds were made than planned.
    pub(super) stopped: Option<String>,
    unmeasured: Option<String>,
}

impl Loads {
    pub(super) fn new(servers: Vec<(String, SideServer)>) -> Self {
        Self {
            servers: Servers::new(servers),
            tally: Tally::default(),
            window: Nanos::ZERO,
            round_began: None,
            longest_round: Nanos::ZERO,
            stopped: None,
            unmeasured: None,
        }
    }

    /// Runs `plan` against the server whose turn it is, which is called `name`.
    pub(super) fn run(
        &mut self,
        session: &Session<'_>,
        name: &str,
        plan: &LoadPlan,
    ) -> Result<Load, End> {
        if session.is_interrupted() {
            return Err(End::Interrupted);
        }
        let load = run_load(session, plan)?;
        self.tally.merge_following(&load.tally);
        self.window = self.window + load.window;
        if load.interrupted {
            return Err(End::Interrupted);
        }
        if let Some(end) = session.server_end() {
            return Err(End::Unmeasured(end.reason().to_owned()));
        }
        if load.tally.ok == 0 && load.invalid.is_none() {
            return Err(End::Unmeasured(no_answer(name, &load.tally)));
        }
        Ok(load)
    }

    /// Before round `number`, counted from 1: whether it fits into `budget`; and the servers are started
    /// afresh where it is time for that.
    pub(super) fn begin_round(
        &mut self,
        session: &Session<'_>,
        number: u32,
        budget: Option<Nanos>,
    ) -> Result<(), End> {
        let at = session.elapsed();
        if let Some(began) = self.round_began.replace(at) {
            self.longest_round = self.longest_round.max(at.since(began));
        }
        if budget.is_some_and(|budget| at + self.longest_round > budget) {
            let why = "the next round would have ended after the budget";
            return Err(End::Stopped(why.to_owned()));
        }
        if number > 1 && number % ROUNDS_PER_START == 1 {
            self.start_afresh()?;
        }
        Ok(())
    }

    pub(super) fn start_afresh(&self) -> Result<(), End> {
        self.servers.start_afresh().map_err(|error| End::Unmeasured(error.to_string()))
    }

    /// Notes what ended the loads.
    pub(super) fn end(&mut self, ended: Result<(), End>) -> Result<(), Stop> {
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

    /// The outcome of an experiment of which `usable` of `made` rounds could be used.
    pub(super) fn outcome(
        &mut self,
        session: &Session<'_>,
        is_settled: bool,
        usable: u32,
        made: u32,
    ) -> Outcome {
        let measures = [
            Measure::count("usable", usable.into()).at_least(ROUNDS_MIN as f64),
            Measure::count("of", made.into()),
        ];
        let reasons = vec![Check::new(CheckId::Rounds, Level::of(!is_settled, false), measures)];
        let verdict = if is_settled { Verdict::Good } else { Verdict::Invalid };
        let unmeasured = self.unmeasured.take();
        Outcome {
            partial: session.is_interrupted() || unmeasured.is_some(),
            unmeasured,
            ..Outcome::new(std::mem::take(&mut self.tally), self.window, verdict, reasons)
        }
    }
}

/// Runs `plan`, a load of any kind.
pub(super) fn run_load(session: &Session<'_>, plan: &LoadPlan) -> Result<Load, Stop> {
    let until = match &plan.pacing {
        Pacing::Closed { duration: Some(duration), .. } => duration.0 / 1_000_000_000,
        _ => 0,
    };
    let mut ok = 0;
    let (pids, backend_pids) = (session.server().pids(), session.server().backend_pids());
    let look = || Looked::at(&pids, &backend_pids);
    let mut before = None;
    let mut count = |event: &Event| match event {
        Event::LoadStarted { .. } => before = Some(look()),
        Event::Interval(interval) if u64::from(interval.second) < until => ok += interval.tally.ok,
        _ => {}
    };
    let of = Measurement { plan, trial: None, is_steady: false, is_alone: false, deliveries: None };
    let Observed { outcome, sut_busiest_thread, observations } =
        session.run_load(&of, &mut count)?;
    // Every answer has come.
    let after = look();
    let open = matches!(plan.pacing, Pacing::Open { .. });
    let judged = judge_load(&outcome.tally, outcome.window, None, open, &observations);
    let mut spoilt = judged.reasons.iter().filter(|check| {
        check.level == Level::Fail && matters_to_one(&check.id) && !outcome.interrupted
    });
    let lost = (outcome.lost_agents > 0).then(|| "a plimsoll process was lost".to_owned());
    let since = |of: fn(&Looked) -> Option<RunTimes>| {
        let before = of(before.as_ref()?)?;
        Some(of(&after)?.since(&before))
    };
    Ok(Load {
        server: since(|looked| looked.server),
        backends: since(|looked| looked.backends)
            .and_then(|times| CpuUse::of(times, outcome.window)),
        busiest: before
            .as_ref()
            .and_then(|before| after.threads.busiest_thread_since(&before.threads, outcome.window)),
        window: outcome.window,
        interrupted: outcome.interrupted,
        goodput: ok as f64 / until.max(1) as f64,
        sut_busiest_thread,
        invalid: lost.or_else(|| spoilt.next().map(findings::line)),
        tally: outcome.tally,
    })
}

/// Whether a check finds what may hit one server alone. A busy host hits all of them, in turn and by
/// chance: that is noise, which the rounds measure.
const fn matters_to_one(id: &CheckId) -> bool {
    matches!(id, CheckId::Accounting | CheckId::LocalErrors | CheckId::GeneratorMemory)
}

/// The load that saturates: each of `connections` sends its next request when it has its answer.
pub(super) fn saturating(plan: &LoadPlan, connections: u64, duration: Nanos) -> LoadPlan {
    let pacing = Pacing::Closed { duration: Some(duration), ops_total: None };
    LoadPlan { pacing, connections, ..plan.clone() }
}

/// A server that answers nothing: there is nothing to compare.
fn no_answer(name: &str, tally: &Tally) -> String {
    let most = tally.errors.iter().max_by_key(|(_, count)| *count);
    let class = most.map_or("all unsent", |(class, _)| class.name());
    format!("{name}: no operation was answered ({class}); see the report for what to do")
}
