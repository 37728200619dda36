//! Redrawing of a report, its check against the intervals, and reconstruction of a missing summary.
//!
//! [`redraw`] is the entry. `Totals` adds up the intervals per trial with bounded histogram memory. `Figures` holds
//! the counts and corrected quantiles that must agree between summary, trials and intervals; a difference becomes a
//! warning. A killed run has no summary: `rebuild` replays its events and trials through `RunState`, marks the result
//! partial and INVALID, and counts operations that were due but had not ended as interrupted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use plimsoll_model::cause::Finding;
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary};
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::summary::{self, FindHead, FindSummary, FullQuantiles, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Check, CheckId, Outcome, Stopped, TippingPoint, TrialBounds, TrialRecord, Verdict,
};
use plimsoll_model::units::grouped;
use plimsoll_model::{ErrorClass, Nanos};

use super::files;
use super::manifest::{INTERVALS, SearchHead};
use super::reader::{Archive, RESTORE, unread};
use crate::error::{ReportError, Result};
use crate::state::RunState;
use crate::terminal;
use crate::terminal::Style;

/// Draws the report of an archive, the same text as the run itself drew; a warning follows for
/// every figure that the intervals do not confirm. Where the run did not come to its causes, `diagnose`
/// says what they are. Returns the text, and the run's summary or the rebuilt one.
pub fn redraw(
    archive: &Archive,
    diagnose: &dyn Fn(&Summary) -> Option<Vec<Finding>>,
    style: Style,
) -> Result<(String, Summary)> {
    let totals = Totals::of(archive)?;
    let (mut summary, mut disagreements) = match &archive.summary {
        Some(summary) => (summary.clone(), summary_against(summary, &archive.trials, &totals)),
        None => (rebuild(archive, &totals), Vec::new()),
    };
    disagreements.extend(trials_against(&summary, &archive.trials, &totals));
    summary.causes = summary.causes.take().or_else(|| diagnose(&summary));
    let mut text = terminal::render(&summary, &archive.trials, style);
    let disagree = |line: &String| format!("WARNING: the archive disagrees with itself: {line}\n");
    text.extend(disagreements.iter().map(disagree));
    text.extend(archive.newer_records().map(|line| format!("WARNING: {line}\n")));
    Ok((text, summary))
}

impl Archive {
    /// Refuses an archive whose own summary its intervals do not confirm.
    pub fn check_agreement(&self, summary: &Summary) -> Result<()> {
        let mut lines = summary_against(summary, &self.trials, &Totals::of(self)?).into_iter();
        lines
            .next()
            .map_or(Ok(()), |line| Err(ReportError::Disagrees { dir: self.dir.clone(), line }))
    }

    /// Returns the summary of a run that was killed: figures until then, marked partial. What had come
    /// due and not ended is counted as `interrupted`.
    pub fn rebuild_summary(&self) -> Result<Summary> {
        Ok(rebuild(self, &Totals::of(self)?))
    }
}

/// The intervals added up, by trial; `None` is a plain load.
struct Totals(BTreeMap<Option<u32>, Total>);

#[derive(Default)]
struct Total {
    tally: Tally,
    /// Seconds from the epoch to the end of the last interval.
    seconds: u64,
}

impl Totals {
    fn of(archive: &Archive) -> Result<Self> {
        Self::within(archive, files::TRIAL_BYTES_MAX)
    }

    fn within(archive: &Archive, histogram_bytes_max: u64) -> Result<Self> {
        let mut totals = BTreeMap::<_, Total>::new();
        let mut histogram_bytes = 0;
        for (number, line) in (1..).zip(archive.intervals()?) {
            let line = line?;
            let total = totals.entry(line.trial).or_default();
            histogram_bytes -= total.tally.histogram_bytes();
            total.tally.merge_following(&line.interval.tally);
            histogram_bytes += total.tally.histogram_bytes();
            if histogram_bytes > histogram_bytes_max {
                let path = archive.dir.join(INTERVALS);
                return Err(unread(&path, number, files::TOO_MANY, RESTORE));
            }
            total.seconds = total.seconds.max(u64::from(line.interval.second) + 1);
        }
        Ok(Self(totals))
    }

    fn whole(&self) -> Total {
        let mut whole = Total::default();
        for total in self.0.values() {
            whole.tally.merge_following(&total.tally);
            whole.seconds += total.seconds;
        }
        whole
    }
}

fn summary_against(summary: &Summary, trials: &[TrialRecord], totals: &Totals) -> Vec<String> {
    let stated = Figures::of_summary(summary);
    let whole = totals.whole().tally;
    let mut counted = Figures::of_tally(&whole);
    if is_storm(summary) && counted != stated {
        counted = counted.without(whole.failures.operations.get(ErrorClass::Interrupted));
    }
    let against_whole = stated.against(&counted, "summary");
    // A search's summary shows the trials at one of its loads, or one trial, not the sum of all.
    let at_lower = summary.result.find().and_then(|find| find.at_lower_bound(trials));
    let of_trials = trials.iter().map(|trial| &trial.measurement.tally);
    let mut shown = of_trials.chain(at_lower.as_ref().map(|at| &at.tally));
    let is_shown =
        summary.result.find().is_some() && shown.any(|tally| Figures::of_tally(tally) == stated);
    if is_shown { Vec::new() } else { against_whole }
}

fn is_storm(summary: &Summary) -> bool {
    matches!(summary.result, RunResult::Storm { .. })
}

fn trials_against(summary: &Summary, trials: &[TrialRecord], totals: &Totals) -> Vec<String> {
    let mut out = Vec::new();
    // The intervals with the number of a storm are also those of the return to the base line before it.
    let checked = if is_storm(summary) { &[] } else { trials };
    for trial in checked {
        let number = trial.measurement.request.number;
        let name = format!("trial {number}");
        match totals.0.get(&Some(number)) {
            Some(total) => out.extend(
                Figures::of_tally(&trial.measurement.tally)
                    .against(&Figures::of_tally(&total.tally), &name),
            ),
            None => out.push(format!("{name} has no intervals")),
        }
    }
    out
}

/// The figures that must agree, however they were added up.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    counts: [u64; 5],
    corrected: FullQuantiles,
}

impl Figures {
    const NAMES: [&str; 5] = ["scheduled", "ok", "errors", "late", "unsent"];

    fn of_summary(s: &Summary) -> Self {
        Self {
            counts: [
                s.operations.scheduled,
                s.operations.ok,
                s.operations.errors,
                s.operations.late,
                s.operations.unsent,
            ],
            corrected: s.operations.latency_ms.corrected,
        }
    }

    fn of_tally(t: &Tally) -> Self {
        Self {
            counts: [t.scheduled, t.ok, t.errors_total(), t.late, t.unsent],
            corrected: (&t.spans.corrected).into(),
        }
    }

    /// Returns the figures without `cut` failures: requests that were open when a storm cut their connection.
    const fn without(mut self, cut: u64) -> Self {
        self.counts[0] = self.counts[0].saturating_sub(cut);
        self.counts[2] = self.counts[2].saturating_sub(cut);
        self
    }

    fn against(&self, intervals: &Self, name: &str) -> Vec<String> {
        let mut out = Vec::new();
        for ((field, ours), theirs) in
            Self::NAMES.into_iter().zip(self.counts).zip(intervals.counts)
        {
            if ours != theirs {
                out.push(format!(
                    "{field} is {} in the {name}, {} in the intervals",
                    grouped(ours),
                    grouped(theirs)
                ));
            }
        }
        if out.is_empty() && self.corrected != intervals.corrected {
            out.push(format!("corrected latency differs between {name} and intervals"));
        }
        out
    }
}

fn rebuild(archive: &Archive, totals: &Totals) -> Summary {
    let manifest = &archive.manifest;
    let mut state = RunState::default();
    archive.events.iter().for_each(|event| state.handle_event(event, Nanos::ZERO));
    archive.trials.iter().for_each(|trial| state.handle_trial(trial));
    let search = manifest.search.as_ref().filter(|_| manifest.kind == RunKind::Search);
    let find = search.map(|search| rebuild_find(archive, &state, search));
    let whole = totals.whole();
    let error_reasons = summary::reasons(&whole.tally.failures.reasons);
    let shown = find.as_ref().and_then(|find| find.at_lower_bound(&archive.trials));
    let (mut tally, window) = match shown {
        Some(at) => (at.tally, at.window),
        None => (whole.tally, sending(archive, whole.seconds)),
    };
    let ended = tally.ok + tally.errors_total() + tally.unsent;
    tally.failures.operations.add(ErrorClass::Interrupted, tally.scheduled.saturating_sub(ended));
    // Of a comparison, a sweep or a case, only the load is known.
    let result = match manifest.kind {
        RunKind::Hold => rebuild_hold(archive, &state, &tally).map(RunResult::from),
        _ => find.map(RunResult::from),
    };
    let head = SummaryHead {
        command: manifest.command.clone(),
        target: manifest.target.clone(),
        started_at: manifest.started_at.clone(),
        window,
        partial: true,
        settings: manifest.settings.clone(),
        // The load was not judged; GOOD or BAD would be a claim.
        verdict: Verdict::Invalid,
        reasons: vec![Check::failed(CheckId::RunComplete, "no, the run was killed")],
        result: result.unwrap_or_default(),
        archive: Some(archive.dir.display().to_string()),
    };
    let probed = archive.events.iter().rev().find_map(|event| match event {
        Event::TimersProbed(timers) => Some(timers.clone()),
        _ => None,
    });
    let mut summary = Summary::new(head, &tally);
    summary.timers.probed = probed;
    summary.failures.error_reasons = error_reasons;
    summary
}

/// Returns the part of the seconds in which operations were still to be started.
fn sending(archive: &Archive, seconds: u64) -> Nanos {
    let seen = Nanos::from_secs(seconds);
    let planned = archive.events.iter().fold(None, |sum: Option<Nanos>, event| match event {
        Event::LoadStarted { planned: Some(planned), .. } => {
            Some(sum.unwrap_or(Nanos::ZERO) + *planned)
        }
        _ => sum,
    });
    planned.map_or(seen, |planned| seen.min(planned))
}

/// Rebuilds the summary of a hold, by its plan and its events; `None` for a load.
fn rebuild_hold(archive: &Archive, state: &RunState, tally: &Tally) -> Option<HoldSummary> {
    let manifest = &archive.manifest;
    let load = manifest.settings.load.as_ref()?;
    let plan = load.hold.as_ref()?;
    let servers = manifest.plan["destinations"].as_array().into_iter().flatten();
    let addresses = servers.flat_map(|server| {
        let addresses = server["addresses"].as_array().into_iter().flatten();
        addresses.map(|address| address.as_str()?.parse::<SocketAddr>().ok())
    });
    let is_loopback = |address: SocketAddr| address.ip().is_loopback();
    let holding = state.holding.as_ref();
    let head = HoldHead {
        asked: load.connections,
        held: tally.connections.held_end,
        end: HoldEnd::Unfinished,
        hold: Nanos::ZERO,
        paused: Nanos::ZERO,
        heartbeat: plan.heartbeat_s.map(Nanos::from_secs_f64),
        baseline: holding.and_then(|holding| holding.baseline).unwrap_or_default(),
        last_sweep: None,
        plateaus: holding.map(|holding| holding.plateaus.clone()).unwrap_or_default(),
        projections: Vec::new(),
        cycles: holding.and_then(|holding| holding.cycles.as_deref().cloned()),
        // A laboratory's hosts are on one machine, also as network namespaces.
        both_ends_here: manifest.settings.isolate.is_some()
            || addresses.clone().all(|address| address.is_some_and(is_loopback)),
        sources: load.sources,
        // Of the host, and it may have changed since.
        ports_per_source: 0,
    };
    Some(HoldSummary::new(head, tally))
}

fn rebuild_find(archive: &Archive, state: &RunState, search: &SearchHead) -> FindSummary {
    let trials = &archive.trials;
    let tip = archive.events.iter().rev().find_map(|event| match event {
        Event::SearchEnded(tip) => Some(TippingPoint::clone(tip)),
        _ => None,
    });
    let tip = tip.unwrap_or_else(|| answer_so_far(state));
    let seconds = |confirm: bool| {
        trials
            .iter()
            .map(|trial| &trial.measurement)
            .filter(|m| m.request.phase.is_after_search() == confirm)
            .fold(Nanos::ZERO, |sum, m| sum + m.window)
    };
    let head = FindHead {
        axis: search.axis,
        slo: search.slo.clone(),
        mode: search.mode,
        search: seconds(false),
        confirm: seconds(true),
    };
    FindSummary::new(head, tip)
}

/// Returns the answer of a search that was killed: the last one that it gave, else the bounds by its verdicts.
fn answer_so_far(state: &RunState) -> TippingPoint {
    let by_verdicts = || {
        let (TrialBounds { good_max, bad_min: upper }, safe) = state.known();
        let judged = |verdict| u32::try_from(state.judged(verdict)).unwrap_or(u32::MAX);
        TippingPoint {
            // A load that was met above one that was missed bounds nothing.
            lower: good_max.filter(|lower| upper.is_none_or(|upper| *lower < upper)),
            upper,
            safe,
            trials: judged(Verdict::Good).saturating_add(judged(Verdict::Bad)),
            invalid_trials: judged(Verdict::Invalid),
            ..TippingPoint::default()
        }
    };
    let so_far = state.answer.as_deref().map_or_else(by_verdicts, TippingPoint::clone);
    let outcome = Outcome::Unfinished { why: Stopped::Killed };
    TippingPoint { outcome, outlook: None, ..so_far }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::ArchiveWriter;
    use crate::archive::manifest::TRIALS;
    use crate::fixtures;

    #[test]
    fn trials_take_a_bounded_amount_of_memory() {
        let dir = tempfile::tempdir().unwrap();
        let trials = fixtures::trials();
        let tally = fixtures::tally(1_000, 900, 1);
        let mut writer = ArchiveWriter::create(dir.path(), &fixtures::manifest(true)).unwrap();
        for trial in &trials {
            writer.handle_event(&Event::TrialStarted(trial.measurement.request)).unwrap();
            let interval = plimsoll_model::tally::Interval { second: 0, tally: tally.clone() };
            writer.handle_event(&Event::Interval(Box::new(interval))).unwrap();
            writer.handle_event(&Event::TrialEnded(Box::new(trial.clone()))).unwrap();
        }
        let bytes = |tally: &Tally| tally.histogram_bytes();
        let lines = std::fs::metadata(dir.path().join(TRIALS)).unwrap().len();
        let histograms = trials.iter().map(|trial| bytes(&trial.measurement.tally));
        let of_trials = lines + histograms.sum::<u64>();
        let archive = Archive::open_within(dir.path(), of_trials).unwrap();
        let error = Archive::open_within(dir.path(), of_trials - 1).unwrap_err().to_string();
        assert!(error.contains(&format!("trials.jsonl:{}: damaged", trials.len())), "{error}");
        let of_totals = bytes(&tally) * trials.len() as u64;
        assert!(Totals::within(&archive, of_totals).is_ok());
        let error = Totals::within(&archive, of_totals - 1).err().map(|error| error.to_string());
        let line = format!("intervals.jsonl:{}: damaged", trials.len());
        assert!(error.as_ref().is_some_and(|error| error.contains(&line)), "{error:?}");
    }
}
