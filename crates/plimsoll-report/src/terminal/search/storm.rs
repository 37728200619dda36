//! The report of a search for the largest storm: facts, every storm, and one recovery second by second.
//!
//! [`facts`] writes the labelled entries and [`render`] the tables: a row for each storm, the failures, then the
//! seconds of the storm that shows most (the endless one, else the smallest that failed, else the largest that was
//! GOOD), 12 at most. The sentences of the answer are in `digest/storm.rs`. The progress line of a storm that has
//! just ended is made from a [`TrialRecord`] alone. Start reading at [`render`].

use plimsoll_model::storm::{StormSummary, StormTrial};
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{TrialRecord, Verdict};
use plimsoll_model::units::grouped;

use super::page::{explanation, phase_word, search_entry, verdict_and_why, why};
use crate::digest::search::percent;
use crate::digest::storm as digest;
use crate::terminal::confirmation::subject;
use crate::terminal::layout::{Page, clean, counted, ms, span};
use crate::terminal::sections;

/// Seconds of a storm that are listed.
const SECONDS_MAX: usize = 12;

/// Writes the report of `find storm` and `lab storm`.
pub(super) fn render(
    page: &mut Page,
    summary: &Summary,
    find: &FindSummary,
    trials: &[TrialRecord],
) {
    if let Some(storm) = summary.result.storm() {
        page.blank();
        page.folded("Storms", |page| {
            storms(page, storm, trials);
            explanations(page, trials);
        });
        recovery(page, storm);
    }
    sections::errors(page, summary);
    sections::server_side(page, summary);
    sections::generator(page, summary);
    sections::settings(page, summary);
    sections::notes(page, &find.found.notes);
    sections::checks(page, &summary.reasons)
}

pub(super) fn facts(page: &mut Page, summary: &Summary, find: &FindSummary) {
    page.entry("SLO", &clean(&find.slo));
    page.entry(
        "A storm",
        "is GOOD when all clients are back in time, the connections that were not cut keep the SLO, and none of them \
         is lost; back is a client whose new connection has answered a request",
    );
    search_entry(page, find, "storm");
    let Some(storm) = summary.result.storm() else { return };
    page.key(1, |page| clients(page, storm));
    if let Some(largest) = digest::largest(storm) {
        page.key(1, |page| page.entry("Recovery", &sentence(largest)));
    }
    let not_tried = storm.remedies.iter().filter_map(|remedy| Some((remedy, remedy.why.as_ref()?)));
    let not_tried =
        not_tried.map(|(remedy, why)| format!("{}: {}", subject(remedy.intervention), clean(why)));
    page.entry_items("Not tried", &not_tried.collect::<Vec<_>>())
}

/// Writes the conduct of the clients.
pub(crate) fn clients(page: &mut Page, storm: &StormSummary) {
    let items = [
        format!("{} held", counted(storm.held, "connection")),
        format!("cut by {}", storm.cut.name()),
        format!("reconnect {}", storm.reconnect),
        format!("patience {}", span(storm.patience_s)),
        format!("a request every {}", span(storm.heartbeat_s)),
    ];
    page.entry_items("Clients", &items);
}

/// Returns `a storm of 790: all back after 1.9 s; 790 attempts, none given up`.
pub(crate) fn sentence(trial: &StormTrial) -> String {
    let given_up = match trial.gave_up {
        0 => "none given up".to_owned(),
        some => match trial.wasted {
            Some(wasted) => format!(
                "{} given up; the server counted {} that it could not end",
                grouped(some),
                counted(wasted, "handshake")
            ),
            None => format!(
                "{} given up, of which the server may have served {} in vain",
                grouped(some),
                grouped(trial.wasted_max)
            ),
        },
    };
    let resumed = trial.resumed_share.filter(|share| *share > 0.0);
    let resumed = resumed.map_or_else(String::new, |share| format!("; {} resumed", percent(share)));
    format!(
        "a storm of {}: all back after {}; {}, {given_up}{resumed}",
        grouped(trial.cut),
        digest::recovered(trial),
        counted(trial.attempts, "attempt"),
    )
}

/// Writes the storms beside the answer: the two largest that were GOOD, and the two smallest that were not.
pub(crate) fn largest_storms(page: &mut Page, storm: &StormSummary, trials: &[TrialRecord]) {
    const EACH: usize = 2;
    let of = |verdict| {
        let mut all: Vec<_> = storm.as_asked().filter(|one| one.verdict == verdict).collect();
        all.sort_by_key(|one| one.cut);
        all
    };
    let (good, bad) = (of(Verdict::Good), of(Verdict::Bad));
    let shown = good.iter().rev().take(EACH).rev().chain(bad.iter().take(EACH));
    let shown: Vec<_> = shown.copied().collect();
    if shown.is_empty() {
        return;
    }
    table(page, storm, &shown, trials);
}

fn storms(page: &mut Page, storm: &StormSummary, trials: &[TrialRecord]) {
    if storm.storms.is_empty() {
        return page.line("No storm was made.");
    }
    table(page, storm, &storm.storms.iter().collect::<Vec<_>>(), trials);
    page.quiet(
        4,
        "all back: time from the cut until the last client was back. p99: latency of the connections that were not cut, \
         until then.",
    );
}

fn table(page: &mut Page, storm: &StormSummary, shown: &[&StormTrial], trials: &[TrialRecord]) {
    page.heading(&format!(
        "{:>3} {:>9} {:>5} {:>8} {:>7} {:>8} {:>8} {:>7} {:7} why",
        "#", "cut", "share", "all back", "missing", "attempts", "given up", "p99 ms", "verdict"
    ));
    for one in shown {
        let record = trials.iter().find(|record| record.measurement.request.number == one.trial);
        let why = match (one.endless, record) {
            (Some(_), _) => "endless".to_owned(),
            (None, Some(record)) => why(record),
            (None, None) => String::new(),
        };
        let jitter = one.jitter_s.map(|jitter| format!("jitter {}", span(jitter)));
        let reason = [jitter, Some(why).filter(|why| !why.is_empty())];
        let reason = reason.into_iter().flatten().collect::<Vec<_>>().join("; ");
        page.line(&format!(
            "{:>3} {:>9} {:>5} {:>8} {:>7} {:>8} {:>8} {:>7} {} {reason}",
            one.trial,
            grouped(one.cut),
            percent(one.cut as f64 / storm.connections.max(1) as f64),
            digest::recovered(one),
            grouped(one.missing),
            grouped(one.attempts),
            grouped(one.gave_up),
            ms(one.p99_ms),
            sections::verdict_cell(page, one.verdict),
        ));
    }
}

/// Writes the failures of the storms that were not GOOD.
fn explanations(page: &mut Page, trials: &[TrialRecord]) {
    let not_good = trials.iter().filter(|trial| trial.judgement.verdict != Verdict::Good);
    not_good.for_each(|trial| explanation(page, trial));
}

/// Writes the seconds of the storm that shows most: the endless one, or the smallest that failed, or the largest.
fn recovery(page: &mut Page, storm: &StormSummary) {
    let failed = storm.as_asked().filter(|one| one.verdict == Verdict::Bad);
    let failed = failed.min_by_key(|one| one.cut);
    let endless = storm.endless().map(|(trial, _)| trial);
    let shown = endless.or(failed).or_else(|| digest::largest(storm));
    let Some(shown) = shown.filter(|one| !one.seconds.is_empty()) else { return };
    page.blank();
    page.heading(&format!("Storm {}, second by second", shown.trial));
    page.line(&format!(
        "{:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>4}",
        "second", "back", "waiting", "attempts", "retries", "given up", "p99 ms", "queued", "CPUs"
    ));
    let mut back = 0;
    for (number, second) in shown.seconds.iter().enumerate().take(SECONDS_MAX) {
        back += second.back;
        let waiting = shown.cut.saturating_sub(back);
        page.line(&format!(
            "{:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>4}",
            number + 1,
            grouped(back),
            grouped(waiting),
            grouped(second.attempts),
            grouped(second.retries),
            grouped(second.gave_up),
            ms(second.p99_ms),
            second.accept_queue.map_or_else(|| "-".to_owned(), grouped),
            second.server_cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.2}")),
        ));
    }
    page.quiet(
        4,
        "queued: connections that wait to be accepted on the server's host. CPUs: used by the server.",
    );
    match shown.seconds.len().saturating_sub(SECONDS_MAX) {
        0 => {}
        more => page.quiet(4, &format!("{more} more seconds are in the JSON and on the page.")),
    }
}

/// Returns one line for a storm that just ended, without colours and without a newline.
pub(super) fn line(trial: &TrialRecord) -> String {
    let m = &trial.measurement;
    let storm = &m.tally.storm;
    let back = match (storm.missing(), storm.recovery.max()) {
        (0, Some(last)) => format!("all back after {}", span(last.as_secs_f64())),
        (missing, _) => format!("{} not back", grouped(missing)),
    };
    let p99 = m.tally.spans.corrected.quantile(0.99).map(|at| at.as_millis_f64());
    format!(
        "storm {:>2} {:7} {:>9} cut, {back}, p99 of the others {} ms  {}",
        m.request.number,
        phase_word(m.request.phase),
        grouped(m.request.rate.get() as u64),
        ms(p99),
        verdict_and_why(trial),
    )
}
