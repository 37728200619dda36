//! The report on one screen: at most 24 lines of 80 columns, for every command.
//!
//! The answer, what limits the server and what helps, latency, the shape of the load line, what changes how far the
//! figures can be used, and where the rest is. Its sentences come from the full report (`--details`): this file
//! chooses and cuts, and has no texts of its own but labels.

use plimsoll_model::result::RunResult;
use plimsoll_model::summary::{FindSummary, FullQuantiles, Summary};
use plimsoll_model::trial::{TrialRecord, Verdict};

use super::layout::{Entry, Page, Style, Tone, bars, clean, counted, ms, span};
use super::{facts, hold, rfc9411, search, sizing};
use crate::digest::{Digest, Role, Warning};

/// Lines of a terminal of the default size.
const LINES_MAX: usize = 24;
const COLUMNS: u16 = 80;
/// Warnings that are shown, the gravest first.
const WARNINGS_MAX: usize = 3;
/// Loads of the chart, the highest ones.
const LOADS_MAX: usize = 48;
/// An uncorrected p99 this much below the corrected one is another answer.
const DISAGREE: f64 = 1.5;

/// Returns it.
pub(super) fn render(
    summary: &Summary,
    digest: &Digest,
    trials: &[TrialRecord],
    style: Style,
) -> String {
    let style = Style { width: style.width.min(COLUMNS), ..style };
    let head = written(style, |page| head(page, digest));
    let body = written(style, |page| body(page, summary, trials));
    let tail = written(style, |page| tail(page, digest));
    let mut room = LINES_MAX.saturating_sub(head.len() + tail.len());
    let mut warnings = Vec::new();
    for Warning { id, text } in digest.warnings.iter().take(WARNINGS_MAX) {
        let lead = format!("{id}:");
        let lines =
            written(style, |page| page.hanging_within(Tone::Warn, &lead, text, WARNING_LINES));
        // What the server is at outweighs one more warning.
        let is_first = warnings.is_empty();
        if is_first || warnings.len() + lines.len() + body.len() <= room {
            warnings.extend(lines);
        }
    }
    room = room.saturating_sub(warnings.len());
    let has_gap = !warnings.is_empty() && body.len() < room;
    let gap = has_gap.then(String::new);
    let body = body.into_iter().take(room);
    let all = head.into_iter().chain(body).chain(gap).chain(warnings).chain(tail);
    all.map(|line| line + "\n").collect()
}

const WARNING_LINES: usize = 2;

/// Returns the lines that `write` writes.
fn written(style: Style, write: impl FnOnce(&mut Page)) -> Vec<String> {
    Page::text(style, write).lines().map(str::to_owned).collect()
}

/// Writes the answers; the load for planning comes first.
fn head(page: &mut Page, digest: &Digest) {
    let answers = &digest.answers;
    let most = match answers.len() {
        0..=1 => 5,
        2 if answers.iter().any(|answer| answer.role == Role::Advice) => 5,
        _ if answers.iter().any(|answer| answer.slo.is_some()) => 1,
        2 => 3,
        _ => 4,
    };
    for answer in answers.iter().take(LINES_MAX / 4) {
        page.hanging_within(answer.tone, &answer.lead(), &answer.text, most);
    }
    if let Some(text) = &digest.cut_short {
        page.hanging_within(Tone::Warn, "PARTIAL", text, 1);
    }
    page.blank()
}

fn body(page: &mut Page, summary: &Summary, trials: &[TrialRecord]) {
    match &summary.result {
        RunResult::Sizing { sizing } => return sizing::table(page, sizing),
        RunResult::Find { find } | RunResult::Connections { find, .. } => {
            return of_search(page, summary, find, trials);
        }
        RunResult::Storm { find, storm } => {
            searched(page, summary, find);
            key_entries(page, &facts::cause(summary));
            if let Some(storm) = storm {
                search::storm::largest_storms(page, storm, trials);
            }
        }
        RunResult::Rfc9411 { rfc9411 } => {
            rfc9411::table(page, rfc9411);
            page.blank();
        }
        RunResult::Compare { .. } => {}
        RunResult::Hold { hold } => {
            latency(page, summary, "");
            if let Some(level) = hold.plateaus.last() {
                page.entry_within("Memory", &hold::costs_of(level), 1);
            }
        }
        RunResult::Load => latency(page, summary, ""),
    }
    key_entries(page, &facts::of(summary))
}

/// Writes the first lines of the entries that are on one screen.
fn key_entries(page: &mut Page, entries: &[Entry]) {
    for entry in entries.iter().filter(|entry| entry.most > 0) {
        let text = entry.lines.first().map(String::as_str).unwrap_or_default();
        page.entry_within(&entry.label, text, entry.most)
    }
}

fn of_search(page: &mut Page, summary: &Summary, find: &FindSummary, trials: &[TrialRecord]) {
    searched(page, summary, find);
    key_entries(page, &facts::cause(summary));
    if let Some((place, view)) = search::at_shown_load(summary, trials) {
        latency(page, &view, &place);
    }
    if matches!(summary.result, RunResult::Find { .. }) && find.found.goals.is_empty() {
        load_line(page, find, trials)
    }
}

/// Writes the target, the goal, and whether the generator was the limit of any trial.
fn searched(page: &mut Page, summary: &Summary, find: &FindSummary) {
    page.entry_within("Target", &clean(&summary.target), 1);
    if find.found.trials == 0 {
        return page.entry_within("SLO", &clean(&find.slo), 2);
    }
    let invalid = match find.found.invalid_trials {
        0 => "none INVALID by the load generator".to_owned(),
        some => format!("{some} INVALID by the load generator, not counted"),
    };
    let took = span(find.search_s + find.confirm_s);
    let trials = counted(find.found.trials.into(), "trial");
    page.entry_within("SLO", &format!("{}; {trials} in {took}, {invalid}", clean(&find.slo)), 2)
}

/// Writes corrected latency in one line, and the other latencies if they differ.
fn latency(page: &mut Page, summary: &Summary, place: &str) {
    let all = &summary.operations.latency_ms;
    let FullQuantiles { p50, p90, p99, p999, max, .. } = all.corrected;
    if max.is_none() {
        return;
    }
    let figures = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)];
    let figures = figures.map(|(name, value)| format!("{name} {}", ms(value)));
    page.entry_within("Latency", &format!("{} ms{place}", figures.join(", ")), 2);
    let others = [("uncorrected", all.uncorrected.p99), ("wire", all.wire.p99)];
    let others = others.map(|(name, other)| {
        let differs = p99.zip(other).is_some_and(|(p99, other)| p99 > DISAGREE * other + 1.0);
        differs.then(|| format!("{name} p99 {} ms", ms(other)))
    });
    let others: Vec<String> = others.into_iter().flatten().collect();
    if others.is_empty() {
        return;
    }
    page.entry_within("", &format!("from the intended start; {}", others.join(", ")), 1)
}

/// Writes a column for each load that was tried: its p99, and below it where the answers lie.
fn load_line(page: &mut Page, find: &FindSummary, trials: &[TrialRecord]) {
    let mut loads: Vec<(f64, f64)> = trials
        .iter()
        .filter(|trial| trial.judgement.verdict != Verdict::Invalid)
        .filter_map(|trial| {
            let p99 = trial.measurement.tally.spans.corrected.quantile(0.99)?;
            Some((trial.measurement.request.rate.get(), p99.as_millis_f64()))
        })
        .collect();
    loads.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    // Of one load the slowest trial.
    loads.dedup_by(|next, kept| next.0 == kept.0);
    let loads = &loads[loads.len().saturating_sub(LOADS_MAX)..];
    let ([(lowest, _), .., (highest, _)], true) = (loads, loads.len() > 2) else { return };
    let least = loads.iter().map(|(_, p99)| *p99).fold(f64::INFINITY, f64::min).max(1e-3);
    let heights: Vec<f64> =
        loads.iter().map(|(_, p99)| 1.0 + (p99.max(least) / least).ln()).collect();
    let columns = bars(&heights, LOADS_MAX, false);
    let text = |load| search::load_text(find.axis, load).replace('\u{a0}', " ");
    let ends = format!("{} to {}", text(*lowest), text(*highest));
    page.entry_within("p99 by load", &format!("{columns}  {ends}"), 1);
    let safe =
        find.found.safe.and_then(|safe| loads.iter().rposition(|(load, _)| *load <= safe.get()));
    let within = |load: f64| {
        let (lower, upper) = find.found.bounds();
        lower.is_some_and(|it| load >= it) && upper.is_some_and(|it| load <= it)
    };
    let marks = loads.iter().enumerate().map(|(at, (load, _))| match () {
        () if Some(at) == safe => 's',
        () if within(*load) => '=',
        () => '\u{a0}',
    });
    let marks: String = marks.collect();
    if marks.trim_matches('\u{a0}').is_empty() {
        return;
    }
    page.entry_within("", &format!("{marks}  = tipping point, s safe load"), 1)
}

/// Writes the commands that show the rest, one per line: the label is short, so that a line with the usual archive's
/// name fits.
fn tail(page: &mut Page, digest: &Digest) {
    page.blank();
    for (index, command) in digest.next.iter().enumerate() {
        page.hanging(Tone::Strong, if index == 0 { "More" } else { "    " }, command);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::Level;

    use super::*;
    use crate::fixtures;
    use crate::fixtures::golden;

    fn brief(summary: &Summary, trials: &[TrialRecord]) -> String {
        crate::terminal::render(summary, trials, Style { details: false, ..Style::default() })
    }

    fn assert_fits(name: &str, text: &str) {
        assert!(text.lines().count() <= LINES_MAX, "{name}:\n{text}");
        let wide = text.lines().find(|line| line.chars().count() > usize::from(COLUMNS));
        assert_eq!(wide, None, "{name}");
    }

    #[test]
    fn every_report_fits_on_one_screen() {
        for (name, summary, trials) in fixtures::all() {
            let text = brief(&summary, &trials);
            assert_fits(name, &text);
            golden(&format!("brief_{name}"), &text);
        }
    }

    #[test]
    fn long_texts_are_cut_and_the_commands_are_not() {
        for (name, mut summary, trials) in fixtures::all() {
            summary.target = format!("https://{}.example/", "long-name.".repeat(40));
            let run = "plimsoll-runs/20261121T021530Z-lab-4711";
            summary.archive = Some(run.to_owned());
            for check in &mut summary.reasons {
                check.detail = Some("word ".repeat(200));
                check.level = Level::Fail;
            }
            for cause in summary.causes.iter_mut().flatten() {
                cause.remedy = "do ".repeat(300);
            }
            let text = brief(&summary, &trials);
            assert_fits(name, &text);
            assert!(text.contains(&format!("plimsoll report {run} --details")), "{name}:\n{text}");
        }
    }

    #[test]
    fn what_to_do_is_said_whole_where_no_interval_is_claimed() {
        let (summary, trials) = fixtures::find_unstable();
        let text = brief(&summary, &trials);
        let whole = Digest::of(&summary).answers.pop().expect("what to do is said last").text;
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(&whole), "{text}");
    }

    #[test]
    fn the_load_that_can_be_planned_with_comes_first() {
        let (summary, trials) = fixtures::find_regular();
        assert!(brief(&summary, &trials).starts_with("Safe load: "));
    }
}
