//! A sizing table: the capacity of a server at each value of its settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::compare::{BlockSummary, Difference};

/// `sizing` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct SizingSummary {
    /// `requests/s` or `handshakes/s`.
    pub unit: String,
    /// Length of the saturated block of each value in each round.
    pub block_s: f64,
    pub rounds_planned: u32,
    pub rounds_made: u32,
    /// The first is what the others are compared with.
    pub values: Vec<SizingValue>,
    /// Blocks of all values: the first value has the arm `a`, the second `b`, and so on.
    pub blocks: Vec<BlockSummary>,
    /// Why fewer rounds were made than planned.
    pub stopped: Option<String>,
}

impl SizingSummary {
    /// Reports whether it ended before every value had enough rounds.
    pub fn is_cut_short(&self) -> bool {
        self.values.iter().skip(1).any(|value| value.goodput.is_none())
    }
}

/// Measurements at one value of each setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see SizingSummary")]
pub struct SizingValue {
    /// `tls=on size=1KiB`.
    pub name: String,
    pub settings: BTreeMap<String, String>,
    pub connections: u64,
    /// Good answers per second while the server is saturated: median over the rounds.
    pub goodput_per_s: Option<f64>,
    /// CPU time of the server for each of them.
    pub server_cpu_us: Option<f64>,
    /// Good answers for each second of the server's CPU time.
    pub per_cpu_per_s: Option<f64>,
    /// CPU of the server's busiest thread, 0 to 1.
    pub sut_busiest_thread: Option<f64>,
    /// `goodput_per_s` relative to the first value.
    pub goodput: Option<Difference>,
    /// `per_cpu_per_s` relative to the first value.
    pub per_cpu: Option<Difference>,
    pub rounds_used: u32,
    /// The connections that the server's own configuration allows, if that is known.
    pub connections_max: Option<u64>,
}
