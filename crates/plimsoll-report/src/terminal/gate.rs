//! The findings of a gate against a baseline, in words.
//!
//! [`GateLine::of`] turns a [`GateFinding`], or the reason why two runs cannot be compared, into a text and one of
//! the words pass, WARN, FAIL and NONE; [`render_gate`] writes the lines of a [`GateReport`] below the report. The
//! results are decided in `plimsoll-capacity`; only the words are made here. A change is shown in percent, or in
//! percentage points if the metric is a share. Start reading at [`sentence`].

use plimsoll_model::Nanos;
use plimsoll_model::gate::{
    Gate, GateFinding, GateMethod, GateMetric, GateResult, HostEffect, Incomparable, Side,
};
use plimsoll_model::units::grouped;

use super::layout::{Page, Style, Tone, clean, per_s, trimmed};
use crate::settings::{Rows, rows};
use crate::unsettled::reason;

/// One gate and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct GateLine {
    /// The gate as `--gate` spells it: `safe<-5%`.
    pub gate: String,
    /// End of the gate; `None` if the runs cannot be compared by it.
    pub result: Option<GateResult>,
    /// The finding, or the reason why there is none.
    pub text: String,
}

/// Every gate of a run against one baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateReport {
    /// The baseline's name.
    pub baseline: String,
    /// Remarks on the pair.
    pub notes: Vec<String>,
    /// In the order of the flags.
    pub lines: Vec<GateLine>,
}

impl GateLine {
    /// Makes the line of a gate.
    pub fn of(gate: &Gate, found: &Result<GateFinding, Incomparable>) -> Self {
        let (result, text) = match found {
            Ok(finding) => (Some(finding.result), sentence(finding)),
            Err(why) => (None, refusal(why)),
        };
        Self { gate: gate.to_string(), result, text }
    }

    /// Returns the result in a word.
    pub const fn word(&self) -> &'static str {
        match self.result {
            Some(GateResult::Pass) => "pass",
            Some(GateResult::Warn) => "WARN",
            Some(GateResult::Fail) => "FAIL",
            None => "NONE",
        }
    }
}

/// Writes the gates below a report.
pub fn render_gate(report: &GateReport, style: Style) -> String {
    let mut page = Page::new(style);
    page.blank();
    page.heading(&format!("Against the baseline {}", clean(&report.baseline)));
    for line in &report.lines {
        let tone = match line.result {
            Some(GateResult::Pass) => Tone::Good,
            Some(GateResult::Warn) | None => Tone::Warn,
            Some(GateResult::Fail) => Tone::Bad,
        };
        let text = format!("{}: {}", line.gate, clean(&line.text));
        page.hanging(tone, &format!("  {}", line.word()), &text);
    }
    for note in &report.notes {
        page.quiet(2, &clean(note));
    }
    page.into_text()
}

/// Returns `p99 12.1 ms, 10.2 ms in the baseline: +18.6 % (interval +12 % to +25 %); …`
fn sentence(found: &GateFinding) -> String {
    let metric = found.gate.metric;
    let (run, baseline) = (figure(metric, found.run), figure(metric, found.baseline));
    let change = |value| signed(metric, value);
    let (low, high) = (change(found.change.low), change(found.change.high));
    let mut text = format!(
        "{run}, {baseline} in the baseline: {} (interval {low} to {high}, {})",
        change(found.change.value),
        method(found.method)
    );
    if let Some(host) = found.host.and_then(|host| of_host(metric, host)) {
        text += &format!("; {host}");
    }
    if found.result == GateResult::Warn {
        text += "; the interval does not rule out that it is chance";
    }
    let direction = if found.gate.is_below { "fall" } else { "rise" };
    let smallest = match found.smallest {
        Some(smallest) => format!("a {direction} from {} on", signed(metric, smallest)),
        None => format!("no {direction}"),
    };
    format!("{text}; this pair could have shown {smallest}")
}

/// Returns the effect of the host's speed on the change; `None` if the speed was the same.
fn of_host(metric: GateMetric, host: HostEffect) -> Option<String> {
    match host {
        HostEffect::Measured { is_distinct: false, .. } => None,
        HostEffect::Measured { speed, observed, .. } => {
            let (percent, word) = match speed < 1.0 {
                true => ((1.0 - speed) * 100.0, "slower"),
                false => ((speed - 1.0) * 100.0, "faster"),
            };
            let observed = signed(metric, observed);
            Some(format!(
                "the host was {} % {word} in this run: the change is the one at like speed, {observed} as measured",
                trimmed(format!("{percent:.1}"))
            ))
        }
        HostEffect::Unmeasured { widened } => Some(format!(
            "the speed of the server's host was not measured in both runs: the interval is wider by {} % at each end",
            trimmed(format!("{:.1}", widened * 100.0))
        )),
    }
}

fn method(method: GateMethod) -> String {
    match method {
        GateMethod::Stated => "edge to edge of the intervals that both runs state".to_owned(),
        GateMethod::Stretches { count } => format!("at 99 %, from {count} stretches of each run"),
        GateMethod::Slopes => "edge to edge of the slopes between the levels of both".to_owned(),
    }
}

fn figure(metric: GateMetric, value: f64) -> String {
    match metric {
        _ if metric.quantile().is_some() && value.is_infinite() => {
            format!("{} among the failed operations", metric.name())
        }
        _ if metric.quantile().is_some() => {
            format!("{} {}", metric.name(), Nanos::from_secs_f64(value))
        }
        GateMetric::Errors => {
            format!("errors {} %", trimmed(format!("{:.4}", value * 100.0)))
        }
        GateMetric::MachineBytes
        | GateMetric::SutBytes
        | GateMetric::KernelBytes
        | GateMetric::UserBytes => format!("{} B a connection", grouped(value as u64)),
        _ => per_s(value),
    }
}

/// Returns `+12.3 %`, `-0.02 pp`.
fn signed(metric: GateMetric, change: f64) -> String {
    if change.is_infinite() {
        return "no bound".to_owned();
    }
    let (unit, decimals) = if metric.is_in_points() { ("pp", 4) } else { ("%", 1) };
    let number = trimmed(format!("{:.decimals$}", change.abs() * 100.0));
    let sign = if change < 0.0 { "-" } else { "+" };
    let sign = if number == "0" { "" } else { sign };
    format!("{sign}{number} {unit}")
}

/// Returns the reason why two runs cannot be compared.
fn refusal(why: &Incomparable) -> String {
    let whose = |side: &Side| match side {
        Side::Baseline => "the baseline",
        Side::Run => "the run",
    };
    let differs = |what: &str, baseline: &str, run: &str| {
        let (baseline, run) = (clean(baseline), clean(run));
        format!("the runs cannot be compared: {what} is {run}, and {baseline} in the baseline")
    };
    match why {
        Incomparable::Differs { what, baseline, run } => differs(what, baseline, run),
        Incomparable::Settings(settings) => {
            let [baseline, run] = settings.each_ref().map(|one| rows(one));
            let mut names = baseline.keys().chain(run.keys());
            let Some(name) = names.find(|name| baseline.get(*name) != run.get(*name)) else {
                let why = "a setting differs by less than reports show";
                return format!("the runs cannot be compared: {why}");
            };
            let value = |rows: &Rows| rows.get(name).map_or("not set", String::as_str).to_owned();
            differs(name, &value(&baseline), &value(&run))
        }
        Incomparable::NoInterval { side, metric, why } => {
            format!("{} has no interval of {}: {why}", whose(side), metric.name())
        }
        Incomparable::Invalid { side } => {
            format!("{} is INVALID: the generator, not the server, shaped it", whose(side))
        }
        Incomparable::Unsettled { side, why } => {
            format!("{} claims no interval: {}", whose(side), reason(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::settings::{LoadSettings, Settings, Starts};

    use super::*;
    use crate::fixtures;

    #[test]
    fn the_first_setting_that_differs_is_named() {
        let words = |change: fn(&mut LoadSettings)| {
            let mut run = fixtures::settings(&fixtures::plan());
            let baseline = run.clone();
            run.load.as_mut().into_iter().for_each(change);
            refusal(&Incomparable::Settings([baseline, run].map(Box::<Settings>::new)))
        };
        let expected =
            "the runs cannot be compared: arrivals is uniform, and poisson in the baseline";
        assert_eq!(words(|load| load.arrivals = Starts::Uniform), expected);
        let expected = "the runs cannot be compared: stages is 2, and not set in the baseline";
        assert_eq!(words(|load| load.stages = Some(2)), expected);
        let expected = "the runs cannot be compared: a setting differs by less than reports show";
        assert_eq!(words(|load| load.linger_s += 1e-10), expected);
    }
}
