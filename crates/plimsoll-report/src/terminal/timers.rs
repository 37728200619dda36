//! Hidden timers on a page: what the load met, what the probe met, and how long a timer could have
//! been seen at all.

use std::io;

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Confidence, Owner};
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::summary::{CliffSummary, Summary};
use plimsoll_model::units::grouped;

use super::layout::{Page, clean, counted, ratio_percent, span};

/// Timers that a load met.
fn cliffs(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    page.heading(&format!(
        "Hidden timers {:>9} {:12} {:>9} {:>7}  whose",
        "after", "ended by", "count", "share %"
    ))?;
    for cliff in summary.cliffs.iter().flatten() {
        row(page, cliff)?;
    }
    page.quiet(2, "share %: of the slow ones of their kind")
}

/// The same among the sections of one load.
pub(crate) fn cliffs_of_load(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    if summary.cliffs.as_ref().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    cliffs(page, summary)?;
    page.blank()
}

/// The same below the tables of a search: all its trials together.
pub(crate) fn cliffs_of_search(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    if summary.cliffs.as_ref().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    page.blank()?;
    cliffs(page, summary)
}

fn row(page: &mut Page<'_>, cliff: &CliffSummary) -> io::Result<()> {
    let what = match cliff.stretch {
        Stretch::Operation => "an answer",
        Stretch::Opening => "connecting",
        Stretch::Lifetime => "a connection",
        Stretch::Idle => "an idle one",
    };
    page.line(&format!(
        "  {:11} {:>9} {:12} {:>9} {:>7}  {}",
        what,
        time(cliff.at_ms),
        closer(cliff.closer),
        grouped(cliff.count),
        ratio_percent(cliff.share),
        owner(cliff.owner),
    ))?;
    let doubt = if cliff.confidence == Confidence::Possible { " (possibly)" } else { "" };
    let name = cliff.label.as_ref().map(|label| format!("{}; ", clean(label)));
    page.quiet(4, &format!("{}{}{doubt}", name.unwrap_or_default(), clean(&cliff.evidence)))
}

/// What the timeout probe saw.
pub(crate) fn probe(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    let Some(rows) = &summary.timers else { return Ok(()) };
    page.blank()?;
    if rows.is_empty() {
        return page.heading("Timeout probe: no connection reached the point of waiting");
    }
    page.heading(&format!("{:25} {:>9} {:12} {}", "Timeout probe", "after", "ended by", "whose"))?;
    for row in rows {
        let after = row.after_ms.map_or_else(|| "-".to_owned(), time);
        let by = if row.after_ms.is_some() { closer(row.closer) } else { "nothing".to_owned() };
        page.line(&format!("  {:23} {after:>9} {by:12} {:9}", row.kind.text(), owner(row.owner),))?;
        if row.after_ms.is_some() {
            let name = row.label.as_ref().map(|label| format!("{}; ", clean(label)));
            page.quiet(4, &format!("{}{}", name.unwrap_or_default(), clean(&row.evidence)))?;
        }
    }
    let each = rows.iter().map(|row| row.connections).max().unwrap_or(0);
    page.quiet(
        2,
        &format!("{} of each kind; the median is shown", counted(each.into(), "connection")),
    )
}

/// How long a timer could have been seen.
pub(crate) fn longest(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    let Some(longest) = &summary.longest_timer else { return Ok(()) };
    let time = |ms: f64| span(ms / 1e3);
    let mut items = vec![
        format!("{} for an answer (deadline and linger)", time(longest.answer_ms)),
        format!("{} on a connection (length of the load)", time(longest.connection_ms)),
    ];
    if let Some(ms) = longest.probe_ms {
        items.push(format!("{} in the timeout probe", time(ms)));
    }
    page.entry(
        "Timers",
        &format!("longest timer that this run could observe: {}", items.join(", ")),
    )
}

/// For a table's cell, which nothing tears.
fn time(ms: f64) -> String {
    Nanos::from_secs_f64(ms / 1e3).to_string()
}

fn closer(closer: Closer) -> String {
    match closer {
        Closer::Success => "good answer".to_owned(),
        Closer::PeerFin => "close".to_owned(),
        Closer::PeerReset => "reset".to_owned(),
        Closer::PeerAnswer => "answer+close".to_owned(),
        Closer::TlsAlert => "TLS alert".to_owned(),
        Closer::Status(status) => format!("status {status}"),
        Closer::OwnTimer | Closer::Us => "plimsoll".to_owned(),
        Closer::Kernel => "own kernel".to_owned(),
    }
}

const fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Client => "plimsoll",
        Owner::Sut => "the SUT",
        Owner::Backend => "a backend",
        Owner::Network => "the path",
        Owner::Unknown => "-",
    }
}
