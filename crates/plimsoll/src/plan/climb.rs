//! The axis of held connections: a load whose connections are held, and how high they may go.

use plimsoll_capacity::Mode as SearchMode;
use plimsoll_capacity::connections::ConnectionLimits;
use plimsoll_model::plan::{HoldPlan, Pacing};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use super::find::{Axis, Mode, SearchJob};
use super::load::LoadJob;
use crate::exit::Stop;
use crate::flags::search::{ClimbFlags, SearchFlags};
use crate::flags::shared::ConnectionFlags;
use crate::flags::values;

/// The first level.
const LOWEST: u64 = 100;
/// New connections per second.
const PER_S_DEFAULT: &str = "2k";
/// Connections that are being opened at once.
const OPENING_MAX: u32 = 512;

/// How connections are held, and how high they may go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Climb {
    /// How they are opened; there are no heartbeats, sweeps ask instead.
    pub(crate) hold: HoldPlan,
    /// The first level, and the highest; lowest <= highest.
    pub(crate) lowest: u64,
    /// The highest level; the load's plan has it, too.
    pub(crate) highest: u64,
    /// The user named the highest level.
    pub(crate) highest_given: bool,
    /// How long the last good level is held.
    pub(crate) soak: Nanos,
    /// Go on until the server gives way.
    pub(crate) push: bool,
}

/// What was typed for this axis.
pub(super) struct Typed<'a> {
    pub(super) climb: &'a ClimbFlags,
    pub(super) search: &'a SearchFlags,
}

/// The figures of a search's mode.
pub(crate) fn limits(mode: Mode) -> ConnectionLimits {
    *ConnectionLimits::of(match mode {
        Mode::Quick => SearchMode::Quick,
        Mode::Standard => SearchMode::Standard,
        Mode::Strict => SearchMode::Strict,
    })
}

/// On another axis these flags would be ignored.
pub(super) fn refuse_elsewhere(axis: Axis, flags: &ClimbFlags, command: &str) -> Result<(), Stop> {
    if axis == Axis::Connections {
        return Ok(());
    }
    if flags.rate.is_some() {
        return Err(Stop::usage(
            format_args!("{command} sets rate and length of every trial itself, not --rate"),
            "use --min, --max and --mode, or plimsoll load",
        ));
    }
    let typed = [("--push", flags.push), ("--for", flags.soak.is_some())];
    match typed.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Stop::usage(
            format_args!("{flag} is about held connections"),
            "use the axis connections, or drop it",
        )),
    }
}

/// Turns a search of requests into one of held connections.
pub(super) fn apply(
    load: &mut LoadJob,
    search: &mut SearchJob,
    typed: &Typed<'_>,
    connection: &ConnectionFlags,
) -> Result<Climb, Stop> {
    refuse_pool_flags(typed.search, connection)?;
    let text = typed.climb.rate.as_deref().unwrap_or(PER_S_DEFAULT);
    let rate = values::positive_rate(text).map_err(|_| {
        Stop::usage(
            format_args!("--rate {text:?} is no rate"),
            "give connections per second, such as 500 or 2k",
        )
    })?;
    let limits = limits(search.mode);
    let highest = search.max.map(|max| level("--max", max)).transpose()?;
    let named = search.min.map(|min| level("--min", min)).transpose()?;
    let highest_given = highest.is_some();
    let highest = highest.unwrap_or(limits.cap);
    let lowest = named.unwrap_or_else(|| LOWEST.min(highest));
    if lowest > highest {
        return Err(Stop::usage(
            format_args!(
                "the lowest level, {} connections, is above the highest, {}",
                grouped(lowest),
                grouped(highest)
            ),
            "raise --max, or lower --min",
        ));
    }
    let targets = load.plan.targets.len() as u64;
    if targets > lowest {
        return Err(Stop::usage(
            format_args!("{targets} targets share the {lowest} connections of the lowest level"),
            format_args!("give --min {targets} or more, or fewer targets"),
        ));
    }
    let hold = HoldPlan {
        connections_per_s: rate.get(),
        opening_max: OPENING_MAX,
        heartbeat: None,
        replace: false,
    };
    load.plan.connections = highest;
    load.plan.pacing = Pacing::Hold(hold);
    load.plan.prewarm = false;
    // A connection that takes longer than an answer may is as lost as one that does not answer.
    let patience = load.plan.deadline.unwrap_or_default() + load.plan.linger;
    load.plan.connect_timeout = load.plan.connect_timeout.min(patience);
    load.settings.insert("rate".to_owned(), format!("{rate} new connections"));
    Ok(Climb {
        hold,
        lowest,
        highest,
        highest_given,
        soak: typed.climb.soak.unwrap_or(limits.soak),
        push: typed.climb.push,
    })
}

/// A number of connections that was typed as a rate, as on the other axes.
fn level(flag: &str, typed: Rate) -> Result<u64, Stop> {
    let connections = typed.get();
    if connections < 1.0 || connections.fract() > 0.0 {
        return Err(Stop::usage(
            format_args!("{flag} {connections} is no number of connections"),
            "give a whole number, such as 100 or 20k",
        ));
    }
    Ok(connections as u64)
}

/// What only a pool that comes and goes can do, and what the search sets itself.
fn refuse_pool_flags(search: &SearchFlags, connection: &ConnectionFlags) -> Result<(), Stop> {
    if connection.connections.is_some() {
        return Err(Stop::usage(
            "the axis connections raises the connections itself, so --connections has no effect",
            "name the highest level with --max",
        ));
    }
    if search.arrivals.is_some() {
        return Err(Stop::usage(
            "the axis connections has no arrivals, so --arrivals has no effect",
            "drop it",
        ));
    }
    let typed = [
        ("--no-keepalive", connection.no_keepalive),
        ("--requests-per-connection", connection.requests_per_connection.is_some()),
        ("--handshake-only", connection.handshake_only),
    ];
    match typed.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Stop::usage(
            format_args!("{flag} closes the connections that are to be held"),
            "drop it",
        )),
    }
}
