//! The first lines of a report.

use plimsoll_model::trial::Verdict;

use crate::terminal::layout::Tone;

/// The first lines of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) tone: Tone,
    /// The SLO that it is about, if there are several.
    pub(crate) slo: Option<String>,
    /// `Tipping point:`, `GOOD`.
    pub(crate) lead: String,
    pub(crate) text: String,
    pub(crate) role: Role,
}

/// The use of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The badge of the run leads it.
    Verdict,
    /// A statement of a result.
    Found,
    /// Advice on what to do.
    Advice,
}

impl Answer {
    /// Makes an answer in the colour of `tone`.
    pub(super) fn new(tone: Tone, lead: impl Into<String>, text: String) -> Self {
        Self { tone, slo: None, lead: lead.into(), text, role: Role::Found }
    }

    /// Makes the answer of a run whose badge leads it.
    pub(super) fn verdict((word, tone): (&str, Tone), text: String) -> Self {
        Self { role: Role::Verdict, ..Self::new(tone, word, text) }
    }

    pub(super) fn good(lead: &str, text: String) -> Self {
        Self::new(Tone::Good, lead, text)
    }

    pub(super) fn warn(lead: &str, text: String) -> Self {
        Self::new(Tone::Warn, lead, text)
    }

    pub(super) fn bad(lead: &str, text: String) -> Self {
        Self::new(Tone::Bad, lead, text)
    }

    /// Returns the words before the text, with the SLO.
    pub(crate) fn lead(&self) -> String {
        self.slo.as_ref().map_or_else(|| self.lead.clone(), |slo| format!("{slo}: {}", self.lead))
    }
}

/// Returns the word for a verdict.
pub(crate) const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "GOOD",
        Verdict::Bad => "BAD",
        Verdict::Invalid => "INVALID",
    }
}
