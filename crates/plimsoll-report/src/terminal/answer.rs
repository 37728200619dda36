//! The answer of a run and its facts, for reports that are not text: the words are those of the terminal.

use std::io;

use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Outcome, Verdict};

use super::layout::{Entry, Page, Tone, clean};
use super::{causes, compare, hold, load, rfc9411, search, sections, sizing, timers};

/// What a report says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) tone: Tone,
    /// `Tipping point:`, `GOOD`.
    pub(crate) lead: String,
    pub(crate) text: String,
}

impl From<(Tone, &str, String)> for Answer {
    fn from((tone, lead, text): (Tone, &str, String)) -> Self {
        Self { tone, lead: lead.to_owned(), text }
    }
}

/// The answer of a run; of a search for several SLOs, and beside a safe load, there are several.
pub(crate) fn answers(summary: &Summary) -> Vec<Answer> {
    let one = |answer: (Tone, &str, String)| vec![Answer::from(answer)];
    match &summary.result {
        RunResult::Load => {
            let (word, tone) = load::head_word(summary);
            one((tone, word, load::sentence(summary)))
        }
        RunResult::Find { find } | RunResult::Connections { find, .. } => {
            search::answers(summary, find)
        }
        RunResult::Hold { hold } => {
            let (word, tone) = hold::head_word(summary);
            one((tone, word, hold::sentence(summary, hold)))
        }
        RunResult::Compare { compare } => one(compare::headline(compare)),
        RunResult::Sizing { sizing } => one(sizing::headline(sizing)),
        RunResult::Rfc9411 { rfc9411: case } => {
            let lead = format!("RFC 9411, {}:", case.case);
            one((summary.verdict.into(), &lead, clean(&case.title)))
        }
    }
}

/// What stands in the badge: a word with a shape, and its class.
pub(crate) struct Badge {
    pub(crate) word: &'static str,
    /// `good`, `bad`, `invalid`, or `plain` where nothing was judged.
    pub(crate) class: &'static str,
}

impl Badge {
    pub(crate) fn of(summary: &Summary) -> Self {
        let word = match &summary.result {
            _ if summary.partial => "PARTIAL",
            RunResult::Load => load::head_word(summary).0,
            RunResult::Hold { .. } => hold::head_word(summary).0,
            RunResult::Find { find } | RunResult::Connections { find, .. } => match find.outcome {
                Outcome::Unstable { .. } => "UNSTABLE",
                Outcome::Undecided { .. } => "UNDECIDED",
                _ => search::verdict_word(summary.verdict),
            },
            RunResult::Compare { .. } | RunResult::Sizing { .. } => match summary.verdict {
                Verdict::Invalid => "INVALID",
                Verdict::Good | Verdict::Bad => "COMPARED",
            },
            RunResult::Rfc9411 { .. } => search::verdict_word(summary.verdict),
        };
        let class = match word {
            "GOOD" | "HELD" => "good",
            "BAD" | "FAILED" => "bad",
            "INVALID" => "invalid",
            _ => "plain",
        };
        Self { word, class }
    }
}

/// The facts of a run, those of its cause apart.
pub(crate) fn facts(summary: &Summary) -> Vec<Entry> {
    let mut entries = Vec::new();
    let written = write_facts(&mut Page::entries(&mut entries), summary);
    debug_assert!(written.is_ok(), "entries are kept in memory");
    entries
}

fn write_facts(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    match &summary.result {
        RunResult::Load | RunResult::Sizing { .. } => {
            sections::operations(page, summary)?;
            sections::server_side(page, summary)?;
            sections::generator(page, summary)?;
        }
        RunResult::Hold { hold } => {
            hold::facts(page, hold, summary.pings, &summary.settings)?;
            sections::server_side(page, summary)?;
            hold::tls_messages(page, hold)?;
            hold::closing(page, summary, hold)?;
            sections::generator(page, summary)?;
        }
        RunResult::Find { find } => search::facts(page, summary, find)?,
        RunResult::Connections { find, hold } => {
            search::facts(page, summary, find)?;
            if let Some(hold) = hold {
                hold::closing(page, summary, hold)?;
            }
        }
        RunResult::Compare { compare } => return compare::facts(page, compare),
        RunResult::Rfc9411 { rfc9411 } => return rfc9411::facts(page, summary, rfc9411),
    }
    timers::longest(page, summary)
}

/// What limits, how sure that is, and what to do; empty where nothing was diagnosed.
pub(crate) fn cause(summary: &Summary) -> Vec<Entry> {
    let mut entries = Vec::new();
    let written = causes::section(&mut Page::entries(&mut entries), summary);
    debug_assert!(written.is_ok(), "entries are kept in memory");
    entries
}
