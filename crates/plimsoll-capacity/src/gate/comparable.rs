//! The first reason for which two runs cannot be compared by a figure.

use plimsoll_model::gate::{GateMetric, Incomparable, Side};
use plimsoll_model::plan::TlsState;
use plimsoll_model::result::RunKind;
use plimsoll_model::settings::{HoldSettings, LoadSettings, Settings, TlsSettings};
use plimsoll_model::summary::Summary;
use plimsoll_model::target::Protocol;
use plimsoll_model::trial::{Outcome, Verdict};

/// Returns the settings that must agree for a figure to mean the same. The composition of the server is not among them,
/// since a gate is about its change; nor is the seed.
fn compared(summary: &Summary) -> Settings {
    let Settings { load, rate, isolate, .. } = summary.settings.clone();
    let is_load = summary.result.kind() == RunKind::Load;
    let load = load.map(|load| LoadSettings {
        protocol: Protocol::Http1,
        // A hold may hold more, and a search its own number of connections for each load.
        connections: if is_load { load.connections } else { 0 },
        unix_socket: false,
        streams: None,
        connect_timeout_s: 0.0,
        seed: 0,
        sources: 0,
        proxy_protocol: false,
        rows_every: None,
        pinned_cpus: Vec::new(),
        hold: load.hold.map(|hold| HoldSettings { opening_max: 0, ..hold }),
        mqtt: None,
        tls: load.tls.map(|tls| TlsSettings {
            has_client_certificate: false,
            state: TlsState::Compact,
            offers_http2: false,
            certificate_key: None,
            tickets_max: 0,
            ..tls
        }),
        ..load
    });
    Settings { load, rate, isolate, ..Settings::default() }
}

/// Returns the kind of the server.
fn server(summary: &Summary) -> &'static str {
    if summary.settings.isolate.is_some() { "of a laboratory" } else { "one that was named" }
}

/// Returns the kind of run that has a figure, and why others do not.
const fn kind_of(metric: GateMetric) -> (RunKind, &'static str) {
    match metric {
        GateMetric::Safe | GateMetric::TippingPoint => (RunKind::Search, "only searches state it"),
        GateMetric::MachineBytes
        | GateMetric::SutBytes
        | GateMetric::KernelBytes
        | GateMetric::UserBytes => (RunKind::Hold, "only holds measure it"),
        _ => (RunKind::Load, "only loads of one rate can be compared by it"),
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
    differs("kind of run", baseline.result.kind().noun(), run.result.kind().noun())?;
    differs("server", server(baseline), server(run))?;
    let (kind, why) = kind_of(metric);
    if run.result.kind() != kind {
        return Err(Incomparable::NoInterval { side: Side::Run, metric, why });
    }
    if let (Some(a), Some(b)) = (baseline.result.find(), run.result.find()) {
        differs("axis", a.axis.name(), b.axis.name())?;
        differs("SLO", &a.slo, &b.slo)?;
    }
    let settings = [baseline, run].map(|summary| Box::new(compared(summary)));
    if settings[0] != settings[1] {
        return Err(Incomparable::Settings(settings));
    }
    is_measured(Side::Baseline, metric, baseline)?;
    is_measured(Side::Run, metric, run)
}

fn is_measured(side: Side, metric: GateMetric, summary: &Summary) -> Result<(), Incomparable> {
    if summary.partial {
        return Err(Incomparable::NoInterval { side, metric, why: "it was cut short" });
    }
    match summary.result.find().map(|find| &find.found.outcome) {
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
