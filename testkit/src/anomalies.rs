//! Anomalies of a server besides queueing: varying capacity, leaks, metastable failure, timers.
//!
//! The file has data only. [`Anomalies`] has one field per anomaly, and the default has none. [`crate::Fluid`] reads
//! them: it derives the capacity of the server in each slice of a trial, and carries state such as a leak or a
//! collapse from trial to trial. Instants are ages of the server, and shares are from 0 to 1. Start with
//! [`Anomalies`].

use plimsoll_model::Nanos;

/// Anomalies of a server; by default there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Anomalies {
    /// Variation of the capacity within a trial.
    pub jitter: Option<Jitter>,
    /// Permanent loss of capacity.
    pub leak: Option<Leak>,
    /// Slowness that stays after an overload.
    pub metastable: Option<Metastable>,
    /// Some requests hang until a timer ends them.
    pub timer: Option<HiddenTimer>,
    /// Somebody else takes a part of its capacity for a while.
    pub rival: Option<Rival>,
    /// The speed of its host changes.
    pub speed: Option<HostSpeed>,
    /// Additional CPU time of a request when the server has little to do, relative: it wakes up
    /// for each request by itself. In its CPU time only, since an idle server has enough of it.
    pub idle_cost: f64,
    /// Two speeds.
    pub bimodal: Option<Bimodal>,
    /// Slowness at first, as of a runtime with a just-in-time compiler.
    pub warm_up: Option<WarmUp>,
    /// Repeated pauses.
    pub pauses: Option<Pauses>,
    /// Share of the requests that fail by chance.
    pub errors: f64,
    /// Failures that come together, within a second; 0 and 1: each by itself.
    pub errors_together: u32,
}

/// A stretch of the server's life in which another program uses its CPU: the server waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rival {
    /// Age of the server at its begin.
    pub from: Nanos,
    /// Age of the server at its end.
    pub to: Nanos,
    /// From one such stretch to the next; [`Nanos::MAX`] where there is one.
    pub every: Nanos,
    /// Share of the capacity that is left meanwhile.
    pub left: f64,
}

impl Rival {
    /// Reports whether the other program runs at this age of the server, seconds.
    pub(crate) fn is_there(&self, age_s: f64) -> bool {
        let since_s = age_s - self.from.as_secs_f64();
        let length_s = self.to.as_secs_f64() - self.from.as_secs_f64();
        since_s >= 0.0 && since_s % self.every.as_secs_f64() < length_s
    }
}

/// A host whose speed changes by its own clock, under load or not. All work on it takes longer by the
/// CPU clock, too, as beside neighbours on a shared cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostSpeed {
    /// Course of the speed, relative to the usual one.
    pub course: Course,
    /// Share of it that the server feels, 0 to 1: its capacity goes with this power of the speed.
    pub felt: f64,
}

/// The speed of a host over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// Speed 1 and a lower one, in stretches of exponentially distributed length.
    TwoSpeeds {
        /// The lower speed.
        slow: f64,
        /// Mean length of a slow stretch.
        slow_mean: Nanos,
        /// Mean length of a stretch of speed 1.
        fast_mean: Nanos,
    },
    /// Speed 1, then another one for ever.
    Step {
        /// Age of the server at the change.
        at: Nanos,
        /// The speed from then on.
        to: f64,
    },
    /// Time that a fixed piece of work took in each second, relative to the median; played from a drawn
    /// second on, again and again.
    Recorded(&'static [f64]),
}

impl HostSpeed {
    /// Returns the share of the capacity that the server has at a speed of the host.
    pub fn capacity_share(&self, speed: f64) -> f64 {
        speed.powf(self.felt)
    }
}

/// A server that becomes fast under load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// Share of the capacity that is there at first.
    pub cold: f64,
    /// Additional time of an answer at first.
    pub extra: Nanos,
    /// Time under load in which the additional time falls to 1/e.
    pub within: Nanos,
}

/// Some trials find a slower server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bimodal {
    /// Share of the trials, 0 to 1.
    pub share: f64,
    /// Share of the capacity that is left in them.
    pub slow: f64,
}

/// Pauses of the whole server by its own clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    /// From the begin of one to the begin of the next.
    pub every: Nanos,
    /// Length of each.
    pub length: Nanos,
}

/// Capacity that is drawn anew for each slice of a trial, independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Relative standard deviation.
    pub sd: f64,
    /// Length of a slice; whole tenths of a second.
    pub slice: Nanos,
}

/// Capacity that is lost and never comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Leak {
    /// Share of the capacity that is lost in each minute of the server's life, idle time included.
    pub per_minute: f64,
    /// Share lost with each million requests served.
    pub per_million: f64,
}

/// A second, slow state that an overload leads into.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metastable {
    /// A queue of so much waiting time makes the server collapse.
    pub queue: Nanos,
    /// Share of the capacity that is left then.
    pub slow: f64,
    /// The collapse ends once the offered load was below this share of the healthy capacity...
    pub calm: f64,
    /// ...for so long. Time without load counts.
    pub calm_for: Nanos,
}

/// A timer that ends requests which nothing answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiddenTimer {
    /// Share of the requests that hang, 0 to 1.
    pub share: f64,
    /// When the server ends them with a 504.
    pub after: Nanos,
}
