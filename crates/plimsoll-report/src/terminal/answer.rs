//! The answer of a run and its facts, for reports that are not text: the words are those of the terminal.

use std::io;

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
    if let Some(found) = &summary.compare {
        one(compare::headline(found))
    } else if let Some(found) = &summary.sizing {
        one(sizing::headline(found))
    } else if let Some(case) = &summary.rfc9411 {
        let lead = format!("RFC 9411, {}:", case.case);
        one((summary.verdict.into(), &lead, clean(&case.title)))
    } else if let Some(found) = &summary.find {
        search::answers(summary, found)
    } else if let Some(held) = &summary.hold {
        let (word, tone) = hold::head_word(summary);
        one((tone, word, hold::sentence(summary, held)))
    } else {
        let (word, tone) = load::head_word(summary);
        one((tone, word, load::sentence(summary)))
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
        if summary.partial {
            return Self { word: "PARTIAL", class: "plain" };
        }
        match summary.find.as_ref().map(|find| &find.outcome) {
            Some(Outcome::Unstable { .. }) => return Self { word: "UNSTABLE", class: "plain" },
            Some(Outcome::Undecided { .. }) => return Self { word: "UNDECIDED", class: "plain" },
            _ => {}
        }
        let has_words = summary.find.is_none()
            && summary.compare.is_none()
            && summary.sizing.is_none()
            && summary.rfc9411.is_none();
        // The words of loads and holds, where a good verdict may mean that nothing was asked.
        if has_words && let Some(first) = answers(summary).first() {
            match &first.lead[..] {
                "DONE" => return Self { word: "DONE", class: "plain" },
                "FAILED" => return Self { word: "FAILED", class: "bad" },
                "HELD" => return Self { word: "HELD", class: "good" },
                _ => {}
            }
        }
        if summary.compare.is_some() || summary.sizing.is_some() {
            let class = if summary.verdict == Verdict::Invalid { "invalid" } else { "plain" };
            return Self { word: if class == "plain" { "COMPARED" } else { "INVALID" }, class };
        }
        match summary.verdict {
            Verdict::Good => Self { word: "GOOD", class: "good" },
            Verdict::Bad => Self { word: "BAD", class: "bad" },
            Verdict::Invalid => Self { word: "INVALID", class: "invalid" },
        }
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
    if let Some(found) = &summary.compare {
        return compare::facts(page, found);
    }
    if let Some(case) = &summary.rfc9411 {
        return rfc9411::facts(page, summary, case);
    }
    if let Some(found) = &summary.find {
        search::facts(page, summary, found)?;
        if let Some(held) = &summary.hold {
            hold::closing(page, summary, held)?;
        }
        return timers::longest(page, summary);
    }
    match &summary.hold {
        Some(held) => hold::facts(page, held, summary.pings, &summary.settings)?,
        None => sections::operations(page, summary)?,
    }
    sections::server_side(page, summary)?;
    if let Some(held) = &summary.hold {
        hold::tls_messages(page, held)?;
        hold::closing(page, summary, held)?;
    }
    sections::generator(page, summary)?;
    timers::longest(page, summary)
}

/// What limits, how sure that is, and what to do; empty where nothing was diagnosed.
pub(crate) fn cause(summary: &Summary) -> Vec<Entry> {
    let mut entries = Vec::new();
    let written = causes::section(&mut Page::entries(&mut entries), summary);
    debug_assert!(written.is_ok(), "entries are kept in memory");
    entries
}
