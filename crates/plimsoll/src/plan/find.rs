//! `plimsoll find` into a job: a load whose rate each trial replaces, and how to search.

use plimsoll_capacity::search::LOWEST_PER_S;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::Pacing;
use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::{Nanos, Rate};
use plimsoll_probe::counted::CountSource;

use super::climb::{Climb, Typed};
use super::load::{LoadJob, Parts, assemble};
use super::pacing::arrivals;
use super::{Inputs, climb, handshakes, rfc9411};
use crate::exit::Stop;
use crate::flags::FindFlags;
use crate::flags::search::{LoadOnlyFlags, SearchFlags};
use crate::flags::values::{ModeFlag, Watch};

/// The timeout probe's wait where none is asked for: above 120 s, the longest setting that is common.
const PROBE_DEFAULT: Nanos = Nanos::from_secs(150);
/// And at most.
const PROBE_MAX: Nanos = Nanos::from_secs(3_600);

/// How exact a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An interval within 5 %.
    Quick,
    /// Within 2 %.
    Standard,
    /// Within 1 %.
    Strict,
}

impl Mode {
    /// The name in flags and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }
}

/// What a search raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Requests per second.
    Rate,
    /// New TLS connections per second.
    Handshakes,
    /// Connections held at once.
    Connections,
}

impl Axis {
    /// The name in flags and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Handshakes => "handshakes",
            Self::Connections => "connections",
        }
    }
}

/// What a search demands and where it looks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchJob {
    /// What is raised.
    pub(crate) axis: Axis,
    /// What a GOOD trial meets.
    pub(crate) slo: Slo,
    /// Whether the user named it; otherwise it is printed.
    pub(crate) slo_given: bool,
    /// How exact.
    pub(crate) mode: Mode,
    /// Lowest rate to try.
    pub(crate) min: Option<Rate>,
    /// Highest rate to try; above `min`.
    pub(crate) max: Option<Rate>,
    /// What set `max`, when it was not the user.
    pub(crate) cap_reason: Option<String>,
    /// How starts are spread in each trial.
    pub(crate) arrivals: Arrivals,
    /// How long the timeout probe waits, if there is one; at most an hour.
    pub(crate) probe: Option<Nanos>,
    /// What the reader is told before the first trial.
    pub(crate) notes: Vec<String>,
}

impl SearchJob {
    /// The first load.
    pub(crate) fn lowest(&self) -> Rate {
        self.min.or_else(|| Rate::per_second(LOWEST_PER_S)).unwrap_or_default()
    }
}

/// One search, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FindJob {
    /// The load of a trial; each trial replaces `plan.pacing`, which holds one second at 1/s.
    pub(crate) load: LoadJob,
    /// How to search.
    pub(crate) search: SearchJob,
    /// Processes of this host to observe as the SUT.
    pub(crate) watch_pids: Vec<u32>,
    /// How connections are held, on that axis.
    pub(crate) climb: Option<Climb>,
    /// Where the SUT says what it has served.
    pub(crate) watch_counts: Option<CountSource>,
}

/// Checks and resolves the flags of `find`.
pub(crate) fn build(flags: &FindFlags, inputs: &mut Inputs<'_>) -> Result<FindJob, Stop> {
    let axis = check_axis(flags)?;
    climb::refuse_elsewhere(axis, &flags.climb, "find")?;
    let mut search = search(axis, &flags.search, flags.mode, &flags.foreign, "find")?;
    rfc9411::refuse_stray(&flags.rfc9411)?;
    let (watch_pids, watch_counts) = watched(&flags.watch, inputs)?;
    let parts = Parts {
        usage: match axis {
            Axis::Rate => "plimsoll find rate",
            Axis::Handshakes => "plimsoll find handshakes",
            Axis::Connections => "plimsoll find connections",
        },
        url: flags.url.as_deref(),
        request: &flags.client.request,
        connection: &flags.client.connection,
        trust: &flags.client.trust,
        handshake: &flags.client.handshake,
        output: &flags.client.output,
        pacing: placeholder(&search)?,
        ops_total: None,
        deadline: search.slo.deadline(),
        slo: Some(search.slo.clone()),
        linger: flags.search.linger,
        seed: flags.search.seed,
    };
    let mut load = assemble(parts, inputs)?;
    if axis == Axis::Handshakes {
        handshakes::apply(
            &mut load,
            &mut search,
            &flags.client.request,
            &flags.client.connection,
            inputs,
        )?;
    }
    let climb = match axis {
        Axis::Connections => {
            let typed = Typed { climb: &flags.climb, search: &flags.search };
            Some(climb::apply(&mut load, &mut search, &typed, &flags.client.connection)?)
        }
        Axis::Rate | Axis::Handshakes => None,
    };
    Ok(FindJob { load, search, watch_pids, watch_counts, climb })
}

/// The pacing that stands in a job until a trial sets its own.
pub(super) fn placeholder(search: &SearchJob) -> Result<Pacing, Stop> {
    let rate = Rate::per_second(1.0)
        .ok_or_else(|| Stop::CannotRun("no rate to start from; report this as a bug".to_owned()))?;
    let profile = Profile::constant(rate, Nanos::from_secs(1));
    Ok(Pacing::Open { profile, arrivals: search.arrivals })
}

/// Checks what `find` and `lab` demand of a search.
pub(super) fn search(
    axis: Axis,
    flags: &SearchFlags,
    mode: ModeFlag,
    foreign: &LoadOnlyFlags,
    command: &str,
) -> Result<SearchJob, Stop> {
    refuse_load_only(foreign, command)?;
    if let (Some(min), Some(max)) = (flags.min, flags.max)
        && min >= max
    {
        return Err(Stop::usage(
            format_args!("--min {} is not below --max {}", min.get(), max.get()),
            "widen the range",
        ));
    }
    let mode = self::mode(mode)?;
    Ok(SearchJob {
        axis,
        slo: objective(flags)?,
        slo_given: flags.slo.is_some() || flags.deadline.is_some(),
        mode,
        min: flags.min,
        max: flags.max,
        cap_reason: None,
        arrivals: flags.arrivals.map_or(Arrivals::Uniform, arrivals),
        probe: probe(flags.probe_timeouts, mode)?,
        notes: Vec::new(),
    })
}

/// The axis, before anything else: without it, the words after it mean something else.
fn check_axis(flags: &FindFlags) -> Result<Axis, Stop> {
    const EXAMPLE: &str = "for example: plimsoll find rate http://127.0.0.1:8080/";
    match flags.axis.as_deref() {
        None => Err(Stop::usage("no axis and no URL given", EXAMPLE)),
        Some(axis) if axis.contains("://") => Err(Stop::usage(
            "the axis is missing before the URL",
            format_args!("write plimsoll find rate {axis}"),
        )),
        Some(axis) => known_axis(axis),
    }
}

/// The axis by its name.
pub(super) fn known_axis(axis: &str) -> Result<Axis, Stop> {
    const KNOWN: &str = "use rate, handshakes or connections";
    match axis {
        "rate" => Ok(Axis::Rate),
        "handshakes" => Ok(Axis::Handshakes),
        "connections" => Ok(Axis::Connections),
        other => Err(Stop::usage(format_args!("unknown axis {other:?}"), KNOWN)),
    }
}

/// How long the timeout probe waits: by the mode where the flags do not say.
fn probe(wait: Option<Nanos>, mode: Mode) -> Result<Option<Nanos>, Stop> {
    match wait {
        Some(Nanos::ZERO) => Ok(None),
        Some(wait) if wait > PROBE_MAX => Err(Stop::usage(
            format_args!(
                "--probe-timeouts {wait} would hold the search up for longer than an hour"
            ),
            "give at most 1h",
        )),
        Some(wait) => Ok(Some(wait)),
        None => Ok((mode != Mode::Quick).then_some(PROBE_DEFAULT)),
    }
}

fn mode(flag: ModeFlag) -> Result<Mode, Stop> {
    match flag {
        ModeFlag::Quick => Ok(Mode::Quick),
        ModeFlag::Standard => Ok(Mode::Standard),
        ModeFlag::Strict => Ok(Mode::Strict),
        ModeFlag::Rfc9411 => {
            // The commands that have it never come here.
            Err(Stop::usage(
                "--mode rfc9411 has several figures, and none to compare",
                "use quick, standard or strict",
            ))
        }
    }
}

/// The objective. In a search, late is what the SLO says is late: a second limit would make trials
/// BAD that meet every goal, so `--deadline` is only another way to write the goal.
fn objective(flags: &SearchFlags) -> Result<Slo, Stop> {
    match (&flags.slo, flags.deadline) {
        (Some(slo), None) => Ok(slo.clone()),
        (None, None) => Ok(Slo::default()),
        (Some(slo), Some(deadline)) if slo.deadline() == Some(deadline) => Ok(slo.clone()),
        (Some(slo), Some(deadline)) => Err(Stop::usage(
            format_args!("--deadline {deadline} and --slo {slo} disagree on what is late"),
            "give only --slo",
        )),
        (None, Some(deadline)) => {
            let with_limit = |goal| match goal {
                Goal::Latency { quantile, .. } => Goal::Latency { quantile, limit: deadline },
                errors @ Goal::Errors { .. } => errors,
            };
            Ok(Slo { goals: Slo::default().goals.into_iter().map(with_limit).collect() })
        }
    }
}

fn refuse_load_only(flags: &LoadOnlyFlags, command: &str) -> Result<(), Stop> {
    let typed = [
        ("--stages", flags.stages.is_some()),
        ("--duration", flags.duration.is_some()),
        ("--requests", flags.requests.is_some()),
    ];
    match typed.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Stop::usage(
            format_args!("{command} sets rate and length of every trial itself, not {flag}"),
            "use --min, --max and --mode, or plimsoll load",
        )),
        None => Ok(()),
    }
}

pub(super) fn watched(
    watch: &[Watch],
    inputs: &Inputs<'_>,
) -> Result<(Vec<u32>, Option<CountSource>), Stop> {
    let (mut pids, mut counts) = (Vec::new(), None);
    for what in watch {
        match what {
            Watch::Pid(pid) if (inputs.is_alive)(*pid) => pids.push(*pid),
            Watch::Pid(pid) => {
                return Err(Stop::CannotRun(format!(
                    "--watch pid:{pid}: this host has no such process; find it with pidof, or drop \
                     --watch"
                )));
            }
            Watch::Counts(source) if counts.is_none() => counts = Some(source.clone()),
            Watch::Counts(_) => {
                return Err(Stop::usage(
                    "--watch names two servers that count the same requests",
                    "give only the one that the clients connect to",
                ));
            }
            Watch::Later(typed) => {
                return Err(Stop::usage(
                    format_args!("--watch {typed} is not available yet"),
                    "use pid:N, haproxy:SOCKET or nginx:URL, or drop it",
                ));
            }
        }
    }
    Ok((pids, counts))
}
