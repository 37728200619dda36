//! The words for what a search knows: an interval with its confidence, or what was observed. They are
//! the same while a search runs and at its end.

use plimsoll_model::search::Axis;
use plimsoll_model::trial::{Met, Outlook, Regime, TippingPoint};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use crate::terminal::layout::{counted, per_s, whole};
use crate::time_text::rounded;

/// Returns a load on an axis: `12,400/s` of requests, `1,240 handshakes/s`, `731 connections`.
pub(crate) fn load_text(axis: Axis, value: f64) -> String {
    match axis {
        Axis::Connections | Axis::Storm => whole(&counted(value as u64, "connection")),
        Axis::Handshakes => whole(&format!("{} handshakes/s", grouped(value.round() as u64))),
        Axis::Deliveries => whole(&format!("{} deliveries/s", grouped(value.round() as u64))),
        Axis::Rate | Axis::ConnectionsPerS | Axis::TransactionsPerS => per_s(value),
    }
}

/// Returns `90 %`, in one piece.
pub(crate) fn sure(confidence: f64) -> String {
    whole(&format!("{} %", (confidence * 1000.0).round() / 10.0))
}

/// Returns `between 32,791/s and 40,974/s (90 % confidence)`, or the loads that met the SLO and missed it.
pub(crate) fn bounds_text(axis: Axis, found: &TippingPoint) -> String {
    let load = |bound: Option<Rate>| bound.map(|bound| load_text(axis, bound.get()));
    let (lower, upper) = (load(found.lower), load(found.upper));
    if let (Some(lower), Some(upper), Some(confidence)) = (&lower, &upper, found.confidence) {
        return format!("between {lower} and {upper} ({} confidence)", sure(confidence));
    }
    let met = found.met.map_or_else(
        || "met the SLO".to_owned(),
        |Met { trials, longest }| {
            format!("met the SLO for {} in {}", rounded(longest), counted(trials.into(), "trial"))
        },
    );
    match (lower, upper) {
        (Some(lower), Some(upper)) => {
            format!("between {lower}, which {met}, and {upper}, which missed it")
        }
        (Some(lower), None) => format!("at least {lower}, which {met}"),
        (None, Some(upper)) => format!("below {upper}, which missed the SLO"),
        (None, None) => "no bounds yet".to_owned(),
    }
}

/// Returns [`bounds_text`] with the safe load, if there is one.
pub(crate) fn with_safe(axis: Axis, found: &TippingPoint) -> String {
    let bounds = bounds_text(axis, found);
    match found.safe {
        Some(safe) => format!("{bounds}; safe load {}", load_text(axis, safe.get())),
        None => bounds,
    }
}

/// Returns `1 m 10 s left; 60 s more: about 6 % wide`.
fn outlook_text(outlook: &Outlook) -> String {
    let left = format!("{} left", rounded(outlook.left));
    match outlook.width {
        Some(width) if outlook.further > Nanos::ZERO => format!(
            "{left}; {} more: about {:.0} % wide",
            rounded(outlook.further),
            (width * 100.0).max(1.0)
        ),
        _ => left,
    }
}

/// Returns the bounds of an answer, as in [`answer_line`].
pub(crate) fn bounds_line(axis: Axis, answer: &TippingPoint) -> String {
    bounds_text(axis, answer).replace('\u{a0}', " ")
}

/// Returns one line for the answer of a search that runs, without colours and without a newline.
pub(crate) fn answer_line(axis: Axis, answer: &TippingPoint) -> String {
    let mut line = format!("so far: {}", with_safe(axis, answer));
    if let Some(outlook) = &answer.outlook {
        line.push_str(&format!("; {}", outlook_text(outlook)));
    }
    line.replace('\u{a0}', " ")
}

/// Returns `at the median speed (62 % of the time) it carries 55,800/s to 60,100/s`, of each speed at which the
/// server ran.
pub(crate) fn regime_lines(axis: Axis, regimes: &[Regime]) -> Vec<String> {
    let line = |regime: &Regime| {
        let speed = match regime.is_usual() {
            true => "the usual speed".to_owned(),
            false => format!("{:.0} % of the usual speed", regime.speed * 100.0),
        };
        let bound = |bound: Option<Rate>| bound.map(|bound| load_text(axis, bound.get()));
        let carried = match (bound(regime.lower), bound(regime.upper)) {
            (Some(lower), Some(upper)) => format!("between {lower} and {upper}"),
            (Some(lower), None) => format!("at least {lower}"),
            (None, Some(upper)) => format!("less than {upper}"),
            (None, None) => return None,
        };
        let share = regime.share * 100.0;
        Some(format!("at {speed} ({share:.0} % of the time) the server carries {carried}"))
    };
    regimes.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::fixtures;

    fn answer() -> TippingPoint {
        let further = Nanos::from_secs(60);
        let outlook = Outlook { left: Nanos::from_secs(70), width: Some(0.061), further };
        TippingPoint { outlook: Some(outlook), ..fixtures::tipping_point() }
    }

    #[test]
    fn a_running_search_states_its_answer_and_what_more_time_buys() {
        let line = answer_line(Axis::Rate, &answer());
        let expected = "so far: between 18,200/s and 18,900/s (90 % confidence); safe load 17,300/s; \
                        1 m 10 s left; 60 s more: about 6 % wide";
        assert_eq!(line, expected);
    }

    #[test]
    fn bounds_without_a_confidence_state_what_was_observed() {
        let met = Some(Met { trials: 4, longest: Nanos::from_secs(15) });
        let unsure = TippingPoint { confidence: None, safe: None, met, outlook: None, ..answer() };
        let expected = "so far: between 18,200/s, which met the SLO for 15 s in 4 trials, and 18,900/s, \
                        which missed it";
        assert_eq!(answer_line(Axis::Rate, &unsure), expected);
        let low = TippingPoint { upper: None, ..unsure.clone() };
        assert!(answer_line(Axis::Rate, &low).contains("at least 18,200/s, which met"));
        let none = TippingPoint { lower: None, upper: None, ..unsure };
        let expected = "so far: no bounds yet";
        assert_eq!(answer_line(Axis::Rate, &none), expected);
    }

    #[test]
    fn every_speed_has_its_share_and_its_load() {
        let rate = Rate::per_second;
        let regime = |share, speed, lower| Regime { share, speed, lower, upper: rate(60_000.0) };
        let regimes = [regime(0.38, 0.84, None), regime(0.62, 1.0, rate(55_800.0))];
        let lines = regime_lines(Axis::Rate, &regimes);
        assert_eq!(
            lines,
            [
                "at 84 % of the usual speed (38 % of the time) the server carries less than 60,000/s",
                "at the usual speed (62 % of the time) the server carries between 55,800/s and 60,000/s"
            ]
        );
    }
}
