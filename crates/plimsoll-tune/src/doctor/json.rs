//! `plimsoll.doctor/1`: the limits as one JSON object.

use serde::Serialize;

use super::need::{Need, Setting, Unit, Verdict};
use super::needs::Needs;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    connections: u64,
    /// `true` if no limit would stop them.
    ok: bool,
    /// The most connections that this host can hold.
    fits: u64,
    limits: Vec<LimitLine<'a>>,
}

#[derive(Serialize)]
struct LimitLine<'a> {
    name: &'a str,
    unit: &'static str,
    /// `null` if the kernel does not report it.
    present: Option<u64>,
    needed: u64,
    /// `null` if the limit is not known.
    ok: Option<bool>,
    /// Effect of the limit: connections fail, or become slower.
    effect: &'static str,
    /// The most connections that it allows; `null` for a limit that stops none.
    fits: Option<u64>,
    lift: Option<&'a str>,
    persist: Vec<PersistLine>,
}

#[derive(Serialize)]
struct PersistLine {
    file: &'static str,
    line: String,
}

impl Needs {
    /// Returns one pretty-printed object and a newline; the worst limit first.
    pub fn json(&self) -> String {
        let document = Document {
            schema: "plimsoll.doctor/1",
            connections: self.connections,
            ok: self.are_met(),
            fits: self.fits(),
            limits: self.worst_first().into_iter().map(line).collect(),
        };
        // Strings, numbers and lists of them can always be written.
        serde_json::to_string_pretty(&document).map_or_else(|_| String::new(), |text| text + "\n")
    }
}

fn line(need: &Need) -> LimitLine<'_> {
    let settings = need.fix.iter().flat_map(|fix| &fix.settings).map(Setting::kept);
    LimitLine {
        name: &need.limit,
        unit: match need.unit {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
        },
        present: need.have,
        needed: need.need,
        ok: match need.verdict {
            Verdict::Ok => Some(true),
            Verdict::Warn | Verdict::Short => Some(false),
            Verdict::Unknown => None,
        },
        effect: if need.stops { "stops" } else { "slows" },
        fits: need.stops.then_some(need.fits),
        lift: need.fix.as_ref().map(|fix| fix.now.as_str()),
        persist: settings.map(|(file, line)| PersistLine { file, line }).collect(),
    }
}
