//! The speed of the host over the life of a server: stretches of constant speed.

use fastrand::Rng;

use crate::anomalies::Course;

use super::flow::seconds;

/// The speeds of the host since the server was new, drawn as far as they were asked for.
#[derive(Clone, Debug)]
pub(super) struct History {
    rng: Rng,
    /// Ends of the stretches, seconds of age, and the speed of the host in each.
    stretches: Vec<(f64, f64)>,
    /// Offset at which a recorded series begins.
    offset: usize,
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x0D57_5BEE);
        let offset = rng.usize(..);
        Self { rng, stretches: Vec::new(), offset }
    }

    /// Returns the speed at an age.
    pub(super) fn at(&mut self, course: &Course, age_s: f64) -> f64 {
        self.extend(course, age_s);
        let index = self.stretches.partition_point(|(end, _)| *end <= age_s);
        self.stretches[index].1
    }

    /// Draws stretches until they go beyond an age.
    pub(super) fn extend(&mut self, course: &Course, age_s: f64) {
        while self.stretches.last().is_none_or(|(end, _)| *end <= age_s) {
            let begin = self.stretches.last().map_or(0.0, |(end, _)| *end);
            let (length_s, speed) = self.next(course);
            self.stretches.push((begin + length_s, speed));
        }
    }

    /// Returns length and speed of the next stretch.
    fn next(&mut self, course: &Course) -> (f64, f64) {
        let last = self.stretches.last().map(|(_, speed)| *speed);
        match *course {
            Course::TwoSpeeds { slow, slow_mean, fast_mean } => {
                let (slow_s, fast_s) = (seconds(slow_mean), seconds(fast_mean));
                let is_slow = match last {
                    Some(speed) => speed == 1.0,
                    None => self.rng.f64() < slow_s / (slow_s + fast_s),
                };
                let (speed, mean_s) = if is_slow { (slow, slow_s) } else { (1.0, fast_s) };
                (-mean_s * (1.0 - self.rng.f64()).ln(), speed)
            }
            Course::Step { at, to } => match last {
                None => (seconds(at), 1.0),
                Some(_) => (f64::INFINITY, to),
            },
            Course::Recorded(slowness) => {
                let index = self.offset.wrapping_add(self.stretches.len()) % slowness.len();
                // The seconds of the recording and those of the server begin at different instants.
                let length_s = if last.is_none() { 1.0 - self.rng.f64() } else { 1.0 };
                (length_s, 1.0 / slowness[index])
            }
        }
    }

    /// Returns the stretches between two ages: speed of the host and length in seconds.
    pub(super) fn between(&self, from_s: f64, to_s: f64) -> Vec<(f64, f64)> {
        let mut begin = 0.0;
        let each = self.stretches.iter().map(|(end, speed)| {
            let length_s = end.min(to_s) - f64::max(begin, from_s);
            begin = *end;
            (*speed, length_s)
        });
        each.filter(|(_, length_s)| *length_s > 0.0).collect()
    }
}
