//! Checks that did not pass, and failures: what limits how far the figures of a run can be used.

use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{CheckId, Family, Level};
use plimsoll_model::units::grouped;

use crate::reasons;
use crate::terminal::layout::clean;
use crate::terminal::{findings, sections};

/// Returns the warnings that limit the use of the figures, the gravest first: checks that did not pass, then failures
/// by class. Each names its explanation.
pub(super) fn of(summary: &Summary) -> Vec<Warning> {
    // Goals and what became of connections are in the answer; what our timers ended is among the failures.
    let is_said = |id: &CheckId| {
        use CheckId::{Answered, Answers, Held, Lost, OwnTimers};
        id.family() == Family::Goal || matches!(id, Answered | Answers | Held | Lost | OwnTimers)
    };
    let checks = |level| {
        let of_level = summary.reasons.iter().filter(move |check| check.level == level);
        of_level.filter(|check| !is_said(&check.id)).map(|check| {
            let hint = check.id.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            let text = format!("{}{hint}", findings::seen_and_limit(check));
            Warning::new(&check.id.name(), &text)
        })
    };
    let classes = [
        &summary.failures.error_classes,
        &summary.failures.connection_error_classes,
        summary.lost_classes(),
    ];
    let mut seen: Vec<&str> = Vec::new();
    let failures =
        classes.into_iter().flat_map(sections::most_first).filter_map(|(class, count)| {
            let is_new = !seen.contains(&class);
            seen.push(class);
            let why = reasons::paragraphs(class, summary).into_iter().next().unwrap_or_default();
            is_new.then(|| Warning::new(class, &format!("{}: {why}", grouped(count))))
        });
    let failures: Vec<_> = failures.collect();
    checks(Level::Fail).chain(failures).chain(checks(Level::Warn)).collect()
}

/// A check or a class of failures, by the id that `plimsoll explain` takes, and its sentence.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    pub(crate) id: String,
    pub(crate) text: String,
}

impl Warning {
    fn new(id: &str, text: &str) -> Self {
        Self { id: clean(id), text: clean(text) }
    }
}
