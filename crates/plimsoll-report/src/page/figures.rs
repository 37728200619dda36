//! The figures of a page by kind of result: what each draws, why it may be empty, and the rows of its table.

use plimsoll_model::result::RunResult;
use plimsoll_model::search::Axis;
use plimsoll_model::summary::Summary;
use serde_json::Value;

use super::sentences;
use super::table::{Column, Rows, Thin, Unit};
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
    /// Explanation of the drawing and its marks.
    pub(super) about: &'static str,
    /// Why there is nothing to draw.
    pub(super) missing: &'static str,
    pub(super) choices: &'static [Choice],
    pub(super) rows: Option<Rows>,
}

const fn column(heading: &'static str, unit: Unit, path: &'static str, thin: Thin) -> Column {
    Column { heading, unit, path, thin }
}

const TIME: Column = column("time", Unit::Seconds, "t", Thin::Last);

const TIPPING: Figure = Figure {
    chart: "tipping",
    about: "Each mark is one trial: the quantile of the goal at the load that was offered, with its 95 % interval, and the median \
            of the same trial below it. The line goes through the medians of the trials that met the SLO.",
    missing: "No trial was finished, so there is nothing to draw.",
    choices: &[("trials", &["all", "near"])],
    rows: Some(Rows {
        source: "trials",
        columns: &[
            column("trial", Unit::Count, "number", Thin::Last),
            column("phase", Unit::Text, "phase", Thin::Last),
            column("load", Unit::Count, "load", Thin::Last),
            column("verdict", Unit::Verdict, "verdict", Thin::Last),
            column("p50", Unit::Ms, "quantiles.p50", Thin::Most),
            column("p99", Unit::Ms, "quantiles.p99", Thin::Most),
            column("length", Unit::Seconds, "seconds", Thin::Last),
            column("why", Unit::Text, "why", Thin::Last),
        ],
    }),
};

const GOODPUT: Figure = Figure {
    chart: "goodput",
    about: "Each mark is one trial: answers that came in time against the load that was offered. On the thin diagonal, \
            everything that was offered was answered; a collapse after an overload falls away from it.",
    missing: "No trial was finished, so there is nothing to draw.",
    choices: &[],
    rows: Some(Rows {
        source: "trials",
        columns: &[
            column("trial", Unit::Count, "number", Thin::Last),
            column("load", Unit::Count, "load", Thin::Last),
            column("good answers", Unit::PerS, "goodput", Thin::Least),
            column("verdict", Unit::Verdict, "verdict", Thin::Last),
        ],
    }),
};

const COURSE: Figure = Figure {
    chart: "course",
    about: "Each mark is one trial at its time; the bar behind it is as long as the trial. The lines are the highest load that had \
            met the SLO by then, and the lowest above it that had not.",
    missing: "No trial was finished, so there is nothing to draw.",
    choices: &[],
    rows: Some(Rows {
        source: "trials",
        columns: &[
            column("trial", Unit::Count, "number", Thin::Last),
            column("start", Unit::Seconds, "start_s", Thin::Last),
            column("length", Unit::Seconds, "seconds", Thin::Last),
            column("phase", Unit::Text, "phase", Thin::Last),
            column("load", Unit::Count, "load", Thin::Last),
            column("verdict", Unit::Verdict, "verdict", Thin::Last),
        ],
    }),
};

const RATE: Figure = Figure {
    chart: "rate",
    about: "Operations that came due, that were sent, and that were answered well, each second.",
    missing: "No second of load was recorded.",
    choices: &[],
    rows: Some(Rows {
        source: "seconds",
        columns: &[
            TIME,
            column("offered", Unit::PerS, "offered", Thin::Most),
            column("sent", Unit::PerS, "sent", Thin::Least),
            column("good", Unit::PerS, "ok", Thin::Least),
            column("late", Unit::PerS, "late", Thin::Most),
            column("unsent", Unit::PerS, "unsent", Thin::Most),
        ],
    }),
};

const LATENCY: Figure = Figure {
    chart: "latency",
    about: "How many of a second's operations took how long: the darker on a light page, the more. Corrected latency counts from the \
            intended start, uncorrected latency from the actual send. What failed or was not sent has no latency and is marked above.",
    missing: "No operation was answered, so there is no latency to draw.",
    choices: &[("kind", &["corrected", "uncorrected"])],
    rows: Some(Rows {
        source: "seconds",
        columns: &[
            TIME,
            column("p50", Unit::Ms, "corrected.p50", Thin::Most),
            column("p90", Unit::Ms, "corrected.p90", Thin::Most),
            column("p99", Unit::Ms, "corrected.p99", Thin::Most),
            column("p99.9", Unit::Ms, "corrected.p999", Thin::Most),
            column("max", Unit::Ms, "corrected.max", Thin::Most),
            column("uncorrected p99", Unit::Ms, "uncorrected.p99", Thin::Most),
        ],
    }),
};

const PERCENTILES: Figure = Figure {
    chart: "percentiles",
    about: "Which share of the good answers was at least as fast as the latency on the left; to the right each step is ten times rarer. \
            The curve must pass below the corner of the goal.",
    missing: "No operation was answered, so there is no distribution.",
    choices: &[("scale", &["log", "linear"])],
    rows: Some(Rows {
        source: "spectrum.corrected",
        columns: &[
            column("share", Unit::Quantile, "0", Thin::Last),
            column("corrected latency", Unit::Ms, "1", Thin::Most),
            column("operations", Unit::Count, "2", Thin::Most),
        ],
    }),
};

const ERRORS: Figure = Figure {
    chart: "errors",
    about: "A row for each class of error that occurred; the height of a mark grows with the logarithm of the number in that second.",
    missing: "No operation failed, and none was left unsent.",
    choices: &[],
    rows: Some(Rows {
        source: "seconds",
        columns: &[
            TIME,
            column("unsent", Unit::Count, "unsent", Thin::Most),
            column("", Unit::Count, "errors.*", Thin::Most),
        ],
    }),
};

const CONNECTIONS: Figure = Figure {
    chart: "connections",
    about: "Connections held, counted on the client's side, and those opened each second; crosses are connections that were lost.",
    missing: "No connection was held.",
    choices: &[],
    rows: Some(Rows {
        source: "seconds",
        columns: &[
            TIME,
            column("held", Unit::Count, "held", Thin::Least),
            column("opened", Unit::Count, "opened", Thin::Most),
            column("lost", Unit::Count, "lost", Thin::Most),
        ],
    }),
};

const HELD: Figure = Figure {
    about: "Connections held, counted on the client's side, how many there were to be by then (thin), and those opened each second; \
            crosses are connections that were lost.",
    rows: Some(Rows {
        source: "seconds",
        columns: &[
            TIME,
            column("asked", Unit::Count, "asked", Thin::Last),
            column("held", Unit::Count, "held", Thin::Least),
            column("opened", Unit::Count, "opened", Thin::Most),
            column("lost", Unit::Count, "lost", Thin::Most),
        ],
    }),
    ..CONNECTIONS
};

const MEMORY: Figure = Figure {
    chart: "memory",
    about: "Each point is a level at which the connections were held and idle: memory above the baseline without connections. The dashed \
            line projects it to the limit, between the ends of its 95 % interval; below it, where every other resource would run out.",
    missing: "Memory could not be read at any level.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.hold.plateaus",
        columns: &[
            column("held", Unit::Count, "held", Thin::Last),
            column("client each", Unit::Bytes, "user_bytes_per_connection", Thin::Most),
            column("SUT each", Unit::Bytes, "sut_bytes_per_connection", Thin::Most),
            column("kernel each", Unit::Bytes, "kernel_bytes_per_connection", Thin::Most),
            column("machine each", Unit::Bytes, "machine_bytes_per_connection", Thin::Most),
            column("available", Unit::Bytes, "available_bytes", Thin::Least),
            column("answered", Unit::Count, "answered", Thin::Least),
        ],
    }),
};

const CYCLES: Figure = Figure {
    chart: "cycles",
    about: "What the server still used after each drain. Growth is measured from the cycle on at which the slope has settled (dashed).",
    missing: "The server's memory could not be read.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.hold.cycles.readings",
        columns: &[
            column("cycle", Unit::Count, "cycle", Thin::Last),
            column("held", Unit::Count, "held", Thin::Last),
            column("server, full", Unit::Bytes, "full_bytes", Thin::Most),
            column("server, drained", Unit::Bytes, "processes", Thin::Most),
            column("pools in use", Unit::Bytes, "pools-used", Thin::Most),
            column("pools allocated", Unit::Bytes, "pools-allocated", Thin::Most),
            column("open files", Unit::Count, "open-files", Thin::Most),
            column("threads", Unit::Count, "threads", Thin::Most),
        ],
    }),
};

const STORMS: Figure = Figure {
    chart: "storms",
    about: "Each mark is one storm: the time until the last client was back, against the number of connections that were cut. \
            A storm at the top was ended before all were back.",
    missing: "No storm was made.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.storm.storms",
        columns: &[
            column("storm", Unit::Count, "trial", Thin::Last),
            column("cut", Unit::Count, "cut", Thin::Last),
            column("all back after", Unit::Seconds, "recovered_s", Thin::Most),
            column("missing", Unit::Count, "missing", Thin::Most),
            column("attempts", Unit::Count, "attempts", Thin::Most),
            column("given up", Unit::Count, "gave_up", Thin::Most),
            column("refused", Unit::Count, "refused", Thin::Most),
            column("lost of the others", Unit::Count, "lost", Thin::Most),
            column("p99 of the others", Unit::Ms, "p99_ms", Thin::Most),
            column("verdict", Unit::Verdict, "verdict", Thin::Last),
        ],
    }),
};

const RECOVERY: Figure = Figure {
    chart: "recovery",
    about: "Clients that are not back, second by second, in the largest storm that was GOOD and in the smallest that was not (of those \
            that do not end, if there was one); below, the latency of the connections that were not cut.",
    missing: "No storm was made.",
    choices: &[],
    rows: None,
};

const HOST: Figure = Figure {
    chart: "host",
    about: "Read once a second on this host; the time of each trial is shaded, and limits are drawn in where they are near. Established \
            connections are ends: a connection within this host counts twice. CPU speed is that of a fixed piece of work \
            (system calls and memory), 100 % in the median second of the run.",
    missing: "This host was not read.",
    choices: &[],
    rows: Some(Rows {
        source: "hosts.*",
        columns: &[
            column("host", Unit::Text, "*", Thin::Last),
            TIME,
            column("established", Unit::Count, "established", Thin::Most),
            column("packets in", Unit::PerS, "packets_in", Thin::Most),
            column("packets out", Unit::PerS, "packets_out", Thin::Most),
            column("bytes in", Unit::BytesPerS, "bytes_in", Thin::Most),
            column("bytes out", Unit::BytesPerS, "bytes_out", Thin::Most),
            column("memory available", Unit::Bytes, "memory_available", Thin::Least),
            column("busiest core", Unit::Share, "cpu_busiest", Thin::Most),
            column("all cores", Unit::Share, "cpu", Thin::Most),
            column("CPU speed", Unit::Share, "speed", Thin::Least),
        ],
    }),
};

const CLIFFS: Figure = Figure {
    chart: "cliffs",
    about: "A flag stands where many operations or connections ended after the same time: a timer, of the server or of something before it.",
    missing: "No hidden timer was met by this load.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.cliffs",
        columns: &[
            column("after", Unit::Ms, "at_ms", Thin::Last),
            column("of", Unit::Text, "stretch", Thin::Last),
            column("count", Unit::Count, "count", Thin::Most),
            column("share", Unit::Share, "share", Thin::Most),
            column("whose", Unit::Text, "owner", Thin::Last),
            column("how sure", Unit::Text, "confidence", Thin::Last),
            column("name", Unit::Text, "label", Thin::Last),
            column("evidence", Unit::Text, "evidence", Thin::Last),
        ],
    }),
};

const CONFIRMATION: Figure = Figure {
    chart: "confirmation",
    about: "Each row is a pair of loads, one with the limit lowered and one without: the change that was predicted before the first \
            pair, and the change that was measured.",
    missing: "The cause was not tested (--confirm-cause).",
    choices: &[],
    rows: None,
};

const FOREST: Figure = Figure {
    chart: "forest",
    about: "B against A for each figure: the median over the rounds and its interval. The grey band is what a comparison of A with itself \
            would show.",
    missing: "Too few rounds gave a figure on both sides.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.compare.others",
        columns: &[
            column("figure", Unit::Text, "metric", Thin::Last),
            column("A", Unit::Count, "difference.a", Thin::Last),
            column("B", Unit::Count, "difference.b", Thin::Last),
            column("B/A", Unit::Count, "difference.ratio", Thin::Last),
            column("from", Unit::Count, "difference.ratio_low", Thin::Last),
            column("to", Unit::Count, "difference.ratio_high", Thin::Last),
            column("finding", Unit::Text, "difference.finding", Thin::Last),
        ],
    }),
};

const ROUNDS: Figure = Figure {
    chart: "rounds",
    about: "Each pair is one round, A left and B right; below it their ratio in order of time, which shows a drift.",
    missing: "No round was finished.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.compare.rounds",
        columns: &[
            column("round", Unit::Count, "number", Thin::Last),
            column("first", Unit::Text, "first", Thin::Last),
            column("A", Unit::Count, "a.value", Thin::Last),
            column("B", Unit::Count, "b.value", Thin::Last),
            column("B/A", Unit::Count, "ratio", Thin::Last),
            column("A invalid", Unit::Text, "a.invalid", Thin::Last),
            column("B invalid", Unit::Text, "b.invalid", Thin::Last),
        ],
    }),
};

const KPIS: Figure = Figure {
    chart: "kpis",
    about: "For each object the load that the case reports, the lowest load that failed above it, and the target; below, the KPI of \
            the case in each second of the sustain phase.",
    missing: "No object was measured.",
    choices: &[],
    rows: Some(Rows {
        source: "summary.rfc9411.results",
        columns: &[
            column("object", Unit::Text, "object", Thin::Last),
            column("load", Unit::Count, "load", Thin::Last),
            column("target", Unit::Count, "target", Thin::Last),
            column("failed load", Unit::Count, "failed_load", Thin::Last),
            column("unit", Unit::Text, "unit", Thin::Last),
            column("connections", Unit::Count, "kpis.concurrent_tcp_connections", Thin::Last),
            column("TCP connections", Unit::PerS, "kpis.tcp_connections_per_second", Thin::Last),
            column(
                "transactions",
                Unit::PerS,
                "kpis.application_transactions_per_second",
                Thin::Last,
            ),
            column("TTLB average", Unit::Ms, "kpis.ttlb_rfc9411_ms.avg", Thin::Last),
            column("verdict", Unit::Verdict, "verdict", Thin::Last),
        ],
    }),
};

const OVERLAY_BOUNDS: Figure = Figure {
    chart: "overlay_bounds",
    about: "The interval of each run's tipping point; a dash-dotted line is its safe load.",
    missing: "Fewer than two of these runs are searches with bounds.",
    choices: &[],
    rows: None,
};

const OVERLAY_TIME: Figure = Figure {
    chart: "overlay_time",
    about: "A quantile of the corrected latency of each second, each run from the start of its own load.",
    missing: "Fewer than two of these runs have latency over time.",
    choices: &[("quantile", &["p99", "p50", "max"])],
    rows: LATENCY.rows,
};

const OVERLAY_RATIO: Figure = Figure {
    chart: "overlay_ratio",
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

const LOAD: &[(Section, Figure)] = &[
    (Section::Main, LATENCY),
    (Section::Time, RATE),
    (Section::Time, ERRORS),
    (Section::Time, CONNECTIONS),
    (Section::Distribution, PERCENTILES),
    (Section::Cause, CLIFFS),
];

const RATE_SEARCH: &[(Section, Figure)] = &[
    (Section::Main, TIPPING),
    (Section::Main, GOODPUT),
    (Section::Main, COURSE),
    (Section::Time, RATE),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Time, CONNECTIONS),
    (Section::Distribution, PERCENTILES),
    (Section::Cause, CONFIRMATION),
    (Section::Cause, CLIFFS),
];

const CONNECTION_SEARCH: &[(Section, Figure)] = &[
    (Section::Main, TIPPING),
    (Section::Main, GOODPUT),
    (Section::Main, COURSE),
    (Section::Main, MEMORY),
    (Section::Time, HELD),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Distribution, PERCENTILES),
    (Section::Cause, CLIFFS),
];

const STORM_SEARCH: &[(Section, Figure)] = &[
    (Section::Main, STORMS),
    (Section::Main, RECOVERY),
    (Section::Time, HELD),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Distribution, PERCENTILES),
];

const CYCLED_HOLD: &[(Section, Figure)] = &[
    (Section::Main, CYCLES),
    (Section::Main, HELD),
    (Section::Time, RATE),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Distribution, PERCENTILES),
    (Section::Cause, CLIFFS),
];

const HOLD: &[(Section, Figure)] = &[
    (Section::Main, HELD),
    (Section::Main, MEMORY),
    (Section::Time, RATE),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Distribution, PERCENTILES),
    (Section::Cause, CLIFFS),
];

const COMPARISON: &[(Section, Figure)] = &[
    (Section::Main, FOREST),
    (Section::Main, ROUNDS),
    (Section::Time, RATE),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Distribution, PERCENTILES),
];

const SIZING: &[(Section, Figure)] =
    &[(Section::Time, RATE), (Section::Time, LATENCY), (Section::Time, ERRORS)];

const RFC9411: &[(Section, Figure)] = &[
    (Section::Main, KPIS),
    (Section::Time, RATE),
    (Section::Time, LATENCY),
    (Section::Time, ERRORS),
    (Section::Time, CONNECTIONS),
    (Section::Distribution, PERCENTILES),
];

/// The figures of a run in the order of the page; the hosts come after them.
pub(super) fn figures(view: &View) -> &'static [(Section, Figure)] {
    let Some(summary) = &view.summary else {
        return match view.head.axis {
            Some(Axis::Connections) => CONNECTION_SEARCH,
            Some(Axis::Storm) => STORM_SEARCH,
            Some(Axis::ConnectionsPerS | Axis::TransactionsPerS) => RFC9411,
            Some(Axis::Rate | Axis::Handshakes | Axis::Deliveries) => RATE_SEARCH,
            None if view.head.is_hold => HOLD,
            None => LOAD,
        };
    };
    match &summary.result {
        RunResult::Load => LOAD,
        RunResult::Find { .. } => RATE_SEARCH,
        RunResult::Hold { hold } if hold.cycles.is_some() => CYCLED_HOLD,
        RunResult::Hold { .. } => HOLD,
        RunResult::Connections { .. } => CONNECTION_SEARCH,
        RunResult::Storm { .. } => STORM_SEARCH,
        RunResult::Compare { .. } => COMPARISON,
        RunResult::Sizing { .. } => SIZING,
        RunResult::Rfc9411 { .. } => RFC9411,
    }
}

/// The figure of each host.
pub(super) const fn of_hosts() -> Figure {
    HOST
}

/// Returns a figure's finding for this run; its subject if the run has not ended.
pub(super) fn title(figure: &Figure, summary: Option<&Summary>) -> String {
    let Some(summary) = summary else { return neutral(figure.chart).to_owned() };
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
    .unwrap_or_else(|| neutral(figure.chart).to_owned())
}

/// Returns the subject of a figure.
fn neutral(chart: &str) -> &'static str {
    match chart {
        "tipping" => "Latency against load",
        "goodput" => "Good answers against offered load",
        "course" => "Course of the search",
        "cycles" => "Memory of the server after each cycle",
        "storms" => "Recovery against the size of the storm",
        "recovery" => "Recovery, second by second",
        "rate" => "Operations over time",
        "latency" => "Latency over time",
        "percentiles" => "Distribution of latency",
        "errors" => "Errors over time",
        "connections" => "Connections over time",
        "memory" => "Memory against connections",
        "cliffs" => "Hidden timers",
        "confirmation" => "Test of the cause",
        "forest" => "B against A",
        "rounds" => "Rounds",
        "kpis" => "Key performance indicators by object",
        "overlay_bounds" => "Tipping points of the runs",
        "overlay_time" => "Latency over time, run over run",
        "overlay_ratio" => "Latency of B against A by share of operations",
        _ => "Host",
    }
}

/// The tables of all figures, for the page's program: what a column is called and where it stands.
pub(super) fn tables<'a>(figures: impl Iterator<Item = &'a Figure>) -> Value {
    let rows = figures.filter_map(|figure| Some((figure.chart, figure.rows?)));
    let map = rows.map(|(chart, rows)| (chart.to_owned(), serde_json::json!(rows)));
    Value::Object(map.collect())
}
