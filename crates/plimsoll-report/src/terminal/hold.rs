//! The report of a hold: connections held and their memory, then failures.
//!
//! [`render`] writes memory per connection for each level, projected limits, memory kept after each cycle, latency,
//! facts and errors, in this order. [`MEMORY`] has the columns of memory: bytes per connection above the baseline,
//! with `?` for a missing reading. Reports of searches for connections reuse [`costs`], [`projections`] and
//! [`closing`], and [`plateau_line`] is the progress line of a level. Start reading at [`costs`].

use plimsoll_model::hold::{Confidence, HoldSummary, Plateau, PlateauSummary, Projection};
use plimsoll_model::settings::Operation;
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::TlsMessageCounts;
use plimsoll_model::trial::Unit;
use plimsoll_model::units::grouped;

use super::layout::{Page, bytes, clean, counted, occurred, per_s, span, trimmed};
use super::{events, sections, timers};
use crate::digest::cycles::rows;

/// Writes the report of `hold` and `lab hold`.
pub(super) fn render(page: &mut Page, summary: &Summary, hold: &HoldSummary) {
    costs(page, hold);
    projections(page, hold);
    kept(page, hold);
    page.blank();
    sections::latency(page, "Latency in ms", summary);
    page.blank();
    facts(page, summary, hold);
    events::entries(page, summary);
    sections::errors(page, summary);
    sections::server_side(page, summary);
    tls_messages(page, hold);
    closing(page, summary, hold);
    timers::longest(page, summary);
    if summary.timers.cliffs.as_ref().is_some_and(|cliffs| !cliffs.is_empty()) {
        page.blank();
    }
    timers::cliffs_of_load(page, summary);
    sections::generator(page, summary);
    sections::settings(page, summary);
    sections::checks(page, &summary.reasons)
}

/// Writes one line per level: what each connection costs, and what is left.
pub(super) fn costs(page: &mut Page, hold: &HoldSummary) {
    if hold.plateaus.is_empty() {
        return page.quiet(0, "Memory could not be read at any level.");
    }
    // Where the connections are on other hosts, nothing is; the SUT's part is known where it was started here.
    let is_known = |of: MemoryOf| hold.plateaus.iter().any(|level| of(level).is_some());
    let has_memory = MEMORY.iter().any(|(_, _, of)| is_known(*of));
    let columns: Vec<&MemoryColumn> = MEMORY
        .iter()
        .filter(|(name, _, of)| is_known(*of) || has_memory && *name != "SUT")
        .collect();
    let heads = columns.iter().map(|(name, width, _)| format!("{name:>width$}"));
    page.heading(&format!("{:>10}{}{:>12}", "Held", heads.collect::<String>(), "answered"));
    for level in &hold.plateaus {
        let costs = columns.iter().map(|(_, width, of)| format!("{:>width$}", cost(of(level))));
        let (held, costs) = (grouped(level.held), costs.collect::<String>());
        page.line(&format!("{held:>10}{costs}{:>12}", answered(level)));
    }
    if !has_memory {
        return page.quiet(2, "Memory per connection is read on one host only.");
    }
    let ends = if hold.both_ends_here {
        "Both ends are on this host: kernel and machine count two sockets for each connection."
    } else {
        "The server is elsewhere: kernel and machine count this end only."
    };
    page.quiet(
        2,
        &format!(
            "Memory per connection above the baseline without connections. Client: private \
             memory of plimsoll's processes; kernel: slab; machine: all memory that is no longer \
             available, other programs included. {ends}"
        ),
    )
}

type MemoryOf = fn(&PlateauSummary) -> Option<f64>;
/// Head, width, bytes.
type MemoryColumn = (&'static str, usize, MemoryOf);

const MEMORY: [MemoryColumn; 5] = [
    ("client", 10, |level| level.per_connection.user),
    ("SUT", 10, |level| level.per_connection.sut),
    ("kernel", 10, |level| level.per_connection.kernel),
    ("machine", 10, |level| level.per_connection.machine),
    ("available", 11, |level| level.available_bytes.map(|bytes| bytes as f64)),
];

/// Returns `449 B`, or what could not be read.
fn cost(per_connection: Option<f64>) -> String {
    per_connection.map_or_else(|| "?".to_owned(), |cost| shown_bytes(cost.round() as u64))
}

/// Returns bytes for a table, where nothing is wrapped.
fn shown_bytes(count: u64) -> String {
    bytes(count).replace('\u{a0}', " ")
}

fn answered(level: &PlateauSummary) -> String {
    match level.answered {
        None => "-".to_owned(),
        Some(answered) if answered >= level.held => "all".to_owned(),
        Some(answered) => grouped(answered),
    }
}

/// Writes the projected limit of each resource, the lowest first.
pub(super) fn projections(page: &mut Page, hold: &HoldSummary) {
    if hold.projections.is_empty() {
        return;
    }
    page.blank();
    let columns = format!("{:>12}{:>14}{:>14}", "each", "connections", "at least");
    page.heading(&format!("{:26}{columns}  confidence", "Projected limits"));
    let mut rows: Vec<_> = hold.projections.iter().collect();
    rows.sort_by_key(|row| row.ends_at.unwrap_or(u64::MAX));
    for row in rows {
        let count = |end: Option<u64>| end.map_or_else(|| "never".to_owned(), grouped);
        page.line(&format!(
            "  {:24}{:>12}{:>14}{:>14}  {}",
            clean(&row.resource.to_string()),
            each(row),
            count(row.ends_at),
            count(row.ends_at_min),
            confidence(row)
        ));
    }
    page.quiet(2, "Linear projections; 3 to 5 % of the memory are kept free.")
}

/// Writes the parts that the server kept after each cycle, one line each.
pub(super) fn kept(page: &mut Page, hold: &HoldSummary) {
    let Some(cycles) = hold.cycles.as_ref().filter(|cycles| !cycles.parts.is_empty()) else {
        return;
    };
    page.blank();
    let columns = |[name, first, last, growth]: &[String; 4]| {
        format!("{name:32}{first:>12}{last:>12}{growth:>24}").replace('\u{a0}', " ")
    };
    let heads = ["Kept after each drain", "cycle 1", "last cycle", "growth per cycle"];
    page.heading(&columns(&heads.map(str::to_owned)));
    for row in rows(cycles) {
        page.line(&columns(&row));
    }
    page.quiet(2, "Growth: slope of Theil and Sen with its interval of 90 %, from the cycle on at which the slope has settled.")
}

fn each(row: &Projection) -> String {
    if row.unit == Unit::Bytes {
        return shown_bytes(row.per_connection.round() as u64);
    }
    trimmed(format!("{:.2}", row.per_connection))
}

fn confidence(row: &Projection) -> String {
    let word = row.confidence.name();
    if row.confidence == Confidence::Exact {
        return word.to_owned();
    }
    let bend = if row.superlinear { ", grows faster than the connections" } else { "" };
    format!("{word}, {} levels{bend}", row.points)
}

/// Writes the facts: ramp, requests, replacements.
pub(super) fn facts(page: &mut Page, summary: &Summary, hold: &HoldSummary) {
    if hold.ramp_s > 0.0 {
        let ramp = format!("{}, {} on average", span(hold.ramp_s), per_s(hold.ramp_per_s));
        page.key(1, |page| page.entry("Ramp", &ramp));
    }
    let beats = &hold.beats;
    let mut items = vec![
        format!("{} sent", grouped(beats.sent)),
        format!("{} answered", grouped(beats.answered)),
        format!("{} late", grouped(beats.late)),
    ];
    items.extend(occurred([
        (beats.unsent, "not sent, the one before was still open"),
        (beats.lost, "not sent, their connection was lost"),
    ]));
    items.push(match hold.heartbeat_s {
        Some(every) => format!("one per connection every {}", span(every)),
        None => "no heartbeats, sweeps only".to_owned(),
    });
    items.extend(sections::keep_alive(summary.answers.pings));
    let are_pings = summary.settings.has_load(|load| load.operation == Operation::Ping);
    let label = if are_pings { "Pings" } else { "Requests" };
    page.key(1, |page| page.entry_items(label, &items));
    if hold.paused_s > 0.0 {
        let paused = span(hold.paused_s);
        page.entry("Paused", &format!("{paused}, by a key, while connections were opened"));
    }
    if hold.replaced > 0 {
        page.entry("Replaced", &counted(hold.replaced, "connection"));
    }
}

pub(super) fn tls_messages(page: &mut Page, hold: &HoldSummary) {
    let TlsMessageCounts { tickets, key_updates_received, key_updates_sent } = hold.tls_messages;
    if tickets + key_updates_received + key_updates_sent == 0 {
        return;
    }
    page.entry_items(
        "TLS",
        &[
            format!("{} tickets", grouped(tickets)),
            format!("{} key updates received", grouped(key_updates_received)),
            format!("{} sent", grouped(key_updates_sent)),
        ],
    )
}

/// Writes the end of connections here, and their source addresses.
pub(super) fn closing(page: &mut Page, summary: &Summary, hold: &HoldSummary) {
    let hosts = &summary.machines.load_hosts;
    let sources = match (hosts.len() as u64, hold.sources) {
        (0, 0) => "the address that the kernel chose".to_owned(),
        (0, 1) => "one address".to_owned(),
        (0, count) => format!("{} addresses", grouped(count)),
        (hosts, _) => format!("{}, by the address that the kernel chose", counted(hosts, "host")),
    };
    if hold.ports_per_source == 0 {
        // A killed run: its connections were not closed.
        return page.entry("From", &sources);
    }
    let most = hosts.values().filter_map(|host| host.ports_per_source).max();
    let fewest = if most > Some(hold.ports_per_source) { "at least " } else { "" };
    let from = format!(
        "{sources}, {fewest}{} ports each; closed by RST at the end, so that no TIME_WAIT is left",
        grouped(hold.ports_per_source)
    );
    page.entry("From", &from)
}

/// Returns the costs of a connection of a level: `client 278 B, SUT 266 B, kernel 8.51 kB, machine 9.74 kB for each
/// connection`.
pub(super) fn costs_of(level: &PlateauSummary) -> String {
    let each = MEMORY.iter().filter(|(name, ..)| *name != "available");
    let known = each.filter_map(|(name, _, of)| Some(format!("{name} {}", cost(Some(of(level)?)))));
    let known: Vec<String> = known.collect();
    match known.is_empty() {
        true => "could not be read".to_owned(),
        false => format!("{} for each connection", known.join(", ")),
    }
}

/// Returns one level in one line, for progress.
pub(crate) fn plateau_line(
    plateau: &Plateau,
    baseline: &plimsoll_model::hold::MemoryReading,
) -> String {
    let level = PlateauSummary::new(plateau, baseline);
    let mut parts = vec![format!("{} held", grouped(level.held))];
    let known = MEMORY[..3].iter().filter_map(|(name, _, of)| Some((name, of(&level)?)));
    parts.extend(known.map(|(name, figure)| format!("{name} {}", cost(Some(figure)))));
    let left = level.available_bytes.map(|left| format!("{} available", shown_bytes(left)));
    parts.extend(left);
    parts.push(format!("answered: {}", answered(&level)));
    parts.join(", ")
}
