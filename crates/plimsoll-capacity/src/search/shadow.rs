//! Trials in the shadow of an overload: a server that needs longer than the rest to come back is
//! BAD at loads that it can well serve.
//!
//! Two signs lead to longer rests: a BAD trial at a load that was GOOD before, and one in which
//! the server carried far less than it did before. The second is strong: that trial is put
//! aside and repeated after a rest twice as long. If the repeat is GOOD, every BAD verdict that
//! began in a shadow is forgotten.

use plimsoll_model::Nanos;
use plimsoll_model::trial::{TrialMeasurement, TrialRequest, Verdict};

use super::learn::carried_per_s;
use super::narrow::Bracket;
use super::{RateSearch, State};

/// Share of a load that was GOOD below which a server carries "far less": noise of 10 % does not
/// reach it.
const COLLAPSED: f64 = 0.75;
/// Trials put aside in one search.
const SUSPECTS_MAX: u32 = 4;

/// What is remembered of overloads.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    after_bad: bool,
    /// The load of the trial that was put aside last.
    suspect: Option<f64>,
    suspects: u32,
    /// Rest after a BAD trial.
    rest: Nanos,
    rest_max: Nanos,
}

impl Shadow {
    pub(crate) fn new(rest: Nanos, rest_max: Nanos) -> Self {
        Self { after_bad: false, suspect: None, suspects: 0, rest, rest_max }
    }

    pub(crate) fn is_after_bad(&self) -> bool {
        self.after_bad
    }

    pub(crate) fn handle_verdict(&mut self, good: bool) {
        self.after_bad = !good;
    }

    fn rest_longer(&mut self) {
        self.rest = Nanos((2 * self.rest.0).min(self.rest_max.0));
    }
}

impl RateSearch {
    /// How long the SUT is left alone before the next trial.
    pub(super) fn rest_after(&self, verdict: Verdict) -> Nanos {
        if self.silence.is_suspected() {
            return self.silence.rest(self.limits.rest, self.limits.rest_max);
        }
        match (verdict, &self.state) {
            // How soon it comes back is what the next trial asks.
            (_, State::Recover(_, recovering)) => recovering.rest(self.limits.rest),
            (Verdict::Good, _) => Nanos::ZERO,
            (Verdict::Invalid, _) => self.limits.rest,
            (Verdict::Bad, _) => self.shadow.rest,
        }
    }

    /// Whether the trial is put aside, to be repeated after a longer rest.
    pub(super) fn is_suspect(
        &mut self,
        request: &TrialRequest,
        measurement: &TrialMeasurement,
        good: bool,
    ) -> bool {
        let rate = request.rate.get();
        let suspect = self.shadow.suspect.take().filter(|load| *load == rate);
        if good {
            if suspect.is_some() {
                self.come_back();
            }
            return false;
        }
        if !self.shadow.after_bad {
            return false;
        }
        let best = self.ledger.entries().rev().find(|entry| entry.leans_good());
        let Some(best) = best.map(|entry| entry.load) else { return false };
        let collapsed = carried_per_s(measurement) < COLLAPSED * best.min(rate);
        if rate <= best || collapsed {
            self.shadow.rest_longer();
        }
        if !collapsed || self.shadow.suspects >= SUSPECTS_MAX {
            return false;
        }
        self.shadow.suspects += 1;
        self.shadow.suspect = Some(rate);
        true
    }

    /// The server is slow after an overload until it was left alone for long enough.
    fn come_back(&mut self) {
        self.notes.push(format!(
            "the server was slow after an overload and well after {} of rest; BAD trials that \
             began sooner after another BAD one do not count",
            self.shadow.rest
        ));
        self.ledger.forget_shadowed();
        if let State::Narrow(bracket) = self.state {
            self.state = State::Narrow(self.bracket_again(bracket));
        }
    }

    /// The widest bracket that the ledger still supports.
    fn bracket_again(&self, bracket: Bracket) -> Bracket {
        let high = self.ledger.entries().find(|entry| entry.leans_bad()).map(|entry| entry.load);
        let high = high.unwrap_or(self.first_bad);
        let below = self.ledger.entries().rev().filter(|entry| entry.load < high);
        let low = below.map(|entry| entry.load).next().unwrap_or(bracket.low);
        Bracket::new(low, high)
    }
}
