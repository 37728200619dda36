//! One level of held connections during its trial, and its judgement: GOOD, BAD or INVALID.
//!
//! [`LevelTrial`] collects the counts of a level: `ramp` outside of sweeps, `swept` within them, and the sweep with
//! the fewest answers. [`LevelTrial::judge`] checks the limits of this host first, then the counts (held, answered,
//! lost, opened) and the goals; a few connections may be missing, as the settings allow. [`JudgedLevel`] stores the
//! judgement and the figures that decide the next level. Start reading at [`LevelTrial::judge`].

use plimsoll_model::hold::Swept;
use plimsoll_model::observation::Observations;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Check, CheckId, Judgement, Level, Measure, Phase, TrialMeasurement, TrialRecord, TrialRequest,
    Verdict,
};
use plimsoll_model::{ErrorClass, Nanos, Rate};

use super::settings::ConnectionSettings;
use crate::losses::{Losses, lost_by_peer};
use crate::validity;
use crate::verdict::failed;

/// A level while it is tried.
#[derive(Clone, Debug)]
pub(super) struct LevelTrial {
    pub(super) request: TrialRequest,
    /// Connections asked for.
    pub(super) target: u64,
    pub(super) began: Nanos,
    /// Connections held before it began.
    pub(super) held_before: u64,
    /// Once its ramp was over.
    pub(super) held: u64,
    pub(super) ramp_took: Nanos,
    /// Counts outside of sweeps.
    pub(super) ramp: Tally,
    /// Counts in sweeps.
    pub(super) swept: Tally,
    /// The sweep with the fewest answers.
    pub(super) worst_sweep: Option<Swept>,
    pub(super) sweeps_left: u32,
    /// The rest of the soak.
    pub(super) soak_left: Nanos,
    /// This host ended the ramp: out of what.
    pub(super) cut: Option<String>,
}

/// A level after its end: its judgement, and the figures that decide the next one.
#[derive(Clone, Debug)]
pub(super) struct JudgedLevel {
    pub(super) phase: Phase,
    /// Connections asked for.
    pub(super) target: u64,
    /// Connections held before the level began.
    pub(super) held_before: u64,
    pub(super) judgement: Judgement,
    /// Connections that were held and answered in every sweep.
    pub(super) answered: u64,
    /// Only a latency goal or a bad status failed: every connection was held and answered.
    pub(super) only_goals: bool,
    /// Some connections took too long to open, and nothing else failed: the pace of the ramp may
    /// have been too much for a busy server.
    pub(super) only_slow: bool,
    /// This host ran out of something: trying again is of no use.
    pub(super) is_hard_limit: bool,
    /// The resource of this host that ended the ramp.
    pub(super) cut: Option<String>,
    /// Lost by the server, of those that were usable.
    pub(super) lost: u64,
    /// Most usable at once.
    pub(super) held_max: u64,
    pub(super) ended: Nanos,
    pub(super) took: Nanos,
    /// Number of readings when the level ended.
    pub(super) readings: usize,
}

impl JudgedLevel {
    pub(super) const fn verdict(&self) -> Verdict {
        self.judgement.verdict
    }

    /// Reports whether it is a long hold that ended with this verdict.
    pub(super) fn is_soak(&self, verdict: Verdict) -> bool {
        self.phase == Phase::Confirm && self.verdict() == verdict
    }
}

impl LevelTrial {
    pub(super) fn new(
        number: u32,
        phase: Phase,
        target: u64,
        held_before: u64,
        settings: &ConnectionSettings,
        now: Nanos,
    ) -> Self {
        let rate = Rate::per_second(target as f64).unwrap_or_default();
        let duration = if phase == Phase::Confirm { settings.limits.soak } else { Nanos::ZERO };
        let request = TrialRequest { number, phase, rate, duration, split: 1 };
        Self {
            request,
            target,
            began: now,
            held_before,
            held: held_before,
            ramp_took: Nanos::ZERO,
            ramp: Tally::default(),
            swept: Tally::default(),
            worst_sweep: None,
            sweeps_left: settings.sweeps(target),
            soak_left: duration,
            cut: None,
        }
    }

    pub(super) fn handle_swept(&mut self, swept: Swept) {
        self.sweeps_left = self.sweeps_left.saturating_sub(1);
        let answered = |swept: &Swept| swept.answered;
        if self.worst_sweep.as_ref().map(answered).is_none_or(|worst| swept.answered < worst) {
            self.worst_sweep = Some(swept);
        }
    }

    /// Reports whether a sweep went without all answers: others would show no more.
    pub(super) fn is_incomplete(&self) -> bool {
        self.worst_sweep.is_some_and(|swept| swept.answered < swept.connections)
    }

    /// Returns the counts from the beginning of the level to its end.
    pub(super) fn whole(&self) -> Tally {
        let mut whole = self.ramp.clone();
        whole.merge_following(&self.swept);
        whole
    }

    /// Judges the level, which ends now; `readings` were made so far.
    pub(super) fn judge(
        &self,
        settings: &ConnectionSettings,
        now: Nanos,
        readings: usize,
    ) -> (JudgedLevel, TrialRecord) {
        let whole = self.whole();
        let answered = self.worst_sweep.map_or(0, |swept| swept.answered).min(self.target);
        let allowed = settings.missing_max(self.target);
        let counts = self.counts(&whole, answered, allowed);
        let losses = Losses::of(&self.swept, false);
        let goals: Vec<Check> = settings.slo.goals.iter().map(|goal| losses.check(goal)).collect();
        let only_goals = failed(&goals) && !failed(&counts);
        let mut checks = self.own_limits(&whole);
        let is_hard_limit = failed(&checks);
        // Late sending and a busy generator keep no connection out.
        checks.extend(validity::held_checks(&losses, &self.swept, &settings.slo, only_goals));
        checks.extend(counts);
        checks.extend(goals);
        let missing = self.target.saturating_sub(answered) as f64;
        let lost = lost_by_peer(&whole.failures.lost_held);
        let took = now.since(self.began);
        let judged = JudgedLevel {
            phase: self.request.phase,
            target: self.target,
            held_before: self.held_before,
            judgement: Judgement::of(checks, missing / self.target.max(1) as f64),
            answered,
            only_goals,
            only_slow: lost == 0 && only_timeouts(&whole),
            is_hard_limit,
            cut: self.cut.clone(),
            lost,
            held_max: whole.connections.held_max.max(self.held_before),
            ended: now,
            took,
            readings,
        };
        let measurement = TrialMeasurement {
            observations: Observations { began: Some(self.began), ..Observations::default() },
            ..TrialMeasurement::of(self.request, took, whole)
        };
        let judgement = judged.judgement.clone();
        (judged, TrialRecord { measurement, judgement, further: Vec::new() })
    }

    /// Held, answered, lost, opened: of each at most `allowed` may be missing.
    fn counts(&self, whole: &Tally, answered: u64, allowed: u64) -> Vec<Check> {
        let grade = |missing: u64| Level::of(missing > allowed, false);
        let count = |id, seen: u64, of: u64| {
            let least = of.saturating_sub(allowed) as f64;
            Check::new(
                id,
                grade(of.saturating_sub(seen)),
                [Measure::count("", seen).at_least(least)],
            )
        };
        let swept = self.worst_sweep.map_or(self.held, |swept| swept.connections);
        let failed = attempts_failed(whole);
        let lost = lost_by_peer(&whole.failures.lost_held);
        let opened = [
            Measure::count("attempts failed", failed).at_most(allowed as f64),
            Measure::count("opened", whole.connections.opened),
        ];
        vec![
            count(CheckId::Held, self.held, self.target),
            count(CheckId::Answered, answered, swept),
            Check::new(
                CheckId::Lost,
                grade(lost),
                [Measure::count("", lost).at_most(allowed as f64)],
            ),
            Check::new(CheckId::Opened, grade(failed), opened),
        ]
    }

    /// Checks the resources of this host.
    fn own_limits(&self, whole: &Tally) -> Vec<Check> {
        let mut checks = vec![validity::local_held(whole)];
        checks.extend(self.cut.iter().map(|what| {
            Check::failed(CheckId::Machine, format!("{what} ran out during the ramp"))
        }));
        checks
    }
}

/// Attempts that the server did not let become connections; those that a trim gave up are ours.
fn attempts_failed(tally: &Tally) -> u64 {
    let attempts = &tally.failures.attempts;
    tally.connections.failed.saturating_sub(attempts.total() - lost_by_peer(attempts))
}

/// Reports whether every attempt that failed took too long.
fn only_timeouts(tally: &Tally) -> bool {
    let errors = &tally.failures.attempts;
    let timeouts = errors.get(ErrorClass::Timeout) + errors.get(ErrorClass::Interrupted);
    timeouts > 0 && errors.total() == timeouts
}
