//! Several objectives in one search: one set of trials, an interval for each.
//!
//! Each objective has its own search, and the searches ask for trials one after another. Each trial teaches all
//! searches that have not ended, each by its own goals, so that later searches start from everything that is known.

use plimsoll_model::Nanos;
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{
    SloFound, Stopped, TippingPoint, TrialMeasurement, TrialRecord, TrialRequest, Verdict,
};

use super::{RateSearch, SearchSettings, SearchStep};

/// Time and trials that a further objective adds to a search, relative: it needs no separate expansion.
const FURTHER: f64 = 0.5;

/// Returns the share of a search's budget with this many further objectives.
fn times(further: usize) -> f64 {
    1.0 + FURTHER * further as f64
}

/// A search for the highest rate that meets each of some objectives.
#[derive(Clone, Debug)]
pub struct GoalSearch {
    searches: Vec<RateSearch>,
    /// Searches that have ended.
    ended: usize,
    /// Trials judged GOOD or BAD by the first objective, and INVALID ones.
    judged: u32,
    invalid: u32,
}

impl GoalSearch {
    /// Creates a search that has not measured anything yet: for `slo`, and then for each of `further`.
    pub fn new(settings: &SearchSettings, slo: Slo, further: Vec<Slo>) -> Self {
        let with_budget = |(index, slo): (usize, Slo)| {
            let times = times(index);
            let settings = SearchSettings {
                budget: Self::budget(settings, index),
                trials_max: (f64::from(settings.trials_max) * times) as u32,
                ..settings.clone()
            };
            RateSearch::new(settings, slo)
        };
        let slos = std::iter::once(slo).chain(further).enumerate();
        Self { searches: slos.map(with_budget).collect(), ended: 0, judged: 0, invalid: 0 }
    }

    /// Returns the most time of all trials and of the rests between them, with `further` further objectives.
    pub fn budget(settings: &SearchSettings, further: usize) -> Nanos {
        Nanos::from_secs_f64(settings.budget.as_secs_f64() * times(further))
    }

    /// The one that asks for trials; the last one when all have ended.
    fn active(&self) -> &RateSearch {
        let index = self.ended.min(self.searches.len() - 1);
        &self.searches[index]
    }

    /// Returns the next step; the same one until a result or a stop is handled.
    pub fn next_step(&mut self) -> SearchStep {
        while let Some(search) = self.searches.get_mut(self.ended) {
            match search.next_step() {
                SearchStep::Done(_) => {
                    self.ended += 1;
                    if let Some(next) = self.searches.get_mut(self.ended) {
                        next.begin_from_evidence();
                    }
                }
                step => return step,
            }
        }
        SearchStep::Done(self.answer())
    }

    /// Judges the trial that was asked for, and learns from it. The record has the verdict by the first
    /// objective, and the verdicts by the others.
    pub fn handle_result(&mut self, measurement: TrialMeasurement) -> TrialRecord {
        let active = self.ended;
        let judgements: Vec<_> =
            self.searches.iter().map(|search| search.judge(&measurement)).collect();
        let further = judgements.iter().skip(1).map(|judgement| judgement.verdict).collect();
        let rest = self.rest();
        let mut is_evidence = false;
        for (index, (search, judgement)) in self.searches.iter_mut().zip(&judgements).enumerate() {
            if index == active {
                is_evidence = search.learn_result(&measurement, judgement);
            } else if index > active {
                search.learn_of_another(&measurement, judgement, rest, is_evidence);
            }
        }
        let judgement = judgements[0].clone();
        match judgement.verdict {
            Verdict::Invalid => self.invalid += 1,
            Verdict::Good | Verdict::Bad => self.judged += 1,
        }
        TrialRecord { measurement, judgement, further }
    }

    /// Ends the search with what was reached.
    pub fn handle_stop(&mut self, why: &Stopped) -> TippingPoint {
        while let Some(search) = self.searches.get_mut(self.ended) {
            search.handle_stop(why.clone());
            self.ended += 1;
        }
        self.answer()
    }

    /// Returns the rest before the next trial.
    pub fn rest(&self) -> Nanos {
        self.active().rest()
    }

    /// Reports whether the server stopped answering and did not come back.
    pub fn is_sut_gone(&self) -> bool {
        self.searches.iter().any(RateSearch::is_sut_gone)
    }

    /// Returns the limit of [`RateSearch::abort_bad_ops`]. A trial that is lost for one objective may be met for
    /// another.
    pub fn abort_bad_ops(&self, request: &TrialRequest) -> u64 {
        match self.searches.len() {
            1 => self.active().abort_bad_ops(request),
            _ => u64::MAX,
        }
    }

    /// Returns the best answer for the first objective by the evidence so far, with all of them beside it.
    pub fn answer(&self) -> TippingPoint {
        let mut found: Vec<TippingPoint> = self.searches.iter().map(RateSearch::answer).collect();
        let each = || self.searches.iter().map(RateSearch::slo).zip(&found);
        // What more time would buy is stated of the whole search alone.
        let of_goal = |(slo, found): (&Slo, &TippingPoint)| SloFound {
            slo: slo.to_string(),
            found: TippingPoint { outlook: None, ..found.clone() },
        };
        let goals = match found.len() {
            1 => Vec::new(),
            _ => each().map(of_goal).collect(),
        };
        let notes: Vec<String> = each()
            .skip(1)
            .flat_map(|(slo, found)| found.notes.iter().map(move |note| format!("{slo}: {note}")))
            .collect();
        let mut answer = found.swap_remove(0);
        (answer.trials, answer.invalid_trials) = (self.judged, self.invalid);
        answer.notes.extend(notes);
        TippingPoint { goals, ..answer }
    }
}

#[cfg(test)]
mod tests;
