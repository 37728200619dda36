//! The test of a cause in words: the change, the prediction and the result.
//!
//! [`change`] words an [`Intervention`] with its values in the unit of the limit. The progress lines are
//! [`render_confirmation_plan`], [`render_confirmation_pair`] and [`render_remedy_plan`]; the report has [`sentence`]
//! for the test and [`remedied`] for the search with one thing changed. Ratios compare capacities, with 1 for no
//! change, and [`percent`] shows them as signed changes. A test that was not made has no intervention and states why.
//! Start reading at [`sentence`].

use plimsoll_model::compare::Difference;
use plimsoll_model::confirmation::{
    Confirmation, ConfirmationArm, ConfirmationResult, Intervention, InterventionUnit, Remedied,
};
use plimsoll_model::trial::Outcome;

use super::layout::{bytes, clean, per_s, span, whole};
use crate::digest::compare::signed;
use crate::digest::search::ending;

/// Returns the words for the changed limit.
pub(crate) const fn subject(intervention: Intervention) -> &'static str {
    match intervention {
        Intervention::ServerCpuQuota => "CPU time of the server",
        Intervention::ThreadCpuQuota => "CPU time of the server's busiest thread",
        Intervention::BackendCpuQuota => "CPU time of the backends",
        Intervention::Maxconn => "maxconn of the server",
        Intervention::ServerMaxconn => "maxconn to the backends, all together",
        Intervention::SessionRate => "new sessions per second",
        Intervention::FewerBackends => "backends in use",
        Intervention::Ports => "ports to the backends",
        Intervention::AcceptQueue => "connections that may wait to be accepted",
        Intervention::RequestsPerConnection => "requests on a connection of the load",
        Intervention::Resumption => "connections of the load that resume a TLS session",
        Intervention::CertificateKey => "connections that ask for an ECDSA certificate",
        Intervention::LoadConnections => "connections of the load",
        Intervention::SourceAddresses => "source addresses of the load",
        Intervention::BodySize => "bytes of an operation of the load",
    }
}

fn value(value: f64, unit: InterventionUnit) -> String {
    match unit {
        InterventionUnit::Cpus => format!("{value:.2} CPUs"),
        InterventionUnit::SessionsPerS if value == 0.0 => "no limit".to_owned(),
        InterventionUnit::SessionsPerS => per_s(value),
        InterventionUnit::Requests if value == 0.0 => "all".to_owned(),
        InterventionUnit::Connections
        | InterventionUnit::Backends
        | InterventionUnit::Ports
        | InterventionUnit::Addresses
        | InterventionUnit::Requests => format!("{value:.0}"),
        InterventionUnit::Bytes => bytes(value as u64),
        InterventionUnit::Ratio => format!("{:.0} %", value * 100.0),
    }
}

/// Returns `CPU time of the server, 0.98 CPUs to 0.78 CPUs`.
pub(crate) fn change(intervention: Intervention, from: f64, to: f64) -> String {
    let unit = intervention.unit();
    let (from, to) = (value(from, unit), value(to, unit));
    whole(&format!("{}, {from} to {to}", subject(intervention)))
}

/// Returns a factor as a change: `-20.0 %`.
pub(crate) fn percent(ratio: f64) -> String {
    signed(ratio - 1.0)
}

/// Returns the line before the first pair: what is changed, and what that does if the cause is the limit.
pub fn render_confirmation_plan(confirmation: &Confirmation) -> String {
    let Some(intervention) = confirmation.intervention else { return refusal(confirmation) };
    format!(
        "testing the cause: {}{}; predicted {} of the capacity if it is the limit; {} pairs of loads with \
         and without the change",
        change(intervention, confirmation.from, confirmation.to),
        left(confirmation),
        percent(confirmation.predicted_ratio),
        confirmation.pairs_planned
    )
}

/// Returns the CPU time that a quota leaves, as it was measured before the first pair.
fn left(confirmation: &Confirmation) -> String {
    let Some(share) = confirmation.left_ratio else { return String::new() };
    let text = whole(&format!("{:.0} %", share * 100.0));
    format!(" (measured first: the work then gets {text} of its CPU time)")
}

/// Returns the line of the last pair.
pub fn render_confirmation_pair(confirmation: &Confirmation) -> String {
    let Some(pair) = confirmation.pairs.last() else { return refusal(confirmation) };
    let line = format!("pair {} of {}", confirmation.pairs.len(), confirmation.pairs_planned);
    if let Some(why) = &pair.invalid {
        return format!("{line}: not counted ({})", clean(why));
    }
    let sham = format!("{} without", per_s(pair.sham_per_s));
    let changed = format!("{} with the change", per_s(pair.changed_per_s));
    let (first, second) = match pair.first {
        ConfirmationArm::Sham => (sham, changed),
        ConfirmationArm::Changed => (changed, sham),
    };
    format!("{line}: {first}, {second} ({})", percent(pair.changed_per_s / pair.sham_per_s))
}

/// Returns the line before the search with one thing changed.
pub fn render_remedy_plan(remedied: &Remedied) -> String {
    let change = change(remedied.intervention, remedied.from, remedied.to);
    match remedied.predicted_ratio {
        Some(predicted) => format!(
            "raising the confirmed limit: {change}; predicted {} of the tipping point; searching again",
            percent(predicted)
        ),
        None => format!("trying a remedy: {change}; searching again"),
    }
}

/// Returns the answer of that search, for the report.
pub(super) fn remedied(remedied: &Remedied) -> String {
    if let Some(why) = &remedied.why {
        return format!("not while the server runs: {}", clean(why));
    }
    let change = change(remedied.intervention, remedied.from, remedied.to);
    let predicted = percent(remedied.predicted_ratio.unwrap_or(1.0));
    let bound = |bound: Option<f64>| bound.map_or_else(|| "unknown".to_owned(), per_s);
    let measured = match (&remedied.outcome, remedied.ratio) {
        (Some(Outcome::Regular), Some(ratio)) => format!(
            "measured {}: between {} and {}",
            percent(ratio),
            bound(remedied.lower),
            bound(remedied.upper)
        ),
        (Some(Outcome::NotReached { cap }), _) => {
            format!(
                "measured: at least {}, the most that was tried ({})",
                bound(remedied.lower),
                clean(cap)
            )
        }
        (Some(Outcome::FailsAtMinimum), _) => {
            "the SLO was missed at the former lower bound".to_owned()
        }
        (outcome, _) => match outcome.as_ref().and_then(|outcome| ending(outcome).1) {
            Some(why) => format!("no tipping point: {why}"),
            None => "not searched".to_owned(),
        },
    };
    format!(
        "{change}; predicted {predicted} of the tipping point, {measured}; {}",
        span(remedied.seconds)
    )
}

fn refusal(confirmation: &Confirmation) -> String {
    let why = confirmation.why.as_deref().map(clean).unwrap_or_default();
    format!("not tested: {why}")
}

/// Returns the pairs of a test that ended before all were made.
fn incomplete(confirmation: &Confirmation) -> String {
    let moved: Vec<String> =
        confirmation.counted().map(|pair| percent(pair.changed_per_s / pair.sham_per_s)).collect();
    let of = format!("; incomplete, {} of {} pairs", moved.len(), confirmation.pairs_planned);
    if moved.is_empty() { of } else { format!("{of} ({})", moved.join(", ")) }
}

/// Returns the whole result for the report.
pub(super) fn sentence(confirmation: &Confirmation) -> String {
    let Some(intervention) = confirmation.intervention else { return refusal(confirmation) };
    let result = match confirmation.result {
        ConfirmationResult::Confirmed => "confirmed: ",
        ConfirmationResult::Moved => {
            "the capacity moves as this cause would move it, though not by as much as predicted: "
        }
        ConfirmationResult::Refuted => "refuted, the limit is another one: ",
        ConfirmationResult::Undecided => "undecided: ",
    };
    let change = change(intervention, confirmation.from, confirmation.to);
    let (left, predicted) = (left(confirmation), percent(confirmation.predicted_ratio));
    let measured = match confirmation.shift {
        Some(Difference { ratio, ratio_low, ratio_high, p, .. }) => format!(
            ", measured {} ({} to {}, p {p:.3}, {} pairs)",
            percent(ratio),
            percent(ratio_low),
            percent(ratio_high),
            confirmation.counted().count()
        ),
        None => incomplete(confirmation),
    };
    let size = match confirmation.result {
        ConfirmationResult::Moved => size(confirmation),
        _ => String::new(),
    };
    let sham = confirmation
        .sham_ratio
        .map(|sham| format!("the same steps without the change {}", percent(sham)));
    let parts = [
        Some(format!(
            "{result}{change}{left}; predicted {predicted} of the capacity{measured}{size}"
        )),
        sham,
        confirmation.why.as_deref().map(clean),
        Some(span(confirmation.seconds)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The smallest change of the CPU time of an answer that explains a size.
const COST_MIN: f64 = 0.03;

/// Explains why the size differs from the predicted one, as far as the CPU time of an answer shows it.
fn size(confirmation: &Confirmation) -> String {
    let moved = |ratio: f64| ratio.ln().abs();
    let shift = confirmation.shift.map_or(0.0, |shift| moved(shift.ratio));
    let is_more = shift > moved(confirmation.predicted_ratio);
    let cost = confirmation.cost_ratio;
    let costs = |share: f64, word| {
        let share = whole(&format!("{:.0} %", share * 100.0));
        format!("with the change an answer takes {share} {word} CPU time")
    };
    let why = match cost {
        Some(cost) if is_more && cost > 1.0 + COST_MIN => costs(cost - 1.0, "more"),
        Some(cost) if !is_more && cost < 1.0 - COST_MIN => costs(1.0 - cost, "less"),
        Some(_) if is_more => {
            "an answer takes as much CPU time as before, so the change costs something besides: pauses that make \
             answers late"
                .to_owned()
        }
        None if is_more => "the change has a cost of its own".to_owned(),
        _ => "this limit has headroom, another may be met first".to_owned(),
    };
    format!(" ({} than predicted: {why})", if is_more { "more" } else { "less" })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::compare::Finding;
    use plimsoll_model::confirmation::ConfirmationPair;
    use plimsoll_model::trial::Unsettled;

    use super::*;
    use crate::fixtures;

    fn confirmation(result: ConfirmationResult, ratio: f64) -> Confirmation {
        Confirmation {
            intervention: Some(Intervention::FewerBackends),
            from: 4.0,
            to: 3.0,
            predicted_ratio: 0.75,
            result,
            why: None,
            shift: Some(Difference {
                p: 0.5,
                ..fixtures::difference(Finding::NoDifference, [ratio, ratio - 0.01, ratio])
            }),
            sham_ratio: Some(1.002),
            pairs_planned: 6,
            ..Confirmation::impossible(String::new())
        }
    }

    #[test]
    fn what_is_predicted_is_said_before_the_first_pair() {
        let plan = render_confirmation_plan(&confirmation(ConfirmationResult::Undecided, 1.0));
        assert_eq!(
            plan.replace('\u{a0}', " "),
            "testing the cause: backends in use, 4 to 3; predicted -25.0 % of the capacity if it is the \
             limit; 6 pairs of loads with and without the change"
        );
    }

    #[test]
    fn refuted_is_a_result() {
        let text = sentence(&confirmation(ConfirmationResult::Moved, 0.6));
        assert!(
            text.starts_with("the capacity moves as this cause would move it, though"),
            "{text}"
        );
        assert!(text.contains("(more than predicted: the change has a cost of its own)"), "{text}");
        let text = sentence(&confirmation(ConfirmationResult::Refuted, 0.999));
        assert_eq!(
            text.replace('\u{a0}', " "),
            "refuted, the limit is another one: backends in use, 4 to 3; predicted -25.0 % of the \
             capacity, measured -0.1 % (-1.1 % to -0.1 %, p 0.500, 0 pairs); the same steps without \
             the change +0.2 %; 0 ns"
        );
        let impossible = Confirmation::impossible("no control groups".to_owned());
        assert_eq!(sentence(&impossible), "not tested: no control groups");
    }

    #[test]
    fn why_the_size_differs_is_said_from_the_cost_of_an_answer() {
        let said = |ratio, cost| {
            let mut moved = confirmation(ConfirmationResult::Moved, ratio);
            (moved.cost_ratio, moved.left_ratio) = (cost, Some(0.8));
            sentence(&moved).replace('\u{a0}', " ")
        };
        for (ratio, cost, why) in [
            (
                0.6,
                Some(1.12),
                "more than predicted: with the change an answer takes 12 % more CPU time",
            ),
            (0.6, Some(1.01), "more than predicted: an answer takes as much CPU time as before"),
            (
                0.84,
                Some(0.9),
                "less than predicted: with the change an answer takes 10 % less CPU time",
            ),
            (0.84, Some(1.0), "less than predicted: this limit has headroom"),
            (0.84, None, "less than predicted: this limit has headroom"),
        ] {
            let text = said(ratio, cost);
            assert!(text.contains(why), "{text}");
            assert!(
                text.contains("(measured first: the work then gets 80 % of its CPU time)"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_test_that_was_interrupted_shows_the_pairs_it_made() {
        let mut cut = Confirmation {
            shift: None,
            sham_ratio: None,
            why: Some("interrupted".to_owned()),
            ..confirmation(ConfirmationResult::Undecided, 1.0)
        };
        let said = |cut: &_| sentence(cut).replace('\u{a0}', " ");
        assert_eq!(
            said(&cut),
            "undecided: backends in use, 4 to 3; predicted -25.0 % of the capacity; incomplete, 0 of 6 \
             pairs; interrupted; 0 ns"
        );
        for (changed_per_s, invalid) in
            [(740.0, None), (10.0, Some("busy host".to_owned())), (760.0, None)]
        {
            let first = ConfirmationArm::Sham;
            cut.pairs.push(ConfirmationPair { first, sham_per_s: 1_000.0, changed_per_s, invalid });
        }
        let text = said(&cut);
        assert!(
            text.contains("; incomplete, 2 of 6 pairs (-26.0 %, -24.0 %); interrupted"),
            "{text}"
        );
    }

    #[test]
    fn a_raised_limit_is_told_with_what_was_predicted() {
        let mut raised = Remedied {
            predicted_ratio: Some(2.0),
            seconds: 148.0,
            ..Remedied::new(Intervention::SessionRate, 400.0, 800.0)
        };
        raised.take_result(&Outcome::Regular, (Some(790.0), Some(806.0)), 401.0);
        let said = |raised: &_| remedied(raised).replace('\u{a0}', " ");
        let begin =
            "new sessions per second, 400/s to 800/s; predicted +100.0 % of the tipping point, ";
        assert_eq!(
            said(&raised),
            format!("{begin}measured +99.0 %: between 790/s and 806/s; 148 s")
        );
        raised.outcome = Some(Outcome::Undecided { why: Unsettled::Trials { most: 60 } });
        assert_eq!(
            said(&raised),
            format!("{begin}no tipping point: the limit of 60 trials was reached; 148 s")
        );
        raised.why = Some("HAProxy: value out of range".to_owned());
        assert_eq!(said(&raised), "not while the server runs: HAProxy: value out of range");
    }

    #[test]
    fn pairs_are_shown_in_the_order_they_were_made() {
        let mut made = confirmation(ConfirmationResult::Undecided, 1.0);
        made.pairs.push(ConfirmationPair {
            first: ConfirmationArm::Changed,
            sham_per_s: 1_000.0,
            changed_per_s: 800.0,
            invalid: None,
        });
        let line = |made: &_| render_confirmation_pair(made).replace('\u{a0}', " ");
        assert_eq!(line(&made), "pair 1 of 6: 800/s with the change, 1,000/s without (-20.0 %)");
        made.pairs[0].invalid = Some("a load without a good answer".to_owned());
        assert_eq!(line(&made), "pair 1 of 6: not counted (a load without a good answer)");
    }
}
