//! The sections that the reports of loads, searches and holds share.
//!
//! Each function writes one section of a [`Summary`] to a [`Page`]; the report of each kind of result decides the
//! order. [`latency`] is a table, [`operations`] and [`generator`] are labelled entries, and [`errors`] adds reasons
//! and remedies to each class. Nothing is judged here: verdicts and levels come with the records. Text of a peer, a
//! host or a file passes through [`clean`]. An entry within [`Page::key`] is also in the report on one screen. Start
//! reading at [`operations`].

use std::collections::BTreeMap;

use plimsoll_model::Fault;
use plimsoll_model::result::RunResult;
use plimsoll_model::search::Axis;
use plimsoll_model::settings::LoadSettings;
use plimsoll_model::summary::{
    ConnectionSummary, DeliverySummary, FullQuantiles, LagQuantiles, LoadHostSummary,
    OperationSummary, ShortQuantiles, Summary,
};
use plimsoll_model::tally::{ConnectionCounts, HandshakeCounts, PingCounts, StreamCounts};
use plimsoll_model::trial::{Check, CheckId, Family, Level, TrialRecord, Verdict};
use plimsoll_model::units::grouped;

use super::announced::announced;
use super::layout::{
    Page, Tone, bytes, clean, counted, cpu_percent, ms, ms_text, occurred, percent,
};
use super::{findings, hints};
use crate::digest::verdict_word;
use crate::watch::source_lost;
use crate::{reasons, settings as words};

/// Reports whether an operation is the delivery of something that was published.
fn has_deliveries(summary: &Summary) -> bool {
    summary.result.find().is_some_and(|find| find.axis == Axis::Deliveries)
}

/// Writes corrected and uncorrected latency one above the other, then the parts of a request's way; only
/// those that were measured.
pub(crate) fn latency(page: &mut Page, title: &str, summary: &Summary) {
    let both = &summary.operations.latency_ms;
    let closed = summary.settings.is_closed_loop();
    let intended = if closed { "since the last one ended" } else { "from the intended start" };
    // A pool that is kept is opened many at a time, and each of them waits for the others.
    let keeps = |load: &LoadSettings| load.keep_alive && load.requests_per_connection.is_none();
    let many = summary.settings.has_load(keeps) && summary.connections.counts.opened > 1;
    let opened = if many { "opened many at once" } else { "per new connection" };
    let pushed = summary.answers.pushed.unwrap_or_default().delay_ms;
    let delivery = summary.answers.deliveries.unwrap_or_default().latency_ms.corrected;
    let rows: Vec<_> = [
        ("corrected", full(&both.corrected), intended),
        ("uncorrected", full(&both.uncorrected), "from the actual send"),
        ("wire", full(&both.wire), "to the answer's arrival"),
        ("first byte", short(&summary.operations.ttfb_ms), "from the actual send"),
        ("pushed", short(&pushed), "from the server's sending"),
        ("delivery", full(&delivery), intended),
        ("connect", short(&summary.operations.connect_ms), opened),
        ("handshake", short(&summary.operations.tls_ms), opened),
    ]
    .into_iter()
    .filter(|(_, values, _)| values[4].flatten().is_some())
    .collect();
    if rows.is_empty() {
        page.heading(title);
        return page.quiet(2, "Nothing was measured: no connection was opened.");
    }
    let columns = ["p50", "p90", "p99", "p99.9", "max"].map(|name| format!("{name:>8}")).concat();
    if title.chars().count() > LATENCY_LABEL_WIDTH {
        page.heading(title);
        let columns = page.paint(Tone::Strong, &format!("{:LATENCY_LABEL_WIDTH$}{columns}", ""));
        page.line(&columns);
    } else {
        page.heading(&format!("{title:LATENCY_LABEL_WIDTH$}{columns}"));
    }
    for (label, values, from) in rows {
        latency_row(page, label, values, from);
    }
    stamped(page, summary);
    if closed && both.corrected.max.is_some() {
        page.quiet(
            2,
            "In a closed loop a server that stalls also stops the load, so its stalls are \
             under-reported; measure with --rate to see what users experience.",
        );
    }
}

/// Writes the operations that the wire latency covers, unless it is all of them.
fn stamped(page: &mut Page, summary: &Summary) {
    let stamps = summary.operations.stamps;
    if stamps.operations >= summary.operations.ok || has_deliveries(summary) {
        return;
    }
    let of_all = format!("{} of {}", grouped(stamps.operations), grouped(summary.operations.ok));
    let text = match stamps.operations {
        0 if summary.settings.has_load(|load| load.unix_socket) => {
            "No wire latency: the kernel does not stamp what arrives on a Unix socket.".to_owned()
        }
        0 if stamps.counts.every == 0 => {
            "No wire latency: this kernel does not stamp what arrives.".to_owned()
        }
        0 => "No wire latency: the kernel stamped no answer.".to_owned(),
        _ if stamps.counts.clock_set > 0 => format!(
            "Wire latency of {of_all} operations: the rest was not stamped, or somebody set this \
             host's clock meanwhile."
        ),
        _ if stamps.counts.every > 1 => format!(
            "Wire latency of {of_all} operations: about 1 of {} is stamped.",
            stamps.counts.every
        ),
        _ => format!("Wire latency of {of_all} operations: the kernel stamped no others."),
    };
    page.quiet(2, &text)
}

/// Two columns in, `uncorrected`, and a gap.
const LATENCY_LABEL_WIDTH: usize = 14;

fn latency_row(page: &mut Page, label: &str, values: [Option<Option<f64>>; 5], from: &str) {
    // A column that this span does not keep stays empty; one that nothing fell into shows a dash.
    let cells: String =
        values.iter().map(|cell| format!("{:>8}", cell.map(ms).unwrap_or_default())).collect();
    let from = page.paint(Tone::Quiet, from);
    page.line(&format!("  {label:width$}{cells}  {from}", width = LATENCY_LABEL_WIDTH - 2))
}

const fn full(q: &FullQuantiles) -> [Option<Option<f64>>; 5] {
    [Some(q.p50), Some(q.p90), Some(q.p99), Some(q.p999), Some(q.max)]
}

const fn short(q: &ShortQuantiles) -> [Option<Option<f64>>; 5] {
    [Some(q.p50), Some(q.p90), Some(q.p99), None, Some(q.max)]
}

/// Returns the reason why operations were not sent on existing connections.
fn why_unsent(summary: &Summary) -> String {
    match summary.answers.streams.allowed {
        Some(0) => "unsent: due, and the server allowed no request on its connections, at least for a time \
                    (HTTP/2: SETTINGS_MAX_CONCURRENT_STREAMS 0)"
            .to_owned(),
        Some(allowed) => format!(
            "unsent: due, and no connection became free before the end; the server allows {} operations at once on \
             each, and was too slow for these, or --connections is too small",
            grouped(allowed.into())
        ),
        None => "unsent: due, and no connection became free before the end; the server was too \
                 slow for the pool, or --connections is too small"
            .to_owned(),
    }
}

/// Writes the ends of all scheduled operations.
pub(crate) fn operations(page: &mut Page, summary: &Summary) {
    let OperationSummary { scheduled, ok, errors, late, unsent, .. } = summary.operations;
    let [due, good, failed, left] = [scheduled, ok, errors, unsent].map(grouped);
    let text = format!("{due} scheduled = {good} ok + {failed} errors + {left} unsent");
    page.key(1, |page| page.entry("Operations", &text));
    if late > 0 {
        let deadline = summary.settings.load.as_ref().and_then(words::deadline);
        let deadline = deadline.map(|limit| format!(" of {limit}")).unwrap_or_default();
        let (late, share) = (grouped(late), percent(late, ok));
        let text =
            format!("{late} late: {share} % of the ok answers came after the deadline{deadline}");
        page.entry("", &text);
    }
    if unsent > 0 && summary.connections.counts.opened > 0 {
        page.quiet(13, &why_unsent(summary));
    }
    for (title, statuses) in [
        ("Status", &summary.answers.status),
        ("gRPC status", &summary.answers.grpc_status),
        ("Close codes", &summary.answers.ws_close),
    ] {
        let answer =
            |(code, count): (&String, &u64)| format!("{}: {}", clean(code), grouped(*count));
        page.entry_counts(title, &statuses.iter().map(answer).collect::<Vec<_>>());
    }
    if let Some(pushed) = summary.answers.pushed.map(|pushed| pushed.counts) {
        let (messages, payload) = (grouped(pushed.messages), bytes(pushed.bytes));
        let surplus = match pushed.surplus {
            0 => String::new(),
            more => format!("; {} more came than were sent", grouped(more)),
        };
        let text = format!("{messages} unrequested messages, {payload} of payload{surplus}");
        page.entry("Pushed", &text);
    }
    if let Some(delivered) = &summary.answers.deliveries {
        page.key(1, |page| deliveries(page, delivered));
    }
    page.key(1, |page| page.entry_items("Pings", &keep_alive(summary.answers.pings)));
    let StreamCounts { goaways, resets_received, resets_sent, requeued, blocked, .. } =
        summary.answers.streams;
    let counts: Vec<_> = [
        ("GOAWAY received", goaways),
        ("reset by the server", resets_received),
        ("given up", resets_sent),
        ("given up waiting for the server's flow-control window", blocked),
        ("sent again", requeued),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(what, count)| format!("{what} {}", grouped(count)))
    .collect();
    page.entry_counts("Streams", &counts)
}

/// Pings of MQTT beside operations.
pub(super) fn keep_alive(pings: PingCounts) -> Vec<String> {
    let PingCounts { sent, answered, server_keep_alive_s: stated_s } = pings;
    let mut items = Vec::new();
    if sent > 0 {
        items.push(format!("{} to keep connections alive", grouped(sent)));
        items.push(format!("{} of these answered", grouped(answered)));
    }
    if stated_s > 0 {
        items.push(format!("the broker's keep-alive is {stated_s} s"));
    }
    items
}

/// Writes the fate of the messages that the load published and subscribed to.
fn deliveries(page: &mut Page, summary: &DeliverySummary) {
    let counts = &summary.counts;
    let lost = match counts.unknown {
        0 => "lost",
        _ => "lost at least",
    };
    page.entry_counts(
        "Delivered",
        &[
            format!("{} of {}", grouped(counts.delivered), grouped(counts.expected)),
            format!("{lost} {}", grouped(summary.lost)),
            format!("duplicated {}", grouped(summary.duplicated)),
            format!("reordered {}", grouped(counts.reordered)),
        ],
    );
    let notes = [
        (counts.unknown, "may have come of publishes that were refused or not acknowledged"),
        (counts.unclassified, "came so late that they may be duplicates"),
        (counts.foreign, "were published by others"),
    ];
    occurred(notes).for_each(|note| page.quiet(13, &note))
}

/// Writes failed operations by class, then failed connection attempts and lost connections, each class with its reasons
/// and what to do.
pub(crate) fn errors(page: &mut Page, summary: &Summary) {
    let ConnectionCounts { opened, failed, .. } = summary.connections.counts;
    // In a load, what was lost in use is among the errors.
    let (lost_title, lost) = match summary.result.hold() {
        Some(hold) => ("Lost connections", &hold.loss_classes),
        None => ("Lost while idle", &summary.failures.lost_idle_classes),
    };
    let mut explained: Vec<&str> = Vec::new();
    for (title, classes, total) in [
        ("Errors", &summary.failures.error_classes, summary.operations.scheduled),
        ("Failed connects", &summary.failures.connection_error_classes, opened + failed),
        (lost_title, lost, opened),
    ] {
        if classes.is_empty() {
            continue;
        }
        page.blank();
        page.heading(&format!("{title:20}{:>10}{:>10}  whose fault", "count", "share %"));
        for (name, count) in most_first(classes) {
            let known = hints::class_named(name);
            let fault = known.map_or("", hints::fault);
            let share = percent(count, total);
            page.line(&format!("  {:18}{:>10}{share:>10}  {fault}", clean(name), grouped(count)));
            // A class explained above is not explained again; what an operation should do about a
            // reset is no advice for a connection that was idle.
            let is_loss_of_peer = std::ptr::eq(classes, lost)
                && known.is_none_or(|class| class.fault() != Fault::Local);
            let has_reasons = summary.failures.error_reasons.contains_key(name);
            if !explained.contains(&name) && (!is_loss_of_peer || has_reasons) {
                for paragraph in reasons::paragraphs(name, summary) {
                    page.quiet(4, &paragraph);
                }
                explained.push(name);
            } else if is_loss_of_peer
                && let Some(remedy) = known.and_then(|class| reasons::lost_idle(class, summary))
            {
                page.quiet(4, remedy);
            }
        }
    }
    noted(page, summary, &explained);
    page.blank()
}

/// Writes the reasons of classes in which no operation and no connection has ended.
fn noted(page: &mut Page, summary: &Summary, explained: &[&str]) {
    let others =
        summary.failures.error_reasons.keys().filter(|name| !explained.contains(&name.as_str()));
    for (index, name) in others.enumerate() {
        if index == 0 {
            page.blank();
            page.heading("Also noted");
        }
        for paragraph in reasons::paragraphs(name, summary) {
            page.hanging(Tone::Quiet, &format!("  {}:", clean(name)), &paragraph);
        }
    }
}

/// Returns the classes that occurred, the most frequent first.
pub(crate) fn most_first(classes: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut rows: Vec<_> = classes.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    rows
}

/// Writes connections, handshakes and bytes.
pub(crate) fn server_side(page: &mut Page, summary: &Summary) {
    let ConnectionSummary { counts: c, lost_idle, lost_in_use } = &summary.connections;
    let mut items = vec![
        format!("{} opened", grouped(c.opened)),
        format!("{} failed", grouped(c.failed)),
        format!("at most {} held at once", grouped(c.held_max)),
        format!("{} at the end", grouped(c.held_end)),
    ];
    items.extend(occurred([
        (*lost_idle, "lost while idle"),
        (*lost_in_use, "lost in use"),
        (c.closed_by_peer, "closed by the server"),
        (c.reset_by_peer, "reset by the server"),
    ]));
    page.entry_items("Connections", &items);
    let h = &summary.handshakes;
    if h.counts != HandshakeCounts::default() {
        let full = grouped(h.counts.full);
        let items = [
            match h.counts.rsa {
                0 => format!("{full} full"),
                rsa if rsa == h.counts.full => format!("{full} full, with an RSA certificate"),
                rsa => format!("{full} full, {} of them with an RSA certificate", grouped(rsa)),
            },
            format!("{} resumed", grouped(h.counts.resumed)),
            format!("{} failed", grouped(h.counts.failed)),
            format!("at most {}/s", grouped(h.per_s_max)),
        ];
        page.entry_items("Handshakes", &items);
    }
    page.entry(
        "Bytes",
        &format!("{} sent, {} received", bytes(summary.bytes.sent), bytes(summary.bytes.received)),
    )
}

/// Writes the server's announcements, the cost of making the load, and plimsoll's own lateness.
pub(crate) fn generator(page: &mut Page, summary: &Summary) {
    announced(page, summary);
    let quantiles = |lag: &LagQuantiles| {
        format!("p50 {}, p99 {}, max {}", ms(lag.p50), ms(lag.p99), ms_text(lag.max))
    };
    let lag = &summary.operations.send_lag_ms;
    let lag_text = match lag.max {
        Some(_) => format!("send lag, plimsoll's own delay: {}", quantiles(lag)),
        None if summary.bytes.sent > 0 => "send lag was not measured".to_owned(),
        None => "nothing was sent".to_owned(),
    };
    page.entry("Generator", &lag_text);
    let lag = &summary.operations.receive_lag_ms;
    if lag.max.is_some() {
        page.entry("", &format!("receive lag, arrival to reading: {}", quantiles(lag)));
    }
    let g = &summary.generator;
    let sent = summary.operations.scheduled.saturating_sub(summary.operations.unsent);
    let mut items = Vec::new();
    if sent > 0 && lag.max.is_some() {
        let us = (g.cpu_user_s + g.cpu_system_s) * 1e6 / sent as f64;
        // Few requests over many connections: then the figure is not that of a request.
        let opening = summary.connections.counts.opened.saturating_mul(10) > sent;
        let what = if opening { ", opening connections included" } else { "" };
        let (noun, what) = match summary.settings.has_load(LoadSettings::opens_connections) {
            true => ("handshake", ""),
            false if has_deliveries(summary) => ("delivery", what),
            false => ("request", what),
        };
        items.push(format!("{us:.1} us CPU per {noun}{what}"));
    }
    items.push(format!("busiest thread {} % of a CPU", cpu_percent(g.busiest_thread)));
    items.push(counted(g.processes.into(), "process"));
    items.push(counted(g.threads.into(), "thread"));
    if g.rss_bytes_max > 0 {
        items.push(format!("{} memory", bytes(g.rss_bytes_max)));
    }
    page.entry_items("", &items);
    sources_lost(page, summary);
    load_hosts(page, summary)
}

/// Writes the watched sources that could not be read at the end. A comparison starts its servers afresh, so that their
/// ends are no finding.
fn sources_lost(page: &mut Page, summary: &Summary) {
    if matches!(summary.result, RunResult::Compare { .. }) {
        return;
    }
    let hosts = &summary.machines.hosts;
    let lost = hosts.iter().flat_map(|(name, host)| {
        let on = if hosts.len() > 1 { format!("{}: ", clean(name)) } else { String::new() };
        host.sources_lost.iter().map(move |lost| format!("{on}{}", source_lost(&lost.source())))
    });
    page.entry_lines("Sources", lost);
}

/// A host whose operations are sent so late is named.
const LATE_MS: f64 = 1.0;

/// Writes the other hosts that made the load: how well they began together, and which were lost.
fn load_hosts(page: &mut Page, summary: &Summary) {
    let hosts = &summary.machines.load_hosts;
    let most = |of: fn(&LoadHostSummary) -> f64| {
        let hosts = hosts.iter().map(|(name, host)| (clean(name), host, of(host)));
        hosts.max_by(|one, other| one.2.total_cmp(&other.2))
    };
    let Some((name, worst, bound_ms)) = most(|host| host.clock_bound_ms) else { return };
    let threads: u64 = hosts.values().map(|host| u64::from(host.threads)).sum();
    let all =
        format!("{} with {}", counted(hosts.len() as u64, "host"), counted(threads, "thread"));
    page.entry("Hosts", &all);
    let [bound, round_trip] = [bound_ms, worst.round_trip_ms].map(|value| ms(Some(value)));
    let text = format!(
        "each began within {bound} ms of the common instant (bound; {name} by a round trip of {round_trip} ms)"
    );
    page.entry("", &text);
    let drift = most(|host| host.clock_drift_ms.abs());
    if let Some((name, _, drift_ms)) = drift.filter(|(_, _, drift_ms)| *drift_ms > 0.0) {
        let by = ms(Some(drift_ms));
        page.entry("", &format!("clocks drifted by at most {by} ms in a load ({name})"));
    }
    let latest = most(|host| host.send_lag_p99_ms.unwrap_or(0.0));
    if let Some((name, host, lag_ms)) = latest.filter(|(_, _, lag_ms)| *lag_ms >= LATE_MS) {
        let (lag, busy) = (ms(Some(lag_ms)), cpu_percent(host.busiest_thread));
        let text = format!(
            "{name} sent latest: 99 % within {lag} ms of the instant, its busiest thread at {busy} % of a CPU"
        );
        page.entry("", &text);
    }
    for (name, host) in hosts {
        if let Some(how) = &host.lost {
            page.entry("", &format!("lost: {} {}", clean(name), clean(how)));
        }
    }
}

/// Writes the settings that shape the measurement.
pub(crate) fn settings(page: &mut Page, summary: &Summary) {
    let rows = words::rows(&summary.settings);
    let items = rows.iter().map(|(name, value)| format!("{name} {}", clean(value)));
    page.entry_items("Settings", &items.collect::<Vec<_>>())
}

/// Writes the checks that did not pass, each with what it saw.
pub(crate) fn checks(page: &mut Page, reasons: &[Check]) {
    // Operations that our timers ended are listed among the errors, with advice.
    let told = |check: &Check| check.level == Level::Warn && check.id == CheckId::OwnTimers;
    let notable: Vec<_> =
        reasons.iter().filter(|check| check.level != Level::Pass && !told(check)).collect();
    if notable.is_empty() {
        return;
    }
    page.blank();
    page.heading("Checks that did not pass");
    for check in &notable {
        finding(page, check.level, &findings::line(check));
        if let Some(hint) = check.id.hint() {
            page.quiet(8, hint);
        }
    }
    let failed = |c: &&Check| c.level == Level::Fail && hints::needs_more_generator(&c.id);
    if notable.into_iter().any(|check| failed(&check)) {
        page.quiet(2, hints::MORE_GENERATOR);
    }
}

/// Writes what a check has found behind the word for its level.
pub(super) fn finding(page: &mut Page, level: Level, text: &str) {
    let word = match level {
        Level::Pass => "  pass",
        Level::Warn => "  WARN",
        Level::Fail => "  FAIL",
    };
    page.hanging(level.into(), word, text)
}

/// Returns the word for a verdict in its colour, for a table.
pub(super) fn verdict_cell(page: &Page, verdict: Verdict) -> String {
    page.paint(verdict.into(), &format!("{:7}", verdict_word(verdict)))
}

/// Returns the validity checks of loads, in the order of their table.
fn validity() -> impl Iterator<Item = &'static CheckId> {
    CheckId::NAMED.iter().filter(|id| id.family() == Family::Validity)
}

/// Writes the validity checks that passed, each with what it saw, and those that could not be made.
pub(crate) fn passed(page: &mut Page, reasons: &[Check]) {
    let made = |id: &CheckId| reasons.iter().find(|check| check.id == *id);
    let passed = |check: &&Check| check.level == Level::Pass;
    let rows = validity().filter_map(|id| {
        let check = made(id).filter(passed)?;
        Some((id, findings::seen_and_limit(check)))
    });
    passed_rows(page, "Checks that passed", rows.collect());
    not_made(page, |id| made(id).is_some())
}

/// Writes the validity checks of a search's trials: how often each passed, and where it was closest to not
/// passing.
pub(crate) fn passed_by_trials(page: &mut Page, trials: &[TrialRecord]) {
    let checks = |id: &'static CheckId| {
        trials.iter().filter_map(move |trial| {
            let check = trial.judgement.reasons.iter().find(|check| check.id == *id)?;
            Some((trial.measurement.request.number, check))
        })
    };
    let rows = validity().filter_map(|id| {
        let levels = [(Level::Pass, "passed"), (Level::Warn, "warned"), (Level::Fail, "failed")];
        let counts = levels.map(|(level, word)| {
            (checks(id).filter(|(_, check)| check.level == level).count(), word)
        });
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        // Of equals the last: the search ends where it matters.
        let (trial, worst) = checks(id).max_by_key(|(_, check)| check.level)?;
        let text = format!("{}; trial {trial}: ", counts.join(", "));
        Some((id, text + &findings::seen_and_limit(worst)))
    });
    let worst = |trial: &TrialRecord| {
        let validity = |check: &&Check| check.id.family() == Family::Validity;
        trial.judgement.reasons.iter().filter(validity).map(|check| check.level).max()
    };
    let count = |level| trials.iter().filter(|trial| worst(trial) == Some(level)).count();
    let title = format!(
        "Validity checks (of {} trials, {} failed and {} warned)",
        trials.len(),
        count(Level::Fail),
        count(Level::Warn)
    );
    passed_rows(page, &title, rows.collect());
    not_made(page, |id| checks(id).next().is_some())
}

fn passed_rows(page: &mut Page, title: &str, rows: Vec<(&CheckId, String)>) {
    if rows.is_empty() {
        return;
    }
    page.blank();
    page.heading(title);
    for (id, text) in rows {
        page.hanging(Tone::Quiet, &format!("  {:18}", format!("{}:", id.name())), &text);
    }
}

/// Names the validity checks for which nothing was seen.
fn not_made(page: &mut Page, is_made: impl Fn(&'static CheckId) -> bool) {
    // These are only made when there is something to say.
    let always =
        |id: &&CheckId| !matches!(id, CheckId::OwnTimers | CheckId::Pool | CheckId::Unrequested);
    let missing: Vec<_> = validity().filter(always).filter(|id| !is_made(id)).collect();
    if missing.is_empty() || missing.len() == validity().filter(always).count() {
        return;
    }
    let names: Vec<_> = missing.into_iter().map(|id| id.name()).collect();
    page.quiet(2, &format!("Not checked, for lack of observations: {}", names.join(", ")))
}

/// Writes notes, if there are any.
pub(super) fn notes(page: &mut Page, notes: impl IntoIterator<Item = impl AsRef<str>>) {
    for (index, note) in notes.into_iter().enumerate() {
        if index == 0 {
            page.blank();
            page.heading("Notes");
        }
        page.hanging(Tone::Quiet, "  -", &clean(note.as_ref()));
    }
}

/// Writes the place of the archive.
pub(crate) fn archive(page: &mut Page, summary: &Summary) {
    if let Some(dir) = &summary.archive {
        page.blank();
        page.entry("Archive", &clean(dir));
        page.quiet(13, &format!("to draw it again: plimsoll report {}", clean(dir)));
        if summary.repeat.is_some() {
            page.quiet(13, &format!("one search: plimsoll report {}/search-1", clean(dir)))
        }
    }
}
