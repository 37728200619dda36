//! The flags of searches for the tipping point, as typed.
//!
//! Each search is a struct of groups: [`RateFlags`] for rates (the type parameter is the group of its pool) and
//! [`ConnectionsFlags`] for held connections. All of them share [`SearchFlags`] (goals, budget, timeout probe) and
//! [`SearchLoadFlags`] (the load of every trial). Values are parsed but not compared with each other: `plan::search`
//! and `plan::connections` check combinations and fill in defaults that depend on the mode. Start with
//! [`SearchFlags`].

use clap::Args;
use plimsoll_model::slo::Slo;
use plimsoll_model::units::parse_duration;
use plimsoll_model::{Nanos, Rate};

use super::shared::{ClientFlags, HandshakeFlags, PoolFlags, ResumeFlags};
use super::values::{
    ArrivalsFlag, ModeFlag, confidence, connections, positive_duration, positive_rate, repeats,
    search_budget, seed,
};

/// A search for the highest rate, in trials over connections as `P` describes them.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct RateFlags<P: Args = PoolFlags> {
    #[command(flatten)]
    pub(crate) search: SearchFlags,

    #[command(flatten)]
    pub(crate) range: RangeFlags,

    #[command(flatten)]
    pub(crate) pool: P,

    #[command(flatten, next_help_heading = "Search")]
    pub(crate) load: SearchLoadFlags,
}

/// A search for the highest rate of new TLS connections.
pub(crate) type HandshakesFlags = RateFlags<OpenFlags>;

/// Connections that each make one handshake.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
#[command(next_help_heading = "Connections")]
pub(crate) struct OpenFlags {
    /// Connections that may be open at once [default: 100; the search adds more, up to 4,096]
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    pub(crate) connections: Option<u64>,
}

/// A search for the highest number of held connections.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct ConnectionsFlags {
    #[command(flatten)]
    pub(crate) search: SearchFlags,

    /// Fewest connections to try [default: 100]
    #[arg(long, value_name = "N", value_parser = connections)]
    pub(crate) min: Option<u64>,

    /// Most connections to try [default: quick 10k, standard 200k, strict 1M]
    #[arg(long, value_name = "N", value_parser = connections)]
    pub(crate) max: Option<u64>,

    /// New connections per second, and requests per second of a sweep over them
    #[arg(short = 'r', long, value_name = "RATE", default_value = "2k")]
    #[arg(value_parser = positive_rate)]
    pub(crate) rate: Rate,

    /// Time to hold the highest passing level [default: quick 10s, standard 150s, strict 300s]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) soak: Option<Nanos>,

    /// Continue past the server's projected limits until it fails; this may kill the server
    ///
    /// Without it the search ends at 85 % of them. The error of the projection is reported.
    #[arg(long)]
    pub(crate) push: bool,

    #[command(flatten)]
    pub(crate) load: SearchLoadFlags,
}

/// Flags of the goals, and of the precision of a search.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchFlags {
    /// Goals that a passing trial meets [default: p99<50ms,errors<0.1%]
    ///
    /// For a rate, repeat it for an interval of another SLO.
    #[arg(long, value_name = "GOALS")]
    pub(crate) slo: Vec<Slo>,

    /// Short for --slo 'p99<DURATION,errors<0.1%'
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) deadline: Option<Nanos>,

    /// Budget by name: quick (about 4 min), standard (25) or strict (90) [default: find standard, lab quick]
    #[arg(long, value_name = "MODE", hide_possible_values = true)]
    pub(crate) mode: Option<ModeFlag>,

    /// Time for all trials and rests, 30s to 24h [default: set by --mode]
    ///
    /// The search states the best answer that this time allows.
    #[arg(long, value_name = "DURATION", value_parser = search_budget)]
    pub(crate) budget: Option<Nanos>,

    /// Time to look for the server's idle and request timeouts before the search; 0 skips this
    /// [default: 150s; 0 with --mode quick]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) probe_timeouts: Option<Nanos>,

    /// Run N whole searches, and report the interval over their results; 6 give 97 % confidence
    #[arg(long, value_name = "N", value_parser = repeats)]
    pub(crate) repeat: Option<u32>,
}

/// Flags of the range of a search for a rate.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct RangeFlags {
    /// Lowest rate to try [default: 100/s, then down to 1/s]
    #[arg(long, value_name = "RATE", value_parser = positive_rate)]
    pub(crate) min: Option<Rate>,

    /// Highest rate to try
    #[arg(long, value_name = "RATE", value_parser = positive_rate)]
    pub(crate) max: Option<Rate>,

    /// Confidence of the interval to contain the tipping point: more than 0.5, less than 0.999
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = confidence)]
    pub(crate) confidence: f64,

    #[command(flatten)]
    pub(crate) arrivals: ArrivalsFlags,
}

/// Flags of the arrivals in a trial.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct ArrivalsFlags {
    /// Distribution of start times: uniform or poisson
    ///
    /// uniform keeps the variance of the arrivals out of the result.
    #[arg(long, value_name = "PROCESS", default_value = "uniform", hide_possible_values = true)]
    pub(crate) arrivals: ArrivalsFlag,
}

/// The load of every trial of a search, beside its requests and its pool.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct SearchLoadFlags {
    #[command(flatten)]
    pub(crate) trial: TrialFlags,

    #[command(flatten)]
    pub(crate) client: ClientFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,

    #[command(flatten)]
    pub(crate) resume: ResumeFlags,
}

/// Flags common to all trials, below the heading of the struct that has them.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct TrialFlags {
    /// Time to wait for a response after the deadline before giving up
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub(crate) linger: Nanos,

    /// Random seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,
}
