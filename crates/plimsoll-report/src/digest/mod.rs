//! The digest of a run: what every report of it says. Terminal, page, Markdown, JUnit and the logs of CI services lay
//! it out and decide nothing.
//!
//! [`Digest::of`] matches once on the kind of result. A module for each kind has its sentences, [`figures`] has the key
//! figures, and [`warnings`] has what limits the use of the figures.

use plimsoll_model::result::RunResult;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Outcome, Standing};
use serde::Serialize;

use crate::terminal::layout::clean;

mod answer;
pub(crate) mod compare;
pub(crate) mod cycles;
mod figures;
pub(crate) mod hold;
mod load;
pub(crate) mod search;
pub(crate) mod sizing;
pub(crate) mod storm;
mod warnings;

pub(crate) use answer::{Answer, Role, verdict_word};
pub(crate) use figures::KeyFigure;
pub(crate) use warnings::Warning;

/// The content of every report of a run.
#[derive(Clone, Debug)]
pub(crate) struct Digest {
    pub(crate) badge: Badge,
    /// At least one. The load that can be planned with comes first.
    pub(crate) answers: Vec<Answer>,
    /// The sentence about a run that was ended early, if no answer says so.
    pub(crate) cut_short: Option<String>,
    pub(crate) figures: Vec<KeyFigure>,
    /// The gravest first.
    pub(crate) warnings: Vec<Warning>,
    /// Commands that show more.
    pub(crate) next: Vec<String>,
}

/// A word with a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Badge {
    /// `GOOD`, `HELD`, `UNDECIDED`.
    pub word: &'static str,
    /// `good`, `bad`, `invalid`, or `plain` if nothing was judged.
    pub class: &'static str,
}

impl Default for Badge {
    /// Returns the badge of a run that has not ended.
    fn default() -> Self {
        "RUNNING".into()
    }
}

impl From<&'static str> for Badge {
    fn from(word: &'static str) -> Self {
        let class = match word {
            "GOOD" | "HELD" => "good",
            "BAD" | "FAILED" => "bad",
            "INVALID" => "invalid",
            _ => "plain",
        };
        Self { word, class }
    }
}

impl Badge {
    pub(crate) fn of(summary: &Summary) -> Self {
        let is_unstable = |outcome: &Outcome| matches!(outcome, Outcome::Unstable { .. });
        let word = match (&summary.result, summary.standing()) {
            _ if summary.partial => "PARTIAL",
            (result, Standing::Open) => {
                let mut outcomes = result.find().into_iter().flat_map(FindSummary::outcomes);
                if outcomes.any(is_unstable) { "UNSTABLE" } else { "UNDECIDED" }
            }
            (RunResult::Load, _) => load::head_word(summary).0,
            (RunResult::Hold { .. }, _) => hold::head_word(summary).0,
            (RunResult::Compare { .. } | RunResult::Sizing { .. }, Standing::Met) => "COMPARED",
            _ => verdict_word(summary.verdict),
        };
        word.into()
    }
}

impl Digest {
    pub(crate) fn of(summary: &Summary) -> Self {
        let (answers, noun, figures) = match &summary.result {
            RunResult::Load => {
                let answer = Answer::verdict(load::head_word(summary), load::sentence(summary));
                (vec![answer], None, figures::of_load(summary))
            }
            RunResult::Hold { hold } => {
                let text = hold::sentence(summary, hold);
                let answer = Answer::verdict(hold::head_word(summary), text);
                (vec![answer], None, figures::of_hold(summary, hold))
            }
            RunResult::Find { find } | RunResult::Connections { find, .. } => {
                let answers = search::answers(summary, find);
                (answers, Some("search"), figures::of_search(summary, find))
            }
            RunResult::Storm { find, storm } => {
                let storm = storm.as_deref();
                let answers = storm::answers(summary, find, storm);
                (answers, Some("search"), storm::figures(summary, find, storm))
            }
            RunResult::Compare { compare } => {
                let figures = figures::of_comparison(summary, compare);
                (vec![compare::answer(compare)], Some("comparison"), figures)
            }
            RunResult::Sizing { sizing } => {
                (vec![sizing::answer(sizing)], Some("sweep"), figures::of_load(summary))
            }
            RunResult::Rfc9411 { rfc9411: case } => {
                let lead = format!("RFC 9411, {}:", case.case);
                let answer = Answer::new(summary.verdict.into(), lead, clean(&case.title));
                (vec![answer], Some("case"), figures::of_case(summary, case))
            }
        };
        let warnings = warnings::of(summary);
        Self {
            badge: Badge::of(summary),
            answers,
            cut_short: noun.filter(|_| summary.partial).map(|noun| {
                format!("The {noun} was cut short; all figures cover the time until then.")
            }),
            figures,
            next: next(summary, warnings.first()),
            warnings,
        }
    }

    /// Returns the answers in one line.
    pub(crate) fn sentence(&self) -> String {
        let answers =
            self.answers.iter().map(|answer| format!("{} {}", answer.lead(), answer.text));
        let cut_short = self.cut_short.iter().map(|text| format!("PARTIAL {text}"));
        let texts: Vec<_> = answers.chain(cut_short).collect();
        texts.iter().flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ")
    }
}

fn next(summary: &Summary, first: Option<&Warning>) -> Vec<String> {
    let mut next: Vec<_> =
        first.map(|warning| format!("plimsoll explain {}", warning.id)).into_iter().collect();
    match &summary.archive {
        Some(dir) => {
            let dir = clean(dir);
            next.push(format!("plimsoll report {dir} --details"));
            next.push(format!("plimsoll report {dir} --html page.html"));
        }
        None => next.push("--details: trials, checks, settings; --out DIR keeps them".to_owned()),
    }
    next
}
