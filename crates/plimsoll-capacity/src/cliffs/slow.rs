//! Good answers that took longer than the others of their second: those that waited for something
//! of their own, and not in a queue with all the rest.

use plimsoll_model::tally::Interval;
use plimsoll_model::{Histogram, Nanos};

use super::{FLOOR_MIN, slow};

/// The slow answers of one load.
#[derive(Clone, Debug, Default)]
pub struct SlowAnswers {
    /// The slow durations, by the second in which answers ended; `None` if none did.
    floors: Vec<Option<Nanos>>,
    /// All answers so far.
    all: Histogram,
    /// Answers that were slow in the second in which they were requested.
    pub(super) slow: Histogram,
}

impl SlowAnswers {
    /// Takes the next second of the load. An answer is compared with those that came in the second
    /// in which it was asked for: after the end of a load only slow ones come.
    pub fn handle_second(&mut self, interval: &Interval) {
        let answers = &interval.tally.spans.uncorrected;
        self.all.merge(answers);
        let second = interval.second as usize;
        // The length of a load bounds it, however its seconds are numbered.
        if second >= self.floors.len() && second < SECONDS_MAX {
            self.floors.resize(second + 1, None);
            self.floors[second] = (!answers.is_empty()).then(|| slow(answers));
        }
        let ended = Nanos::from_secs(second as u64) + Nanos::from_millis(500);
        let of_load = slow(&self.all);
        for (lasted, count) in answers.buckets().filter(|(lasted, _)| *lasted > FLOOR_MIN) {
            let asked = ended.since(lasted).0 / Nanos::from_secs(1).0;
            let floor = self.floors.get(asked as usize).copied().flatten().unwrap_or(of_load);
            if lasted > floor {
                self.slow.record_n(lasted, count);
            }
        }
    }
}

/// Seconds that are kept apart: a day.
const SECONDS_MAX: usize = 86_400;

#[cfg(test)]
mod tests {
    use plimsoll_model::tally::Tally;

    use super::*;

    fn second(second: u32, answers: &[(u64, u64)]) -> Interval {
        let mut tally = Tally::default();
        for (ms, count) in answers {
            tally.spans.uncorrected.record_n(Nanos::from_millis(*ms), *count);
        }
        Interval { second, tally }
    }

    fn slow_of(seconds: &[&[(u64, u64)]]) -> u64 {
        let mut answers = SlowAnswers::default();
        for (number, of_second) in seconds.iter().enumerate() {
            answers.handle_second(&second(number as u32, of_second));
        }
        answers.slow.count()
    }

    #[test]
    fn an_answer_after_the_end_is_compared_with_those_of_its_beginning() {
        // Two of 5 s are asked for in second 0 and come alone in second 5.
        assert_eq!(slow_of(&[&[(5, 1_000)], &[], &[], &[], &[], &[(5_000, 2)]]), 2);
    }

    #[test]
    fn a_second_in_which_all_wait_has_no_slow_answers() {
        assert_eq!(slow_of(&[&[(5, 900)], &[(143, 700)], &[(5, 900)]]), 0);
        assert_eq!(slow_of(&[&[(5, 900), (143, 70)], &[(5, 900)]]), 70);
    }
}
