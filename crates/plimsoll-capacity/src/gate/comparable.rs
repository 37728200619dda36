//! Whether two runs can be compared by a figure, and what stands in the way first.

use plimsoll_model::gate::{GateMetric, Incomparable, Side};
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Outcome, Verdict};

/// Settings that make a figure one of another thing. What the server is made of is what a gate is about, and
/// is not among them; nor is the seed.
const SETTINGS: [&str; 17] = [
    "arrivals",
    "rate",
    "stages",
    "operation",
    "connections",
    "keep-alive",
    "deadline",
    "linger",
    "heartbeat",
    "replace",
    "targets",
    "isolate",
    "tls",
    "tls-groups",
    "tls-resume",
    "tls-key-share",
    "tls-certificates",
];

/// Returns the kind of the server.
fn server(summary: &Summary) -> &'static str {
    if summary.command.starts_with("lab") { "of a laboratory" } else { "one that was named" }
}

/// Returns the kind of a figure.
const fn kind_of(metric: GateMetric) -> &'static str {
    match metric {
        GateMetric::Safe | GateMetric::TippingPoint => "a search",
        GateMetric::MachineBytes
        | GateMetric::SutBytes
        | GateMetric::KernelBytes
        | GateMetric::UserBytes => "a hold",
        _ => "a load",
    }
}

/// Reports whether the figure of the two runs is of the same thing, and was measured.
pub(super) fn comparable(
    metric: GateMetric,
    baseline: &Summary,
    run: &Summary,
) -> Result<(), Incomparable> {
    let differs = |what: &str, a: &str, b: &str| {
        let (what, baseline, run) = (what.to_owned(), a.to_owned(), b.to_owned());
        if baseline == run { Ok(()) } else { Err(Incomparable::Differs { what, baseline, run }) }
    };
    differs("kind of run", baseline.result.noun(), run.result.noun())?;
    differs("server", server(baseline), server(run))?;
    if run.result.noun() != kind_of(metric) {
        let why = match kind_of(metric) {
            "a search" => "only searches state it",
            "a hold" => "only holds measure it",
            _ => "only loads of one rate can be compared by it",
        };
        return Err(Incomparable::NoInterval { side: Side::Run, metric, why });
    }
    if let (Some(a), Some(b)) = (baseline.result.find(), run.result.find()) {
        differs("axis", a.axis.name(), b.axis.name())?;
        differs("SLO", &a.slo, &b.slo)?;
    }
    let of = |summary: &Summary, name: &str| {
        summary.settings.get(name).cloned().unwrap_or_else(|| "not set".to_owned())
    };
    for name in SETTINGS {
        // A hold may hold more, and a search its own number of connections for each load.
        let is_size = name == "connections" && run.result.noun() != "a load";
        if !is_size {
            differs(name, &of(baseline, name), &of(run, name))?;
        }
    }
    is_measured(Side::Baseline, metric, baseline)?;
    is_measured(Side::Run, metric, run)
}

fn is_measured(side: Side, metric: GateMetric, summary: &Summary) -> Result<(), Incomparable> {
    if summary.partial {
        return Err(Incomparable::NoInterval { side, metric, why: "it was cut short" });
    }
    match summary.result.find().map(|find| &find.outcome) {
        Some(Outcome::Unstable { why } | Outcome::Undecided { why } | Outcome::Bounds { why }) => {
            Err(Incomparable::Unsettled { side, why: why.clone() })
        }
        Some(Outcome::NotReached { .. }) => {
            let why = "the tipping point was not reached, so it has no upper end";
            Err(Incomparable::NoInterval { side, metric, why })
        }
        _ if summary.verdict == Verdict::Invalid => Err(Incomparable::Invalid { side }),
        _ => Ok(()),
    }
}
