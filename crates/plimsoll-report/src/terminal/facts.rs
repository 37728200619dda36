//! The facts of a run and its cause as entries, for reports that lay them out themselves.

use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;

use super::layout::{Entry, Page};
use super::{causes, compare, events, hold, rfc9411, search, sections, timers};

/// Returns the facts of a run, without the facts of its cause.
pub(crate) fn of(summary: &Summary) -> Vec<Entry> {
    Page::entries(|page| write_facts(page, summary))
}

fn write_facts(page: &mut Page, summary: &Summary) {
    match &summary.result {
        RunResult::Load | RunResult::Sizing { .. } => {
            sections::operations(page, summary);
            events::entries(page, summary);
            sections::server_side(page, summary);
            sections::generator(page, summary);
        }
        RunResult::Hold { hold } => {
            hold::facts(page, summary, hold);
            events::entries(page, summary);
            sections::server_side(page, summary);
            hold::tls_messages(page, hold);
            hold::closing(page, summary, hold);
            sections::generator(page, summary);
        }
        RunResult::Find { find } | RunResult::Storm { find, .. } => {
            search::facts(page, summary, find)
        }
        RunResult::Connections { find, hold } => {
            search::facts(page, summary, find);
            if let Some(hold) = hold {
                hold::closing(page, summary, hold);
            }
        }
        RunResult::Compare { compare } => {
            return page.key(1, |page| compare::facts(page, compare));
        }
        RunResult::Rfc9411 { rfc9411 } => {
            return page.key(1, |page| rfc9411::facts(page, summary, rfc9411));
        }
    }
    timers::longest(page, summary)
}

/// Returns the events of the load, and their effects.
pub(crate) fn events(summary: &Summary) -> Vec<Entry> {
    Page::entries(|page| events::entries(page, summary))
}

/// Returns the limiting resource, its confidence, and the remedy; empty if nothing was diagnosed.
pub(crate) fn cause(summary: &Summary) -> Vec<Entry> {
    Page::entries(|page| causes::section(page, summary))
}
