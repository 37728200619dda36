//! Hidden timers on a page: what the load met, what the probe met, and how long a timer could have
//! been seen at all.

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Cliff, Confidence, Owner, ProbeKind};
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::summary::Summary;
use plimsoll_model::units::grouped;

use super::layout::{Page, clean, counted, ratio_percent, span};

/// Timers that a load met.
fn cliffs(page: &mut Page, summary: &Summary) {
    page.heading(&format!(
        "Hidden timers {:>9} {:12} {:>9} {:>7}  whose",
        "after", "ended by", "count", "share %"
    ));
    for cliff in summary.timers.cliffs.iter().flatten() {
        row(page, cliff);
    }
    page.quiet(2, "share %: of the slow ones of their kind")
}

/// Writes the cliffs among the sections of one load.
pub(crate) fn cliffs_of_load(page: &mut Page, summary: &Summary) {
    if summary.timers.cliffs.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    cliffs(page, summary);
    page.blank()
}

/// Writes the cliffs below the tables of a search: all its trials together.
pub(crate) fn cliffs_of_search(page: &mut Page, summary: &Summary) {
    if summary.timers.cliffs.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    page.blank();
    cliffs(page, summary)
}

/// Returns a sentence on the timer that closed most of the connections that a hold lost; `None` if no timer did.
pub(crate) fn of_losses(summary: &Summary) -> Option<String> {
    let lost = summary.result.hold().filter(|hold| hold.lost > 0)?.lost;
    let is_connection = |cliff: &&Cliff| {
        matches!(cliff.stretch, Stretch::Idle | Stretch::Lifetime)
            && cliff.closer.is_peer()
            && cliff.confidence != Confidence::Possible
    };
    let cliffs: Vec<_> = summary.timers.cliffs.iter().flatten().filter(is_connection).collect();
    // One timer may end connections in several ways: HAProxy answers 408 before the first request, and closes behind
    // one.
    let ways_of = |of: &Cliff| -> Vec<&Cliff> {
        let is_same = |other: &&Cliff| {
            other.stretch == of.stretch
                && other.owner == of.owner
                && is_near(other.at.as_millis_f64(), of.at.as_millis_f64())
        };
        cliffs.iter().copied().filter(is_same).collect()
    };
    let count_of = |ways: &[&Cliff]| ways.iter().map(|way| way.count).sum::<u64>();
    let timers = cliffs.iter().map(|cliff| ways_of(cliff));
    let Some(ways) = timers.max_by_key(|ways| (count_of(ways), ways[0].stretch == Stretch::Idle))
    else {
        return of_probe(summary);
    };
    let count = count_of(&ways);
    if count.saturating_mul(2) < lost {
        return None;
    }
    let what = if ways[0].stretch == Stretch::Idle { "idle for" } else { "open for" };
    let (at, count, whose) =
        (time(ways[0].at.as_millis_f64()), grouped(count), whose(ways[0].owner));
    let probed = match is_probed(summary, ways[0]) {
        true => "; the timeout probe met it, too",
        false => "",
    };
    let (name, by_ways) = match ways[..] {
        [only] => (named(only.label.as_ref()), String::new()),
        _ => {
            let one = ways.iter().all(|way| way.label == ways[0].label);
            let way = |way: &&Cliff| {
                let name = if one { String::new() } else { named(way.label.as_ref()) };
                format!("{} by {}{name}", grouped(way.count), way_of(way.closer))
            };
            let all = ways.iter().map(way).collect::<Vec<_>>().join(", ");
            (if one { named(ways[0].label.as_ref()) } else { String::new() }, format!(": {all}"))
        }
    };
    Some(format!(
        "{count} were closed after they had been {what} {at}, by {whose}{name}{by_ways}{probed}."
    ))
}

/// Returns the way in which a server ends a connection, after a number and `by`.
const fn way_of(closer: Closer) -> &'static str {
    match closer {
        Closer::PeerReset => "a reset",
        Closer::PeerAnswer | Closer::Status(_) => "an answer that no request asked for",
        Closer::TlsAlert => "a TLS alert",
        Closer::PeerFin | Closer::Success | Closer::OwnTimer | Closer::Kernel | Closer::Us => {
            "a close"
        }
    }
}

/// Reports whether two durations may belong to one timer.
fn is_near(one_ms: f64, other_ms: f64) -> bool {
    const SAME: f64 = 0.02;
    (one_ms / other_ms - 1.0).abs() <= SAME
}

/// Returns the idle timer that the timeout probe met, as far as the run was long enough to meet it.
fn of_probe(summary: &Summary) -> Option<String> {
    let lasted_ms = summary.seconds * 1e3;
    let row = summary.timers.probed.iter().flatten().find(|row| row.kind == ProbeKind::Answered)?;
    let after_ms = row.after_ms.filter(|after_ms| *after_ms <= lasted_ms)?;
    let is_timer = row.closer.is_peer() && row.owner != Owner::Unknown;
    is_timer.then(|| {
        let (whose, name) = (whose(row.owner), named(row.label.as_ref()));
        let after = time(after_ms);
        format!(
            "The timeout probe was closed after it had been idle for {after}, by {whose}{name}."
        )
    })
}

const fn whose(owner: Owner) -> &'static str {
    match owner {
        Owner::Sut => "a timer of the server",
        Owner::Backend => "a timer behind the server",
        Owner::Client | Owner::Network | Owner::Unknown => "a timer",
    }
}

fn named(label: Option<&String>) -> String {
    label.map_or_else(String::new, |label| format!(" ({})", clean(label)))
}

/// Reports whether the timeout probe was closed after the same time.
fn is_probed(summary: &Summary, cliff: &Cliff) -> bool {
    let mut met = summary.timers.probed.iter().flatten().filter_map(|row| row.after_ms);
    met.any(|after_ms| is_near(after_ms, cliff.at.as_millis_f64()))
}

fn row(page: &mut Page, cliff: &Cliff) {
    let what = match cliff.stretch {
        Stretch::Operation => "an answer",
        Stretch::Opening => "connecting",
        Stretch::Lifetime => "a connection",
        Stretch::Idle => "an idle one",
    };
    page.line(&format!(
        "  {:11} {:>9} {:12} {:>9} {:>7}  {}",
        what,
        time(cliff.at.as_millis_f64()),
        closer(cliff.closer),
        grouped(cliff.count),
        ratio_percent(cliff.share),
        owner(cliff.owner),
    ));
    let doubt = if cliff.confidence == Confidence::Possible { " (possibly)" } else { "" };
    let name = cliff.label.as_ref().map(|label| format!("{}; ", clean(label)));
    page.quiet(4, &format!("{}{}{doubt}", name.unwrap_or_default(), clean(&cliff.evidence)))
}

/// Writes the findings of the timeout probe.
pub(crate) fn probe(page: &mut Page, summary: &Summary) {
    let Some(rows) = &summary.timers.probed else { return };
    page.blank();
    if rows.is_empty() {
        return page.heading("Timeout probe: no connection reached the point of waiting");
    }
    page.heading(&format!("{:25} {:>9} {:12} {}", "Timeout probe", "after", "ended by", "whose"));
    for row in rows {
        let after = row.after_ms.map_or_else(|| "-".to_owned(), time);
        let by = if row.after_ms.is_some() { closer(row.closer) } else { "nothing".to_owned() };
        page.line(&format!("  {:23} {after:>9} {by:12} {:9}", row.kind.text(), owner(row.owner),));
        if row.after_ms.is_some() {
            let name = row.label.as_ref().map(|label| format!("{}; ", clean(label)));
            page.quiet(4, &format!("{}{}", name.unwrap_or_default(), clean(&row.evidence)));
        }
    }
    let each = rows.iter().map(|row| row.connections).max().unwrap_or(0);
    page.quiet(
        2,
        &format!("{} of each kind; the median is shown", counted(each.into(), "connection")),
    )
}

/// Writes the longest timer that could have been observed.
pub(crate) fn longest(page: &mut Page, summary: &Summary) {
    let Some(longest) = &summary.timers.longest_timer else { return };
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

/// Formats a time for the cell of a table, which is not wrapped.
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

#[cfg(test)]
mod tests {
    use plimsoll_model::cliff::{Cliff, Horizon, ProbedTimer};

    use super::*;
    use crate::fixtures;

    fn cliff(count: u64, confidence: Confidence) -> Cliff {
        Cliff {
            at: Nanos::from_secs(1),
            count,
            share: 1.0,
            stretch: Stretch::Idle,
            closer: Closer::PeerFin,
            label: Some("HAProxy timeout client".to_owned()),
            owner: Owner::Sut,
            confidence,
            evidence: String::new(),
        }
    }

    fn probed(after_ms: f64) -> ProbedTimer {
        ProbedTimer {
            kind: ProbeKind::Answered,
            connections: 3,
            after_ms: Some(after_ms),
            closer: Closer::PeerFin,
            label: None,
            owner: Owner::Sut,
            evidence: String::new(),
        }
    }

    fn of(cliffs: &[Cliff], probed: Option<Vec<ProbedTimer>>) -> Option<String> {
        let mut summary = fixtures::hold_bad();
        summary.result.hold_mut().expect("a hold").lost = 40;
        let horizon = Horizon { answer_ms: 1.0, connection_ms: 5_000.0, probe_ms: None };
        of_losses(&summary.with_timers(cliffs, probed, horizon))
    }

    #[test]
    fn a_timer_that_closed_most_is_in_the_answer() {
        let certain = Confidence::Certain;
        let text = of(&[cliff(40, certain)], None).expect("a timer");
        assert!(text.starts_with("40 were closed after they had been idle for 1"), "{text}");
        assert!(text.ends_with("by a timer of the server (HAProxy timeout client)."), "{text}");
        let text = of(&[cliff(40, certain)], Some(vec![probed(1_010.0)])).expect("a timer");
        assert!(text.contains("the timeout probe met it, too"), "{text}");
        assert_eq!(of(&[cliff(19, certain)], None), None);
        assert_eq!(of(&[cliff(40, Confidence::Possible)], None), None);
        assert_eq!(of(&[], None), None);
    }

    #[test]
    fn all_ways_in_which_one_timer_closes_are_counted() {
        let certain = Confidence::Certain;
        let unasked = Cliff { closer: Closer::PeerAnswer, ..cliff(22, certain) };
        let text = of(&[cliff(18, certain), unasked.clone()], None).expect("a timer");
        assert!(text.starts_with("40 were closed after they had been idle for 1"), "{text}");
        let ways =
            "(HAProxy timeout client): 18 by a close, 22 by an answer that no request asked for.";
        assert!(text.ends_with(ways), "{text}");
        // Each has its name.
        let label = Some("HAProxy timeout http-request".to_owned());
        let text =
            of(&[cliff(18, certain), Cliff { label, ..unasked.clone() }], None).expect("a timer");
        for part in ["a close (HAProxy timeout client)", "asked for (HAProxy timeout http-request)"]
        {
            assert!(text.contains(part), "{text}");
        }
        // Another timer is counted for itself.
        let later = Cliff { at: Nanos::from_secs(3), ..unasked };
        let text = of(&[cliff(18, certain), later], None).expect("a timer");
        assert!(text.starts_with("22 were closed after they had been idle for 3"), "{text}");
    }

    #[test]
    fn the_probe_explains_losses_that_show_no_timer() {
        let text = of(&[], Some(vec![probed(1_010.0)])).expect("the probe's");
        assert!(text.starts_with("The timeout probe was closed after"), "{text}");
        // Longer than the hold lasted.
        assert_eq!(of(&[], Some(vec![probed(90_000.0)])), None);
        assert_eq!(of_losses(&fixtures::hold_good()), None);
    }
}
