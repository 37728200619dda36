//! One page of a watched host: limits, graphs, CPUs, servers, events, and values that cannot be read.
//!
//! [`page()`] draws the last interval of a [`History`]; rates are differences between its two readings, and a graph
//! has a column for each of the last 24 intervals, scaled to the largest. Until the second reading arrives the page
//! only says that it waits. The 4 fullest limits are listed. The functions visible to the crate, such as
//! [`limit_text`] and [`servers`], also word the screen (`tui/watched.rs`). Start reading at [`page()`].

use std::iter::{once, repeat};

use plimsoll_model::host::{
    Change, Label, LimitUse, Metric, Missing, Reading, fullest_limits, limits,
};
use plimsoll_model::trial::Unit;
use plimsoll_model::units::grouped;

use super::events::{busiest_thread, cpus_now, events, rate_text, traffic};
use super::history::History;
use super::sources::sources_down;
use crate::terminal::layout::{Page, Style, Tone, bars, bytes, clean, cpu_percent, span};

/// Columns of a graph.
const GRAPH_COLUMNS: usize = 24;
/// Limits shown.
const LIMITS_SHOWN: usize = 4;
/// The most lines of values that cannot be read.
const MISSING_SHOWN: usize = 4;
/// Limits fuller than these are shown in the colours of a warning and of a failure.
const NEARLY_FULL: f64 = 0.7;
const FULL: f64 = 0.9;

/// Draws the state of `host` after the last reading of `history`.
pub fn page(style: Style, host: &str, history: &History) -> String {
    let mut page = Page::new(style);
    page.heading(host);
    let Some(change) = history.change() else {
        page.entry("", "Waiting for the second reading.");
        return page.into_text();
    };
    let reading = change.after();
    show_lines(&mut page, "Sources", sources_down(reading).into_iter().map(|of| (Tone::Bad, of)));
    let limits = fullest_limits(reading, LIMITS_SHOWN);
    let limits = limits.iter().map(|limit| (limit_tone(limit), limit_text(limit, history)));
    show_lines(&mut page, "Limits", limits);
    show_graphs(&mut page, history, &change);
    show_cpus(&mut page, history, &change);
    for (server, items) in servers(&change) {
        page.entry_counts(server, &items);
    }
    let events = events(&change);
    let events = (!events.is_empty()).then(|| (Tone::Bad, events.join("; ")));
    show_lines(&mut page, "Events", events);
    show_missing(&mut page, &change);
    page.into_text()
}

/// Draws lines with a name before the first.
fn show_lines(page: &mut Page, name: &str, lines: impl IntoIterator<Item = (Tone, String)>) {
    for (name, (tone, line)) in once(name).chain(repeat("")).zip(lines) {
        page.hanging(tone, &format!("{name:11}"), &line);
    }
}

/// Returns the tone of a limit by its use.
pub(crate) fn limit_tone(limit: &LimitUse) -> Tone {
    match limit.fraction() {
        fraction if fraction >= FULL => Tone::Bad,
        fraction if fraction >= NEARLY_FULL => Tone::Warn,
        _ => Tone::Strong,
    }
}

/// Returns `open files of haproxy: 16,000 of 20,000 used (80 %), full in 2.00 s at this rate`.
pub(crate) fn limit_text(limit: &LimitUse, history: &History) -> String {
    format!(
        "{}: {} of {} used ({} %){}",
        clean(&limit.id.to_string()),
        limit_amount(limit, limit.used),
        limit_amount(limit, limit.max),
        cpu_percent(limit.fraction()),
        ends(limit, history)
    )
}

/// Formats an amount of a limited resource with its unit.
pub(crate) fn limit_amount(limit: &LimitUse, value: f64) -> String {
    match limit.id.kind.unit() {
        Unit::Bytes => bytes(value as u64),
        _ => grouped(value as u64),
    }
}

/// Describes when the limit is reached if its use continues to grow as in the last intervals.
fn ends(limit: &LimitUse, history: &History) -> String {
    let left = history.slope().and_then(|(before, change)| {
        let mut earlier = limits(before);
        let earlier = earlier.find(|known| known.id == limit.id)?;
        limit.seconds_left(&earlier, change.seconds())
    });
    // A slope of ten seconds says nothing of the next hour.
    match left.filter(|seconds| *seconds > 0.0 && *seconds < 600.0) {
        Some(seconds) => format!(", full in {} at this rate", span(seconds.ceil())),
        None => String::new(),
    }
}

fn show_graphs(page: &mut Page, history: &History, change: &Change<'_>) {
    let reading = change.after();
    let graph = |of: &dyn Fn(&Change<'_>) -> Option<f64>| graph(history, of);
    if let Some(established) = reading.sum(Metric::TcpEstablished, &[]) {
        let bars = graph(&|change| change.after().sum(Metric::TcpEstablished, &[]));
        let opens = change.rate(Metric::TcpOpens, &[]).unwrap_or(0.0);
        let established = grouped(established as u64);
        show_graph(
            page,
            "Established",
            &bars,
            &format!("{established}, {}/s new", rate_text(opens)),
        );
    }
    for (prefix, loopback) in [("", false), ("lo ", true)] {
        let now = traffic(change, loopback);
        if now.is_none() {
            continue;
        }
        let bars = graph(&|change| {
            let traffic = traffic(change, loopback);
            Some(traffic.packets_in + traffic.packets_out)
        });
        let (packets_in, packets_out) = (rate_text(now.packets_in), rate_text(now.packets_out));
        let text = format!("in {packets_in}/s, out {packets_out}/s");
        show_graph(page, &format!("{prefix}packets"), &bars, &text);
        let bars = graph(&|change| {
            let traffic = traffic(change, loopback);
            Some(traffic.bytes_in + traffic.bytes_out)
        });
        let (bytes_in, bytes_out) = (bytes(now.bytes_in as u64), bytes(now.bytes_out as u64));
        let text = format!("in {bytes_in}/s, out {bytes_out}/s");
        show_graph(page, &format!("{prefix}bytes"), &bars, &text);
    }
    if let Some(available) = reading.sum(Metric::MemoryAvailableBytes, &[]) {
        let used = |change: &Change<'_>| {
            let sum = |metric| change.after().sum(metric, &[]);
            Some(sum(Metric::MemoryTotalBytes)? - sum(Metric::MemoryAvailableBytes)?)
        };
        let bars = graph(&used);
        let slab = reading.sum(Metric::MemorySlabBytes, &[]).unwrap_or(0.0);
        let text = format!(
            "{} used, {} left, {} slab",
            bytes(used(change).unwrap_or(0.0) as u64),
            bytes(available as u64),
            bytes(slab as u64)
        );
        show_graph(page, "Memory", &bars, &text);
    }
}

fn show_graph(page: &mut Page, label: &str, bars: &str, text: &str) {
    let label = page.paint(Tone::Strong, &format!("{label:11}"));
    page.line(&format!("{label}  {bars:GRAPH_COLUMNS$}  {text}").replace('\u{a0}', " "))
}

/// Returns a column for each of the last intervals, from 0 to the largest of them.
fn graph(history: &History, of: &dyn Fn(&Change<'_>) -> Option<f64>) -> String {
    let values: Vec<f64> = history.changes().map(|change| of(&change).unwrap_or(0.0)).collect();
    bars(&values, GRAPH_COLUMNS, false)
}

fn show_cpus(page: &mut Page, history: &History, change: &Change<'_>) {
    let mut cpus = cpus_now(history);
    cpus.sort_by(|a, b| b.busy.total_cmp(&a.busy));
    let mut items = Vec::new();
    for cpu in cpus.iter().take(8) {
        let mut text = format!("{}: {} %", cpu.number, cpu_percent(cpu.busy));
        for (name, part) in [("softirq", cpu.softirq), ("steal", cpu.steal)] {
            if part >= 0.01 {
                text.push_str(&format!(" ({name} {} %)", cpu_percent(part)));
            }
        }
        if let Some(speed) = cpu.speed {
            text.push_str(&format!(" (speed {} %)", cpu_percent(speed)));
        }
        items.push(text.replace(' ', "\u{a0}"));
    }
    if !items.is_empty() {
        page.entry_items("CPU", &items);
    }
    if let Some((thread, busy, delay)) = busiest_thread(change) {
        let text = format!(
            "{}: {} % of a CPU, ready but waiting for one {} % of the time",
            clean(&thread),
            cpu_percent(busy),
            cpu_percent(delay)
        );
        page.entry("Busiest", &text);
    }
}

/// Returns the figures that servers report of themselves.
pub(crate) fn servers(change: &Change<'_>) -> Vec<(&'static str, Vec<String>)> {
    let reading = change.after();
    let mut servers = Vec::new();
    if let Some(connections) = reading.sum(Metric::HaproxyCurrentConnections, &[]) {
        let requests = change.rate(Metric::HaproxyRequests, &[]).unwrap_or(0.0);
        let queued = reading.sum(Metric::HaproxyQueued, &[]).unwrap_or(0.0);
        let keys = reading.sum(Metric::HaproxyKeyRate, &[]).unwrap_or(0.0);
        let mut items = vec![
            format!("{} connections", grouped(connections as u64)),
            format!("{} requests/s", rate_text(requests)),
            format!("{} TLS keys/s", rate_text(keys)),
            format!("{} queued", grouped(queued as u64)),
        ];
        let idle = reading.of(Metric::HaproxyIdleRatio, &[]).map(|sample| sample.value);
        items.extend(idle.reduce(f64::min).map(|idle| format!("{:.0} % idle", 100.0 * idle)));
        servers.push(("HAProxy", items));
    }
    let nginx = [(Label::State, "active")];
    if let Some(active) = reading.sum(Metric::NginxConnections, &nginx) {
        let requests = change.rate(Metric::NginxRequests, &[]).unwrap_or(0.0);
        let connections = format!("{} connections", grouped(active as u64));
        servers.push(("nginx", vec![connections, format!("{} requests/s", rate_text(requests))]));
    }
    servers
}

fn show_missing(page: &mut Page, change: &Change<'_>) {
    let missing = missing(change.after());
    for line in missing.iter().take(MISSING_SHOWN) {
        page.quiet(0, line);
    }
    if missing.len() > MISSING_SHOWN {
        page.quiet(0, &format!("Not read: {} more", missing.len() - MISSING_SHOWN));
    }
    page.quiet(0, &cost(change))
}

/// Returns a line for each part of a source that could not be read.
pub(crate) fn missing(reading: &Reading) -> Vec<String> {
    let is_part = |one: &&Missing| !reading.sources_down().any(|of| of.to_string() == one.source);
    let line = |one: &Missing| clean(&format!("Not read: {}: {}", one.source, one.reason));
    reading.missing.iter().filter(is_part).map(line).collect()
}

/// Returns the cost of reading, and whether it keeps up.
pub(crate) fn cost(change: &Change<'_>) -> String {
    let cost = change.rate(Metric::WatchCostSeconds, &[]).unwrap_or(0.0);
    let missed = change.after().sum(Metric::WatchMissed, &[]).unwrap_or(0.0);
    let late = if missed > 0.0 { format!("; {missed} readings came late") } else { String::new() };
    format!("Reading this costs {:.2} % of a CPU{late}.", cost * 100.0)
}
