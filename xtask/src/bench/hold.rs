//! The large runs: TLS connections with both ends on this machine, held and polled. They are made only on request,
//! because they need all memory of the machine.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bench::process::Guarded;
use crate::bench::results::{Outcome, Results, Row};
use crate::bench::settings::{Protocol, Sut};
use crate::bench::{Bench, footprint};

/// Timeout of a run; the limits themselves are checked below this.
const LIMIT: Duration = Duration::from_secs(3_600);
const MILLION: u64 = 1_000_000;
const RAMP_S_MAX: f64 = 360.0;
/// Client memory with a million connections, kB each.
const CLIENT_KB_MAX: f64 = 0.45;
/// Client memory with a million MQTT sessions, kB each, and the server's.
const CLIENT_MQTT_KB_MAX: f64 = 0.30;
const SERVER_MQTT_KB_MAX: f64 = 0.35;
/// Memory of the machine with one million connections, with as many MQTT sessions, and with two, GB.
const MACHINE_GB_MAX: f64 = 10.0;
const MACHINE_MQTT_GB_MAX: f64 = 10.5;
const MACHINE_GB_MAX_TWO: f64 = 23.0;
/// Share of the connections that its cost allows which a real HAProxy must reach.
const ALLOWED_SHARE_MIN: f64 = 0.95;
/// Period of reading available memory.
const INTERVAL: Duration = Duration::from_millis(100);

/// Makes each run and fills the results.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    METHOD.clone_into(&mut results.method);
    let (sut, protocol) = (bench.settings.sut, bench.settings.protocol);
    for size in bench.settings.sizes_or(&[]) {
        match hold(bench, sut, protocol, size, results) {
            Ok(run) => {
                let through = if sut == Sut::Haproxy { " --sut haproxy" } else { "" };
                let spoken = if protocol == Protocol::Mqtt { " --protocol mqtt" } else { "" };
                let flags = format!("{through}{spoken} --connections {size}");
                run.rows().into_iter().for_each(|row| results.row(row, &flags));
                let figure = run.figure(&results.date);
                println!("hold: {figure}");
                results.figures.push(figure);
            }
            Err(error) => results.fail(format!("{size} connections: {error:#}")),
        }
    }
    Ok(())
}

/// A ramp below six minutes for a million, and heartbeats that leave two cores time for the ramp: a
/// handshake costs both ends 200 to 600 us together, a heartbeat on a connection that has long been
/// cold 50 to 150. Each level asks every connection anyway. An MQTT session has a subscription.
fn hold(
    bench: &Bench,
    sut: Sut,
    protocol: Protocol,
    size: u32,
    results: &mut Results,
) -> Result<Run> {
    let rate_per_s = match sut {
        Sut::Embedded => 6_000,
        // It accepts 1,000 new ones a second, and stopped answering when half a million came at 4,000/s.
        Sut::Haproxy => 2_500,
    };
    let heartbeat_min = size.div_ceil(50_000).max(1);
    let protocol_words = match protocol {
        Protocol::Http => "",
        Protocol::Mqtt => " --protocol mqtt --subscribe devices/all",
    };
    let words = format!(
        "lab hold -k --sut {}{protocol_words} --connections {size} --rate {rate_per_s} \
         --heartbeat {heartbeat_min}m --no-ui --json summary.json",
        sut.name()
    );
    results.note_command(format!("plimsoll {words}"));
    let path = bench.scratch.join("summary.json");
    // A summary of an earlier run must not pass for this one's.
    let _ = fs::remove_file(&path);
    let before_bytes = footprint::available_bytes()?;
    let mut command = Command::new(&bench.tools.plimsoll);
    command.args(words.split(' ')).current_dir(&bench.scratch).stdin(Stdio::null());
    let mut process = Guarded::start(&mut command)?;
    let watch = MemoryWatch::start()?;
    let ended = process.wait_until(Instant::now() + LIMIT);
    let least_bytes = watch.end()?;
    if ended?.is_none() {
        bail!("not done after {LIMIT:?}, and killed");
    }
    let summary = fs::read_to_string(path).context("it left no summary")?;
    let summary: Value = serde_json::from_str(&summary)?;
    let used_bytes = before_bytes.saturating_sub(least_bytes);
    Run::of(sut, protocol, size.into(), used_bytes, &summary).context("its summary has no hold")
}

/// One run. What its summary does not have is `None`, and never guessed.
#[derive(Debug)]
struct Run {
    sut: Sut,
    protocol: Protocol,
    asked: u64,
    used_gb: f64,
    held: u64,
    answered: Option<u64>,
    lost: Option<u64>,
    ramp_s: Option<f64>,
    client_kb: Option<f64>,
    sut_kb: Option<f64>,
    kernel_kb: Option<f64>,
    /// Connections that the memory of this machine allows, by the measured cost.
    allowed: Option<f64>,
    /// `true` if the run held all requested connections, so that memory was not its limit.
    is_complete: bool,
}

impl Run {
    /// `None` when the summary is of something else.
    fn of(
        sut: Sut,
        protocol: Protocol,
        asked: u64,
        used_bytes: u64,
        summary: &Value,
    ) -> Option<Self> {
        let hold = &summary["hold"];
        let kb = |part: &str| Some(hold[format!("{part}_bytes_per_connection")].as_f64()? / 1e3);
        let parts: f64 = ["user", "sut", "kernel"].into_iter().filter_map(kb).sum();
        // What the machine lost is less than its parts where sockets' inodes and dentries look as
        // if they could be given back.
        let each = kb("machine").map(|each| each.max(parts)).filter(|each| *each > 0.0);
        let available = hold["baseline"]["available_bytes"].as_f64();
        Some(Self {
            sut,
            protocol,
            asked,
            used_gb: used_bytes as f64 / 1e9,
            held: hold["held"].as_u64()?,
            answered: hold["last_sweep"]["answered"].as_u64(),
            lost: hold["lost"].as_u64(),
            ramp_s: hold["ramp_s"].as_f64(),
            client_kb: kb("user"),
            sut_kb: kb("sut"),
            kernel_kb: kb("kernel"),
            allowed: available.zip(each).map(|(available, each)| available / 1e3 / each),
            is_complete: hold["end"] == "complete",
        })
    }

    fn figure(&self, date: &str) -> Value {
        let kind = match self.protocol {
            Protocol::Http => "TLS connections",
            Protocol::Mqtt => "MQTT sessions over TLS",
        };
        json!({
            "what": format!("{} {kind}, SUT {}", self.asked, self.sut.name()),
            "measured_on": date, "held": self.held, "answered": self.answered, "lost": self.lost,
            "ramp_s": self.ramp_s, "client_kb_each": self.client_kb, "sut_kb_each": self.sut_kb,
            "kernel_kb_each": self.kernel_kb, "machine_gb": self.used_gb,
        })
    }

    /// Reports whether all were held, answered, and none was lost.
    fn is_whole(&self) -> bool {
        self.held >= self.asked && self.answered >= Some(self.asked) && self.lost == Some(0)
    }

    fn outcome(&self) -> String {
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let ramp = self.ramp_s.map_or_else(|| "?".to_owned(), |s| format!("{s:.0}"));
        format!(
            "held {}, answered {}, lost {}, ramp {ramp} s, {:.2} GB",
            self.held,
            count(self.answered),
            count(self.lost),
            self.used_gb
        )
    }

    fn rows(&self) -> Vec<Row> {
        match (self.sut, self.protocol, self.asked) {
            (Sut::Embedded, Protocol::Mqtt, MILLION) => self.million_mqtt(),
            (Sut::Embedded, Protocol::Http, MILLION) => self.million(),
            (Sut::Embedded, Protocol::Http, asked) if asked == 2 * MILLION => vec![Row::alone(
                "hold-2M",
                "2,000,000 TLS connections, both ends on one machine",
                self.outcome(),
                "every one answers, none lost, in 23 GB",
                Outcome::of(self.is_whole() && self.used_gb <= MACHINE_GB_MAX_TWO),
            )],
            (Sut::Haproxy, ..) => vec![self.haproxy()],
            (Sut::Embedded, ..) => Vec::new(),
        }
    }

    fn million(&self) -> Vec<Row> {
        let is_held = self.held >= MILLION;
        let is_fast = self.ramp_s.is_some_and(|ramp_s| ramp_s < RAMP_S_MAX);
        let memory = match self.client_kb {
            Some(kb) => (format!("{kb:.3}"), Outcome::of(is_held && kb <= CLIENT_KB_MAX)),
            None => ("no figure".to_owned(), Outcome::NotMeasured),
        };
        vec![
            Row::alone(
                "client-memory-1M",
                "client user memory per held, idle TLS 1.3 connection, 1 M, kB",
                memory.0,
                &format!("{CLIENT_KB_MAX} or less"),
                memory.1,
            ),
            Row::alone(
                "machine-memory",
                "memory of the whole machine, 1 M TLS connections, both ends, GB",
                format!("{:.2}", self.used_gb),
                &format!("{MACHINE_GB_MAX} or less"),
                Outcome::of(is_held && self.used_gb <= MACHINE_GB_MAX),
            ),
            Row::alone(
                "hold-1M",
                "1,000,000 TLS connections, both ends on one machine",
                self.outcome(),
                "every one answers, none lost, ramp below 6 minutes",
                Outcome::of(self.is_whole() && is_fast),
            ),
        ]
    }

    fn million_mqtt(&self) -> Vec<Row> {
        let each = |kb: Option<f64>, most: f64| match kb {
            Some(kb) => (format!("{kb:.3}"), Outcome::of(self.held >= MILLION && kb <= most)),
            None => ("no figure".to_owned(), Outcome::NotMeasured),
        };
        let client = each(self.client_kb, CLIENT_MQTT_KB_MAX);
        let server = each(self.sut_kb, SERVER_MQTT_KB_MAX);
        vec![
            Row::alone(
                "client-memory-1M-mqtt",
                "client user memory per held MQTT session over TLS, 1 M, kB",
                client.0,
                &format!("{CLIENT_MQTT_KB_MAX:.2} or less"),
                client.1,
            ),
            Row::alone(
                "server-memory-1M-mqtt",
                "memory of `serve --mqtts` per session, 1 M, kB",
                server.0,
                &format!("{SERVER_MQTT_KB_MAX} or less"),
                server.1,
            ),
            Row::alone(
                "hold-1M-mqtt",
                "1,000,000 MQTT sessions over TLS with a subscription each, both ends on one machine",
                self.outcome(),
                &format!("every one answers PINGREQ, none lost, {MACHINE_MQTT_GB_MAX} GB or less"),
                Outcome::of(self.is_whole() && self.used_gb <= MACHINE_MQTT_GB_MAX),
            ),
        ]
    }

    /// Compares the connections of a real HAProxy with those that its own cost allows.
    fn haproxy(&self) -> Row {
        let (ours, outcome) = match self.allowed {
            None => ("no cost per connection".to_owned(), Outcome::NotMeasured),
            Some(allowed) => {
                let share = self.held as f64 / allowed;
                let ours = format!("{} of {allowed:.0} ({:.1} %)", self.held, share * 100.0);
                match self.is_complete && share < ALLOWED_SHARE_MIN {
                    true => (format!("{ours}; ask for more"), Outcome::NotMeasured),
                    false => (ours, Outcome::of(share >= ALLOWED_SHARE_MIN)),
                }
            }
        };
        let (id, figure) = match self.protocol {
            Protocol::Http => {
                ("haproxy-held", "connections held through a real HAProxy before memory ends")
            }
            Protocol::Mqtt => (
                "haproxy-held-mqtt",
                "MQTT sessions held through a real HAProxy in TCP mode before memory ends",
            ),
        };
        Row::alone(
            id,
            figure,
            ours,
            "at least 95 % of what its cost per connection allows",
            outcome,
        )
    }
}

/// A thread that reads what memory is available until it is ended.
struct MemoryWatch {
    least_bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl MemoryWatch {
    fn start() -> Result<Self> {
        let least_bytes = Arc::new(AtomicU64::new(footprint::available_bytes()?));
        let is_over = Arc::new(AtomicBool::new(false));
        let (least, over) = (Arc::clone(&least_bytes), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                least.fetch_min(footprint::available_bytes()?, Ordering::Relaxed);
                thread::sleep(INTERVAL);
            }
            Ok(())
        });
        Ok(Self { least_bytes, is_over, thread })
    }

    /// Returns the least that was available, bytes.
    fn end(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(watched) => watched?,
            Err(_) => bail!("the thread that watches memory panicked"),
        }
        Ok(self.least_bytes.load(Ordering::Relaxed))
    }
}

const METHOD: &str = "\
`plimsoll lab hold`: TLS 1.3, both ends on this machine, each connection asked once at the top and \
answering. The clients check no certificate and no signature (`-k`), as those of wrk, ab and h2load. \
Memory of the machine is what `MemAvailable`, less the inodes and dentries of open sockets, lost from \
before the run to its least, read every 0.1 s by the benchmark; the figures per connection are \
plimsoll's own.";

#[cfg(test)]
mod tests {
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

    fn outcomes(sut: Sut, asked: u64, gb: f64, summary: &Value) -> Vec<Outcome> {
        let run = Run::of(sut, Protocol::Http, asked, (gb * 1e9) as u64, summary).unwrap();
        run.rows().iter().map(|row| row.outcome).collect()
    }

    #[test]
    fn a_million_is_judged_by_all_its_limits() {
        use Outcome::{NotReached as No, Reached as Yes};
        for (held, lost, ramp_s, gb, expected) in [
            (MILLION, 0, 300.0, 9.6, [Yes, Yes, Yes]),
            (MILLION, 1, 300.0, 9.6, [Yes, Yes, No]), // one was lost
            (MILLION, 0, 360.0, 9.6, [Yes, Yes, No]), // too slow
            (MILLION, 0, 300.0, 10.1, [Yes, No, Yes]), // too large
            (MILLION - 1, 0, 300.0, 9.6, [No, No, No]), // one was never there
        ] {
            let summary = summary(held, lost, ramp_s);
            assert_eq!(outcomes(Sut::Embedded, MILLION, gb, &summary), expected);
        }
        let two = summary(2 * MILLION, 0, 900.0);
        assert_eq!(outcomes(Sut::Embedded, 2 * MILLION, 22.9, &two), [Yes]);
        assert_eq!(outcomes(Sut::Embedded, 2 * MILLION, 23.1, &two), [No]);
    }

    #[test]
    fn a_million_sessions_are_judged_by_their_own_limits() {
        use Outcome::{NotReached as No, Reached as Yes};
        for (lost, client_b, server_b, gb, expected) in [
            (0, 300.0, 350.0, 10.5, [Yes, Yes, Yes]),
            (0, 301.0, 351.0, 10.5, [No, No, Yes]),
            (1, 300.0, 350.0, 10.5, [Yes, Yes, No]),
            (0, 300.0, 350.0, 10.6, [Yes, Yes, No]),
        ] {
            let mut summary = summary(MILLION, lost, 900.0);
            summary["hold"]["user_bytes_per_connection"] = client_b.into();
            summary["hold"]["sut_bytes_per_connection"] = server_b.into();
            let used_bytes = (gb * 1e9) as u64;
            let run =
                Run::of(Sut::Embedded, Protocol::Mqtt, MILLION, used_bytes, &summary).unwrap();
            let outcomes: Vec<_> = run.rows().iter().map(|row| row.outcome).collect();
            assert_eq!(outcomes, expected);
        }
    }

    #[test]
    fn haproxy_is_judged_by_what_memory_allows() {
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
            assert_eq!(outcomes(Sut::Haproxy, MILLION, 1.0, &summary), [expected], "{held} {end}");
        }
    }

    #[test]
    fn what_is_not_said_is_not_guessed() {
        let summary = json!({"hold": {"held": 1_000_000, "last_sweep": null}});
        let run = Run::of(Sut::Embedded, Protocol::Http, MILLION, 9_000_000_000, &summary).unwrap();
        assert!(!run.is_whole());
        assert_eq!(run.figure("x")["answered"], Value::Null);
        let expected = [Outcome::NotMeasured, Outcome::Reached, Outcome::NotReached];
        assert_eq!(outcomes(Sut::Embedded, MILLION, 9.0, &summary), expected);
        assert!(Run::of(Sut::Embedded, Protocol::Http, 1, 0, &json!({"ok": 1})).is_none());
    }

    #[test]
    fn the_least_is_kept() {
        let watch = MemoryWatch::start().unwrap();
        watch.least_bytes.fetch_min(7, Ordering::Relaxed);
        assert_eq!(watch.end().unwrap(), 7);
    }
}
