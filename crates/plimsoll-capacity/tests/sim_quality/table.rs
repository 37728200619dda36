//! The tables of docs/search-quality.md.

use std::fmt::Write;
use std::ops::Range;

use plimsoll_capacity::Mode;

use crate::faults::FaultScore;
use crate::kinds::Kind;
use crate::methods::Method;
use crate::score::{Score, quantile, score};

fn row(text: &mut String, kind: &str, method: &str, score: &Score) {
    let percent = |value: f64| format!("{:.1} %", 100.0 * value);
    let _ = writeln!(
        text,
        "| {kind} | {method} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.0} s | {} | {} |",
        score.searches,
        score.percent(score.stated),
        score.contained_percent(),
        score.percent(score.wrong),
        score.percent(score.unstable),
        score.percent(score.undecided),
        quantile(&score.trials, 0.5),
        quantile(&score.spent, 0.5).as_secs_f64(),
        percent(quantile(&score.errors, 0.5)),
        percent(quantile(&score.widths, 0.5)),
    );
}

/// How often a generator without faults was blamed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarms {
    pub(crate) invalid: u32,
    pub(crate) trials: u32,
}

/// Every kind of server, by our search in two modes, by bisection and by a staircase that may use
/// as many trials as our search did in the median. Standard searches take longer, and get seeds of
/// their own.
pub(crate) fn servers(
    kinds: &[Kind],
    seeds: &Range<u64>,
    standard: &Range<u64>,
) -> (String, Alarms) {
    let mut alarms = Alarms::default();
    let mut text = String::from(
        "| server | search | searches | states an interval % | of those, holds the truth % | wrong % \
         | unstable % | undecided % | median trials | median time | median error | median width \
         |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for kind in kinds {
        let mut of = |name, label: &str, method, seeds: &Range<u64>| {
            let score = score(kind, method, seeds.clone());
            row(&mut text, name, label, &score);
            if matches!(method, Method::Plimsoll(_)) {
                alarms.invalid += score.invalid;
                alarms.trials += score.trials.iter().sum::<u32>();
            }
            quantile(&score.trials, 0.5)
        };
        of(kind.name, "quick", Method::Plimsoll(Mode::Quick), seeds);
        if standard.is_empty() {
            continue;
        }
        let budget = of("", "standard", Method::Plimsoll(Mode::Standard), standard);
        of("", "bisection", Method::Bisection(Mode::Standard), standard);
        of("", "staircase", Method::Staircase(Mode::Standard, budget), standard);
    }
    (text, alarms)
}

/// Every fault of the generator.
pub(crate) fn generators(scores: &[FaultScore]) -> String {
    let mut text = String::from(
        "| fault of the generator | search | says it was the generator % | blames the server % \
         | median trials | median lower bound over what the generator makes |\n\
         |---|---|---|---|---|---|\n",
    );
    for score in scores {
        let share = |count: usize| 100.0 * count as f64 / score.searches.max(1) as f64;
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1} | {} | {} |",
            score.name,
            score.method,
            share(score.owned),
            share(score.blamed),
            quantile(&score.trials, 0.5),
            score.lower_share().map_or_else(|| "–".to_owned(), |share| format!("{share:.2}")),
        );
    }
    text
}
