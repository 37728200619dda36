//! Searches for a rate into jobs: a load whose rate each trial replaces, and the settings of the search.
//!
//! Each kind of search has one entry ([`rate`], [`deliveries`], and the one for handshakes); all of them end in
//! `on_axis`, which builds a [`SearchJob`] from the flags and a [`RateJob`] around one load. The pacing of that load
//! is a placeholder of one second at 1/s. `time_for_goals` compares the operations that the rarest goal needs with
//! the budget: it refuses a search that cannot settle the goal, or returns a note. Start with [`rate`].

use clap::Args;
use plimsoll_capacity::Mode;
use plimsoll_capacity::search::{CONFIDENCE, LOWEST_PER_S, operations_needed};
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::Pacing;
use plimsoll_model::search::Axis;
use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use plimsoll_report::time_text::rounded;

use super::load::{LoadJob, assemble};
use super::parts::Parts;
use super::{Destination, Inputs, handshakes, mqtt, pacing};
use crate::exit::Result;
use crate::flags::search::{HandshakesFlags, RangeFlags, RateFlags, SearchFlags, SearchLoadFlags};
use crate::flags::shared::{OutputFlags, PoolFlags};
use crate::flags::values::{ModeFlag, SEARCH_BUDGET_MAX};

/// Default of --probe-timeouts: above 120 s, the longest timeout that is common.
const PROBE_DEFAULT: Nanos = Nanos::from_secs(150);
/// Objectives of one search.
const SLOS_MAX: usize = 4;
/// Longest wait of the timeout probe.
const PROBE_MAX: Nanos = Nanos::from_secs(3_600);

/// The goals and the range of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchJob {
    /// Axis of the search.
    pub(crate) axis: Axis,
    /// Goals of a GOOD trial.
    pub(crate) slo: Slo,
    /// Further objectives, each with its own interval; at most [`SLOS_MAX`] with the first.
    pub(crate) further: Vec<Slo>,
    /// `true` if the user named it; otherwise it is printed.
    pub(crate) slo_given: bool,
    /// The lengths of its trials, and its budget unless `budget` is another one.
    pub(crate) mode: Mode,
    /// Trial and rest time that the user gave.
    pub(crate) budget: Option<Nanos>,
    /// Lowest rate to try.
    pub(crate) min: Option<Rate>,
    /// Highest rate to try; above `min`.
    pub(crate) max: Option<Rate>,
    /// Reason for `max`, if the user did not set it.
    pub(crate) cap_reason: Option<String>,
    /// Confidence in the interval of a rate, more than 0.5 and less than 0.999.
    pub(crate) confidence: f64,
    /// Distribution of starts in each trial.
    pub(crate) arrivals: Arrivals,
    /// Wait of the timeout probe, if there is one; at most an hour.
    pub(crate) probe: Option<Nanos>,
    /// Number of whole searches, if more than one is possible.
    pub(crate) repeat: Option<u32>,
    /// Notes that are printed before the first trial.
    pub(crate) notes: Vec<String>,
}

impl SearchJob {
    /// Returns the trial and rest time of a search for a rate.
    pub(crate) fn budget(&self) -> Nanos {
        self.budget.unwrap_or_else(|| self.mode.limits().budget)
    }

    /// Returns the first load.
    pub(crate) fn lowest(&self) -> Rate {
        self.min.or_else(|| Rate::per_second(LOWEST_PER_S)).unwrap_or_default()
    }
}

/// A search for a rate, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RateJob {
    /// The load of a trial; each trial replaces `plan.pacing`, which holds one second at 1/s.
    pub(crate) load: LoadJob,
    /// Settings of the search.
    pub(crate) search: SearchJob,
    /// `true` if the flags fix the number of connections.
    pub(crate) pool_fixed: bool,
    /// `true` if the flags name the source addresses.
    pub(crate) sources_fixed: bool,
    /// Test of the cause that is found, if there is one.
    pub(crate) cause_test: Option<CauseTest>,
    /// Deliveries per publish, if the operations are deliveries.
    pub(crate) deliveries: Option<u64>,
}

/// The test of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CauseTest {
    /// By a change of the server, which was started here.
    ByServer,
    /// By changes of the load, for a server that somebody else runs.
    ByLoad,
}

/// Plans the search for the highest rate of requests.
pub(super) fn rate(
    flags: &RateFlags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<RateJob> {
    on_axis(Axis::Rate, flags, &flags.pool, to, output, inputs)
}

/// Plans a search for a rate, in trials over the connections of `pool`.
fn on_axis<P: Args>(
    axis: Axis,
    flags: &RateFlags<P>,
    pool: &PoolFlags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<RateJob> {
    let search = search_in_range(axis, &flags.search, &flags.range, to)?;
    let parts = parts(&search, &flags.load, to, pool, output, placeholder(search.arrivals));
    let load = assemble(parts, inputs)?;
    let pool_fixed = pool.connections.is_some();
    let sources_fixed = !flags.load.client.source.is_empty();
    Ok(RateJob { load, search, pool_fixed, sources_fixed, cause_test: None, deliveries: None })
}

/// Plans the search for the highest rate of deliveries.
pub(super) fn deliveries(
    flags: &RateFlags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<RateJob> {
    let mut job = rate(flags, to, output, inputs)?;
    let each = mqtt::deliveries_each(&job.load.plan)?;
    let lowest = LOWEST_PER_S * each as f64;
    job.search.axis = Axis::Deliveries;
    job.search.min = job.search.min.or_else(|| Rate::per_second(lowest));
    refuse_if!(job.search.max.is_some_and(|max| max <= job.search.lowest());
        "--max is not above the lowest load, {}", job.search.lowest();
        "give more: each publish is delivered {} times", grouped(each));
    job.search.notes.push(format!(
        "each publish is delivered {} times; loads are deliveries per second",
        grouped(each)
    ));
    // Connections are subscribers: with others it would be another load.
    Ok(RateJob { pool_fixed: true, deliveries: Some(each), ..job })
}

/// Plans the search for the highest rate of new TLS connections.
pub(super) fn handshakes(
    flags: &HandshakesFlags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<RateJob> {
    let pool = PoolFlags { connections: flags.pool.connections, ..PoolFlags::default() };
    let mut job = on_axis(Axis::Handshakes, flags, &pool, to, output, inputs)?;
    handshakes::apply(&mut job.load, &mut job.search, inputs)?;
    Ok(job)
}

/// Returns the parts of a search's load.
pub(super) fn parts<'a>(
    search: &SearchJob,
    flags: &'a SearchLoadFlags,
    to: &'a Destination,
    pool: &'a PoolFlags,
    output: &'a OutputFlags,
    pacing: Pacing,
) -> Parts<'a> {
    let deadline = search.slo.deadline();
    // What one objective calls late is still waited for by another.
    let latest = search.further.iter().filter_map(Slo::deadline).max();
    let longer = latest.unwrap_or_default().since(deadline.unwrap_or_default());
    Parts {
        to,
        pool,
        client: &flags.client,
        handshake: &flags.handshake,
        resume: flags.resume,
        output,
        pacing,
        ops_total: None,
        slo: Some(search.slo.clone()),
        deadline,
        linger: flags.trial.linger + longer,
        seed: flags.trial.seed,
    }
}

/// Returns the pacing of a job until a trial sets its own.
pub(super) fn placeholder(arrivals: Arrivals) -> Pacing {
    let rate = Rate::per_second(1.0).unwrap_or_default();
    Pacing::Open { profile: Profile::constant(rate, Nanos::from_secs(1)), arrivals }
}

/// Returns the goals and settings of a search on any axis, without its range.
pub(super) fn search(
    axis: Axis,
    flags: &SearchFlags,
    arrivals: Arrivals,
    to: &Destination,
) -> Result<SearchJob> {
    let default = if to.is_laboratory() { Mode::Quick } else { Mode::Standard };
    let named = flags.mode.map(mode);
    let mode = named.or_else(|| flags.budget.map(mode_within)).unwrap_or(default);
    let further = flags.slo.get(1..).unwrap_or_default().to_vec();
    let slo = objective(flags)?;
    several(axis, &slo, &further)?;
    refuse_if!(flags.repeat.is_some() && !further.is_empty();
        "--repeat states the interval of one SLO over its searches, and --slo was given more than once";
        "drop --repeat, or give one --slo");
    refuse_if!(flags.repeat.is_some() && to.server.hosts.agents.is_some();
        "--repeat starts agents for each search, and those of --agents come once"; "drop --repeat");
    Ok(SearchJob {
        axis,
        slo,
        further,
        slo_given: !flags.slo.is_empty() || flags.deadline.is_some(),
        mode,
        budget: flags.budget,
        min: None,
        max: None,
        cap_reason: None,
        confidence: CONFIDENCE,
        arrivals,
        probe: probe(flags.probe_timeouts, mode)?,
        repeat: flags.repeat,
        notes: Vec::new(),
    })
}

/// Plans a search for rates, which have a range.
fn search_in_range(
    axis: Axis,
    flags: &SearchFlags,
    range: &RangeFlags,
    to: &Destination,
) -> Result<SearchJob> {
    let RangeFlags { min, max, confidence, arrivals } = *range;
    let search = search(axis, flags, pacing::arrivals(arrivals.arrivals), to)?;
    if let (Some(min), Some(max)) = (min, max)
        && min >= max
    {
        refuse!("--min {} is not below --max {}", min.get(), max.get(); "widen the range");
    }
    let mut job = SearchJob { min, max, confidence, ..search };
    job.notes.extend(time_for_goals(&job)?);
    Ok(job)
}

/// Operations of a search over the operations that settle its rarest goal: trials above the tipping point do not count
/// for it, and rests send none.
const SETTLED_BY: f64 = 2.0;
/// Goals that allow a larger share are settled by trials of the usual length.
const USUAL_RATIO: f64 = 0.005;

/// Reports whether the budget has time for as many operations as the goals need. Refuses what cannot be had at
/// the highest rate; of goals on few operations a line how long they take.
fn time_for_goals(job: &SearchJob) -> Result<Option<String>> {
    let all = || std::iter::once(&job.slo).chain(&job.further);
    let Some(slo) = all().max_by_key(|slo| operations_needed(slo)) else { return Ok(None) };
    let needed = operations_needed(slo);
    let span = |rate: Rate| Nanos::from_secs_f64(SETTLED_BY * needed as f64 / rate.get());
    let budget = job.budget();
    if let Some(max) = job.max.filter(|max| span(*max) > budget) {
        let fix = match span(max) <= SEARCH_BUDGET_MAX {
            true => format!(
                "give --budget {}, or a goal on more operations such as errors<1%",
                budget_flag(span(max))
            ),
            false => "give a goal on more operations, such as p99 or errors<1%".to_owned(),
        };
        refuse!(
            "--slo {slo} needs {} operations that meet it: a search of about {} at --max {max}, and this one has {}",
                grouped(needed), rounded(span(max)), rounded(budget);
            "{}", fix);
    }
    let rarest = slo.goals.iter().map(Goal::bad_ratio_max).filter(|ratio| *ratio > 0.0);
    if !job.slo_given || rarest.reduce(f64::min).is_none_or(|ratio| ratio > USUAL_RATIO) {
        return Ok(None);
    }
    let at = job.max.unwrap_or_else(|| job.lowest());
    let from = SETTLED_BY * needed as f64 / budget.as_secs_f64();
    let longer = match span(at) {
        span if span > budget && span <= SEARCH_BUDGET_MAX => {
            format!("; for less give --budget {}", budget_flag(span))
        }
        _ => String::new(),
    };
    Ok(Some(format!(
        "{slo} needs {} operations that meet it: about {} of searching at {at}; this search has {}, \
         which is enough from {} on{longer}",
        grouped(needed),
        rounded(span(at)),
        rounded(budget),
        Rate::per_second(from).unwrap_or_default()
    )))
}

/// Returns a duration as `--budget` takes it, in whole minutes, rounded up.
fn budget_flag(span: Nanos) -> String {
    format!("{}m", (span.as_secs_f64() / 60.0).ceil())
}

/// Returns the mode with the longest trials of those whose budget is at most `budget`.
fn mode_within(budget: Nanos) -> Mode {
    let fits = |mode: &&Mode| mode.limits().budget <= budget;
    Mode::ALL.iter().rev().find(fits).copied().unwrap_or(Mode::Quick)
}

/// Returns the wait of the timeout probe; the default depends on the mode.
fn probe(wait: Option<Nanos>, mode: Mode) -> Result<Option<Nanos>> {
    match wait {
        Some(Nanos::ZERO) => Ok(None),
        Some(wait) if wait > PROBE_MAX => refuse!(
            "--probe-timeouts {wait} would hold the search up for longer than an hour";
            "give at most 1h"),
        Some(wait) => Ok(Some(wait)),
        None => Ok((mode != Mode::Quick).then_some(PROBE_DEFAULT)),
    }
}

fn mode(flag: ModeFlag) -> Mode {
    match flag {
        ModeFlag::Quick => Mode::Quick,
        ModeFlag::Standard => Mode::Standard,
        ModeFlag::Strict => Mode::Strict,
    }
}

/// Reports whether one search can have all these objectives.
fn several(axis: Axis, slo: &Slo, further: &[Slo]) -> Result<()> {
    refuse_if!(axis == Axis::Connections && !further.is_empty();
        "find connections searches for one SLO, and --slo was given more than once"; "give it once");
    refuse_if!(further.len() >= SLOS_MAX;
        "--slo was given {} times, and a search has at most {SLOS_MAX}", further.len() + 1;
        "run two searches");
    let mut known = vec![slo];
    for slo in further {
        refuse_if!(known.contains(&slo); "--slo {slo} was given twice"; "drop one of them");
        known.push(slo);
    }
    Ok(())
}

/// Returns the SLO. `--deadline` is short for a latency goal: as a second limit it could make trials BAD that
/// meet every goal.
fn objective(flags: &SearchFlags) -> Result<Slo> {
    match (flags.slo.first(), flags.deadline) {
        (Some(slo), None) => Ok(slo.clone()),
        (None, None) => Ok(Slo::default()),
        (Some(slo), Some(deadline)) if slo.deadline() == Some(deadline) => Ok(slo.clone()),
        (Some(slo), Some(deadline)) => refuse!(
            "--deadline {deadline} and --slo {slo} disagree on what is late";
            "give only --slo"),
        (None, Some(deadline)) => {
            let with_limit = |goal| match goal {
                Goal::Latency { quantile, .. } => Goal::Latency { quantile, limit: deadline },
                errors @ Goal::Errors { .. } => errors,
            };
            Ok(Slo { goals: Slo::default().goals.into_iter().map(with_limit).collect() })
        }
    }
}
