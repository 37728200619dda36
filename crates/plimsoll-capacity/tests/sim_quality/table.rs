//! The tables of docs/explanation/search-quality.md.

use std::fmt::Write;
use std::ops::Range;

use plimsoll_capacity::Mode;
use plimsoll_model::Nanos;

use crate::faults::FaultScore;
use crate::kinds::Kind;
use crate::methods::Method;
use crate::score::{Score, quantile, score};

fn row(text: &mut String, kind: &str, method: &str, score: &Score) {
    let percent = |value: f64| format!("{:.1} %", 100.0 * value);
    let _ = writeln!(
        text,
        "| {kind} | {method} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.0} s | {} | {} | {:.1} | {:.2} | {} |",
        score.searches,
        score.percent(score.stated),
        score.contained_percent(),
        score.percent(score.wrong),
        score.percent(score.unstable),
        score.percent(score.undecided),
        score.percent(score.bounded),
        quantile(&score.trials, 0.5),
        quantile(&score.spent, 0.5).as_secs_f64(),
        percent(quantile(&score.errors, 0.5)),
        percent(quantile(&score.widths, 0.5)),
        score.percent(score.safe),
        quantile(&score.safe_shares, 0.5),
        safe_runs(score),
    );
}

/// Formats the further runs at safe loads, in two cells.
fn safe_runs(score: &Score) -> String {
    score
        .safe_percent()
        .map_or_else(|| "– | –".to_owned(), |(met, too_few)| format!("{met:.1} | {too_few:.1}"))
}

/// False alarms: trials in which a generator without faults was blamed.
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
                    | unstable % | undecided % | a load that met the SLO % | median trials | median time | median error \
                    | median width | safe load % | of the lower bound, median | runs at it that meet the SLO % | safe loads that fewer than 80 % meet % |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Budgets of trial and rest time, seconds.
const BUDGETS_S: [u64; 2] = [30, 60];

/// Every kind of server by our search with short budgets.
pub(crate) fn budgets(kinds: &[Kind], seeds: &Range<u64>, alarms: &mut Alarms) -> String {
    let mut text = String::from(
        "| server | budget | searches | states an interval % | of those, holds the truth % | wrong % \
         | bounds within a factor of 1.5 % | a load that met the SLO % | safe load % \
         | runs at it that meet the SLO % | safe loads that fewer than 80 % meet % | median width |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for kind in kinds {
        for (index, budget_s) in BUDGETS_S.into_iter().enumerate() {
            let method = Method::Within(Nanos::from_secs(budget_s));
            let score = score(kind, method, seeds.clone(), true);
            alarms.add(&score);
            let _ = writeln!(
                text,
                "| {} | {budget_s} s | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.1} % |",
                if index == 0 { &*kind.name } else { "" },
                score.searches,
                score.percent(score.stated),
                score.contained_percent(),
                score.percent(score.wrong),
                score.percent(score.bracketed),
                score.percent(score.bounded),
                score.percent(score.safe),
                safe_runs(&score),
                100.0 * quantile(&score.widths, 0.5),
            );
        }
    }
    text
}

/// Every kind of server by our search in quick mode.
pub(crate) fn quick(kinds: &[Kind], seeds: &Range<u64>, alarms: &mut Alarms) -> String {
    let mut text = String::from(HEAD);
    for kind in kinds {
        let score = score(kind, Method::Plimsoll(Mode::Quick), seeds.clone(), true);
        row(&mut text, &kind.name, "quick", &score);
        alarms.add(&score);
    }
    text
}

/// Every kind of server by our search in quick mode, stopped at a random instant.
pub(crate) fn stopped(kinds: &[Kind], seeds: &Range<u64>, alarms: &mut Alarms) -> String {
    let mut text = String::from(
        "| server | searches | states an interval % | of those, holds the truth % | wrong % \
         | a load that met the SLO % | median trials | median width |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for kind in kinds {
        let score = score(kind, Method::Stopped, seeds.clone(), false);
        alarms.add(&score);
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.1} % |",
            kind.name,
            score.searches,
            score.percent(score.stated),
            score.contained_percent(),
            score.percent(score.wrong),
            score.percent(score.bounded),
            quantile(&score.trials, 0.5),
            100.0 * quantile(&score.widths, 0.5),
        );
    }
    text
}

/// Every kind of server by our search in standard mode, by bisection, and by a staircase that may use
/// as many trials as our search did in the median.
pub(crate) fn standard(kinds: &[Kind], seeds: &Range<u64>, alarms: &mut Alarms) -> String {
    let mut text = String::from(HEAD);
    for kind in kinds {
        let ours = score(kind, Method::Plimsoll(Mode::Standard), seeds.clone(), true);
        row(&mut text, &kind.name, "standard", &ours);
        alarms.add(&ours);
        let staircase = Method::Staircase(Mode::Standard, quantile(&ours.trials, 0.5));
        for method in [Method::Bisection(Mode::Standard), staircase] {
            row(&mut text, "", method.name(), &score(kind, method, seeds.clone(), true));
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
