//! One line for one interval, where no page can be drawn.

use plimsoll_model::host::{Metric, fullest_limits};
use plimsoll_model::stats::mean;
use plimsoll_model::units::grouped;

use super::events::{busiest_thread, cpus_now, events, rate_text, traffic};
use super::history::History;
use super::sources::first_sources_down;
use crate::terminal::layout::{bytes, cpu_percent};
use crate::time_text::rfc3339;

/// Limits that are filled less than this are not worth a place in the line.
const WORTH_SHOWING: f64 = 0.5;

/// Returns the last interval of `history`; `None` before the second reading.
pub fn line(history: &History, unix_s: u64) -> Option<String> {
    let change = history.change()?;
    let reading = change.after();
    let mut items = vec![rfc3339(unix_s)];
    items.extend(first_sources_down(reading));
    if let Some(established) = reading.sum(Metric::TcpEstablished, &[]) {
        items.push(format!("{} established", grouped(established as u64)));
    }
    if let Some(opens) = change.rate(Metric::TcpOpens, &[]) {
        items.push(format!("{}/s new", rate_text(opens)));
    }
    for (name, loopback) in [("", false), ("loopback ", true)] {
        let traffic = traffic(&change, loopback);
        if !traffic.is_none() {
            items.push(format!(
                "{name}in {}/s {} packets/s, out {}/s {} packets/s",
                bytes(traffic.bytes_in as u64),
                rate_text(traffic.packets_in),
                bytes(traffic.bytes_out as u64),
                rate_text(traffic.packets_out)
            ));
        }
    }
    let cpus = cpus_now(history);
    if let Some(mean) = mean(cpus.iter().map(|cpu| cpu.busy)) {
        let most = cpus.iter().map(|cpu| cpu.busy).fold(0.0, f64::max);
        let slowest = cpus.iter().filter_map(|cpu| cpu.speed).reduce(f64::min);
        let speed = slowest.map_or_else(String::new, |speed| {
            format!(", speed {} % of the median", cpu_percent(speed))
        });
        items.push(format!("CPU {} %, busiest {} %{speed}", cpu_percent(mean), cpu_percent(most)));
    }
    if let Some((thread, busy, _)) = busiest_thread(&change) {
        items.push(format!("{thread} {} %", cpu_percent(busy)));
    }
    if let Some(available) = reading.sum(Metric::MemoryAvailableBytes, &[]) {
        items.push(format!("{} memory available", bytes(available as u64)));
    }
    for limit in fullest_limits(reading, 1) {
        if limit.fraction() >= WORTH_SHOWING {
            let percent = cpu_percent(limit.fraction());
            items.push(format!("{} {percent} % used", limit.id));
        }
    }
    items.extend(events(&change));
    Some(items.join("; ").replace('\u{a0}', " "))
}
