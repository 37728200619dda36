//! Periodic pauses of the server, such as a garbage collector's.
//!
//! A trial whose length is no multiple of their period meets one pause more or one fewer at random, and its verdict
//! says nothing about the load. So the period is searched for in all trials, and trials become multiples of it.

use plimsoll_model::Nanos;
use plimsoll_model::tally::OUTSTANDING_SAMPLE;
use plimsoll_model::trial::TrialMeasurement;

use crate::pauses::begins;
use crate::stats::binomial_at_least;

/// Pauses that take a period.
const PAUSES_MIN: usize = 4;
/// Periods that are looked for, seconds.
const PERIODS_S: std::ops::RangeInclusive<f64> = 1.0..=60.0;
/// One pause follows another after at most this number of periods.
const APART_MAX: u32 = 8;
/// A pause may begin so far from where a guess expects it, and from where the period does: seconds, and a share of the
/// period.
const OFF_GUESS: (f64, f64) = (0.25, 0.02);
const OFF: (f64, f64) = (0.15, 0.01);
/// A pause and one of this many after it give a guess.
const NEXT: usize = 4;
/// Share of what looks like a pause that a period explains: a queue may grow for a moment for other reasons.
const EXPLAINED_MIN: f64 = 0.75;
/// Share of the pauses expected within trials that were observed.
const SEEN_MIN: f64 = 0.8;
/// Pauses nearer to an end of a trial may have been missed, seconds.
const EDGE_S: f64 = 0.3;
/// Probability at which irregular pauses seem to have a period, at most: the hypervisor alone delays a server by tens
/// of milliseconds ten times in 100 s.
const CHANCE_MAX: f64 = 0.1;
/// A trial that ends with more operations open than a pause leaves is overloaded: this share of its samples.
const OPEN_MAX: f64 = 0.3;

/// The beginnings of pauses, in all trials so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Periodic {
    /// Seconds, ascending.
    began_s: Vec<f64>,
    /// Trials in which they would have been observed, from and to.
    watched_s: Vec<(f64, f64)>,
}

impl Periodic {
    /// Looks at a trial that began at `from_s`: on the clock of the host if that is known of every trial.
    pub(crate) fn see(&mut self, measurement: &TrialMeasurement, from_s: f64) {
        let open = &measurement.tally.outstanding;
        let (begins, raised) = begins(open, measurement.request.rate.get());
        if open.is_empty() || raised as f64 > OPEN_MAX * open.len() as f64 {
            return;
        }
        let step_s = OUTSTANDING_SAMPLE.as_secs_f64();
        self.began_s.extend(begins.into_iter().map(|at| from_s + at as f64 * step_s));
        self.watched_s.push((from_s, from_s + open.len() as f64 * step_s));
    }

    /// Returns the time between two pauses; `None` unless it explains nearly all of them, and hardly more.
    pub(crate) fn period(&self) -> Option<Nanos> {
        if self.began_s.len() < PAUSES_MIN {
            return None;
        }
        let pairs = self.began_s.iter().enumerate().flat_map(|(index, first)| {
            self.began_s[index + 1..].iter().take(NEXT).map(move |next| (*first, next - first))
        });
        let guesses = pairs
            .flat_map(|(first, apart)| (1..=APART_MAX).map(move |n| (first, apart / f64::from(n))))
            .filter(|(_, guess)| PERIODS_S.contains(guess));
        let guesses: Vec<(f64, f64)> = guesses.collect();
        let chance_max = CHANCE_MAX / guesses.len() as f64;
        let fits = guesses.iter().filter_map(|(first, guess)| self.fit(*first, *guess));
        let sure = fits.filter(|(_, chance)| *chance <= chance_max);
        let longest = sure.map(|(period, _)| period).reduce(f64::max);
        // In whole samples, by which it was found.
        let sample_s = OUTSTANDING_SAMPLE.as_secs_f64();
        longest.map(|period| Nanos((period / sample_s).round() as u64 * OUTSTANDING_SAMPLE.0))
    }

    /// Fits the period near `guess` with one pause at `first`. Returns it with the probability that as many of the
    /// others are near its multiples at random.
    fn fit(&self, first: f64, guess: f64) -> Option<(f64, f64)> {
        let times = |at: f64, period: f64| ((at - first) / period).round();
        let off = |(off_s, off): (f64, f64), period: f64| off_s + off * period;
        let away = |at: f64, period: f64| (at - first - times(at, period) * period).abs();
        let is_guessed = |at: &f64| away(*at, guess) <= off(OFF_GUESS, guess);
        let near = || self.began_s.iter().copied().filter(is_guessed);
        let squares: f64 = near().map(|at| times(at, guess).powi(2)).sum();
        let products: f64 = near().map(|at| times(at, guess) * (at - first)).sum();
        let period = Some(products / squares).filter(|period| PERIODS_S.contains(period))?;
        let off = off(OFF, period);
        let explained = self.began_s.iter().filter(|at| away(**at, period) <= off).count();
        if (explained as f64) < EXPLAINED_MIN * self.began_s.len() as f64 {
            return None;
        }
        let (mut expected, mut seen) = (0, 0);
        for (from, to) in &self.watched_s {
            let mut at = first + ((from + EDGE_S - first) / period).ceil() * period;
            while at <= to - EDGE_S {
                expected += 1;
                seen += usize::from(self.began_s.iter().any(|began| (began - at).abs() <= off));
                at += period;
            }
        }
        let is_seen = seen as f64 >= SEEN_MIN * expected as f64;
        // Two of them gave the guess.
        let near_share = (2.0 * off / period).min(1.0);
        let chance = binomial_at_least(explained - 2, self.began_s.len() - 2, near_share);
        let is_sure = is_seen && explained >= PAUSES_MIN && seen + 1 >= PAUSES_MIN;
        is_sure.then_some((period, chance))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::tally::Tally;
    use plimsoll_model::trial::{Phase, TrialRequest};

    use super::super::tests::measured;
    use super::*;

    /// A trial at 1,000/s from `from` to `to`, tenths of a second, of a server that pauses for 0.2 s at `at`.
    fn trial(from: usize, to: usize, at: &[usize]) -> (TrialMeasurement, f64) {
        let outstanding = (from..to)
            .map(|now| if at.iter().any(|at| (*at..at + 2).contains(&now)) { 150 } else { 1 })
            .collect();
        let tally = Tally { outstanding, ..Tally::default() };
        let request = TrialRequest {
            number: 1,
            phase: Phase::Narrow,
            rate: Rate::per_second(1_000.0).expect("finite"),
            duration: Nanos::from_millis(100 * (to - from) as u64),
            split: 1,
        };
        (measured(request, tally), from as f64 / 10.0)
    }

    fn period(trials: &[(TrialMeasurement, f64)]) -> Option<f64> {
        let mut periodic = Periodic::default();
        trials.iter().for_each(|(trial, from_s)| periodic.see(trial, *from_s));
        periodic.period().map(Nanos::as_secs_f64)
    }

    /// Trials of 5 s with a second between them.
    fn trials(count: usize, at: &[usize]) -> Vec<(TrialMeasurement, f64)> {
        (0..count).map(|index| trial(60 * index, 60 * index + 50, at)).collect()
    }

    #[test]
    fn a_period_explains_every_pause_and_hardly_more() {
        let each_ten_s: Vec<usize> = (0..12).map(|n| 37 + 100 * n).collect();
        let found = period(&trials(15, &each_ten_s)).expect("a period");
        assert!((found - 10.0).abs() < 0.2, "{found}");
        assert_eq!(period(&trials(15, &[])), None);
        // As many, at no regular times.
        let random: Vec<usize> = vec![37, 121, 260, 325, 489, 611, 644];
        assert_eq!(period(&trials(15, &random)), None);
    }

    #[test]
    fn four_of_five_that_fit_a_period_are_no_evidence() {
        // Observed in a laboratory on a machine whose hypervisor had other guests.
        let at = [325, 332, 527, 540, 742];
        let trials = [(0, 50), (114, 144), (318, 338), (354, 404), (505, 555), (688, 838)];
        assert_eq!(period(&trials.map(|(from, to)| trial(from, to, &at))), None);
    }

    #[test]
    fn a_queue_that_stays_is_no_pause() {
        let mut overloaded = trial(0, 50, &[]);
        overloaded.0.tally.outstanding = (0..50).map(|now| 20 * now).collect();
        let mut periodic = Periodic::default();
        periodic.see(&overloaded.0, 0.0);
        assert!(periodic.began_s.is_empty() && periodic.watched_s.is_empty());
    }
}
