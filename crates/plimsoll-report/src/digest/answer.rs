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
    pub(super) lead: String,
    pub(crate) text: String,
    /// It says what to do, and not what was found.
    pub(crate) is_advice: bool,
}

impl From<(Tone, &str, String)> for Answer {
    fn from((tone, lead, text): (Tone, &str, String)) -> Self {
        Self { tone, slo: None, lead: lead.to_owned(), text, is_advice: false }
    }
}

impl Answer {
    /// The words before the text, without the SLO.
    pub(crate) fn own_lead(&self) -> &str {
        &self.lead
    }

    /// The words before the text.
    pub(crate) fn lead(&self) -> String {
        self.slo.as_ref().map_or_else(|| self.lead.clone(), |slo| format!("{slo}: {}", self.lead))
    }
}

/// The word for a verdict.
pub(crate) const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "GOOD",
        Verdict::Bad => "BAD",
        Verdict::Invalid => "INVALID",
    }
}
