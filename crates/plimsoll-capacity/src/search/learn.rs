//! What one more result means in each state of the search.

use plimsoll_model::Nanos;
use plimsoll_model::trial::{Judgement, Outcome, TrialMeasurement, TrialRequest, Verdict};

use crate::classify::TrialOutcome;
use crate::losses::Unloaded;

use super::ledger::Seen;
use super::narrow::Bracket;
use super::{BAD_MAX, BUSY_FAR, GROWTH, GROWTH_FAR, RateSearch, State};

/// INVALID trials in a row at one load that end the search there.
const INVALID_MAX: u32 = 2;
/// How near to a load that the generator cannot make the search looks for a BAD one.
const CEILING_CELLS: u32 = 2;
/// What a trial carried in less time than this is chance.
const CARRIED_WINDOW_MIN: Nanos = Nanos::from_millis(300);
/// A server that carried nearly all it was offered was not overloaded; it was BAD for another
/// reason, and how much it can carry was not seen.
const CARRIED_SHARE_MAX: f64 = 0.995;
/// The same load is never spread over more than so many times the usual threads.
const SPLIT_MAX: u32 = 8;

impl RateSearch {
    /// The repeat of an INVALID trial is a split test: positive proof, if it helps.
    pub(super) fn split_wanted(&self) -> u32 {
        if self.invalid_in_a_row > 0 { (2 * self.split).min(SPLIT_MAX) } else { self.split }
    }

    pub(super) fn learn_invalid(&mut self, judgement: &Judgement) {
        self.invalid += 1;
        self.invalid_in_a_row += 1;
        match &mut self.state {
            _ if self.silence.is_suspected() => {}
            State::Confirm(answer) => answer.confirmations.invalid += 1,
            // What only describes the answer is not worth a repeat.
            State::Overload(_) | State::Recover(..) => {
                self.finish(Outcome::Regular);
                return;
            }
            _ => {}
        }
        if self.invalid_in_a_row < INVALID_MAX {
            return;
        }
        self.invalid_in_a_row = 0;
        let why = judgement.why();
        match self.state {
            // It is not even known whether there is a server.
            _ if self.silence.is_suspected() => {
                self.finish(Outcome::GeneratorLimited { why });
            }
            State::Expand { rate } => {
                // The step may have jumped over a tipping point that lies below this ceiling.
                self.ceiling = Some((rate, why));
                let lowest = self.settings.lowest.get();
                let low = self.ledger.entries().rev().find(|entry| entry.leans_good());
                let low = low.map_or(lowest, |entry| entry.load);
                self.expand_from(low, None);
            }
            State::Confirm(answer) => self.confirm_no_more(answer, why),
            _ => {
                self.finish(Outcome::GeneratorLimited { why });
            }
        }
    }

    /// A valid trial where one over fewer threads was INVALID: those were the limit, and the
    /// search goes on with more.
    fn learn_split(&mut self, request: &TrialRequest, measurement: &TrialMeasurement) {
        if measurement.split > self.split && self.invalid_in_a_row > 0 {
            self.notes.push(format!(
                "at {} the generator was the limit; over {} times the threads the same load is \
                 valid, and the search went on with them",
                request.rate, measurement.split
            ));
            self.split = measurement.split;
        }
        self.invalid_in_a_row = 0;
    }

    pub(super) fn learn(
        &mut self,
        request: &TrialRequest,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) {
        self.judged += 1;
        self.learn_split(request, measurement);
        if !self.is_about_silence(measurement, judgement) {
            self.learn_verdict(measurement, judgement);
            if judgement.verdict == Verdict::Good {
                self.remember_bounds();
            }
        }
    }

    /// What the trial says of its load.
    pub(super) fn learn_verdict(&mut self, measurement: &TrialMeasurement, judgement: &Judgement) {
        let request = &measurement.request;
        let rate = request.rate.get();
        let good = judgement.verdict == Verdict::Good;
        if request.phase.moves_bounds() {
            if self.is_suspect(request, measurement, good) {
                return;
            }
            let loss_ratio = judgement.loss_ratio;
            let outcome = TrialOutcome { duration: request.duration, good, loss_ratio };
            self.ledger.add(rate, outcome, self.seen(measurement, good));
        }
        self.shadow.handle_verdict(good);
        match std::mem::replace(&mut self.state, State::Qualify) {
            State::Qualify => self.learn_qualify(rate, good, measurement),
            State::Expand { .. } => self.learn_expand(rate, good, measurement),
            State::Confirm(answer) => self.learn_confirm(answer, good, measurement),
            State::Overload(answer) => self.learn_overload(answer),
            State::Recover(answer, recovering) => {
                self.learn_recover(answer, recovering, good, measurement);
            }
            // What a trial means while narrowing is read from the ledger.
            state @ (State::Narrow(_) | State::Spread(_) | State::Done(_)) => self.state = state,
        }
    }

    fn seen(&self, measurement: &TrialMeasurement, good: bool) -> Seen {
        let rate = measurement.request.rate.get();
        let told = !good && measurement.window >= CARRIED_WINDOW_MIN;
        Seen {
            shadowed: !good && self.shadow.is_after_bad(),
            carried_per_s: told
                .then(|| carried_per_s(measurement))
                .filter(|carried| *carried > 0.0 && *carried < CARRIED_SHARE_MAX * rate),
        }
    }

    fn learn_qualify(&mut self, rate: f64, good: bool, measurement: &TrialMeasurement) {
        if good {
            self.context.unloaded = Unloaded::of(&measurement.tally);
            self.expand_from(rate, measurement.sut_busiest_thread);
        } else if self.ledger.trials(rate).len() >= BAD_MAX {
            self.finish(Outcome::FailsAtMinimum);
        }
    }

    fn learn_expand(&mut self, rate: f64, good: bool, measurement: &TrialMeasurement) {
        if good {
            self.expand_from(rate, measurement.sut_busiest_thread);
        } else if self.ledger.trials(rate).len() >= BAD_MAX {
            self.first_bad = rate;
            let lowest = self.settings.lowest.get();
            let low = self.ledger.entries().rev().find(|e| e.load < rate).map(|e| e.load);
            let low = low.unwrap_or(lowest);
            let carried = carried_per_s(measurement);
            self.state = State::Narrow(Bracket::new(low, rate).expecting(carried));
        } else {
            self.state = State::Expand { rate };
        }
    }

    fn expand_from(&mut self, rate: f64, busiest: Option<f64>) {
        if rate >= self.cap() {
            self.finish(self.met_at_cap());
            return;
        }
        let growth = if busiest.is_some_and(|busy| busy < BUSY_FAR) { GROWTH_FAR } else { GROWTH };
        let mut next = (rate * growth).min(self.cap());
        if let Some((ceiling, why)) = self.ceiling.clone()
            && next >= ceiling
        {
            let inside = self.grid.split(rate, ceiling, CEILING_CELLS);
            let narrow = self.grid.within(rate, ceiling, CEILING_CELLS);
            let Some(inside) = inside.filter(|_| !narrow) else {
                self.finish(Outcome::GeneratorLimited { why });
                return;
            };
            next = inside;
        }
        self.state = State::Expand { rate: next };
    }

    /// Back to expansion from a load that is GOOD after all.
    pub(super) fn expand_again(&mut self, rate: f64) -> super::Want {
        self.first_bad = super::settings::HIGHEST_PER_S;
        self.expand_from(rate, None);
        self.plan()
    }
}

/// Answers per second that an overloaded server really gave: a hint where its capacity is. It only
/// says where to look, because an overload may also cost capacity.
pub(super) fn carried_per_s(measurement: &TrialMeasurement) -> f64 {
    let tally = &measurement.tally;
    let window_s = measurement.window.as_secs_f64().max(1e-3);
    if measurement.aborted {
        // The first answer needs its own time.
        let own = tally.spans.corrected.min().unwrap_or_default().as_secs_f64();
        return tally.ok as f64 / (window_s - own).max(1e-3);
    }
    let open = tally.outstanding.last().copied().unwrap_or_default();
    let lost = tally.errors_total() + tally.unsent + u64::from(open);
    tally.scheduled.saturating_sub(lost) as f64 / window_s
}
