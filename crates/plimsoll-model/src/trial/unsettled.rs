//! The reasons for which a search claims no interval; the report turns them into text.
//!
//! [`Unsettled`] is data only: each variant stores the figures of the evidence, and [`Contrast`] pairs one
//! [`Witness`], such as steal or the server's CPU time per answer, at the higher and at the lower capacity.
//! `plimsoll-capacity` chooses the variant, [`Outcome`](super::Outcome) stores it, and the serialised form is part of
//! the summary's JSON. Start reading at [`Unsettled`].

use serde::{Deserialize, Serialize};

use super::NotRecovered;
use crate::slo::Goal;
use crate::{Nanos, Rate};

/// The evidence that an interval lacks, or that speaks against one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Unsettled {
    /// The budget of trial and rest time ended.
    Time {
        /// The budget.
        #[serde(rename = "budget_s", with = "crate::time::seconds")]
        budget: Nanos,
    },
    /// The search made as many trials as it may.
    Trials {
        /// The limit of their number.
        most: u32,
    },
    /// No trial missed the SLO, or none met it: one bound is missing.
    OneBound,
    /// An end of the interval lies near a load that this search may not offer.
    NotOffered {
        /// The load that may not be offered.
        near: Rate,
    },
    /// Longer trials at the lower bound did not meet the SLO often enough.
    NotConfirmed {
        /// Longer trials that met it.
        good: u32,
        /// Longer trials that did not.
        bad: u32,
    },
    /// Too few operations to decide whether a goal is met.
    GoalOpen {
        /// The goal.
        goal: Goal,
        /// Operations that missed it.
        bad: u64,
        /// All operations up to the load.
        all: u64,
        /// Number of bad ones that come together, 1 if each comes by itself.
        together: f64,
        /// The load of the operations.
        load: Rate,
        /// Estimate of the further time at that load that would decide; `None` if none would.
        #[serde(rename = "further_s", with = "crate::time::seconds::option")]
        further: Option<Nanos>,
        /// `true` if it is the highest load that may be offered; `false` if all loads up to it.
        is_cap: bool,
    },
    /// A goal was missed below the bounds: fields as in [`Self::GoalOpen`].
    #[expect(missing_docs, reason = "see GoalOpen")]
    GoalMissed { goal: Goal, bad: u64, all: u64, together: f64, load: Rate, is_cap: bool },
    /// The server carried far more in the first overload than in any since.
    Fell {
        /// In the first.
        before: Rate,
        /// At most since.
        after: Rate,
        /// Other differences.
        beside: Vec<Contrast>,
    },
    /// The server carried more from overload to overload, and had not stopped at the end: it warms up.
    Rose {
        /// In the first.
        before: Rate,
        /// In the last.
        after: Rate,
    },
    /// Loads far below the interval missed the SLO.
    MissedBelow {
        /// Trials that did.
        bad: u32,
        /// All trials at such loads.
        all: u32,
    },
    /// The capacity differs too much from trial to trial.
    Spread {
        /// Standard deviation, relative.
        sd: f64,
    },
    /// The verdicts are less likely than any one capacity with its spread makes them.
    Contradiction {
        /// The deviation, in standard deviations.
        sds: f64,
    },
    /// The interval is too wide to say anything.
    Wide {
        /// Relative.
        width: f64,
    },
    /// The server met the SLO, and did not return to its base line after a storm.
    NotRecovered(NotRecovered),
}

/// A witness beside the trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Witness {
    /// CPU time that the hypervisor took, share.
    Steal,
    /// The server's waits for a CPU, share of the time in which it wanted one.
    Starved,
    /// The client's waits for a CPU, share of the time.
    RunDelay,
    /// Busy share of this host's CPUs.
    HostCpu,
    /// CPU time of the server per answer, microseconds.
    CostUs,
    /// CPU time of the yardstick's piece of work, microseconds.
    YardstickUs,
}

/// A figure that differed when the server carried less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// The witness.
    pub witness: Witness,
    /// Figure at the higher capacity.
    pub then: f64,
    /// Figure at the lower capacity.
    pub now: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::BaseProperty;

    #[test]
    fn spans_have_their_unit_in_their_name() {
        let waited = NotRecovered {
            cut: 10,
            waited: Nanos::from_millis(2_500),
            differs: BaseProperty::Latency,
        };
        let further = Some(Nanos::from_secs(60));
        let open = Unsettled::GoalOpen {
            goal: Goal::Latency { quantile: 0.99, limit: Nanos::from_millis(50) },
            bad: 1,
            all: 100,
            together: 1.0,
            load: Rate::per_second(900.0).expect("finite"),
            further,
            is_cap: false,
        };
        for (why, written) in [
            (
                Unsettled::Time { budget: Nanos::from_secs(210) },
                r#"{"reason":"time","budget_s":210.0}"#,
            ),
            (
                Unsettled::NotRecovered(waited),
                r#"{"reason":"not-recovered","cut":10,"waited_s":2.5,"differs":"latency"}"#,
            ),
            (
                open,
                r#"{"reason":"goal-open","goal":{"latency":{"quantile":0.99,"limit_ms":50.0}},"bad":1,"all":100,"together":1.0,"load":900.0,"further_s":60.0,"is_cap":false}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&why).unwrap(), written);
            assert_eq!(serde_json::from_str::<Unsettled>(written).unwrap(), why);
        }
    }
}
