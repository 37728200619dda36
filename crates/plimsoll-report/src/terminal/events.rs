//! Events of a load and their effects, one entry each.

use plimsoll_model::disruption::{DisruptionSummary, OldProcess};
use plimsoll_model::summary::Summary;
use plimsoll_model::units::grouped;

use super::layout::{Page, bytes, clean, counted, occurred, span, trimmed};

/// Below this share of a latency, the rest is this program's own delay, which is stated.
const SERVERS_SHARE: f64 = 0.9;

/// Writes an entry for each event.
pub(super) fn entries(page: &mut Page, summary: &Summary) {
    page.key(3, |page| {
        summary.events.iter().for_each(|event| page.entry_items("Event", &items(event)))
    })
}

/// Returns `reload at 10 s: no connection lost`, `972 closed cleanly`, `p99 19 to 31 ms for 3.9 s`, `old process 1234
/// gone after 41 s`.
fn items(event: &DisruptionSummary) -> Vec<String> {
    let what = format!("{} at {}", clean(&event.what), span(event.at_s));
    if let Some(why) = &event.failed {
        return vec![format!("{what} failed: {}", clean(why))];
    }
    let lost = match event.lost {
        0 => "no connection lost".to_owned(),
        lost => format!("{} lost ({})", counted(lost, "connection"), classes(&event.lost_classes)),
    };
    let mut items = vec![format!("{what}: {lost}")];
    let ends =
        [(event.finished, "closed cleanly"), (event.reset, "reset"), (event.moved, "opened again")];
    items.extend(occurred(ends));
    if event.errors > 0 {
        let errors = counted(event.errors, "operation");
        items.push(format!("{errors} failed ({})", classes(&event.error_classes)));
    }
    let ms = |ms: f64| trimmed(format!("{ms:.1}"));
    if let (Some(before), Some(during)) = (event.p99_ms.before, event.p99_ms.during) {
        let rise = format!("p99 {} to {} ms", ms(before), ms(during));
        items.push(match event.disturbed_s {
            Some(0.0) => format!("p99 {} ms as before", ms(before)),
            Some(seconds) => format!("{rise} for {}", span(seconds)),
            None => format!("{rise}, not over by the next event or the end"),
        });
        let is_disturbed = event.disturbed_s != Some(0.0);
        let is_ours = |undelayed: &f64| is_disturbed && *undelayed < during * SERVERS_SHARE;
        if let Some(undelayed) = event.p99_ms.undelayed.filter(is_ours) {
            items.push(format!("{} ms without plimsoll's own delay", ms(undelayed)));
        }
    } else if let Some(seconds) = event.disturbed_s.filter(|seconds| *seconds > 0.0) {
        items.push(format!("over after {}", span(seconds)));
    }
    if event.took_s >= 0.1 {
        items.push(format!("done after {}", span(event.took_s)));
    }
    items.extend(event.old_processes.iter().map(old_process));
    items
}

fn classes(classes: &std::collections::BTreeMap<String, u64>) -> String {
    let each = classes.iter().map(|(class, count)| format!("{} {}", grouped(*count), clean(class)));
    each.collect::<Vec<_>>().join(", ")
}

fn old_process(old: &OldProcess) -> String {
    let end = match old.ended_after_s {
        Some(seconds) => format!("gone after {}", span(seconds)),
        None => "still there at the end".to_owned(),
    };
    let memory = old.bytes.map_or_else(String::new, |memory| format!(", {}", bytes(memory)));
    let files =
        old.open_files.map_or_else(String::new, |files| format!(", {} open files", grouped(files)));
    let kept = if memory.is_empty() && files.is_empty() {
        String::new()
    } else {
        format!(" (after 1 s{memory}{files})")
    };
    let cpu = old.cpu_s.map_or_else(String::new, |cpu| format!(", {} of CPU time", span(cpu)));
    format!("old process {} {end}{kept}{cpu}", old.pid)
}
