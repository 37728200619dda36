//! RFC 9411, benchmarking network security devices: its cases, its KPIs by their names, and the
//! result of a case.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Nanos;
pub use crate::quantiles::MinAvgMax;
use crate::search::Axis;
use crate::trial::{Check, CheckId, Stopped, Verdict};
use crate::units::grouped;

/// The shortest sustain phase that section 4.3.4 recommends.
pub const SUSTAIN_RECOMMENDED: Nanos = Nanos::from_secs(300);
/// Transactions that show fewer than 0.001 % failures with 95 % confidence if none fails: the rule of three.
pub const TRANSACTIONS_SHOWN: u64 = 300_000;
/// 1 KB of the object sizes, in bytes; the RFC does not say which one it means.
pub const KB: u64 = 1_000;

/// The subject of a case, over TLS or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 7.1.
    Mix,
    /// 7.2 and 7.6.
    ConnectionRate,
    /// 7.3 and 7.7.
    Throughput,
    /// 7.4 and 7.8.
    Latency,
    /// 7.5 and 7.9.
    Concurrency,
}

macro_rules! cases {
    ($($case:ident = $section:literal, $kind:ident, $tls:expr, $title:literal;)*) => {
        /// A case of section 7.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Case {
            $(#[doc = $title] #[serde(rename = $section)] $case,)*
        }

        impl Case {
            /// Every case.
            pub const ALL: &'static [Self] = &[$(Self::$case,)*];

            /// Returns the number of the section: `7.2`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$case => $section,)* }
            }

            /// Returns the heading in the RFC, without QUIC.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$case => $title,)* }
            }

            /// Returns the subject of the test.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$case => Kind::$kind,)* }
            }

            /// Reports whether it requires HTTPS; `None` if a mix may have both.
            pub const fn tls(self) -> Option<bool> {
                match self { $(Self::$case => $tls,)* }
            }
        }
    };
}

cases! {
    TrafficMix = "7.1", Mix, None, "Throughput Performance with Application Traffic Mix";
    HttpConnections = "7.2", ConnectionRate, Some(false), "TCP Connections Per Second with HTTP Traffic";
    HttpThroughput = "7.3", Throughput, Some(false), "HTTP Throughput";
    HttpLatency = "7.4", Latency, Some(false), "HTTP Transaction Latency";
    HttpConcurrency = "7.5", Concurrency, Some(false), "Concurrent TCP Connection Capacity with HTTP Traffic";
    HttpsConnections = "7.6", ConnectionRate, Some(true), "TCP Connections per Second with HTTPS Traffic";
    HttpsThroughput = "7.7", Throughput, Some(true), "HTTPS Throughput";
    HttpsLatency = "7.8", Latency, Some(true), "HTTPS Transaction Latency";
    HttpsConcurrency = "7.9", Concurrency, Some(true), "Concurrent TCP Connection Capacity with HTTPS Traffic";
}

impl Case {
    /// Returns the objects that its sessions request.
    pub fn objects(self) -> Vec<Object> {
        let sizes: &[u64] = match self.kind() {
            Kind::Mix => return vec![Object::Listed],
            Kind::ConnectionRate => &[1, 2, 4, 16, 64],
            Kind::Throughput => &[1, 16, 64, 256],
            Kind::Latency => &[1, 16, 64],
            Kind::Concurrency => &[1],
        };
        let mixed = (self.kind() == Kind::Throughput).then_some(Object::Mixed);
        sizes.iter().map(|kb| Object::Bytes(kb * KB)).chain(mixed).collect()
    }

    /// Returns the axis of its load.
    pub const fn axis(self) -> Axis {
        match self.kind() {
            Kind::Mix | Kind::Throughput | Kind::Latency => Axis::TransactionsPerS,
            Kind::ConnectionRate => Axis::ConnectionsPerS,
            Kind::Concurrency => Axis::Connections,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

read_by_name!(Case: "a case of RFC 9411: 7.1 to 7.9, such as 7.2");

/// An object that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// One size.
    Bytes(u64),
    /// The ten sizes of [`MIXED_BYTES`] in turn.
    Mixed,
    /// The object that the list of targets names.
    Listed,
}

/// The mixed objects of 7.3 and 7.7, each as often as the others.
pub const MIXED_BYTES: [u64; 10] =
    [200, 6_000, 8_000, 9_000, 10_000, 25_000, 26_000, 35_000, 59_000, 347_000];

impl Object {
    /// Returns the bytes of each of the object's sizes, in turn; empty if they are not known.
    pub fn bytes(self) -> Vec<u64> {
        match self {
            Self::Bytes(bytes) => vec![bytes],
            Self::Mixed => MIXED_BYTES.to_vec(),
            Self::Listed => Vec::new(),
        }
    }

    /// Returns the mean bytes of an answer's body.
    pub fn mean_bytes(self) -> Option<f64> {
        let bytes = self.bytes();
        let sum: u64 = bytes.iter().sum();
        (!bytes.is_empty()).then(|| sum as f64 / bytes.len() as f64)
    }
}

/// `1 KB`, `mixed`, `as listed`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) if bytes.is_multiple_of(KB) => {
                write!(f, "{} KB", grouped(bytes / KB))
            }
            Self::Bytes(bytes) => write!(f, "{} B", grouped(*bytes)),
            Self::Mixed => f.write_str("mixed"),
            Self::Listed => f.write_str("as listed"),
        }
    }
}

named! {
    /// The step that asks for an iteration.
    pub enum Step {
        /// Step 1: a tenth of the target.
        Initial = "initial",
        /// Step 2: the target.
        Target = "target",
        /// Step 3: closing in on the maximum.
        Search = "search",
        /// The last iteration of step 3, at full length.
        Final = "final",
    }
}

/// The KPIs of section 6.3, over the sustain phase or in one second of it. Rates and counts are means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Kpis {
    pub concurrent_tcp_connections: f64,
    pub tcp_connections_per_second: f64,
    pub application_transactions_per_second: f64,
    pub tls_handshake_rate: f64,
    pub inspected_throughput_bit_s: f64,
    pub ttfb_rfc9411_ms: MinAvgMax,
    pub ttlb_rfc9411_ms: MinAvgMax,
    pub ttfb_request_ms: MinAvgMax,
    pub ttlb_request_ms: MinAvgMax,
}

/// The KPIs in one second of the sustain phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since the sustain phase began.
    pub second: u32,
    /// In that second.
    #[serde(flatten)]
    pub kpis: Kpis,
}

/// A line of the table of iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Iteration {
    pub number: u32,
    pub step: Step,
    pub load: f64,
    pub ramp_up_s: f64,
    pub sustain_s: f64,
    pub sut_busiest_thread: Option<f64>,
    pub verdict: Verdict,
    /// The names of the failed checks.
    pub why: Option<String>,
    /// The failed checks, one by one.
    pub failed: Vec<CheckId>,
}

/// The end of the procedure for one object; `why` is the criteria or checks that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub enum Ending {
    /// Step 2 met the criteria: the target is what the case reports.
    TargetMet,
    /// Step 3 found the maximum within the criteria.
    Maximum,
    /// Step 1 failed: the case must not go on.
    Unqualified { why: String },
    /// Cases without a search: step 2 failed.
    TargetMissed { why: String },
    /// No load above the initial one kept the criteria for the whole length.
    NoMaximum { why: String },
    /// The generator was the limit.
    GeneratorLimited { why: String },
    /// Stopped early.
    Unfinished { why: Stopped },
}

impl Ending {
    /// Returns the verdict on the object.
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::TargetMet | Self::Maximum => Verdict::Good,
            Self::Unqualified { .. } | Self::TargetMissed { .. } | Self::NoMaximum { .. } => {
                Verdict::Bad
            }
            Self::GeneratorLimited { .. } | Self::Unfinished { .. } => Verdict::Invalid,
        }
    }
}

named! {
    /// A KPI that must not be at its own maximum while a case measures another one.
    pub enum OtherKpi {
        /// Per second.
        Connections = "TCP Connections Per Second",
        /// Bit/s.
        Throughput = "Inspected Throughput",
    }
}

/// The comparison of another KPI with its own maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Isolation {
    pub kpi: OtherKpi,
    pub seen: f64,
    pub maximum: f64,
    pub share: f64,
    pub share_max: f64,
    /// `true` if the result may be reported.
    pub holds: bool,
}

/// The result of the case for one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct ObjectResult {
    pub object: String,
    pub object_bytes: Option<u64>,
    /// Scenario of sections 7.4 and 7.8: 1 or 2.
    pub scenario: Option<u32>,
    pub transactions_per_connection: u32,
    pub unit: String,
    pub initial: f64,
    pub target: f64,
    pub target_source: String,
    pub ending: Ending,
    /// The load that the case reports.
    pub load: Option<f64>,
    /// The lowest load above it that failed.
    pub failed_load: Option<f64>,
    pub verdict: Verdict,
    pub kpis: Option<Kpis>,
    pub criteria: Vec<Check>,
    pub checks: Vec<Check>,
    pub isolation: Option<Isolation>,
    pub series: Vec<Sample>,
    pub iterations: Vec<Iteration>,
}

/// The rate that the generator alone reaches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Reference {
    pub connections_per_s: Option<f64>,
    pub transactions_per_s: Option<f64>,
    pub inspected_throughput_bit_s: Option<f64>,
    pub responder: String,
}

/// One run of one case: `rfc9411` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Rfc9411Summary {
    pub case: Case,
    pub title: String,
    pub init_s: f64,
    pub sustain_s: f64,
    pub sustain_recommended_s: f64,
    pub shorter_than_recommended: bool,
    pub throughput_layer: String,
    pub environment: std::collections::BTreeMap<String, String>,
    pub reference: Option<Reference>,
    pub results: Vec<ObjectResult>,
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_round_trip_and_others_are_refused() {
        for case in Case::ALL {
            assert_eq!(case.name().parse(), Ok(*case));
        }
        let error = "7.10".parse::<Case>().expect_err("no such case");
        assert!(error.to_string().contains("7.1 to 7.9"), "{error}");
    }

    #[test]
    fn objects_of_the_cases() {
        let names = |case: Case| -> Vec<String> {
            case.objects().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(Case::HttpConnections), ["1 KB", "2 KB", "4 KB", "16 KB", "64 KB"]);
        assert_eq!(names(Case::HttpsThroughput), ["1 KB", "16 KB", "64 KB", "256 KB", "mixed"]);
        assert_eq!(names(Case::HttpsLatency), ["1 KB", "16 KB", "64 KB"]);
        assert_eq!(names(Case::HttpConcurrency), ["1 KB"]);
        assert_eq!(names(Case::TrafficMix), ["as listed"]);
        assert_eq!(Object::Mixed.mean_bytes(), Some(52_520.0));
    }
}
