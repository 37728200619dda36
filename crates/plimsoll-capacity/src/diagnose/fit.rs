//! The law of utilisation: use = idle use + demand × throughput, and where that line meets a limit.

use plimsoll_model::cause::Projected;

/// Trials that a line needs.
const POINTS_MIN: usize = 3;
/// The largest throughput over the smallest.
const REACH_MIN: f64 = 1.5;
/// Error of a reading, as a share of the capacity: ticks, and the machine's own noise.
const RESOLUTION: f64 = 0.015;
/// A wider projection says nothing: its upper end over its lower one.
const WIDTH_MAX: f64 = 1.6;
/// Student's t for 95 %, by degrees of freedom from 1. One degree counts as two: the resolution is
/// known besides.
const STUDENT: [f64; 10] = [4.30, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
const STUDENT_MANY: f64 = 2.1;

/// A throughput and how much of a resource it used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) throughput: f64,
    pub(super) used: f64,
}

/// A line through points of equal weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// Use without load.
    idle: f64,
    /// Use of one operation per second.
    pub(super) demand: f64,
    /// Variance of both, and their covariance.
    variance: [f64; 3],
    t: f64,
}

impl Line {
    /// Fits the line through `points`, of a resource of `capacity`; `None` if they do not reach far enough.
    pub(super) fn through(points: &[Point], capacity: f64) -> Option<Self> {
        let n = points.len() as f64;
        let least = points.iter().map(|p| p.throughput).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|p| p.throughput).fold(0.0, f64::max);
        if points.len() < POINTS_MIN || least <= 0.0 || most < least * REACH_MIN {
            return None;
        }
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        let (x, y) = (sum(&|p| p.throughput) / n, sum(&|p| p.used) / n);
        let spread = sum(&|p| (p.throughput - x).powi(2));
        let demand = sum(&|p| (p.throughput - x) * (p.used - y)) / spread;
        let idle = y - demand * x;
        let free = points.len() - 2;
        let off = sum(&|p| (p.used - idle - demand * p.throughput).powi(2)) / free as f64;
        let noise = off.max((RESOLUTION * capacity).powi(2));
        let of_demand = noise / spread;
        let variance = [noise / n + of_demand * x * x, -of_demand * x, of_demand];
        let t = STUDENT.get(free - 1).copied().unwrap_or(STUDENT_MANY);
        Some(Self { idle, demand, variance, t })
    }

    /// The throughputs at which `level` is reached, by Fieller's theorem; `None` if the use hardly
    /// moves with the load.
    fn reaches(&self, level: f64) -> Option<(f64, f64, f64)> {
        let [idle, both, demand] = self.variance;
        let (a, t2) = (level - self.idle, self.t * self.t);
        let square = self.demand.powi(2) - t2 * demand;
        if self.demand <= 0.0 || square <= 0.0 || a <= 0.0 {
            return None;
        }
        let half = a.mul_add(self.demand, t2 * both);
        let root = (half * half - square * (a * a - t2 * idle)).max(0.0).sqrt();
        Some(((half - root) / square, a / self.demand, (half + root) / square))
    }

    /// Returns the loads at which a resource of `capacity` becomes full, of which a share between `usable` and 1 can be
    /// used.
    pub(super) fn projected(&self, capacity: f64, usable: f64) -> Option<Projected> {
        let (lower, _, _) = self.reaches(capacity * usable)?;
        let (_, at, upper) = self.reaches(capacity)?;
        Some(Projected { lower, at, upper: Some(upper) })
    }
}

/// Reports whether it is narrow enough to say something.
pub(super) fn is_narrow(projected: &Projected) -> bool {
    projected.upper.is_some_and(|upper| upper <= WIDTH_MAX * projected.lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(f64, f64)]) -> Vec<Point> {
        of.iter().map(|&(throughput, used)| Point { throughput, used }).collect()
    }

    #[test]
    fn a_line_meets_its_limit() {
        // 40 us each and 2 % idle: full at 24,500/s.
        let uses: Vec<_> =
            [4e3, 8e3, 12e3, 16e3, 20e3].map(|x| (x, 0.02 + x * 40e-6)).into_iter().collect();
        let line = Line::through(&points(&uses), 1.0).unwrap();
        let projected = line.projected(1.0, 0.95).unwrap();
        assert!((projected.at - 24_500.0).abs() < 1.0, "{projected:?}");
        assert!(projected.lower > 21_500.0 && projected.lower < 23_300.0, "{projected:?}");
        assert!(projected.upper.unwrap() < 26_500.0 && is_narrow(&projected), "{projected:?}");
    }

    #[test]
    fn what_does_not_move_has_no_limit() {
        let flat = points(&[(4e3, 0.30), (8e3, 0.31), (12e3, 0.29), (16e3, 0.30)]);
        let line = Line::through(&flat, 1.0).unwrap();
        assert_eq!(line.projected(1.0, 0.95), None);
        // Busy polling: always full.
        let full = points(&[(4e3, 1.0), (8e3, 1.0), (12e3, 1.0)]);
        assert_eq!(Line::through(&full, 1.0).unwrap().projected(1.0, 0.95), None);
    }

    #[test]
    fn loads_close_together_are_no_line() {
        assert_eq!(Line::through(&points(&[(10.0, 0.1), (11.0, 0.1), (12.0, 0.1)]), 1.0), None);
        assert_eq!(Line::through(&points(&[(10.0, 0.1), (20.0, 0.2)]), 1.0), None);
        assert_eq!(Line::through(&points(&[(0.0, 0.1), (20.0, 0.2), (30.0, 0.2)]), 1.0), None);
    }
}
