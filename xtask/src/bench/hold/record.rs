//! What one big run says of itself, and how it fares.

use serde_json::Value;

use crate::bench::claim::Outcome;
use crate::bench::settings::Sut;
use crate::bench::target::{Reading, Target};

const MILLION: u64 = 1_000_000;
const RAMP_S_MAX: f64 = 360.0;
/// Client memory with a million connections, kB each.
const CLIENT_KB_MAX: f64 = 0.45;
/// Memory of the machine with one million connections, and with two, GB.
const MACHINE_GB_MAX: f64 = 10.0;
const MACHINE_GB_MAX_TWO: f64 = 23.0;
/// Of what its cost per connection allows, a real HAProxy must get so far.
const ALLOWED_SHARE_MIN: f64 = 0.95;

/// One run. What its summary does not have is `None`, and never guessed.
#[derive(Debug)]
pub(super) struct Record {
    sut: Sut,
    asked: u64,
    used_bytes: u64,
    held: u64,
    answered: Option<u64>,
    lost: Option<u64>,
    ramp_s: Option<f64>,
    client_bytes: Option<f64>,
    sut_bytes: Option<f64>,
    kernel_bytes: Option<f64>,
    /// How many connections the memory of this machine allows, by the cost that was measured.
    allowed: Option<f64>,
    /// It held what it was asked for, so that its memory did not end.
    is_complete: bool,
}

impl Record {
    /// `None` when the summary is of something else.
    pub(super) fn of(sut: Sut, asked: u64, used_bytes: u64, summary: &Value) -> Option<Self> {
        let hold = &summary["hold"];
        let bytes = |part: &str| hold[format!("{part}_bytes_per_connection")].as_f64();
        let parts: f64 = ["user", "sut", "kernel"].into_iter().filter_map(bytes).sum();
        // What the machine lost is less than its parts where sockets' inodes and dentries look as
        // if they could be given back.
        let each = bytes("machine").map(|bytes| bytes.max(parts)).filter(|bytes| *bytes > 0.0);
        let available = hold["baseline"]["available_bytes"].as_f64();
        Some(Self {
            sut,
            asked,
            used_bytes,
            held: hold["held"].as_u64()?,
            answered: hold["last_sweep"]["answered"].as_u64(),
            lost: hold["lost"].as_u64(),
            ramp_s: hold["ramp_s"].as_f64(),
            client_bytes: bytes("user"),
            sut_bytes: bytes("sut"),
            kernel_bytes: bytes("kernel"),
            allowed: available.zip(each).map(|(available, each)| available / each),
            is_complete: hold["end"] == "complete",
        })
    }

    pub(super) fn key(&self) -> (String, u64) {
        (self.sut.name().to_owned(), self.asked)
    }

    fn used_gb(&self) -> f64 {
        self.used_bytes as f64 / 1e9
    }

    /// The row of the table, but for its last cell.
    pub(super) fn row(&self) -> String {
        let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let kb = |bytes: Option<f64>| {
            bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.2}", bytes / 1e3))
        };
        let ramp = self.ramp_s.map_or_else(|| "-".to_owned(), |s| format!("{s:.0}"));
        format!(
            "| {} | {} | {} | {} | {} | {ramp} | {} | {} | {} | {:.2} |",
            self.sut.name(),
            self.asked,
            self.held,
            count(self.answered),
            count(self.lost),
            kb(self.client_bytes),
            kb(self.sut_bytes),
            kb(self.kernel_bytes),
            self.used_gb(),
        )
    }

    /// Whether all were held, answered, and none was lost.
    pub(super) fn is_whole(&self) -> bool {
        self.held >= self.asked && self.answered >= Some(self.asked) && self.lost == Some(0)
    }

    pub(super) fn fate(&self) -> String {
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let ramp = self.ramp_s.map_or_else(|| "?".to_owned(), |s| format!("{s:.0}"));
        format!(
            "held {}, answered {}, lost {}, ramp {ramp} s, {:.2} GB",
            self.held,
            count(self.answered),
            count(self.lost),
            self.used_gb()
        )
    }

    /// What it says about the targets.
    pub(super) fn readings(&self) -> Vec<Reading> {
        let read = |target, ours, is_reached| {
            let (peer, ratio) = ("-".to_owned(), "-".to_owned());
            Reading { target, peer, ours, ratio, outcome: Outcome::of(is_reached) }
        };
        let is_whole = self.is_whole();
        match (self.sut, self.asked) {
            (Sut::Embedded, MILLION) => {
                let is_fast = self.ramp_s.is_some_and(|ramp_s| ramp_s < RAMP_S_MAX);
                let gb = self.used_gb();
                let is_small = self.held >= MILLION && gb <= MACHINE_GB_MAX;
                let memory = match self.client_bytes.map(|bytes| bytes / 1e3) {
                    Some(kb) => read(
                        Target::ClientMemoryMillion,
                        format!("{kb:.3}"),
                        self.held >= MILLION && kb <= CLIENT_KB_MAX,
                    ),
                    None => Reading::not_measured(Target::ClientMemoryMillion, "no figure"),
                };
                vec![
                    read(Target::HoldMillion, self.fate(), is_whole && is_fast),
                    read(Target::MachineMemory, format!("{gb:.2}"), is_small),
                    memory,
                ]
            }
            (Sut::Embedded, asked) if asked == 2 * MILLION => {
                let is_small = self.used_gb() <= MACHINE_GB_MAX_TWO;
                vec![read(Target::HoldTwoMillion, self.fate(), is_whole && is_small)]
            }
            (Sut::Haproxy, _) => vec![self.haproxy()],
            (Sut::Embedded, _) => Vec::new(),
        }
    }

    /// How far a real HAProxy got, of what its own cost allows.
    fn haproxy(&self) -> Reading {
        let target = Target::HaproxyHeld;
        let Some(allowed) = self.allowed else {
            return Reading::not_measured(target, "no cost per connection");
        };
        let share = self.held as f64 / allowed;
        if self.is_complete && share < ALLOWED_SHARE_MIN {
            let why = format!("all {} were held; ask for {allowed:.0}", self.held);
            return Reading::not_measured(target, why);
        }
        let ours = format!("{} of {allowed:.0} ({:.1} %)", self.held, share * 100.0);
        let outcome = Outcome::of(share >= ALLOWED_SHARE_MIN);
        Reading { target, peer: "-".to_owned(), ours, ratio: "-".to_owned(), outcome }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(held: u64, lost: u64, ramp_s: f64) -> Value {
        let sweep = json!({"connections": held, "answered": held});
        json!({"hold": {
            "held": held, "lost": lost, "ramp_s": ramp_s, "last_sweep": sweep,
            "user_bytes_per_connection": 410.0, "sut_bytes_per_connection": 520.0,
            "kernel_bytes_per_connection": 8200.0, "machine_bytes_per_connection": 40_000.0,
            "baseline": {"available_bytes": 24_000_000_000_u64}, "end": "complete",
        }})
    }

    #[test]
    fn a_million_is_judged_by_all_its_limits() {
        use Outcome::{NotReached as No, Reached as Yes};
        for (held, lost, ramp_s, gb, expected) in [
            (MILLION, 0, 300.0, 9.6, [Yes, Yes, Yes]),
            (MILLION, 1, 300.0, 9.6, [No, Yes, Yes]), // one was lost
            (MILLION, 0, 360.0, 9.6, [No, Yes, Yes]), // too slow
            (MILLION, 0, 300.0, 10.1, [Yes, No, Yes]), // too large
            (MILLION - 1, 0, 300.0, 9.6, [No, No, No]), // one was never there
        ] {
            let summary = summary(held, lost, ramp_s);
            let record = Record::of(Sut::Embedded, MILLION, (gb * 1e9) as u64, &summary).unwrap();
            let outcomes: Vec<Outcome> = record.readings().iter().map(|r| r.outcome).collect();
            assert_eq!(outcomes, expected, "{}", record.fate());
        }
    }

    #[test]
    fn two_millions_and_haproxy_have_limits_of_their_own() {
        let two = summary(2 * MILLION, 0, 900.0);
        for (gb, expected) in [(22.9, Outcome::Reached), (23.1, Outcome::NotReached)] {
            let record = Record::of(Sut::Embedded, 2 * MILLION, (gb * 1e9) as u64, &two).unwrap();
            assert_eq!(record.readings()[0].outcome, expected);
        }
        // The memory allows 600,000.
        let short = json!({"cut-short": {"why": "memory"}});
        for (held, end, expected) in [
            (570_000, &short, Outcome::Reached),
            (569_999, &short, Outcome::NotReached),
            (570_000, &json!("complete"), Outcome::Reached),
            (100_000, &json!("complete"), Outcome::NotMeasured), // it was not asked for more
        ] {
            let mut summary = summary(held, 0, 200.0);
            summary["hold"]["end"] = end.clone();
            let record = Record::of(Sut::Haproxy, MILLION, 1, &summary).unwrap();
            assert_eq!(record.readings()[0].outcome, expected, "{held} {end}");
        }
    }

    #[test]
    fn what_is_not_said_is_not_guessed() {
        let summary = json!({"hold": {"held": 1_000_000, "last_sweep": null}});
        let record = Record::of(Sut::Embedded, MILLION, 9_000_000_000, &summary).unwrap();
        assert!(!record.is_whole());
        let row = "| embedded | 1000000 | 1000000 | - | - | - | - | - | - | 9.00 |";
        assert_eq!(record.row(), row);
        let outcomes: Vec<Outcome> = record.readings().iter().map(|r| r.outcome).collect();
        assert_eq!(outcomes, [Outcome::NotReached, Outcome::Reached, Outcome::NotMeasured]);
        assert!(Record::of(Sut::Embedded, 1, 0, &json!({"ok": 1})).is_none());
    }
}
