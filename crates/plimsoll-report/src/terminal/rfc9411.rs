//! The report of a case of RFC 9411: the summary block of section 6.1, then for each object its
//! KPIs by their names, the criteria with their thresholds, and every iteration.

use std::io;

use plimsoll_model::rfc9411::{
    Ending, Isolation, Iteration, Kind, Kpis, MinAvgMax, ObjectResult, Reference, Rfc9411Summary,
};
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Check, CheckId, Family, Level, Verdict};
use plimsoll_model::units::grouped;

use super::layout::{Page, Tone, clean, cpu_percent, ms, span, whole};
use super::{findings, sections};
use crate::digest::verdict_word;

/// Writes the report of `--mode rfc9411`.
pub(super) fn render(
    page: &mut Page<'_>,
    summary: &Summary,
    case: &Rfc9411Summary,
) -> io::Result<()> {
    table(page, case)?;
    page.blank()?;
    facts(page, summary, case)?;
    for result in &case.results {
        page.blank()?;
        object(page, case, result)?;
    }
    for (index, note) in case.notes.iter().enumerate() {
        if index == 0 {
            page.blank()?;
            page.heading("Notes")?;
        }
        page.hanging(Tone::Quiet, "  -", &clean(note))?;
    }
    page.blank()?;
    sections::settings(page, summary)?;
    sections::errors(page, summary)?;
    let generator: Vec<Check> =
        summary.reasons.iter().filter(|check| check.id.family() != Family::Goal).cloned().collect();
    sections::checks(page, &generator)?;
    sections::archive(page, summary)
}

/// The summary block: one line for each object.
fn table(page: &mut Page<'_>, case: &Rfc9411Summary) -> io::Result<()> {
    page.heading(&format!(
        "{:12} {:>12} {:>12} {:>13} {:>10} {:>10} {}",
        "object", "connections", "TCP CPS", "transact./s", "Gbit/s", "TTLB ms", "outcome"
    ))?;
    for result in &case.results {
        let kpis = result.kpis.filter(|_| result.load.is_some());
        let of = |value: fn(&Kpis) -> f64| kpis.as_ref().map(value);
        let word = page.paint(tone(result), ending_word(&result.ending));
        let isolated = result.isolation.as_ref().is_none_or(|isolation| isolation.holds);
        page.line(&format!(
            "{:12} {:>12} {:>12} {:>13} {:>10} {:>10} {word}{}",
            name(result),
            figure(of(|kpis| kpis.concurrent_tcp_connections)),
            figure(of(|kpis| kpis.tcp_connections_per_second)),
            figure(of(|kpis| kpis.application_transactions_per_second)),
            of(|kpis| kpis.inspected_throughput_bit_s)
                .map_or_else(|| "-".to_owned(), |bits| format!("{:.2}", bits / 1e9)),
            ms(kpis.and_then(|kpis| kpis.ttlb_rfc9411_ms.avg)),
            if isolated { "" } else { ", NOT ISOLATED" },
        ))?;
    }
    if case.results.is_empty() {
        page.line("Nothing was measured.")?;
    }
    page.quiet(
        4,
        "KPIs of the sustain phase, all at the reported load. TTLB: average, from the SYN. TCP CPS: \
         connections that carried data and were closed by FIN.",
    )
}

/// A line for each object: how it ended, and its rates.
pub(super) fn kpis(page: &mut Page<'_>, case: &Rfc9411Summary) -> io::Result<()> {
    for result in &case.results {
        let kpis = result.kpis.filter(|_| result.load.is_some());
        let rates = kpis.map(|kpis| {
            format!(
                ": {} transactions/s, {} TCP CPS, {:.2} Gbit/s",
                figure(Some(kpis.application_transactions_per_second)),
                figure(Some(kpis.tcp_connections_per_second)),
                kpis.inspected_throughput_bit_s / 1e9
            )
        });
        let text = format!("{}{}", ending_word(&result.ending), rates.unwrap_or_default());
        page.entry_within(&name(result), &text, 1)?;
    }
    Ok(())
}

fn name(result: &ObjectResult) -> String {
    let scenario = result.scenario.map_or_else(String::new, |number| format!(", sc. {number}"));
    format!("{}{scenario}", clean(&result.object))
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 => grouped(value.round() as u64),
        Some(value) => format!("{value:.1}"),
    }
}

const fn tone(result: &ObjectResult) -> Tone {
    match result.verdict {
        Verdict::Good => Tone::Good,
        Verdict::Bad => Tone::Bad,
        Verdict::Invalid => Tone::Warn,
    }
}

const fn ending_word(ending: &Ending) -> &'static str {
    match ending {
        Ending::TargetMet => "target met",
        Ending::Maximum => "maximum",
        Ending::Unqualified { .. } => "step 1 failed",
        Ending::TargetMissed { .. } => "target missed",
        Ending::NoMaximum { .. } => "no maximum",
        Ending::GeneratorLimited { .. } => "INVALID",
        Ending::Unfinished { .. } => "unfinished",
    }
}

pub(super) fn facts(
    page: &mut Page<'_>,
    summary: &Summary,
    case: &Rfc9411Summary,
) -> io::Result<()> {
    page.entry("Target", &clean(&summary.target))?;
    let mut phases =
        format!("sustain {}, init {} before each", span(case.sustain_s), span(case.init_s));
    if case.shorter_than_recommended {
        let recommended = span(case.sustain_recommended_s);
        phases.push_str(&format!("; shorter than the {recommended} that RFC 9411 recommends"));
    }
    page.entry("Phases", &phases)?;
    if let Some(reference) = &case.reference {
        page.entry("Reference", &reference_words(reference))?;
    }
    page.entry("Throughput", &clean(&case.throughput_layer))?;
    let known: Vec<_> = case
        .environment
        .iter()
        .filter(|(key, _)| *key != "sut")
        .map(|(key, value)| format!("{} {}", clean(key), clean(value)))
        .collect();
    page.entry_items("Test bed", &known)
}

fn reference_words(reference: &Reference) -> String {
    let rate = |value: Option<f64>, unit: &str| {
        value.map(|value| whole(&format!("{} {unit}", figure(Some(value)))))
    };
    let parts: Vec<_> = [
        rate(reference.connections_per_s, "connections/s"),
        rate(reference.transactions_per_s, "transactions/s"),
        reference.inspected_throughput_bit_s.map(throughput),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("the generator alone: {}; {}", parts.join(", "), clean(&reference.responder))
}

/// `1.24 Gbit/s (1,240,012 kbit/s)`, as section 6.3 wants it.
fn throughput(bit_s: f64) -> String {
    let kbit = grouped((bit_s / 1e3).round() as u64);
    whole(&format!("{:.2} Gbit/s ({kbit} kbit/s)", bit_s / 1e9))
}

fn object(page: &mut Page<'_>, case: &Rfc9411Summary, result: &ObjectResult) -> io::Result<()> {
    let transactions = result.transactions_per_connection;
    let plural = if transactions == 1 { "" } else { "s" };
    page.heading(&format!(
        "Object {}, {transactions} transaction{plural} per connection",
        name(result)
    ))?;
    page.hanging(tone(result), "  Result", &sentence(result))?;
    let unit = clean(&result.unit);
    let load = |value: f64| whole(&format!("{} {unit}", figure(Some(value))));
    page.hanging(
        Tone::Strong,
        "  Target",
        &format!(
            "{} ({}); step 1 at {}",
            load(result.target),
            clean(&result.target_source),
            load(result.initial)
        ),
    )?;
    if let Some(kpis) = &result.kpis {
        kpi_lines(page, case, kpis)?;
    }
    for check in &result.criteria {
        criterion(page, check)?;
    }
    if let Some(isolation) = &result.isolation {
        isolation_line(page, isolation)?;
    }
    iterations(page, &result.iterations)
}

fn sentence(result: &ObjectResult) -> String {
    let unit = clean(&result.unit);
    let load = |value: f64| whole(&format!("{} {unit}", figure(Some(value))));
    let reached = result.load.map_or_else(|| "no load".to_owned(), load);
    let failed =
        result.failed_load.map_or_else(String::new, |failed| format!("; {} failed", load(failed)));
    match &result.ending {
        Ending::TargetMet => format!("{reached}: the target is met within the criteria"),
        Ending::Maximum => format!("{reached}: the maximum within the criteria{failed}"),
        Ending::Unqualified { why } => {
            format!(
                "none: a tenth of the target failed, so the case must not go on ({})",
                clean(why)
            )
        }
        Ending::TargetMissed { why } => format!("none: the target failed ({})", clean(why)),
        Ending::NoMaximum { why } => format!("none: {}{failed}", clean(why)),
        Ending::GeneratorLimited { why } => {
            format!("at least {reached}: the generator was the limit ({})", clean(why))
        }
        Ending::Unfinished { why } => format!("none yet: stopped early ({})", clean(why)),
    }
}

const KPI_WIDTH: usize = 40;

fn kpi_lines(page: &mut Page<'_>, case: &Rfc9411Summary, kpis: &Kpis) -> io::Result<()> {
    let held = case.case.kind() == Kind::Concurrency;
    let mut rows =
        vec![("Concurrent TCP Connections", figure(Some(kpis.concurrent_tcp_connections)))];
    if !held {
        rows.push(("TCP Connections Per Second", figure(Some(kpis.tcp_connections_per_second))));
    }
    rows.push((
        "Application Transactions Per Second",
        figure(Some(kpis.application_transactions_per_second)),
    ));
    if kpis.tls_handshake_rate > 0.0 {
        rows.push(("TLS Handshake Rate", figure(Some(kpis.tls_handshake_rate))));
    }
    rows.push(("Inspected Throughput", throughput(kpis.inspected_throughput_bit_s)));
    for (name, of, from) in [
        ("Time to First Byte (TTFB)", kpis.ttfb_rfc9411_ms, "from the SYN"),
        ("URL Response Time / Time to Last Byte", kpis.ttlb_rfc9411_ms, "from the SYN"),
        ("first byte of a request's answer", kpis.ttfb_request_ms, "from the request"),
    ] {
        rows.extend(min_avg_max(of).map(|text| (name, format!("{text}, {from}"))));
    }
    for (name, value) in rows {
        page.line(&format!("    {name:KPI_WIDTH$}{}", value.replace('\u{a0}', " ")))?;
    }
    Ok(())
}

fn min_avg_max(of: MinAvgMax) -> Option<String> {
    of.avg?;
    Some(format!("min {} avg {} max {} ms", ms(of.min), ms(of.avg), ms(of.max)))
}

fn criterion(page: &mut Page<'_>, check: &Check) -> io::Result<()> {
    let word = match check.level {
        Level::Pass => "  pass",
        Level::Warn => "  WARN",
        Level::Fail => "  FAIL",
    };
    page.hanging(Tone::from(check.level), word, &findings::line(check))
}

fn isolation_line(page: &mut Page<'_>, isolation: &Isolation) -> io::Result<()> {
    let (tone, word) = match isolation.holds {
        true => (Tone::Good, "  pass"),
        false => (Tone::Bad, "  FAIL"),
    };
    let of = |value: f64| match isolation.kpi.contains("Throughput") {
        true => throughput(value),
        false => figure(Some(value)),
    };
    let valid = if isolation.holds {
        ""
    } else {
        ": it may be what was measured, so the result must not be reported as valid"
    };
    let text = format!(
        "isolation: {} {} of its maximum {}, {:.0} % (limit: {:.0} %){valid}",
        clean(&isolation.kpi),
        of(isolation.seen),
        of(isolation.maximum),
        isolation.share * 100.0,
        isolation.share_max * 100.0
    );
    page.hanging(tone, word, &text)
}

fn iterations(page: &mut Page<'_>, iterations: &[Iteration]) -> io::Result<()> {
    if iterations.is_empty() {
        return Ok(());
    }
    let columns = format!(
        "    {:>3} {:9} {:>12} {:>6} {:>6} {:>7} verdict why",
        "#", "step", "load", "ramp s", "sec", "SUT CPU"
    );
    page.heading(&columns)?;
    for iteration in iterations {
        let verdict = verdict_word(iteration.verdict);
        let painted = page.paint(iteration.verdict.into(), &format!("{verdict:7}"));
        let why = short_why(iteration);
        page.line(&format!(
            "    {:>3} {:9} {:>12} {:>6.1} {:>6.1} {:>7} {painted} {}",
            iteration.number,
            iteration.step.name(),
            figure(Some(iteration.load)),
            iteration.ramp_up_s,
            iteration.sustain_s,
            iteration
                .sut_busiest_thread
                .map_or_else(|| "-".to_owned(), |busy| format!("{} %", cpu_percent(busy))),
            clean(&why)
        ))?;
    }
    Ok(())
}

/// The checks that failed, criteria by their letters: `F, N10`.
fn short_why(iteration: &Iteration) -> String {
    let names = iteration.failed.iter().map(|id| match id {
        CheckId::Criterion(criterion) => criterion.code().into(),
        other => other.name(),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests;
