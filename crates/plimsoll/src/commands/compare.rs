//! `plimsoll compare`: A against itself, then rounds of A and B in random order, and what they add
//! up to.
//!
//! Every measurement is a run of this very program with an archive of its own, one after the
//! other, so that what is compared is what a user would have seen.

use plimsoll_capacity::compare::{
    Comparison, Noise, Pair, ROUNDS_MIN, SAME_PAIRS_MIN, SAME_RUNS, Tolerance, chance_alone,
    compare, orders,
};
use plimsoll_model::Nanos;
use plimsoll_model::compare::{
    CompareSummary, Finding, MeasuredSummary, NoiseSummary, Order, RoundSummary,
};
use plimsoll_model::summary::{Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Level, Measure, Verdict};
use plimsoll_report::terminal::{render_measured_line, render_round_line};
use plimsoll_sys::signal::Interrupts;

use crate::commands::measurement;
use crate::commands::measurement::Measured;
use crate::exit::Stop;
use crate::flags::CompareFlags;
use crate::plan::Inputs;
use crate::plan::compare::{Arm, CompareJob};
use crate::run::ComparisonRun;
use crate::{plan, run};

pub(crate) fn run(flags: &CompareFlags) -> Result<(), Stop> {
    let mut stdin = std::io::empty();
    let job = plan::compare::build(flags, &mut Inputs::of_host(&mut stdin))?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let run = ComparisonRun::begin(&job)?;
    let mut session = Session { job: &job, interrupts: &interrupts, run, seen: Seen::default() };
    let ended = session.measure_all();
    let Session { run, seen, .. } = session;
    let summary = summarise(&job, &seen, &run, ended.is_err());
    run.finish(&summary)?;
    ended?;
    let compared = summary.compare.as_ref().is_some_and(|found| found.ratio.is_some());
    match (compared, seen.stopped) {
        (true, _) => Ok(()),
        (false, Some(Stopped::Budget)) => Err(Stop::CannotRun(format!(
            "the budget ended before {ROUNDS_MIN} rounds could be used, the fewest that support a \
             statement; raise --budget, or make a measurement shorter"
        ))),
        (false, _) => Err(Stop::Invalid),
    }
}

/// Why fewer rounds were made than planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Budget,
    TooManyInvalid,
}

impl Stopped {
    const fn why(self) -> &'static str {
        match self {
            Self::Budget => "the next round would have ended after the budget",
            Self::TooManyInvalid => "so many measurements were INVALID that too few could be left",
        }
    }
}

/// What was measured so far.
#[derive(Debug, Default)]
struct Seen {
    same: Vec<MeasuredSummary>,
    rounds: Vec<RoundSummary>,
    stopped: Option<Stopped>,
    /// Relative width within which a search tells its figure; the widest seen.
    resolution: f64,
    /// The longest measurement.
    longest: Nanos,
}

struct Session<'a> {
    job: &'a CompareJob,
    interrupts: &'a Interrupts,
    run: ComparisonRun,
    seen: Seen,
}

impl Session<'_> {
    /// Fills `seen`; `Err` when it was cut short or a measurement could not be made.
    fn measure_all(&mut self) -> Result<(), Stop> {
        let job = self.job;
        self.run.note(format!(
            "A against itself {SAME_RUNS} times, then {} rounds of both; each measurement is \
             archived in {}",
            job.rounds,
            self.run.dir().display()
        ));
        self.measure_same()?;
        if self.seen.stopped.is_none() {
            self.measure_rounds()?;
        }
        Ok(())
    }

    fn measure_same(&mut self) -> Result<(), Stop> {
        let job = self.job;
        for number in 1..=SAME_RUNS {
            if self.is_over_budget(1) {
                self.seen.stopped = Some(Stopped::Budget);
                return Ok(());
            }
            let measured =
                self.measure(&job.a, format!("same-{number}"), seed_of(job, number as u64))?;
            let line = render_measured_line(job.metric, job.unit, number, SAME_RUNS, &measured);
            self.seen.same.push(measured);
            self.run.note(line);
            let spoilt = self.seen.same.chunks(2).filter(|two| is_spoilt(two)).count();
            if SAME_RUNS / 2 - spoilt < SAME_PAIRS_MIN {
                self.seen.stopped = Some(Stopped::TooManyInvalid);
                return Ok(());
            }
        }
        let rest = Nanos(self.run.elapsed().0 / SAME_RUNS as u64 * 2 * u64::from(job.rounds));
        self.run.note(format!("{} rounds take about {rest}", job.rounds));
        Ok(())
    }

    fn measure_rounds(&mut self) -> Result<(), Stop> {
        let job = self.job;
        for (order, number) in orders(job.rounds as usize, job.seed).into_iter().zip(1u32..) {
            if self.is_over_budget(2) {
                self.seen.stopped = Some(Stopped::Budget);
                return Ok(());
            }
            let round = self.measure_round(order, number)?;
            let line = render_round_line(job.metric, job.unit, job.rounds, &round);
            self.seen.rounds.push(round);
            self.run.note(line);
            let invalid = self.seen.rounds.iter().filter(|round| round.ratio.is_none()).count();
            if (job.rounds as usize).saturating_sub(invalid) < ROUNDS_MIN {
                self.seen.stopped = Some(Stopped::TooManyInvalid);
                return Ok(());
            }
        }
        Ok(())
    }

    fn measure_round(&mut self, order: Order, number: u32) -> Result<RoundSummary, Stop> {
        let job = self.job;
        // Both see the same arrivals.
        let seed = seed_of(job, SAME_RUNS as u64 + u64::from(number));
        let place = |arm: &Arm| format!("round-{number:03}-{}", arm.name.to_ascii_lowercase());
        let (a, b) = match order {
            Order::Ab => {
                let a = self.measure(&job.a, place(&job.a), seed)?;
                (a, self.measure(&job.b, place(&job.b), seed)?)
            }
            Order::Ba => {
                let b = self.measure(&job.b, place(&job.b), seed)?;
                (self.measure(&job.a, place(&job.a), seed)?, b)
            }
        };
        let ratio = pair(&a, &b).map(|pair| pair.b / pair.a);
        Ok(RoundSummary { number, order, a, b, ratio })
    }

    fn measure(&mut self, arm: &Arm, name: String, seed: u64) -> Result<MeasuredSummary, Stop> {
        let began = self.run.elapsed();
        let dir = self.run.dir().join(&name);
        let summary = measurement::make(arm, seed, &dir, self.interrupts)?;
        let took = self.run.elapsed().since(began);
        self.seen.longest = self.seen.longest.max(took);
        let Measured { value, invalid, resolution } =
            measurement::read(arm, self.job.metric, &summary)?;
        self.seen.resolution = self.seen.resolution.max(resolution);
        Ok(MeasuredSummary { value, invalid, seconds: took.as_secs_f64(), archive: name })
    }

    /// Whether so many more measurements would end after the budget.
    fn is_over_budget(&self, measurements: u64) -> bool {
        let end = self.run.elapsed() + Nanos(self.seen.longest.0.saturating_mul(measurements));
        self.job.budget.is_some_and(|budget| end > budget)
    }
}

fn seed_of(job: &CompareJob, nth: u64) -> u64 {
    job.seed.wrapping_mul(1_000).wrapping_add(nth)
}

fn is_spoilt(pair: &[MeasuredSummary]) -> bool {
    pair.iter().any(|one| one.value.is_none())
}

fn pair(a: &MeasuredSummary, b: &MeasuredSummary) -> Option<Pair> {
    Pair::new(a.value?, b.value?)
}

fn summarise(job: &CompareJob, seen: &Seen, run: &ComparisonRun, partial: bool) -> Summary {
    let compare = judge(job, seen);
    let enough = compare.ratio.is_some();
    let head = SummaryHead {
        command: "compare".to_owned(),
        target: job.target_name(),
        started_at: run.started_at.clone(),
        window: run.elapsed(),
        partial,
        settings: job.settings(),
        verdict: if enough { Verdict::Good } else { Verdict::Invalid },
        reasons: vec![Check::new(
            CheckId::Rounds,
            Level::of(!enough, false),
            [
                Measure::count("usable", compare.rounds_used.into()).at_least(ROUNDS_MIN as f64),
                Measure::count("of", compare.rounds.len() as u64),
            ],
        )],
        find: None,
        hold: None,
        archive: run.archive_dir(),
    };
    let mut summary = Summary::new(head, &Tally::default());
    summary.compare = Some(compare);
    summary
}

fn judge(job: &CompareJob, seen: &Seen) -> CompareSummary {
    let same: Vec<Pair> =
        seen.same.chunks_exact(2).filter_map(|two| pair(&two[0], &two[1])).collect();
    let pairs: Vec<Pair> =
        seen.rounds.iter().filter_map(|round| pair(&round.a, &round.b)).collect();
    let noise = Noise::of(&same);
    let tolerance = Tolerance { threshold: job.threshold, resolution: seen.resolution };
    let found: Option<Comparison> = noise.and_then(|noise| compare(&pairs, noise, tolerance));
    let used = pairs.len();
    CompareSummary {
        a: job.a.text.clone(),
        b: job.b.text.clone(),
        metric: job.metric,
        unit: job.unit.to_owned(),
        finding: found.map_or(Finding::Undecided, |found| found.finding),
        ratio: found.map(|found| found.ratio),
        ratio_low: found.map(|found| found.low),
        ratio_high: found.map(|found| found.high),
        confidence: found.map(|found| found.confidence),
        p: found.map(|_| chance_alone(&pairs)),
        difference_max: found.map(|found| found.difference_max),
        threshold: job.threshold,
        resolution: seen.resolution,
        noise: noise.map(|noise| {
            // Until there are rounds, what the planned ones could show.
            let rounds = if used == 0 { job.rounds as usize } else { used };
            NoiseSummary {
                cv: noise.variation(),
                half_width: noise.half_width(rounds),
                detectable: noise.detectable(rounds, seen.resolution),
            }
        }),
        same: seen.same.clone(),
        rounds_planned: job.rounds,
        rounds_used: used as u32,
        rounds_invalid: (seen.rounds.len() - used) as u32,
        rounds: seen.rounds.clone(),
        stopped: seen.stopped.map(|stopped| stopped.why().to_owned()),
    }
}
