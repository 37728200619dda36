//! The answer of cycles: whether the server keeps more memory after each of them.

use plimsoll_model::cycles::{CycleReading, CyclesSummary, CyclesVerdict, Growth, KeptPart};
use plimsoll_model::trial::Unit;
use plimsoll_model::units::grouped;

use crate::terminal::layout::{bytes, trimmed, whole};

/// Returns the answer in one or two sentences.
pub(crate) fn sentence(cycles: &CyclesSummary) -> String {
    let each = format!(
        "per cycle of {}",
        whole(&format!("{} connections", grouped(cycles.connections.round() as u64)))
    );
    let count = grouped(cycles.count);
    let growth = cycles.growth_bytes_per_cycle;
    let memory = match (growth, cycles.verdict) {
        _ if cycles.count == 0 => return "No cycle was completed.".to_owned(),
        (_, CyclesVerdict::Unmeasured) => {
            return "The memory of the server could not be read after the cycles.".to_owned();
        }
        (Some(growth), CyclesVerdict::Grows) if growth.low > 0.0 => format!(
            "The server's memory grows by {} {each}, from cycle {} on ({count} cycles).{}",
            range(growth, Unit::Bytes),
            cycles.settled_from,
            outside_of_pools(cycles)
        ),
        (Some(growth), CyclesVerdict::Grows | CyclesVerdict::NoGrowth) => format!(
            "The server's memory shows no growth above {} {each} ({count} cycles).",
            bytes(growth.high.max(0.0).ceil() as u64)
        ),
        (growth, _) => {
            let so_far = growth.map_or_else(String::new, |growth| {
                format!(", {} {each}", range(growth, Unit::Bytes))
            });
            let more = cycles.more_cycles.map_or_else(String::new, |more| {
                format!(": make {} more (--cycles {})", grouped(more), cycles.count + more)
            });
            format!(
                "Whether the server's memory grows is undecided after {count} cycles{so_far}{more}."
            )
        }
    };
    let numbers = [KeptPart::OpenFiles, KeptPart::Threads].into_iter().filter_map(|part| {
        let series = cycles.parts.get(part.name()).filter(|series| series.grows)?;
        Some(format!(" Its {} grow by {} {each}.", name(part), range(series.growth?, Unit::Count)))
    });
    memory + &numbers.collect::<String>()
}

/// Returns the places that are left if HAProxy's own pools do not grow.
fn outside_of_pools(cycles: &CyclesSummary) -> &'static str {
    match cycles.parts.get(KeptPart::PoolsUsed.name()) {
        Some(pools) if !pools.grows => {
            " HAProxy's pools do not grow: it is the TLS session cache, which grows until it is full, the allocator or a library."
        }
        _ => "",
    }
}

/// Returns `12.1 to 14.9 MB`, `-3 to 9 kB`.
pub(crate) fn range(growth: Growth, unit: Unit) -> String {
    let (low, high) = (amount(growth.low, unit), amount(growth.high, unit));
    if low == high { low } else { format!("{low} to {high}") }
}

/// Returns `-4.10 kB`, `3`.
pub(crate) fn amount(value: f64, unit: Unit) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    match unit {
        Unit::Bytes => format!("{sign}{}", bytes(value.abs().round() as u64)),
        _ => format!("{sign}{}", trimmed(format!("{:.1}", value.abs()))),
    }
}

/// Returns the words for a part.
pub(crate) const fn name(part: KeptPart) -> &'static str {
    match part {
        KeptPart::Processes => "memory of all processes",
        KeptPart::Process => "memory of process",
        KeptPart::PoolsUsed => "in use within HAProxy's pools",
        KeptPart::PoolsAllocated => "allocated by HAProxy's pools",
        KeptPart::OpenFiles => "open files",
        KeptPart::Threads => "threads",
        KeptPart::Slab => "kernel objects of the host",
        KeptPart::SocketBuffers => "TCP buffers of the host",
    }
}

/// Returns the table of parts: name, after the first cycle, after the last one, growth per cycle.
pub(crate) fn rows(cycles: &CyclesSummary) -> impl Iterator<Item = [String; 4]> {
    cycles.parts.iter().filter_map(|(key, series)| {
        let part = KeptPart::named(key)?;
        let pid = key.rsplit('-').next().filter(|_| part == KeptPart::Process);
        let name = pid.map_or_else(|| name(part).to_owned(), |pid| format!("{} {pid}", name(part)));
        let of = |reading: Option<&CycleReading>| {
            let value = reading.and_then(|reading| reading.kept.get(key));
            value.map_or_else(|| "-".to_owned(), |value| amount(*value as f64, series.unit))
        };
        let growth = series.growth.map(|growth| range(growth, series.unit));
        let growth = growth.unwrap_or_else(|| "-".to_owned());
        Some([name, of(cycles.readings.first()), of(cycles.readings.last()), growth])
    })
}

/// Returns the last cycle in one line, for progress.
pub(crate) fn cycle_line(cycles: &CyclesSummary) -> String {
    let Some(last) = cycles.readings.last() else { return String::new() };
    let shown = |value: Option<u64>| value.map_or_else(|| "not readable".to_owned(), bytes);
    let kept = last.kept.get(KeptPart::Processes.name()).copied();
    let growth = cycles.growth_bytes_per_cycle.map_or_else(String::new, |growth| {
        format!("; growth {} per cycle so far", range(growth, Unit::Bytes))
    });
    let (held, full, kept) = (grouped(last.held), shown(last.full_bytes), shown(kept));
    format!("cycle {}: {held} held, server {full}, drained {kept}{growth}", last.cycle)
        .replace('\u{a0}', " ")
}
