//! The tables of docs/search-quality.md.

use std::fmt::Write;

use plimsoll_capacity::Mode;

use crate::faults::FaultScore;
use crate::kinds::Kind;
use crate::methods::Method;
use crate::score::{Score, quantile, scores};

fn row(text: &mut String, kind: &str, method: &str, score: &Score) {
    let percent = |value: f64| format!("{:.1} %", 100.0 * value);
    let _ = writeln!(
        text,
        "| {kind} | {method} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.0} s | {} | {} |",
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

/// Every kind of server, by our search in two modes, by bisection and by a staircase that may use
/// as many trials as our search did in the median.
pub(crate) fn servers(kinds: &[Kind], seeds: u64) -> String {
    let mut text = String::from(
        "| server | search | states an interval % | of those, holds the truth % | wrong % \
         | unstable % | undecided % | median trials | median time | median error | median width \
         |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for kind in kinds {
        let [quick, ours] =
            scores(kind, [Method::Plimsoll(Mode::Quick), Method::Plimsoll(Mode::Standard)], seeds);
        let budget = quantile(&ours.trials, 0.5);
        let others = [Method::Bisection(Mode::Standard), Method::Staircase(Mode::Standard, budget)];
        let [bisection, staircase] = scores(kind, others, seeds);
        row(&mut text, kind.name, "quick", &quick);
        row(&mut text, "", "standard", &ours);
        row(&mut text, "", "bisection", &bisection);
        row(&mut text, "", "staircase", &staircase);
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
