//! What one search came to, and what several of the same SUT say together.

use std::fmt::Write;

use anyhow::Context;
use anyhow::Result;
use serde_json::Value;

use crate::bench::claim::Claim;
use crate::bench::invocation::Finished;
use crate::bench::lab::capacity::Known;
use crate::bench::lab::interval::Interval;
use crate::bench::spread::Spread;

/// Longest time of a quick search with everything around it.
const SECONDS_MAX: f64 = 240.0;
/// Widest interval of a quick search; the rest is for what computing with f64 costs.
const WIDTH_MAX: f64 = 0.05 + 1e-9;
/// So many of so many repeats must agree with the first.
const AGREEING: (usize, usize) = (4, 5);

/// One search.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    seconds: f64,
    /// None when a bound is missing; the outcome says why.
    pub(super) interval: Option<Interval>,
    /// `regular`, or what else happened.
    pub(super) outcome: String,
    trials: u64,
    invalid_trials: u64,
}

impl Search {
    /// Reads a summary.
    pub(super) fn of(finished: &Finished) -> Result<Self> {
        let find = finished.summary.get("find").context("the summary has no `find`")?;
        let bounds = find["lower"].as_f64().zip(find["upper"].as_f64());
        Ok(Self {
            seconds: finished.seconds,
            interval: bounds.map(|(lower, upper)| Interval { lower, upper }),
            outcome: outcome(&find["outcome"]),
            trials: find["trials"].as_u64().context("the summary counts no trials")?,
            invalid_trials: find["invalid_trials"].as_u64().unwrap_or(0),
        })
    }

    /// One line for the terminal.
    pub(super) fn line(&self) -> String {
        let interval = self.interval.map_or_else(
            || "no interval".to_owned(),
            |interval| format!("[{:.1}, {:.1}]/s", interval.lower, interval.upper),
        );
        format!("{interval} in {:.0} s, {} trials, {}", self.seconds, self.trials, self.outcome)
    }

    /// Cells of a row, without the first and the last.
    fn cells(&self) -> String {
        let bounds = self.interval.map_or_else(
            || "- | - | -".to_owned(),
            |interval| {
                let Interval { lower, upper } = interval;
                format!("{lower:.1} | {upper:.1} | {:.2}", interval.width() * 100.0)
            },
        );
        let Self { seconds, trials, invalid_trials, outcome, .. } = self;
        format!("{seconds:.0} | {bounds} | {trials} | {invalid_trials} | {outcome}")
    }
}

/// `regular`, or `not-reached: why`.
fn outcome(value: &Value) -> String {
    if let Some(name) = value.as_str() {
        return name.to_owned();
    }
    let variant = value.as_object().and_then(|variants| variants.iter().next());
    let Some((name, fields)) = variant else { return "unknown".to_owned() };
    let why = fields.as_object().and_then(|fields| fields.values().next()?.as_str());
    format!("{name}: {}", why.unwrap_or("no reason given"))
}

/// What searches of the same SUT, the first of them the reference, promise.
pub(super) fn claims(searches: &[Search]) -> Vec<Claim> {
    let time = ("seconds of a quick lab on HAProxy", format!("each below {SECONDS_MAX:.0}"));
    let width = ("width of its interval, %", "each at most 5".to_owned());
    let (some, of) = AGREEING;
    let agreement =
        ("later intervals that overlap or touch the first", format!("at least {some} of {of}"));
    let [first, later @ ..] = searches else {
        let claims = [time, width, agreement];
        return claims.map(|(what, aim)| Claim::not_measured(what, aim, "no figures")).into();
    };
    let seconds = Spread::of(searches.iter().map(|search| search.seconds)).decimals(0);
    let known = searches.iter().filter_map(|search| search.interval);
    let widths = Spread::of(known.clone().map(|interval| interval.width() * 100.0));
    let missing = searches.len() - known.count();
    let found = match missing {
        0 => widths.to_string(),
        _ => format!("{widths}; {missing} of {} without both bounds", searches.len()),
    };
    let agreeing = later.iter().filter(|search| agree(first, search)).count();
    let is_wide = missing > 0 || widths.max > WIDTH_MAX * 100.0;
    vec![
        Claim::new(time.0, time.1, seconds.to_string(), seconds.max < SECONDS_MAX),
        Claim::new(width.0, width.1, found, !is_wide),
        Claim::new(
            agreement.0,
            agreement.1,
            format!("{agreeing} of {}", later.len()),
            !later.is_empty() && agreeing * of >= later.len() * some,
        ),
    ]
}

fn agree(first: &Search, second: &Search) -> bool {
    first.interval.zip(second.interval).is_some_and(|(a, b)| a.overlaps(&b))
}

/// Every search, for the page.
pub(super) fn table(searches: &[Search], known: &[Known]) -> String {
    let mut text = String::from(
        "| search | seconds | lower, 1/s | upper, 1/s | width, % | trials | INVALID trials \
         | outcome | agrees |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (index, search) in searches.iter().enumerate() {
        let agrees = match searches {
            [first, ..] if index > 0 => yes_or_no(agree(first, search)),
            _ => "reference",
        };
        let _ = writeln!(text, "| lab {} | {} | {agrees} |", index + 1, search.cells());
    }
    for Known { name, search, holds_truth } in known {
        let _ = writeln!(text, "| {name} | {} | {} |", search.cells(), yes_or_no(*holds_truth));
    }
    text
}

const fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::bench::claim::Outcome;

    use super::*;

    fn search(lower: f64, upper: f64) -> Search {
        Search {
            seconds: 120.0,
            interval: Some(Interval { lower, upper }),
            outcome: "regular".to_owned(),
            trials: 20,
            invalid_trials: 0,
        }
    }

    fn outcomes(searches: &[Search]) -> Vec<Outcome> {
        claims(searches).iter().map(|claim| claim.outcome).collect()
    }

    #[test]
    fn four_of_five_must_agree_with_the_first() {
        let mut searches = vec![search(1_000.0, 1_050.0); 5];
        searches.push(search(2_000.0, 2_100.0));
        assert_eq!(outcomes(&searches), [Outcome::Reached; 3]);
        searches[1] = search(2_000.0, 2_100.0);
        let expected = [Outcome::Reached, Outcome::Reached, Outcome::NotReached];
        assert_eq!(outcomes(&searches), expected);
        assert_eq!(claims(&searches)[2].found, "3 of 5");
        // One search says nothing of the next.
        assert_eq!(outcomes(&searches[..1])[2], Outcome::NotReached);
        assert_eq!(outcomes(&[]), [Outcome::NotMeasured; 3]);
    }

    #[test]
    fn the_slowest_and_the_widest_decide() {
        let mut searches = vec![search(1_000.0, 1_050.0), search(1_000.0, 1_050.0)];
        searches[1].seconds = 240.0;
        assert_eq!(outcomes(&searches)[..2], [Outcome::NotReached, Outcome::Reached]);
        searches[1] = search(1_000.0, 1_051.0);
        assert_eq!(outcomes(&searches)[..2], [Outcome::Reached, Outcome::NotReached]);
    }

    #[test]
    fn a_missing_bound_is_not_a_narrow_interval() {
        let finished = |find| Finished { summary: json!({"find": find}), seconds: 60.4 };
        let open = json!({"outcome": {"not-reached": {"cap": "--max"}}, "lower": 5.0, "upper": null,
                          "trials": 3, "invalid_trials": 1});
        let open = Search::of(&finished(open)).unwrap();
        assert_eq!(open.cells(), "60 | - | - | - | 3 | 1 | not-reached: --max");
        let expected = [Outcome::Reached, Outcome::NotReached, Outcome::NotReached];
        assert_eq!(outcomes(&[search(5.0, 5.1), open]), expected);
        assert!(Search::of(&finished(json!({}))).is_err());
        let whole = json!({"outcome": "regular", "lower": 100.0, "upper": 104.0, "trials": 3});
        let whole = Search::of(&finished(whole)).unwrap();
        assert_eq!(whole.line(), "[100.0, 104.0]/s in 60 s, 3 trials, regular");
    }
}
