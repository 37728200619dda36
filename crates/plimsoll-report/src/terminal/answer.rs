//! The answer of a run and its facts, for reports that are not text: the words are those of the terminal.

use std::io;

use plimsoll_model::summary::Summary;

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
