//! The Markdown of a run, for a pull request: `$GITHUB_STEP_SUMMARY`, a comment.
//!
//! Text from outside (URLs, error texts, host names) is shown as it is, never as markup.

use std::io::Write;

use plimsoll_model::Histogram;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Level, TrialRecord};

use super::run::ExportedRun;
use crate::digest::{Badge, Digest, KeyFigure};
use crate::error::Result;
use crate::page::shell_line;
use crate::reasons;
use crate::terminal::facts;
use crate::terminal::layout::{Entry, ms};
use crate::terminal::{GateReport, findings, render_trial_line};

/// A step summary of more than 1 MiB is dropped as a whole, a comment has 65,536 characters.
const BYTES_MAX: usize = 60_000;
/// Trials that are shown, from the last one back.
const TRIALS_MAX: usize = 40;
/// Checks that are shown, the worst first.
const CHECKS_MAX: usize = 40;
/// The longest text from outside.
const TEXT_CHARS_MAX: usize = 500;
/// Columns of a line of blocks.
const SPARK_COLUMNS: usize = 60;

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let summary = run.summary;
    let trials = &run.archive.trials;
    let digest = Digest::of(summary);
    let mut text = format!("### plimsoll {}: {}\n\n", code(&summary.command), badge(digest.badge));
    text.push_str(&format!("{}\n\n", escaped(&digest.sentence())));
    let spark =
        sparkline(run)?.map_or_else(String::new, |line| format!("p99 over time, {line}\n\n"));
    let gates = run.gate.map_or_else(String::new, gates);
    let parts = [
        gates,
        figures(&digest.figures),
        // In the words of the terminal: evidence, what a correlated one lacks, tests, remedies.
        entries("limited by", &facts::cause(summary)),
        entries("event", &facts::events(summary)),
        checks(summary),
        failures(summary),
        spark,
        trial_list(trials),
        command_line(run),
    ];
    for part in parts {
        // Parts that would make it too long are left out.
        if text.len() + part.len() <= BYTES_MAX {
            text.push_str(&part);
        }
    }
    Ok(out.write_all(text.as_bytes())?)
}

/// Returns the word of the page's badge, with a shape.
fn badge(Badge { word, class }: Badge) -> String {
    let shape = match class {
        "good" => '●',
        "bad" => '✕',
        "invalid" => '◇',
        _ => '○',
    };
    format!("{shape} {word}")
}

/// Returns a table; nothing without a row.
fn table<const N: usize>(names: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: String = rows.map(|row| format!("| {} |\n", row.join(" | "))).collect();
    match rows.is_empty() {
        true => rows,
        false => format!("| {} |\n|{}\n{rows}\n", names.join(" | "), "---|".repeat(N)),
    }
}

fn figures(figures: &[KeyFigure]) -> String {
    let row =
        |(name, value, remark): &KeyFigure| [(*name).to_owned(), escaped(value), escaped(remark)];
    table(["figure", "value", "remark"], figures.iter().map(row))
}

fn gates(report: &GateReport) -> String {
    let rows = report
        .lines
        .iter()
        .map(|line| [format!("{}: {}", line.word(), code(&line.gate)), escaped(&line.text)]);
    let table = table([&format!("against {}", code(&report.baseline)), "found"], rows);
    let notes: Vec<_> = report.notes.iter().map(|note| escaped(note)).collect();
    format!("{table}{}\n\n", notes.join(" "))
}

fn entries(name: &str, entries: &[Entry]) -> String {
    let rows = entries.iter().map(|entry| {
        let lines: Vec<_> = entry.lines.iter().map(|line| escaped(line)).collect();
        [escaped(&entry.label), lines.join("<br>")]
    });
    table([name, "found"], rows)
}

fn checks(summary: &Summary) -> String {
    let failed = summary.reasons.iter().filter(|check| check.level > Level::Pass);
    let rows = failed.take(CHECKS_MAX).map(|check| {
        let word = if check.level == Level::Fail { "failed" } else { "warning" };
        let name = code(&check.id.name());
        [format!("{word}: {name}"), escaped(&findings::seen_and_limit(check))]
    });
    table(["check", "observed"], rows)
}

/// Returns the reasons why operations and connections failed.
fn failures(summary: &Summary) -> String {
    let rows = summary.failures.error_reasons.keys().flat_map(|class| {
        let paragraphs = reasons::paragraphs(class, summary).into_iter();
        paragraphs.map(move |paragraph| [code(class), escaped(&paragraph)])
    });
    table(["failure", "reason, and what to do"], rows)
}

fn trial_list(trials: &[TrialRecord]) -> String {
    if trials.is_empty() {
        return String::new();
    }
    let shown = &trials[trials.len().saturating_sub(TRIALS_MAX)..];
    let lines: Vec<_> = shown.iter().map(render_trial_line).collect();
    let of = format!("{} of {}", shown.len(), trials.len());
    format!(
        "<details><summary>The last trials ({of})</summary>\n\n{}\n</details>\n\n",
        fence(&lines.join("\n"))
    )
}

fn command_line(run: &ExportedRun<'_>) -> String {
    let manifest = &run.archive.manifest;
    let command = fence(&shell_line(&manifest.command_line));
    let version = code(&manifest.plimsoll_version);
    format!("{command}\nplimsoll {version}, {}\n", escaped(&manifest.started_at))
}

/// Returns the largest p99 of each stretch as blocks, with its scale.
fn sparkline(run: &ExportedRun<'_>) -> Result<Option<String>> {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut seconds: Vec<Option<f64>> = Vec::new();
    for line in run.archive.intervals()? {
        let p99 = |hist: &Histogram| Some(hist.quantile(0.99)?.as_millis_f64());
        seconds.push(p99(&line?.interval.tally.spans.corrected));
    }
    let all = || seconds.iter().flatten().copied();
    let (Some(least), Some(most)) = (all().reduce(f64::min), all().reduce(f64::max)) else {
        return Ok(None);
    };
    let columns = seconds.len().min(SPARK_COLUMNS);
    let of_column = |column: usize| {
        let bound = |column: usize| column * seconds.len() / columns;
        seconds[bound(column)..bound(column + 1)].iter().flatten().copied().reduce(f64::max)
    };
    // Logarithmic: what is ten times as slow is as far up as from one to ten.
    let height = |value: f64| {
        let share = if most > least { (value / least).ln() / (most / least).ln() } else { 0.0 };
        BLOCKS[((share * 7.0).round() as usize).min(7)]
    };
    let line: String = (0..columns).map(|at| of_column(at).map_or(' ', height)).collect();
    let (least, most) = (ms(Some(least)), ms(Some(most)));
    Ok(Some(format!("{least} to {most} ms (logarithmic): {}", code(&line))))
}

/// Returns the text that no reader takes for markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(TEXT_CHARS_MAX) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            // GitHub notifies the user whose name follows it.
            '@' => out.push_str("&#64;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Returns the text in a monospaced font, in a table, too.
fn code(text: &str) -> String {
    let text: String = text.chars().take(TEXT_CHARS_MAX).collect();
    let text = text.replace('|', "\\|");
    let ticks = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Returns lines in a monospaced font.
fn fence(text: &str) -> String {
    let ticks = "`".repeat((longest_run(text) + 1).max(3));
    format!("{ticks}text\n{text}\n{ticks}\n")
}

/// Returns the longest run of backticks in `text`.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
