//! Growth, per cycle, of the memory that a server keeps after its connections were closed.
//!
//! The first cycles fill pools and allocators. So the judged stretch starts where the slope has settled: the second
//! half of the cycles makes a line (Theil and Sen), and earlier cycles join it until one lies clearly below. A stretch
//! whose own second half grows much less than the whole is still settling, and yields no verdict.

use std::collections::BTreeMap;

use plimsoll_model::cycles::{
    CycleReading, CyclesSummary, CyclesVerdict, Growth, KeptPart, KeptSeries,
};
use plimsoll_model::trial::Unit;

use crate::stats::{MAD, mean, median, median_of, pair_slopes, slope_interval, sorted_slopes};

/// Cycles of the shortest stretch that is judged: with four, even the lowest and the highest slope are an interval of
/// less than 95 %.
const STRETCH_MIN: usize = 5;
/// Cycles that have a slope with ends.
const SLOPE_MIN: usize = 3;
/// A cycle below the line by this many standard deviations of the prediction was part of the warm-up.
const BELOW_LINE: f64 = 3.0;
/// A stretch is still settling if its first half grows by this much more than its second one, ...
const BEND: f64 = 1.5;
/// ... and by this many standard errors of the difference.
const BEND_ERRORS: f64 = 3.0;
/// Growth below this is none: a share of what a full server uses, and bytes (thread stacks
/// and allocators of a server that keeps nothing still grew by 20 kB per cycle of 200 connections after eight cycles).
const FLOOR: (f64, f64) = (0.001, 65_536.0);
/// Growth is excluded when the upper end of its interval is below this: likewise.
const EXCLUDED: (f64, f64) = (0.01, 262_144.0);
/// Open files or threads per cycle from which on they grow.
const COUNT_MIN: f64 = 0.5;
/// The most cycles that are recommended.
const MORE_MAX: f64 = 200.0;

/// Judges the cycles of a hold; `asked` cycles were planned. `empty_bytes` is the memory of the server's processes
/// before the first one.
pub fn judge_cycles(
    asked: u64,
    empty_bytes: Option<u64>,
    readings: &[CycleReading],
) -> CyclesSummary {
    let full = median_of(readings.iter().filter_map(|cycle| Some(cycle.full_bytes? as f64)));
    let used = full.zip(empty_bytes).map_or(0.0, |(full, empty)| (full - empty as f64).max(0.0));
    let limits = GrowthLimits::of(used);
    let parts = parts(readings, limits);
    let of = |part: KeptPart| parts.get(part.name());
    let memory = of(KeptPart::Processes);
    let own = [KeptPart::Processes, KeptPart::OpenFiles, KeptPart::Threads];
    let verdict = match memory {
        _ if own.iter().any(|part| of(*part).is_some_and(|series| series.grows)) => {
            CyclesVerdict::Grows
        }
        None => CyclesVerdict::Unmeasured,
        Some(memory) if limits.excludes_growth(memory, readings.len()) => CyclesVerdict::NoGrowth,
        Some(_) => CyclesVerdict::Undecided,
    };
    CyclesSummary {
        count: readings.len() as u64,
        asked,
        connections: mean(readings.iter().map(|cycle| cycle.held as f64)).unwrap_or(0.0),
        verdict,
        growth_bytes_per_cycle: memory.and_then(|series| series.growth),
        settled_from: memory.map_or(1, |series| series.settled_from),
        more_cycles: memory
            .filter(|_| verdict == CyclesVerdict::Undecided)
            .map(|series| limits.more_cycles(series, readings.len())),
        full_bytes: full.map(|bytes| bytes as u64),
        readings: readings.to_vec(),
        parts,
    }
}

/// Each part that was read after every cycle.
fn parts(readings: &[CycleReading], limits: GrowthLimits) -> BTreeMap<String, KeptSeries> {
    let Some(first) = readings.first() else { return BTreeMap::new() };
    let of_all = |name: &String| {
        let values = readings.iter().filter_map(|cycle| Some(*cycle.kept.get(name)? as f64));
        let points: Vec<(f64, f64)> =
            values.enumerate().map(|(cycle, value)| (cycle as f64, value)).collect();
        let part = KeptPart::named(name).filter(|_| points.len() == readings.len())?;
        Some((name.clone(), series(part, &points, limits)))
    };
    first.kept.keys().filter_map(of_all).collect()
}

fn series(part: KeptPart, points: &[(f64, f64)], limits: GrowthLimits) -> KeptSeries {
    let from = settled(points);
    let stretch = &points[from..];
    let growth = (stretch.len() >= SLOPE_MIN).then(|| growth(stretch));
    let least = match part.unit() {
        Unit::Bytes => limits.floor,
        _ => COUNT_MIN,
    };
    let is_judged = |growth: &Growth| stretch.len() >= STRETCH_MIN && growth.low > least;
    KeptSeries {
        unit: part.unit(),
        settled_from: from as u64 + 1,
        growth,
        grows: growth.filter(is_judged).is_some_and(|growth| !is_settling(stretch, growth.mid)),
    }
}

/// Reports whether a stretch that grows by `growth` per point bends down: pools that still fill.
fn is_settling(points: &[(f64, f64)], growth: f64) -> bool {
    let half = (points.len() - 1) / 2;
    let (early, late) = (slope(&points[..=half]), slope(&points[half..]));
    // The noise of one point, from second differences, in which a line and most of a bend drop out.
    let bends = || points.windows(3).map(|at| at[2].1 - 2.0 * at[1].1 + at[0].1);
    let middle = median_of(bends()).unwrap_or(0.0);
    let noise =
        median_of(bends().map(|bend| (bend - middle).abs())).unwrap_or(0.0) * MAD / 6.0f64.sqrt();
    let n = (half + 1) as f64;
    let error = noise * (2.0 * 12.0 / (n * (n * n - 1.0))).sqrt();
    late * 2.0 < growth || (early > BEND * late && early - late > BEND_ERRORS * error)
}

/// Returns the index of the first point of the stretch that one line describes.
fn settled(points: &[(f64, f64)]) -> usize {
    let tail = points.len().div_ceil(2).max(STRETCH_MIN);
    let mut from = points.len().saturating_sub(tail);
    while from > 0 && !is_below(&points[from..], points[from - 1]) {
        from -= 1;
    }
    from
}

/// Reports whether a point lies clearly below the line through `points`, continued to it.
fn is_below(points: &[(f64, f64)], (x, y): (f64, f64)) -> bool {
    let n = points.len() as f64;
    let slope = slope(points);
    let level = median_of(points.iter().map(|(x, y)| y - slope * x)).unwrap_or(0.0);
    let off = |(x, y): &(f64, f64)| y - level - slope * x;
    let variance = points.iter().map(|point| off(point).powi(2)).sum::<f64>() / (n - 2.0).max(1.0);
    let centre = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let spread = points.iter().map(|(x, _)| (x - centre).powi(2)).sum::<f64>();
    let error = (variance * (1.0 + 1.0 / n + (x - centre).powi(2) / spread.max(1.0))).sqrt();
    // A page more or less is no warm-up.
    off(&(x, y)) < -(BELOW_LINE * error).max(4_096.0_f64.min(level.abs()))
}

fn slope(points: &[(f64, f64)]) -> f64 {
    median_of(pair_slopes(points)).unwrap_or(0.0)
}

/// Returns the slope with its interval of 90 %, of at least two points: Sen's of 95 %, because the stretch was chosen
/// by the same points (of 800 simulated servers each, it contained the truth in 91 to 95 %).
fn growth(points: &[(f64, f64)]) -> Growth {
    let slopes = sorted_slopes(points);
    let (low, high) = slope_interval(&slopes, points.len());
    Growth { low, mid: median(&slopes).unwrap_or(0.0), high }
}

/// GrowthLimits of relevant growth of memory, bytes per cycle.
#[derive(Clone, Copy, Debug)]
struct GrowthLimits {
    floor: f64,
    excluded: f64,
}

impl GrowthLimits {
    /// For a server whose connections use `used` bytes.
    fn of(used: f64) -> Self {
        let of = |(share, bytes): (f64, f64)| (share * used).max(bytes);
        Self { floor: of(FLOOR), excluded: of(EXCLUDED) }
    }

    /// Reports whether the growth of a series over `cycles` cycles can only be small.
    fn excludes_growth(self, series: &KeptSeries, cycles: usize) -> bool {
        stretch(series, cycles) >= STRETCH_MIN
            && series
                .growth
                .is_some_and(|growth| growth.low <= self.floor && growth.high <= self.excluded)
    }

    /// Returns the number of cycles that would decide it: the interval narrows with the power 1.5 of their number.
    fn more_cycles(self, series: &KeptSeries, cycles: usize) -> u64 {
        let n = stretch(series, cycles);
        let least = STRETCH_MIN.saturating_sub(n).max(3) as f64;
        let Some(growth) = series.growth else { return least as u64 };
        let half = (growth.high - growth.low) / 2.0;
        let target = (growth.mid - self.floor).max(self.excluded - growth.mid);
        let more = n as f64 * ((half / target).powf(2.0 / 3.0) - 1.0);
        more.ceil().clamp(least, MORE_MAX) as u64
    }
}

/// Cycles of the stretch that the growth is measured over.
const fn stretch(series: &KeptSeries, cycles: usize) -> usize {
    cycles + 1 - series.settled_from as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn reading(cycle: u64, kept: &[(&str, u64)]) -> CycleReading {
        let kept = kept.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        CycleReading { cycle, held: 10_000, full_bytes: None, kept }
    }

    fn judged(memory: &[f64]) -> CyclesSummary {
        let cycles: Vec<CycleReading> = (1..)
            .zip(memory)
            .map(|(cycle, bytes)| CycleReading {
                full_bytes: Some((300.0 * MIB) as u64),
                ..reading(cycle, &[("processes", *bytes as u64), ("open-files", 12)])
            })
            .collect();
        judge_cycles(10, Some((100.0 * MIB) as u64), &cycles)
    }

    #[test]
    fn a_server_that_keeps_nothing_does_not_grow() {
        let flat = judged(&[100.0 * MIB; 10]);
        assert_eq!((flat.verdict, flat.settled_from), (CyclesVerdict::NoGrowth, 1));
        assert_eq!(flat.growth_bytes_per_cycle, Some(Growth::default()));
        assert_eq!((flat.count, flat.connections), (10, 10_000.0));
    }

    #[test]
    fn a_warm_up_is_no_growth() {
        let warm = [100.0, 130.0, 150.0, 160.0, 160.0, 160.0, 160.0, 160.0, 160.0, 160.0];
        let warm = judged(&warm.map(|mib| mib * MIB));
        assert_eq!((warm.verdict, warm.settled_from), (CyclesVerdict::NoGrowth, 4));
    }

    #[test]
    fn pools_that_still_fill_are_undecided() {
        let filling: Vec<f64> = (0..10).map(|n| 200.0 - 100.0 * 0.7f64.powi(n)).collect();
        let filling = judged(&filling.iter().map(|mib| mib * MIB).collect::<Vec<_>>());
        assert_eq!(filling.verdict, CyclesVerdict::Undecided);
        assert!(filling.more_cycles >= Some(3));
    }

    #[test]
    fn few_cycles_decide_nothing_and_say_how_many_would() {
        for n in 0..STRETCH_MIN {
            let few = judged(&vec![100.0 * MIB; n]);
            let expected =
                if n == 0 { CyclesVerdict::Unmeasured } else { CyclesVerdict::Undecided };
            assert_eq!(few.verdict, expected, "{n}");
            assert_eq!(few.more_cycles.is_some(), n > 0);
            assert_eq!(few.growth_bytes_per_cycle.is_some(), n >= SLOPE_MIN);
        }
    }

    #[test]
    fn a_file_left_open_each_cycle_is_growth() {
        let cycles: Vec<CycleReading> = (1..=8)
            .map(|n| {
                let process = KeptPart::of_process(n as u32);
                reading(n, &[("processes", 1_000_000), ("open-files", 12 + n), (&process, 5)])
            })
            .collect();
        let judged = judge_cycles(8, None, &cycles);
        assert_eq!(judged.verdict, CyclesVerdict::Grows);
        let growth = judged.growth_bytes_per_cycle.expect("memory was read");
        assert_eq!(growth.high, 0.0);
        // A process that another one has replaced makes no series.
        assert_eq!(judged.parts.keys().collect::<Vec<_>>(), ["open-files", "processes"]);
    }

    /// Returns the memory after each of `n` cycles in MiB: a warm-up of `warm` cycles, a leak per cycle, and noise,
    /// with 200 MiB in use.
    fn world(rng: &mut fastrand::Rng, n: usize, warm: usize, leak: f64, noise: f64) -> Vec<f64> {
        let normal = |rng: &mut fastrand::Rng| (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let pools = 20.0 + 60.0 * rng.f64();
        let filled = |cycle: usize| 1.0 - ((cycle + 1) as f64 / (warm + 1) as f64).min(1.0);
        let memory = (0..n).map(|cycle| {
            100.0
                + pools * (1.0 - filled(cycle).powi(2))
                + leak * cycle as f64
                + noise * normal(rng)
        });
        memory.map(|mib| mib * MIB).collect()
    }

    /// Shares of 1,000 seeds: growth stated, truth within the interval.
    fn shares(leak: f64, n: usize) -> (f64, f64) {
        let (mut grows, mut holds) = (0, 0);
        for seed in 0..1_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let warm = rng.usize(0..=3);
            let judged = judged(&world(&mut rng, n, warm, leak, 0.5));
            let growth = judged.growth_bytes_per_cycle.expect("enough cycles");
            grows += usize::from(judged.verdict == CyclesVerdict::Grows);
            holds += usize::from(growth.low <= leak * MIB && leak * MIB <= growth.high);
        }
        (grows as f64 / 1_000.0, holds as f64 / 1_000.0)
    }

    #[test]
    fn a_leak_of_one_percent_is_stated_and_none_is_not() {
        // 2 of 200 MiB; noise of 0.5.
        let (grows, holds) = shares(2.0, 10);
        assert!(grows >= 0.95 && holds >= 0.88, "{grows} {holds}");
        let (alarms, holds) = shares(0.0, 10);
        assert!(alarms <= 0.05 && holds >= 0.88, "{alarms} {holds}");
        let (grows, holds) = shares(1.0, 20);
        assert!(grows >= 0.95 && holds >= 0.88, "{grows} {holds}");
    }
}
