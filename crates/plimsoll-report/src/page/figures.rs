//! The figures of a page by kind of result: chart, texts, switches, and rows of the table.
//!
//! Each [`Figure`] is a constant with the name by which the page's program finds its drawing in `assets/`, and the
//! [`Rows`] of its table. The lists `LOAD`, `RATE_SEARCH` and so on assign figures to the [`Section`]s of the page;
//! [`figures()`] selects the list by the kind of result and the axis. [`title`] replaces the fixed subject by a
//! sentence about the run once the run has ended. Start reading at [`figures()`].

use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::search::Axis;
use plimsoll_model::summary::Summary;
use serde_json::Value;

use super::sentences;
use super::table::{Rows, rows};
use crate::digest::{cycles, search};
use crate::view::View;

/// The section of the page with a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Main,
    Time,
    Distribution,
    Cause,
}

/// A switch of a figure, and its values; the first holds at the start.
pub(super) type Choice = (&'static str, &'static [&'static str]);

/// A kind of figure; the page's program draws it by its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) chart: &'static str,
    /// Title of a figure without a finding.
    subject: &'static str,
    /// Explanation of the drawing and its marks.
    pub(super) about: &'static str,
    /// Why there is nothing to draw.
    pub(super) missing: &'static str,
    pub(super) choices: &'static [Choice],
    pub(super) rows: Option<Rows>,
}

const TIPPING: Figure = Figure {
    chart: "tipping",
    subject: "Latency against load",
    about: "Each mark is one trial: the quantile of the goal at the load that was offered, with its 95 % interval, and the median \
            of the same trial below it. The line goes through the medians of the trials that met the SLO.",
    missing: "No trial was finished, so there is nothing to draw.",
    choices: &[("trials", &["all", "near"])],
    rows: Some(rows!("trials":
        "trial" Count "number", "phase" Text "phase", "load" Count "load",
        "verdict" Verdict "verdict", "p50" Ms "quantiles.p50" Most, "p99" Ms "quantiles.p99" Most,
        "length" Seconds "seconds", "why" Text "why")),
};

const GOODPUT: Figure = Figure {
    chart: "goodput",
    subject: "Good answers against offered load",
    about: "Each mark is one trial: answers that came in time against the load that was offered. On the thin diagonal, \
            everything that was offered was answered; a collapse after an overload falls away from it.",
    missing: "No trial was finished, so there is nothing to draw.",
    choices: &[],
    rows: Some(rows!("trials":
        "trial" Count "number", "load" Count "load", "good answers" PerS "goodput" Least,
        "verdict" Verdict "verdict")),
};

const COURSE: Figure = Figure {
    chart: "course",
    subject: "Course of the search",
    about: "Each mark is one trial at its time; the bar behind it is as long as the trial. The lines are the highest load that had \
            met the SLO by then, and the lowest above it that had not.",
    missing: "No trial was finished, so there is nothing to draw.",
    choices: &[],
    rows: Some(rows!("trials":
        "trial" Count "number", "start" Seconds "start_s", "length" Seconds "seconds",
        "phase" Text "phase", "load" Count "load", "verdict" Verdict "verdict")),
};

const RATE: Figure = Figure {
    chart: "rate",
    subject: "Operations over time",
    about: "Operations that came due, that were sent, and that were answered well, each second.",
    missing: "No second of load was recorded.",
    choices: &[],
    rows: Some(rows!("seconds":
        "time" Seconds "t", "offered" PerS "offered" Most, "sent" PerS "sent" Least,
        "good" PerS "ok" Least, "late" PerS "late" Most, "unsent" PerS "unsent" Most)),
};

const LATENCY: Figure = Figure {
    chart: "latency",
    subject: "Latency over time",
    about: "How many of a second's operations took how long: the darker on a light page, the more. Corrected latency counts from the \
            intended start, uncorrected latency from the actual send. What failed or was not sent has no latency and is marked above.",
    missing: "No operation was answered, so there is no latency to draw.",
    choices: &[("kind", &["corrected", "uncorrected"])],
    rows: Some(rows!("seconds":
        "time" Seconds "t", "p50" Ms "corrected.p50" Most, "p90" Ms "corrected.p90" Most,
        "p99" Ms "corrected.p99" Most, "p99.9" Ms "corrected.p999" Most,
        "max" Ms "corrected.max" Most, "uncorrected p99" Ms "uncorrected.p99" Most)),
};

const PERCENTILES: Figure = Figure {
    chart: "percentiles",
    subject: "Distribution of latency",
    about: "Which share of the good answers was at least as fast as the latency on the left; to the right each step is ten times rarer. \
            The curve must pass below the corner of the goal.",
    missing: "No operation was answered, so there is no distribution.",
    choices: &[("scale", &["log", "linear"])],
    rows: Some(rows!("spectrum.corrected":
        "share" Quantile "0", "corrected latency" Ms "1" Most, "operations" Count "2" Most)),
};

const ERRORS: Figure = Figure {
    chart: "errors",
    subject: "Errors over time",
    about: "A row for each class of error that occurred; the height of a mark grows with the logarithm of the number in that second.",
    missing: "No operation failed, and none was left unsent.",
    choices: &[],
    rows: Some(rows!("seconds":
        "time" Seconds "t", "unsent" Count "unsent" Most, "" Count "errors.*" Most)),
};

const CONNECTIONS: Figure = Figure {
    chart: "connections",
    subject: "Connections over time",
    about: "Connections held, counted on the client's side, and those opened each second; crosses are connections that were lost.",
    missing: "No connection was held.",
    choices: &[],
    rows: Some(rows!("seconds":
        "time" Seconds "t", "held" Count "held" Least, "opened" Count "opened" Most,
        "lost" Count "lost" Most)),
};

const HELD: Figure = Figure {
    about: "Connections held, counted on the client's side, how many there were to be by then (thin), and those opened each second; \
            crosses are connections that were lost.",
    rows: Some(rows!("seconds":
        "time" Seconds "t", "asked" Count "asked", "held" Count "held" Least,
        "opened" Count "opened" Most, "lost" Count "lost" Most)),
    ..CONNECTIONS
};

const MEMORY: Figure = Figure {
    chart: "memory",
    subject: "Memory against connections",
    about: "Each point is a level at which the connections were held and idle: memory above the baseline without connections. The dashed \
            line projects it to the limit, between the ends of its 95 % interval; below it, where every other resource would run out.",
    missing: "Memory could not be read at any level.",
    choices: &[],
    rows: Some(rows!("summary.hold.plateaus":
        "held" Count "held", "client each" Bytes "user_bytes_per_connection" Most,
        "SUT each" Bytes "sut_bytes_per_connection" Most,
        "kernel each" Bytes "kernel_bytes_per_connection" Most,
        "machine each" Bytes "machine_bytes_per_connection" Most,
        "available" Bytes "available_bytes" Least, "answered" Count "answered" Least)),
};

const CYCLES: Figure = Figure {
    chart: "cycles",
    subject: "Memory of the server after each cycle",
    about: "What the server still used after each drain. Growth is measured from the cycle on at which the slope has settled (dashed).",
    missing: "The server's memory could not be read.",
    choices: &[],
    rows: Some(rows!("summary.hold.cycles.readings":
        "cycle" Count "cycle", "held" Count "held", "server, full" Bytes "full_bytes" Most,
        "server, drained" Bytes "processes" Most, "pools in use" Bytes "pools-used" Most,
        "pools allocated" Bytes "pools-allocated" Most, "open files" Count "open-files" Most,
        "threads" Count "threads" Most)),
};

const STORMS: Figure = Figure {
    chart: "storms",
    subject: "Recovery against the size of the storm",
    about: "Each mark is one storm: the time until the last client was back, against the number of connections that were cut. \
            A storm at the top was ended before all were back. Storms with jitter are in the table only.",
    missing: "No storm was made.",
    choices: &[],
    rows: Some(rows!("summary.storm.storms":
        "storm" Count "trial", "cut" Count "cut", "jitter" Seconds "jitter_s" Most,
        "all back after" Seconds "recovered_s" Most,
        "missing" Count "missing" Most, "attempts" Count "attempts" Most, "given up" Count "gave_up" Most,
        "refused" Count "refused" Most, "lost of the others" Count "lost" Most,
        "p99 of the others" Ms "p99_ms" Most, "verdict" Verdict "verdict")),
};

const RECOVERY: Figure = Figure {
    chart: "recovery",
    subject: "Recovery, second by second",
    about: "Clients that are not back, second by second, in the largest storm that was GOOD and in the smallest that was not (of those \
            that do not end, if there was one); below, TLS handshakes, and the latency of the connections that were not cut.",
    missing: "No storm was made.",
    choices: &[],
    rows: None,
};

/// The figure of each host.
pub(super) const HOST: Figure = Figure {
    chart: "host",
    subject: "Host",
    about: "Read once a second on this host; the time of each trial is shaded, and limits are drawn in where they are near. Established \
            connections are ends: a connection within this host counts twice. CPU speed is the speed of a fixed piece of work \
            (system calls and memory), 100 % in the median second of the run.",
    missing: "This host was not read.",
    choices: &[],
    rows: Some(rows!("hosts.*":
        "host" Text "*", "time" Seconds "t", "established" Count "established" Most,
        "packets in" PerS "packets_in" Most, "packets out" PerS "packets_out" Most,
        "bytes in" BytesPerS "bytes_in" Most, "bytes out" BytesPerS "bytes_out" Most,
        "memory available" Bytes "memory_available" Least,
        "busiest core" Share "cpu_busiest" Most, "all cores" Share "cpu" Most,
        "CPU speed" Share "speed" Least)),
};

const CLIFFS: Figure = Figure {
    chart: "cliffs",
    subject: "Hidden timers",
    about: "A flag stands where many operations or connections ended after the same time: a timer, of the server or of something before it.",
    missing: "No hidden timer was met by this load.",
    choices: &[],
    rows: Some(rows!("summary.cliffs":
        "after" Ms "at_ms", "of" Text "stretch", "count" Count "count" Most,
        "share" Share "share" Most, "whose" Text "owner", "how sure" Text "confidence",
        "name" Text "label", "evidence" Text "evidence")),
};

const CONFIRMATION: Figure = Figure {
    chart: "confirmation",
    subject: "Test of the cause",
    about: "Each row is a pair of loads, one with the limit lowered and one without: the change that was predicted before the first \
            pair, and the change that was measured.",
    missing: "The cause was not tested (--confirm-cause).",
    choices: &[],
    rows: None,
};

const FOREST: Figure = Figure {
    chart: "forest",
    subject: "B against A",
    about: "B against A for each figure: the median over the rounds and its interval. The grey band is what a comparison of A with itself \
            would show.",
    missing: "Too few rounds gave a figure on both sides.",
    choices: &[],
    rows: Some(rows!("summary.compare.others":
        "figure" Text "metric", "A" Count "difference.a", "B" Count "difference.b",
        "B/A" Count "difference.ratio", "from" Count "difference.ratio_low",
        "to" Count "difference.ratio_high", "finding" Text "difference.finding")),
};

const ROUNDS: Figure = Figure {
    chart: "rounds",
    subject: "Rounds",
    about: "Each pair is one round, A left and B right; below it their ratio in order of time, which shows a drift.",
    missing: "No round was finished.",
    choices: &[],
    rows: Some(rows!("summary.compare.rounds":
        "round" Count "number", "first" Text "first", "A" Count "a.value", "B" Count "b.value",
        "B/A" Count "ratio", "A invalid" Text "a.invalid", "B invalid" Text "b.invalid")),
};

const KPIS: Figure = Figure {
    chart: "kpis",
    subject: "Key performance indicators by object",
    about: "For each object the load that the case reports, the lowest load that failed above it, and the target; below, the KPI of \
            the case in each second of the sustain phase.",
    missing: "No object was measured.",
    choices: &[],
    rows: Some(rows!("summary.rfc9411.results":
        "object" Text "object", "load" Count "load", "target" Count "target",
        "failed load" Count "failed_load", "unit" Text "unit",
        "connections" Count "kpis.concurrent_tcp_connections",
        "TCP connections" PerS "kpis.tcp_connections_per_second",
        "transactions" PerS "kpis.application_transactions_per_second",
        "TTLB average" Ms "kpis.ttlb_rfc9411_ms.avg", "verdict" Verdict "verdict")),
};

const OVERLAY_BOUNDS: Figure = Figure {
    chart: "overlay_bounds",
    subject: "Tipping points of the runs",
    about: "The interval of each run's tipping point; a dash-dotted line is its safe load.",
    missing: "Fewer than two of these runs are searches with bounds.",
    choices: &[],
    rows: None,
};

const OVERLAY_TIME: Figure = Figure {
    chart: "overlay_time",
    subject: "Latency over time, run over run",
    about: "A quantile of the corrected latency of each second, each run from the start of its own load.",
    missing: "Fewer than two of these runs have latency over time.",
    choices: &[("quantile", &["p99", "p50", "max"])],
    rows: LATENCY.rows,
};

const OVERLAY_RATIO: Figure = Figure {
    chart: "overlay_ratio",
    subject: "Latency of B against A by share of operations",
    about: "Latency of B over latency of A, for each share of the operations.",
    missing: "A ratio is drawn for two runs whose operations were answered.",
    choices: &[],
    rows: None,
};

/// The figures of a page that lays several runs over each other.
pub(super) const OVERLAY: [(Section, Figure); 4] = [
    (Section::Main, OVERLAY_BOUNDS),
    (Section::Time, OVERLAY_TIME),
    (Section::Distribution, PERCENTILES),
    (Section::Distribution, OVERLAY_RATIO),
];

/// The figures of a page, each with its section.
type Figures = &'static [(Section, Figure)];

macro_rules! figures {
    ($($section:ident: $($figure:ident),+;)+) => { &[$($((Section::$section, $figure)),+),+] };
}

const LOAD: Figures = figures!(
    Main: LATENCY; Time: RATE, ERRORS, CONNECTIONS; Distribution: PERCENTILES; Cause: CLIFFS;
);

const RATE_SEARCH: Figures = figures!(
    Main: TIPPING, GOODPUT, COURSE; Time: RATE, LATENCY, ERRORS, CONNECTIONS;
    Distribution: PERCENTILES; Cause: CONFIRMATION, CLIFFS;
);

const STORM_SEARCH: Figures = figures!(
    Main: STORMS, RECOVERY; Time: HELD, LATENCY, ERRORS; Distribution: PERCENTILES;
);

const CONNECTION_SEARCH: Figures = figures!(
    Main: TIPPING, GOODPUT, COURSE, MEMORY; Time: HELD, LATENCY, ERRORS;
    Distribution: PERCENTILES; Cause: CLIFFS;
);

const CYCLED_HOLD: Figures = figures!(
    Main: CYCLES, HELD; Time: RATE, LATENCY, ERRORS; Distribution: PERCENTILES; Cause: CLIFFS;
);

const HOLD: Figures = figures!(
    Main: HELD, MEMORY; Time: RATE, LATENCY, ERRORS; Distribution: PERCENTILES; Cause: CLIFFS;
);

const COMPARISON: Figures = figures!(
    Main: FOREST, ROUNDS; Time: RATE, LATENCY, ERRORS; Distribution: PERCENTILES;
);

const SIZING: Figures = figures!(Time: RATE, LATENCY, ERRORS;);

const RFC9411: Figures = figures!(
    Main: KPIS; Time: RATE, LATENCY, ERRORS, CONNECTIONS; Distribution: PERCENTILES;
);

/// Returns the figures of a run in the order of the page; the hosts come after them.
pub(super) fn figures(view: &View) -> Figures {
    let hold = view.summary.as_ref().and_then(|summary| summary.result.hold());
    match (view.head.kind, view.head.axis) {
        (RunKind::Load, _) => LOAD,
        (RunKind::Search, Some(Axis::Connections)) => CONNECTION_SEARCH,
        (RunKind::Search, Some(Axis::Storm)) => STORM_SEARCH,
        (RunKind::Search, _) => RATE_SEARCH,
        (RunKind::Hold, _) if hold.is_some_and(|hold| hold.cycles.is_some()) => CYCLED_HOLD,
        (RunKind::Hold, _) => HOLD,
        (RunKind::Compare, _) => COMPARISON,
        (RunKind::Sizing, _) => SIZING,
        (RunKind::Rfc9411, _) => RFC9411,
    }
}

/// Returns a figure's finding for this run; its subject if the run has not ended.
pub(super) fn title(figure: &Figure, summary: Option<&Summary>) -> String {
    let Some(summary) = summary else { return figure.subject.to_owned() };
    let result = &summary.result;
    // One sentence about latency and rate describes one load only.
    let is_one_load = matches!(result, RunResult::Load | RunResult::Hold { .. });
    match figure.chart {
        "tipping" => result.find().map(search::title),
        "course" => result.find().map(sentences::course),
        "rate" if *result == RunResult::Load => Some(sentences::rate(summary)),
        "latency" if is_one_load => Some(sentences::latency(summary)),
        "percentiles" if is_one_load || result.find().is_some() => {
            Some(sentences::percentiles(summary))
        }
        "errors" if is_one_load => Some(sentences::errors(summary)),
        "connections" if is_one_load || result.hold().is_some() => {
            Some(sentences::connections(summary))
        }
        "memory" => result.hold().map(sentences::memory),
        "cycles" => result.hold().and_then(|hold| Some(cycles::sentence(hold.cycles.as_ref()?))),
        "cliffs" => Some(sentences::cliffs(summary)),
        "forest" => sentences::comparison(summary),
        _ => None,
    }
    .unwrap_or_else(|| figure.subject.to_owned())
}

/// Returns the tables of all figures for the page's script: heading and path of each column.
pub(super) fn tables<'a>(figures: impl Iterator<Item = &'a Figure>) -> Value {
    let rows = figures.filter_map(|figure| Some((figure.chart, figure.rows?)));
    let map = rows.map(|(chart, rows)| (chart.to_owned(), serde_json::json!(rows)));
    Value::Object(map.collect())
}
