//! A promised figure, what was found, and whether it was reached.

use std::fmt::Write;

/// How a promise fared. The greater, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Reached,
    /// Says nothing: a tool or a figure was not there.
    NotMeasured,
    NotReached,
}

impl Outcome {
    pub(crate) const fn of(is_reached: bool) -> Self {
        if is_reached { Self::Reached } else { Self::NotReached }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::NotMeasured => "not measured",
            Self::NotReached => "not reached",
        }
    }
}

/// One promise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) what: String,
    pub(crate) aim: String,
    pub(crate) found: String,
    pub(crate) outcome: Outcome,
}

impl Claim {
    pub(crate) fn new(
        what: impl Into<String>,
        aim: impl Into<String>,
        found: impl Into<String>,
        is_reached: bool,
    ) -> Self {
        let outcome = Outcome::of(is_reached);
        Self { what: what.into(), aim: aim.into(), found: found.into(), outcome }
    }

    /// A promise about which nothing is known, because of `why`.
    pub(crate) fn not_measured(
        what: impl Into<String>,
        aim: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let outcome = Outcome::NotMeasured;
        Self { what: what.into(), aim: aim.into(), found: why.into(), outcome }
    }
}

/// The claims as a table of the page.
pub(crate) fn table(claims: &[Claim]) -> String {
    let mut text = String::from("| what | aim | measured | verdict |\n|---|---|---|---|\n");
    for Claim { what, aim, found, outcome } in claims {
        let _ = writeln!(text, "| {what} | {aim} | {found} | {} |", outcome.name());
    }
    text
}
