//! Checks of a run, with their figures. The words for them are made in the
//! report; an archive keeps them beside the figures.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::criterion::Criterion;
use crate::slo::Goal;
use crate::{Fault, Nanos};

/// The end of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Within limits.
    Pass,
    /// Printed, changes nothing.
    Warn,
    /// Makes the trial INVALID or BAD, by whose fault it is.
    Fail,
}

impl Level {
    /// Returns the worst level whose condition holds.
    pub const fn of(fail: bool, warn: bool) -> Self {
        match (fail, warn) {
            (true, _) => Self::Fail,
            (false, true) => Self::Warn,
            (false, false) => Self::Pass,
        }
    }
}

/// The subject of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A goal of the SLO, or a criterion of RFC 9411.
    Goal,
    /// The generator: it offers the load that was asked for, and measures it rightly.
    Validity,
    /// Conduct of the server, beside the goals.
    Server,
    /// The run itself: it went as planned.
    Run,
}

macro_rules! checks {
    ($($family:ident, $fault:ident { $($variant:ident = $name:literal: $hint:literal;)* })*) => {
        /// Identifier of a check; its name is what JSON and reports show.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum CheckId {
            /// A goal of the SLO: `p99<50ms`.
            Goal(Goal),
            /// A criterion of RFC 9411.
            Criterion(Criterion),
            $($(#[doc = $hint] $variant,)*)*
            /// An unknown name, from an archive of another version.
            Other(String),
        }

        impl CheckId {
            /// The checks that have a fixed name.
            pub const NAMED: &'static [Self] = &[$($(Self::$variant,)*)*];

            /// Returns the stable name of the check.
            pub fn name(&self) -> Cow<'static, str> {
                match self {
                    Self::Goal(goal) => goal.to_string().into(),
                    Self::Criterion(criterion) => criterion.name().into(),
                    $($(Self::$variant => $name.into(),)*)*
                    Self::Other(name) => name.clone().into(),
                }
            }

            /// Returns the subject of the check.
            pub const fn family(&self) -> Family {
                match self {
                    Self::Goal(_) | Self::Criterion(_) => Family::Goal,
                    $($(Self::$variant)|* => Family::$family,)*
                    Self::Other(_) => Family::Run,
                }
            }

            /// Returns the side at fault when the check fails.
            pub const fn fault(&self) -> Fault {
                match self {
                    Self::Goal(_) | Self::Criterion(_) => Fault::Peer,
                    $($(Self::$variant)|* => Fault::$fault,)*
                    Self::Other(_) => Fault::OwnTimer,
                }
            }

            /// Returns the meaning of a check that did not pass, and the remedy. Goals need no words.
            pub const fn hint(&self) -> Option<&'static str> {
                match self {
                    $($(Self::$variant => Some($hint),)*)*
                    Self::Goal(_) | Self::Criterion(_) | Self::Other(_) => None,
                }
            }
        }
    };
}

checks! {
    Validity, Local {
        RateFidelity = "rate-fidelity": "plimsoll started fewer operations than planned";
        SendLag = "send-lag":
            "operations were sent later than possible: plimsoll or this host was busy";
        OwnDelay = "own-delay":
            "without plimsoll's own delay the goal would be met: stop other work, pin threads, or use \
             another host";
        Arrivals = "arrivals": "operations did not start in the pattern that was asked for";
        Accounting = "accounting":
            "the counts do not add up: this is a defect of plimsoll, please report it";
        LittlesLaw = "littles-law":
            "operations in flight do not match rate times latency: one of them was measured wrongly";
        PeerCounters = "peer-counters":
            "the server counted other requests than plimsoll: does another client use it, or does \
             something between them retry or answer by itself?";
        GeneratorCpu = "generator-cpu": "a plimsoll thread was busy most of the time";
        HostCpu = "host-cpu": "this host had no idle CPU: stop other work, or use another host";
        Scheduling = "scheduling":
            "runnable plimsoll threads did not get a CPU: stop other work, pin threads, or use \
             another host";
        LocalErrors = "local-errors": "this host ran out of a resource: see the errors above";
        OwnTimers = "own-timers": "plimsoll stopped waiting: raise --linger to see how long answers take";
        GeneratorNetwork = "generator-network":
            "segments were sent again, packets were dropped here, or the link was full: see the figures";
        PathLoss = "path-loss":
            "packets were lost between plimsoll and the server, at low loads, too, and operations \
             waited until they were sent again: use a path without loss, or a longer limit";
        Reference = "reference": "the load is close to the most that this generator can make";
        GeneratorMemory = "generator-memory":
            "this host was short of memory: end other programs that use it, or use fewer --connections";
        Stationarity = "stationarity":
            "the second half differed from the first: a longer trial shows more";
        Unrequested = "unrequested":
            "more messages came than were sent: some of the answers may be messages that the server sent on its \
             own; say with --expect what an answer is, or skip a greeting with --skip-messages";
        Monitor = "monitor": "the server was sampled too rarely to say what limits it";
        CoLocation = "co-location": "generator and server share CPUs and slow each other down";
        Pool = "pool":
            "operations waited for a free connection: raise --connections, unless the server was slow";
    }
    Server, Peer {
        Answers = "answers": "there is nothing to measure: see the errors above";
        Stable = "stable": "operations arrived faster than they were completed: the backlog kept growing";
        Held = "held":
            "fewer connections than asked for were open at the end: see the error classes above";
        Lost = "lost":
            "the server or the network closed held connections: look there for a limit, a timer or \
             a restart; see the error classes above";
        Recovered = "recovered":
            "clients whose connections were cut were not all back within --recover: the server, or a limit in front of \
             it, accepts new connections too slowly";
        Answered = "answered": "connections that looked open did not answer a request";
        Opened = "opened": "connections could not be opened: see the error classes above";
        Status = "status": "the server answered with an error: check the path and the server's log";
        ClosedAtOnce = "closed-at-once":
            "the server closed new connections before it answered on them: look for its limit on \
             connections (worker_connections of nginx, maxconn of HAProxy, max_connections of a broker)";
        Redirects = "redirects":
            "every answer was a redirect, which plimsoll does not follow: load the URL that the header Location names";
        Refused = "refused":
            "every answer was the same refusal, which costs a server less than a real answer: check the path, the \
             host name, the method and the credentials";
        MemoryGrowth = "memory-growth":
            "the server keeps more memory after each cycle of connections: see which part grows, and repeat it with a \
             profile of its allocations";
        Late = "late": "answers took longer than --deadline, or than a whole heartbeat period";
    }
    Run, Local {
        Agents = "agents":
            "a plimsoll process died or hung, and its share of the load is missing: was it killed \
             for lack of memory? see `dmesg`";
        Machine = "machine":
            "this host cannot hold more connections: use --up-to to hold what fits";
        Laboratory = "laboratory":
            "the process that supervises the server died, and the server with it: was it killed for \
             lack of memory? see `dmesg`";
        Rounds = "rounds": "too few rounds gave a figure on both sides";
        Saturated = "saturated":
            "what made the load was slower than the server: goodput hides part of a difference, the \
             server's CPU time per answer does not";
        BaseLine = "base-line":
            "the server was not as before when a storm was to begin: connections, latency or memory had not come back";
        Samples = "samples": "seconds of the sustain phase were not sampled";
    }
    Run, OwnTimer {
        RunComplete = "run-complete": "the run ended before it could be judged";
        Aborted = "aborted": "ended early, because the verdict could not change any more";
    }
}

impl From<CheckId> for String {
    fn from(id: CheckId) -> Self {
        id.name().into_owned()
    }
}

impl From<String> for CheckId {
    fn from(name: String) -> Self {
        let criteria = Criterion::ALL.map(Self::Criterion);
        if let Some(id) = Self::NAMED.iter().chain(&criteria).find(|id| id.name() == name) {
            return id.clone();
        }
        name.parse().map_or(Self::Other(name), Self::Goal)
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things.
    #[default]
    Count,
    /// A part of a whole, 0 to 1.
    Ratio,
    /// One figure over another one of its kind.
    Factor,
    /// Milliseconds.
    Ms,
    /// Things per second.
    PerS,
    /// Bytes.
    Bytes,
}

/// One figure of a check, and its limit if it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Name of the figure; empty if the check's name is enough.
    pub name: Cow<'static, str>,
    /// The figure.
    pub value: f64,
    /// Unit of the figure and its limits.
    pub unit: Unit,
    /// The largest figure that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The smallest figure that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

impl Measure {
    /// Creates a figure without limits. JSON has no infinity: the largest number represents it.
    pub fn new(name: impl Into<Cow<'static, str>>, value: f64, unit: Unit) -> Self {
        let value = if value.is_nan() { 0.0 } else { value.clamp(f64::MIN, f64::MAX) };
        Self { name: name.into(), value, unit, at_most: None, at_least: None }
    }

    /// Creates a measure that is a number of things.
    pub fn count(name: impl Into<Cow<'static, str>>, count: u64) -> Self {
        Self::new(name, count as f64, Unit::Count)
    }

    /// Creates a measure that is a part of a whole.
    pub fn ratio(name: impl Into<Cow<'static, str>>, ratio: f64) -> Self {
        Self::new(name, ratio, Unit::Ratio)
    }

    /// Creates a measure that is a span of time.
    pub fn span(name: impl Into<Cow<'static, str>>, span: Nanos) -> Self {
        Self::new(name, span.as_millis_f64(), Unit::Ms)
    }

    /// Adds an upper limit, in the figure's unit.
    #[must_use]
    pub fn at_most(self, limit: impl Into<Option<f64>>) -> Self {
        Self { at_most: limit.into(), ..self }
    }

    /// Adds a lower limit, in the figure's unit.
    #[must_use]
    pub fn at_least(self, limit: impl Into<Option<f64>>) -> Self {
        Self { at_least: limit.into(), ..self }
    }
}

/// One check with what it saw: an entry of `reasons`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Check {
    /// The check.
    pub id: CheckId,
    /// Level of the result.
    pub level: Level,
    /// Measured figures; the figure that decides comes first.
    pub measures: Vec<Measure>,
    /// Words from elsewhere, such as how a process ended.
    pub detail: Option<String>,
    /// The words of the report that showed it first.
    pub text: Option<CheckText>,
}

/// A check in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckText {
    /// Measured values, with units.
    pub value: String,
    /// Limits, with units.
    pub limit: String,
}

impl Check {
    /// Creates a check from figures.
    pub fn new(id: CheckId, level: Level, measures: impl Into<Vec<Measure>>) -> Self {
        Self { id, level, measures: measures.into(), detail: None, text: None }
    }

    /// Creates a failed check with a text instead of figures.
    pub fn failed(id: CheckId, detail: impl Into<String>) -> Self {
        let detail = Some(detail.into());
        Self { id, level: Level::Fail, measures: Vec::new(), detail, text: None }
    }

    /// Returns the figure that decides, if there is one.
    pub fn deciding(&self) -> Option<&Measure> {
        let limited = |measure: &&Measure| measure.at_most.or(measure.at_least).is_some();
        self.measures.iter().find(limited).or_else(|| self.measures.first())
    }
}

/// The stored form of a check: `value` and `limit` are words.
#[derive(Serialize, Deserialize)]
struct Stored {
    check: CheckId,
    value: String,
    limit: String,
    level: Level,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    measures: Vec<Measure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<Check> for Stored {
    fn from(Check { id, level, measures, detail, text }: Check) -> Self {
        let (value, limit) = text.map(|text| (text.value, text.limit)).unwrap_or_default();
        Self { check: id, value, limit, level, measures, detail }
    }
}

impl From<Stored> for Check {
    fn from(Stored { check, value, limit, level, measures, detail }: Stored) -> Self {
        let has_words = !(value.is_empty() && limit.is_empty());
        let text = has_words.then_some(CheckText { value, limit });
        Self { id: check, level, measures, detail, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_check() {
        let goals = ["p99<50ms", "p99.9<0.25ms", "errors<0.1%"];
        let goals = goals.map(|goal| CheckId::Goal(goal.parse().expect("a goal")));
        let criteria = Criterion::ALL.map(CheckId::Criterion);
        for id in CheckId::NAMED.iter().chain(&criteria).chain(&goals) {
            assert_eq!(CheckId::from(id.name().into_owned()).name(), id.name());
            assert_ne!(CheckId::from(id.name().into_owned()), CheckId::Other(id.name().into()));
        }
        assert_eq!(CheckId::from("later".to_owned()), CheckId::Other("later".to_owned()));
    }

    #[test]
    fn checks_of_words_alone_can_be_read() {
        let text =
            r#"{"check":"p99<50ms","value":"2 % late","limit":"at most 1 %","level":"fail"}"#;
        let check: Check = serde_json::from_str(text).expect("a check");
        assert_eq!((check.id.family(), check.level), (Family::Goal, Level::Fail));
        assert_eq!(check.text.as_ref().map(|text| &*text.value), Some("2 % late"));
        assert_eq!(serde_json::to_string(&check).expect("serialises"), text);
    }

    #[test]
    fn figures_survive_storing() {
        let lag = Measure::span("p99", Nanos::from_millis(8)).at_most(5.0);
        let check = Check::new(CheckId::SendLag, Level::Fail, [lag.clone()]);
        let text = serde_json::to_string(&check).expect("serialises");
        assert_eq!(serde_json::from_str::<Check>(&text).expect("a check"), check);
        assert_eq!(check.deciding(), Some(&lag));
        assert_eq!(Measure::ratio("", f64::INFINITY).value, f64::MAX);
    }
}
