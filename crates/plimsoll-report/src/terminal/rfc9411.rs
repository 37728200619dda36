//! The report of a case of RFC 9411: the summary block of section 6.1, then for each object its
//! KPIs by their names, the criteria with their thresholds, and every iteration.

use plimsoll_model::rfc9411::{
    Ending, Iteration, Kind, Kpis, MinAvgMax, ObjectResult, OtherKpi, Reference, Rfc9411Summary,
};
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{CheckId, Family, Level};
use plimsoll_model::units::grouped;

use super::layout::{Page, Tone, clean, counted, cpu_percent, ms, span, whole};
use super::{findings, hints, sections};
use crate::stopped;

/// Writes the detailed report of a case.
pub(super) fn render(page: &mut Page, summary: &Summary, case: &Rfc9411Summary) {
    table(page, case);
    page.quiet(
        4,
        "KPIs of the sustain phase, all at the reported load. TTLB: average, from the SYN. TCP CPS: \
         connections that carried data and were closed by FIN.",
    );
    page.blank();
    facts(page, summary, case);
    for result in &case.results {
        page.blank();
        object(page, case, result);
    }
    sections::notes(page, &case.notes);
    page.blank();
    sections::settings(page, summary);
    sections::errors(page, summary);
    let mut generator = summary.reasons.clone();
    generator.retain(|check| check.id.family() != Family::Goal);
    sections::checks(page, &generator)
}

/// Writes the summary block: a line for each object, with its KPIs at the load that the case reports.
pub(super) fn table(page: &mut Page, case: &Rfc9411Summary) {
    page.heading(&format!(
        "{:12} {:>11} {:>9} {:>11} {:>6} {:>7} outcome",
        "object", "connections", "TCP CPS", "transact./s", "Gbit/s", "TTLB ms"
    ));
    for result in &case.results {
        let kpis = result.kpis.filter(|_| result.load.is_some());
        let cell = |of: fn(&Kpis) -> String| kpis.as_ref().map_or_else(|| "-".to_owned(), of);
        let isolated = result.isolation.as_ref().is_none_or(|isolation| isolation.holds);
        page.line(&format!(
            "{:12} {:>11} {:>9} {:>11} {:>6} {:>7} {}{}",
            name(result),
            cell(|kpis| figure(kpis.concurrent_tcp_connections)),
            cell(|kpis| figure(kpis.tcp_connections_per_second)),
            cell(|kpis| figure(kpis.application_transactions_per_second)),
            cell(|kpis| format!("{:.2}", kpis.inspected_throughput_bit_s / 1e9)),
            cell(|kpis| ms(kpis.ttlb_rfc9411_ms.avg)),
            page.paint(result.verdict.into(), ending(result).0),
            if isolated { "" } else { ", NOT ISOLATED" },
        ));
    }
    if case.results.is_empty() {
        page.line("Nothing was measured.");
    }
}

fn name(result: &ObjectResult) -> String {
    let scenario = result.scenario.map_or_else(String::new, |number| format!(", sc. {number}"));
    format!("{}{scenario}", clean(&result.object))
}

fn figure(value: f64) -> String {
    if value >= 100.0 { grouped(value.round() as u64) } else { format!("{value:.1}") }
}

/// Returns a figure with its unit, in one piece.
fn with_unit(value: f64, unit: &str) -> String {
    whole(&format!("{} {}", figure(value), clean(unit)))
}

/// Returns the end of the procedure for an object: a word, and a sentence.
fn ending(result: &ObjectResult) -> (&'static str, String) {
    let load = |value| with_unit(value, &result.unit);
    let reached = result.load.map_or_else(|| "no load".to_owned(), load);
    let failed = result.failed_load.map(|failed| format!("; {} failed", load(failed)));
    let failed = failed.unwrap_or_default();
    match &result.ending {
        Ending::TargetMet => ("target met", format!("{reached}: the target, within the criteria")),
        Ending::Maximum => {
            ("maximum", format!("{reached}: the maximum within the criteria{failed}"))
        }
        Ending::Unqualified { why } => (
            "step 1 failed",
            format!(
                "none: a tenth of the target failed, so the case must not go on ({})",
                clean(why)
            ),
        ),
        Ending::TargetMissed { why } => {
            ("target missed", format!("none: the target failed ({})", clean(why)))
        }
        Ending::NoMaximum { why } => ("no maximum", format!("none: {}{failed}", clean(why))),
        Ending::GeneratorLimited { why } => {
            let least = result.load.map(|least| format!("at least {}", load(least)));
            let least = least.as_deref().unwrap_or("none");
            ("INVALID", format!("{least}: {} ({})", hints::obstacle(why), clean(why)))
        }
        Ending::Unfinished { why } => {
            ("unfinished", format!("none yet: stopped early ({})", stopped::reason(why)))
        }
    }
}

pub(super) fn facts(page: &mut Page, summary: &Summary, case: &Rfc9411Summary) {
    page.entry("Target", &clean(&summary.target));
    let mut phases =
        format!("sustain {}, init {} before each", span(case.sustain_s), span(case.init_s));
    if case.shorter_than_recommended {
        let recommended = span(case.sustain_recommended_s);
        phases += &format!("; shorter than the {recommended} that RFC 9411 recommends");
    }
    page.entry("Phases", &phases);
    if let Some(reference) = &case.reference {
        page.entry("Reference", &reference_words(reference));
    }
    page.entry("Throughput", &clean(&case.throughput_layer));
    let known = case.environment.iter().filter(|(key, _)| *key != "sut");
    let known = known.map(|(key, value)| format!("{} {}", clean(key), clean(value)));
    page.entry_items("Test bed", &known.collect::<Vec<_>>())
}

fn reference_words(reference: &Reference) -> String {
    let rates = [
        reference.connections_per_s.map(|rate| with_unit(rate, "connections/s")),
        reference.transactions_per_s.map(|rate| with_unit(rate, "transactions/s")),
        reference.inspected_throughput_bit_s.map(throughput),
    ];
    let rates: Vec<_> = rates.into_iter().flatten().collect();
    format!("the generator alone: {}; {}", rates.join(", "), clean(&reference.responder))
}

/// Returns `1.24 Gbit/s (1,240,012 kbit/s)`, as section 6.3 wants it.
fn throughput(bit_s: f64) -> String {
    let kbit = grouped((bit_s / 1e3).round() as u64);
    whole(&format!("{:.2} Gbit/s ({kbit} kbit/s)", bit_s / 1e9))
}

fn object(page: &mut Page, case: &Rfc9411Summary, result: &ObjectResult) {
    let each = counted(result.transactions_per_connection.into(), "transaction");
    page.heading(&format!("Object {}, {each} per connection", name(result)));
    page.hanging(result.verdict.into(), "  Result", &ending(result).1);
    let load = |value| with_unit(value, &result.unit);
    let (target, source) = (load(result.target), clean(&result.target_source));
    let text = format!("{target} ({source}); step 1 at {}", load(result.initial));
    page.hanging(Tone::Strong, "  Target", &text);
    for (name, text) in result.kpis.iter().flat_map(|kpis| named(case.case.kind(), kpis)) {
        page.line(&format!("    {name:40}{}", text.replace('\u{a0}', " ")));
    }
    for check in &result.criteria {
        sections::finding(page, check.level, &findings::line(check));
    }
    isolation(page, result);
    iterations(page, &result.iterations)
}

/// Returns the KPIs by their names in section 6.3, without those that a case does not have.
fn named(kind: Kind, kpis: &Kpis) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let times = |of: MinAvgMax, from: &str| {
        let (min, avg, max) = (ms(of.min), ms(of.avg), ms(of.max));
        of.avg.map(|_| format!("min {min} avg {avg} max {max} ms, from the {from}"))
    };
    let opened = (kind != Kind::Concurrency).then(|| figure(kpis.tcp_connections_per_second));
    let handshakes = Some(kpis.tls_handshake_rate).filter(|rate| *rate > 0.0).map(figure);
    let transactions = figure(kpis.application_transactions_per_second);
    let rows = [
        ("Concurrent TCP Connections", Some(figure(kpis.concurrent_tcp_connections))),
        (OtherKpi::Connections.name(), opened),
        ("Application Transactions Per Second", Some(transactions)),
        ("TLS Handshake Rate", handshakes),
        (OtherKpi::Throughput.name(), Some(throughput(kpis.inspected_throughput_bit_s))),
        ("Time to First Byte (TTFB)", times(kpis.ttfb_rfc9411_ms, "SYN")),
        ("URL Response Time / Time to Last Byte", times(kpis.ttlb_rfc9411_ms, "SYN")),
        ("first byte of a request's answer", times(kpis.ttfb_request_ms, "request")),
    ];
    rows.into_iter().filter_map(|(name, text)| Some((name, text?)))
}

fn isolation(page: &mut Page, result: &ObjectResult) {
    let Some(isolation) = &result.isolation else { return };
    let of = |value: f64| match isolation.kpi {
        OtherKpi::Throughput => throughput(value),
        OtherKpi::Connections => figure(value),
    };
    let valid = match isolation.holds {
        true => "",
        false => ": it may be what was measured, so the result must not be reported as valid",
    };
    let text = format!(
        "isolation: {} {} of its maximum {}, {:.0} % (limit: {:.0} %){valid}",
        isolation.kpi.name(),
        of(isolation.seen),
        of(isolation.maximum),
        isolation.share * 100.0,
        isolation.share_max * 100.0
    );
    sections::finding(page, Level::of(!isolation.holds, false), &text)
}

fn iterations(page: &mut Page, iterations: &[Iteration]) {
    if iterations.is_empty() {
        return;
    }
    page.heading(&format!(
        "    {:>3} {:7} {:>12} {:>6} {:>6} {:>7} verdict why",
        "#", "step", "load", "ramp s", "sec", "SUT CPU"
    ));
    for iteration in iterations {
        let Iteration { number, step, load, ramp_up_s, sustain_s, verdict, .. } = iteration;
        let (step, load) = (step.name(), figure(*load));
        let word = sections::verdict_cell(page, *verdict);
        let busy = iteration.sut_busiest_thread;
        let busy = busy.map_or_else(|| "-".to_owned(), |busy| format!("{} %", cpu_percent(busy)));
        // Criteria by their letters: `F, N10`.
        let failed = iteration.failed.iter().map(|id| match id {
            CheckId::Criterion(criterion) => criterion.code().into(),
            other => other.name(),
        });
        page.line(&format!(
            "    {number:>3} {step:7} {load:>12} {ramp_up_s:>6.1} {sustain_s:>6.1} {busy:>7} {word} {}",
            clean(&failed.collect::<Vec<_>>().join(", "))
        ));
    }
}

#[cfg(test)]
pub(crate) mod tests;
