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

impl Alarms {
    fn add(&mut self, score: &Score) {
        self.invalid += score.invalid;
        self.trials += score.trials.iter().sum::<u32>();
    }
}

const HEAD: &str = "| server | search | searches | states an interval % | of those, holds the truth % | wrong % \
                    | unstable % | undecided % | median trials | median time | median error | median width |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Every kind of server by our search in quick mode.
pub(crate) fn quick(kinds: &[Kind], seeds: &Range<u64>, alarms: &mut Alarms) -> String {
    let mut text = String::from(HEAD);
    for kind in kinds {
        let score = score(kind, Method::Plimsoll(Mode::Quick), seeds.clone());
        row(&mut text, kind.name, "quick", &score);
        alarms.add(&score);
    }
    text
}

/// Every kind of server by our search in standard mode, by bisection, and by a staircase that may use
/// as many trials as our search did in the median.
pub(crate) fn standard(kinds: &[Kind], seeds: &Range<u64>, alarms: &mut Alarms) -> String {
    let mut text = String::from(HEAD);
    for kind in kinds {
        let ours = score(kind, Method::Plimsoll(Mode::Standard), seeds.clone());
        row(&mut text, kind.name, "standard", &ours);
        alarms.add(&ours);
        let staircase = Method::Staircase(Mode::Standard, quantile(&ours.trials, 0.5));
        for method in [Method::Bisection(Mode::Standard), staircase] {
            row(&mut text, "", method.name(), &score(kind, method, seeds.clone()));
        }
    }
    text
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
