//! `--repeat`: whole searches, one after another, and the interval over their results.
//!
//! Each is a session with its own archive, below that of the whole.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use plimsoll_capacity::repeats::combine;
use plimsoll_model::event::Event;
use plimsoll_model::repeat::{RepeatSummary, RepeatedSearch};
use plimsoll_model::result::RunKind;
use plimsoll_model::summary::{FindHead, FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, TippingPoint};
use plimsoll_model::{Nanos, Rate};
use plimsoll_report::terminal::render_search_line;
use plimsoll_sys::signal::Interrupts;

use crate::exit;
use crate::exit::{Result, Stop};
use crate::flags::archived;
use crate::plan::Job;
use crate::publish::Publisher;
use crate::run;
use crate::run::{Run, RunHead};
use crate::session::Ended;

/// The search to repeat.
pub(super) struct Repeated<'a> {
    pub(super) command: &'static str,
    pub(super) job: &'a Job,
    pub(super) times: u32,
    /// `true` if each search has its own laboratory.
    pub(super) fresh_sut: bool,
    pub(super) interrupts: &'a Interrupts,
}

/// One search among them.
pub(super) struct Part {
    /// Position among them, from 1. The first one prints what is the same for all.
    pub(super) number: u32,
    dir: PathBuf,
}

impl Part {
    /// Returns the job of this search: with arrivals and its own archive.
    pub(super) fn job(&self, job: &Job) -> Job {
        let mut job = job.clone();
        let load = job.load_mut();
        load.output.out = Some(self.dir.clone());
        load.output.json = None;
        load.plan.seed = load.plan.seed.wrapping_add(u64::from(self.number - 1) << 32);
        job
    }
}

/// Runs the searches, each by `search`, and reports. The exit code is the worst of theirs.
pub(super) fn run(of: &Repeated<'_>, search: &mut dyn FnMut(&Part) -> Result<Ended>) -> Result<()> {
    let load = of.job.load();
    let head = of.job.search().map(crate::experiments::search_head);
    let mut run = Run::begin(RunHead {
        command: of.command,
        kind: RunKind::Search,
        command_line: archived::own_line(&[]),
        job: load,
        settings: run::settings(load),
        search: head,
        budget: None,
        always_archive: true,
        // Each search publishes for itself.
        publisher: Publisher::default(),
        interrupts: None,
    })?;
    let dir = run.archive_dir().map(PathBuf::from).unwrap_or_default();
    let mut found = Vec::new();
    run.handle_event(&Event::Note(format!(
        "{} searches; each is archived in {}",
        of.times,
        dir.display()
    )));
    let failed = search_all(of, &dir, &mut run, search, &mut found).err();
    // The first that ended worst.
    found.sort_by_key(|one: &Found| Reverse(one.search.exit_code));
    let Some(summary) = summarise(&found, of, &run) else { return failed.map_or(Ok(()), Err) };
    run.finish(&summary, &[])?;
    failed.or_else(|| found.swap_remove(0).stop).map_or(Ok(()), Err)
}

/// A search that has ended.
struct Found {
    search: RepeatedSearch,
    find: FindSummary,
    reasons: Vec<Check>,
    stop: Option<Stop>,
}

/// Runs every search, unless one cannot be run, or was interrupted, or no server is left.
fn search_all(
    of: &Repeated<'_>,
    dir: &Path,
    run: &mut Run,
    search: &mut dyn FnMut(&Part) -> Result<Ended>,
    all: &mut Vec<Found>,
) -> Result<()> {
    for number in 1..=of.times {
        if of.interrupts.is_raised() {
            return Err(run::interrupted_stop(of.interrupts));
        }
        let began = run.elapsed();
        let name = format!("search-{number}");
        let Ended { mut summary, run: own, stop, server_is_gone, .. } =
            search(&Part { number, dir: dir.join(&name) })?;
        if let Some(complaint) = own.store(&mut summary).err().and_then(|stop| stop.complaint()) {
            run.handle_event(&Event::Note(complaint));
        }
        let seconds = run.elapsed().since(began).as_secs_f64();
        let Some(find) = summary.result.find().cloned() else { continue };
        let found = RepeatedSearch {
            number,
            outcome: find.found.outcome.clone(),
            lower: find.found.lower.map(Rate::get),
            upper: find.found.upper.map(Rate::get),
            verdict: summary.verdict,
            exit_code: stop.as_ref().map_or(exit::DONE, Stop::code),
            trials: find.found.trials,
            seconds,
            archive: summary.archive.is_some().then_some(name),
        };
        let line = render_search_line(find.axis, &found, of.times);
        run.handle_event(&Event::Note(line));
        let is_over = of.interrupts.is_raised() || (server_is_gone && !of.fresh_sut);
        all.push(Found { search: found, find, reasons: summary.reasons, stop });
        if is_over {
            break;
        }
    }
    Ok(())
}

/// Returns the summary of the whole, of searches of which the worst is first; `None` if none has ended.
fn summarise(found: &[Found], of: &Repeated<'_>, run: &Run) -> Option<Summary> {
    let worst = found.first()?;
    let mut searches: Vec<_> = found.iter().map(|one| one.search.clone()).collect();
    searches.sort_by_key(|search| search.number);
    let intervals: Vec<_> = searches.iter().filter_map(RepeatedSearch::interval).collect();
    let combined = combine(&intervals);
    let upper = combined.map(|found| found.upper);
    // What every search has found the server to take at least.
    let lowers: Option<Vec<f64>> = searches.iter().map(|search| search.lower).collect();
    let at_least = || lowers?.into_iter().min_by(f64::total_cmp);
    let lower = combined.map(|found| found.lower).or_else(at_least);
    let sum = |of: fn(&FindSummary) -> f64| found.iter().map(|one| of(&one.find)).sum::<f64>();
    let rate = |load: Option<f64>| load.and_then(Rate::per_second);
    // What else is known, each search has for itself.
    let FindSummary { axis, slo, mode, .. } = worst.find.clone();
    let head = FindHead {
        axis,
        slo,
        mode,
        search: Nanos::from_secs_f64(sum(|find| find.search_s)),
        confirm: Nanos::from_secs_f64(sum(|find| find.confirm_s)),
    };
    let tip = TippingPoint {
        outcome: worst.find.found.outcome.clone(),
        lower: rate(lower),
        upper: rate(upper),
        confidence: combined.and_then(|found| found.confidence),
        trials: found.iter().map(|one| one.find.found.trials).sum(),
        invalid_trials: found.iter().map(|one| one.find.found.invalid_trials).sum(),
        confirmed: worst.find.found.confirmed,
        confirmations: worst.find.found.confirmations,
        goals: worst.find.found.goals.clone(),
        ..TippingPoint::default()
    };
    let find = FindSummary { budget_s: worst.find.budget_s, ..FindSummary::new(head, tip) };
    let repeat = RepeatSummary {
        asked: of.times,
        used: intervals.len() as u32,
        confidence: combined.and_then(|found| found.confidence),
        left_out: combined.map_or(0, |found| found.left_out as u32),
        fresh_sut: of.fresh_sut,
        searches,
    };
    let job = of.job.load();
    let head = SummaryHead {
        command: of.command.to_owned(),
        target: job.target_name.clone(),
        started_at: run.started_at.clone(),
        window: run.elapsed(),
        partial: found.len() < of.times as usize || of.interrupts.is_raised(),
        settings: run::settings(job),
        verdict: worst.search.verdict,
        reasons: worst.reasons.clone(),
        result: find.into(),
        archive: run.archive_dir(),
    };
    Some(Summary { repeat: Some(repeat), ..Summary::new(head, &Tally::default()) })
}
