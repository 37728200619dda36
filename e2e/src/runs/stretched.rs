//! Archives that would take hours to make, and names that nobody wishes for: the lines of a real archive
//! again and again, with the numbers and times of others.

use std::fs;

use serde_json::{Value, json};

use super::Run;

const SECOND: u64 = 1_000_000_000;
/// Between two trials, ns.
const PAUSE: u64 = SECOND / 2;

/// Texts that a page must show as they are.
pub const HOSTILE: [&str; 3] = [
    "</script><script>window.wasRun = 1</script><!--",
    "\"'><img src=x onerror=\"window.wasRun = 1\">",
    "=1+1\u{202e}|@SUM(A1)",
];

impl Run {
    /// Copies its archive without its page, which is of other figures.
    fn copied(&self, name: &'static str) -> Self {
        let run = Self::of(name, &self.archive());
        // A load leaves none.
        let _ = fs::remove_file(run.archive().join("report.html"));
        run
    }

    /// Returns a search like this one with `count` trials, GOOD up to about half of the loads, some of them INVALID.
    #[must_use]
    pub fn with_trials(&self, name: &'static str, count: u64) -> Self {
        let (trials, intervals) = (self.lines("trials.jsonl"), self.lines("intervals.jsonl"));
        let mut events = vec![json!({ "note": "SLO p99<500ms,errors<1%" })];
        let (mut new_trials, mut new_intervals) = (Vec::new(), Vec::new());
        let mut began = at(&trials[0], "/measurement/observations/began").as_u64().expect("ns");
        for number in 1..=count {
            let mut trial = trials[number as usize % trials.len()].clone();
            let own = at(&trial, "/measurement/request/number").clone();
            let load = 100.0 + 37.0 * (number * 13 % 61) as f64;
            let request = &mut trial["measurement"]["request"];
            (request["number"], request["rate"]) = (number.into(), load.into());
            let request = request.clone();
            let verdict = match number % 11 {
                0 => "invalid",
                _ if load > 1_300.0 => "bad",
                _ => "good",
            };
            trial["judgement"]["verdict"] = verdict.into();
            trial["measurement"]["observations"]["began"] = began.into();
            let planned = request["duration"].clone();
            let started = json!({ "trial": request, "planned": planned, "epoch": began });
            events.push(json!({ "load-started": started }));
            began += at(&trial, "/measurement/window").as_u64().expect("ns") + PAUSE;
            events.push(json!({ "draining": { "in_flight": 0 } }));
            for interval in intervals.iter().filter(|interval| interval["trial"] == own) {
                let mut interval = interval.clone();
                interval["trial"] = number.into();
                new_intervals.push(interval);
            }
            new_trials.push(trial);
        }
        let mut ended = self.lines("events.jsonl").pop().expect("the end of the search");
        ended["search-ended"]["trials"] = count.into();
        events.push(ended);
        let mut summary = self.json("summary.json");
        summary["find"]["trials"] = count.into();
        let run = self.copied(name);
        run.write_lines("trials.jsonl", &new_trials);
        run.write_lines("intervals.jsonl", &new_intervals);
        run.write_lines("events.jsonl", &events);
        run.write_json("summary.json", &summary);
        run
    }

    /// Returns a load like this one with this duration and this number of hosts that were read.
    #[must_use]
    pub fn lasting(&self, name: &'static str, seconds: u64, hosts: usize) -> Self {
        // Nothing came due in the last second, which ends with the last answer.
        let mut intervals = self.lines("intervals.jsonl");
        intervals.retain(|line| at(line, "/interval/tally/scheduled").as_u64() > Some(0));
        let seconds_of = |second: u64| {
            let mut interval = intervals[second as usize % intervals.len()].clone();
            interval["interval"]["second"] = second.into();
            interval
        };
        let mut summary = self.json("summary.json");
        let times = seconds as f64 / at(&summary, "/seconds").as_f64().expect("seconds");
        summary["seconds"] = json!(seconds as f64);
        for count in ["scheduled", "ok"] {
            let counted = at(&summary, &format!("/{count}")).as_f64().expect("a count");
            summary[count] = json!((counted * times).round() as u64);
        }
        let run = self.copied(name);
        let lines: Vec<_> = (0..seconds).map(seconds_of).collect();
        run.write_lines("intervals.jsonl", &lines);
        let readings = self.lines("hosts.jsonl");
        let names = (1..=hosts).map(|host| format!("host-{host}"));
        let lines: Vec<_> = names.flat_map(|host| lasting(&readings, seconds, &host)).collect();
        run.write_lines("hosts.jsonl", &lines);
        run.write_json("summary.json", &summary);
        run
    }

    /// Returns a load like this one of which nothing has a decent name.
    #[must_use]
    pub fn hostile(&self, name: &'static str) -> Self {
        let run = self.copied(name);
        let [script, image, formula] = HOSTILE;
        let target = format!("http://127.0.0.1:80/{script}{}", "x".repeat(300));
        for file in ["manifest.json", "summary.json"] {
            let mut content = run.json(file);
            content["target"] = target.clone().into();
            content["settings"]["hosts"] = image.into();
            run.write_json(file, &content);
        }
        let mut manifest = run.json("manifest.json");
        let words = manifest["command_line"].as_array_mut().expect("a list of words");
        words.extend(["-H".into(), format!("x: {script}").into(), image.into(), formula.into()]);
        manifest["host"]["cpu_model"] = image.into();
        run.write_json("manifest.json", &manifest);
        let mut summary = run.json("summary.json");
        summary["reasons"][0]["value"] = script.into();
        summary["reasons"][0]["limit"] = image.into();
        run.write_json("summary.json", &summary);
        let mut events = run.lines("events.jsonl");
        events.extend(HOSTILE.map(|text| json!({ "note": text })));
        run.write_lines("events.jsonl", &events);
        let mut readings = run.lines("hosts.jsonl");
        for reading in &mut readings {
            reading["host"] = image.into();
        }
        run.write_lines("hosts.jsonl", &readings);
        run
    }

    fn json(&self, file: &str) -> Value {
        let text = fs::read_to_string(self.archive().join(file)).expect("the archive is whole");
        serde_json::from_str(&text).expect("JSON")
    }

    fn write_json(&self, file: &str, content: &Value) {
        fs::write(self.archive().join(file), content.to_string()).expect("disk space");
    }

    fn write_lines(&self, file: &str, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.archive().join(file), text).expect("disk space");
    }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Returns the readings of a host for `seconds` seconds: the readings of the archive again and again, with counters
/// that grow.
fn lasting(lines: &[Value], seconds: u64, host: &str) -> Vec<Value> {
    let lists: Vec<_> = lines.iter().filter(|line| line.get("series").is_some()).collect();
    let series = at(lists.last().expect("a list of series"), "/series").as_array().expect("a list");
    let is_of_list = |line: &&Value| {
        line["values"].as_array().is_some_and(|values| values.len() == series.len())
    };
    // The last reading is the one at the end of the run, less than a second after the one before.
    let readings: Vec<_> = lines.iter().filter(is_of_list).rev().skip(1).collect();
    let (last, first) = (readings[0], readings[readings.len() - 1]);
    let is_counter = |index: usize| {
        series[index]["metric"].as_str().is_some_and(|name| name.ends_with("_total"))
    };
    let grown = |index: usize| {
        last["values"][index].as_f64().unwrap_or(0.0)
            - first["values"][index].as_f64().unwrap_or(0.0)
    };
    let begin = first["begin"].as_u64().expect("ns");
    let mut stretched = vec![json!({ "host": host, "series": series })];
    for second in 0..=seconds {
        let turn = second as usize / readings.len();
        let reading = readings[readings.len() - 1 - second as usize % readings.len()];
        let values = at(reading, "/values").as_array().expect("a list").iter().enumerate();
        let values: Vec<_> = values
            .map(|(index, value)| match value.as_f64() {
                Some(value) if is_counter(index) => json!(value + turn as f64 * grown(index) * 1.2),
                _ => value.clone(),
            })
            .collect();
        let now = begin + second * SECOND;
        stretched
            .push(json!({ "host": host, "begin": now, "end": now + 1_000_000, "values": values }));
    }
    stretched
}
