//! One run of plimsoll in a terminal, and the CPU use of its coordinator meanwhile.
//!
//! [`run`] starts plimsoll inside `script`, which gives it a terminal of 120 columns, with one [`Display`]. `follow`
//! reads the coordinator's CPU time every 50 ms; the first second is left out because it is equal for every display.
//! The run fails if the screen appears without being asked for, or is missing, or if a live page sends nothing. Send
//! lag of a hold comes from its archive. A run takes at most 180 s. Start with [`run`].

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::client::Tools;
use crate::bench::client::words::SUMMARY;
use crate::bench::process::{Guarded, tree};
use crate::bench::results::Spread;
use crate::bench::{CLIENT_CPU, footprint, server};

/// The longest that a run may take.
const LIMIT: Duration = Duration::from_secs(180);
/// Period of reading the CPU time of the coordinator.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time of starting, which is the same with every display, and left out.
const START: Duration = Duration::from_secs(1);
/// File to which `script` writes what the terminal shows.
const SHOWN: &str = "shown";
/// Sequence that enters the terminal's second screen.
const SECOND_SCREEN: &str = "\x1b[?1049h";
/// Time for which the live page is waited for.
const LIVE_WAIT: Duration = Duration::from_secs(10);

/// The display of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Display {
    /// `--no-ui`.
    None,
    /// The screen, in a terminal of 120 columns and 40 rows.
    Screen,
    /// `--no-ui --live`, with a reader of the stream that draws nothing: a browser would take CPU itself.
    Live,
}

impl Display {
    pub(super) const ALL: [Self; 3] = [Self::None, Self::Screen, Self::Live];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "--no-ui",
            Self::Screen => "screen",
            Self::Live => "--live",
        }
    }
}

/// The archive of a hold.
const ARCHIVE: &str = "look-run";

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) rate_per_s: f64,
    /// Send lag of the run; of a hold, of its middle second with all connections: their opening fills the CPUs.
    pub(super) send_lag_ms_p99: f64,
    /// CPU of the coordinator, of one core, %.
    pub(super) coordinator_percent: f64,
}

/// Runs plimsoll with these arguments on the CPU for clients, in a terminal that `script` makes. `held` is how many
/// connections it holds, where that is what it does.
pub(super) fn run(
    tools: &Tools,
    folder: &Path,
    words: &str,
    held: Option<u32>,
    display: Display,
) -> Result<Figures> {
    let (flags, live) = match display {
        Display::None => (" --no-ui".to_owned(), None),
        Display::Screen => (String::new(), None),
        Display::Live => {
            let [address] = server::free_addresses()?;
            (format!(" --no-ui --live {address}"), Some(address))
        }
    };
    let path = folder.join(SUMMARY);
    // A summary of an earlier run must not pass for this one's.
    let _ = fs::remove_file(&path);
    let program = tools.plimsoll.to_str().context("the path of plimsoll is no text")?;
    let typed = format!(
        "stty columns 120 rows 40 && exec taskset -c {CLIENT_CPU} {} {words}{flags} --json {SUMMARY}{}",
        shell_words::quote(program),
        if held.is_some() { format!(" --out {ARCHIVE}") } else { String::new() }
    );
    // An earlier one would be refused.
    let _ = fs::remove_dir_all(folder.join(ARCHIVE));
    let mut command = Command::new("script");
    command.args(["-qec", &typed, SHOWN]).current_dir(folder);
    command.env("SHELL", "/bin/sh").env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
    command.env_remove("CI").env_remove("NO_COLOR");
    // Standard input stays open and silent.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let reader = live.map(Reader::start);
    let mut process = Guarded::start(&mut command)?;
    let coordinator_percent = follow(&mut process, &tools.plimsoll);
    let bytes = reader.map(Reader::end).transpose()?;
    if bytes == Some(0) {
        bail!("the live page sent nothing");
    }
    let shown = String::from_utf8_lossy(&fs::read(folder.join(SHOWN))?).contains(SECOND_SCREEN);
    if shown != (display == Display::Screen) {
        bail!("a screen was {}drawn", if shown { "" } else { "not " });
    }
    let text = fs::read_to_string(path).context("it left no summary")?;
    let summary: Value = serde_json::from_str(&text).context(SUMMARY)?;
    let figure = |value: &Value| value.as_f64().context("not in the summary");
    Ok(Figures {
        rate_per_s: figure(&summary["rate"]["achieved_per_s"])?,
        send_lag_ms_p99: match held {
            Some(held) => lag_while_held(tools, folder, held)?,
            None => figure(&summary["send_lag_ms"]["p99"])?,
        },
        coordinator_percent: coordinator_percent?,
    })
}

/// Returns the p99 of the send lag, in ms, in the middle one of the seconds in which `held` connections were held.
fn lag_while_held(tools: &Tools, folder: &Path, held: u32) -> Result<f64> {
    let mut command = Command::new(&tools.plimsoll);
    command.args(["report", ARCHIVE, "--ndjson", "-"]).current_dir(folder);
    let output = command.stderr(Stdio::null()).output().context("plimsoll report")?;
    let seconds = str::from_utf8(&output.stdout)?.lines().map(serde_json::from_str::<Value>);
    let mut lags = Vec::new();
    for second in seconds {
        let second = second.context("plimsoll report --ndjson")?;
        if second["held"].as_u64() == Some(held.into()) {
            lags.extend(second["send_lag_p99_ms"].as_f64());
        }
    }
    let middle = Spread::of(lags.iter().copied()).median;
    if middle.is_nan() {
        bail!("no second with {held} connections and an operation")
    }
    Ok(middle)
}

/// Waits for the end; the coordinator's CPU from a second after its start.
fn follow(process: &mut Guarded, program: &Path) -> Result<f64> {
    let deadline = Instant::now() + LIMIT;
    let mut coordinator = None;
    let mut readings: Vec<(Instant, f64)> = Vec::new();
    loop {
        if let Some(status) = process.wait_until(Instant::now() + INTERVAL)? {
            // plimsoll calls a run INVALID (98) or its SLO missed (99); both have measured.
            if !matches!(status.code(), Some(0 | 98 | 99)) {
                bail!("it ended with {status}");
            }
            break;
        }
        if Instant::now() > deadline {
            bail!("not done after {LIMIT:?}, and killed");
        }
        coordinator = coordinator.or_else(|| coordinator_of(process.child.id(), program));
        let cpu_s = coordinator.and_then(footprint::own_cpu_s);
        readings.extend(cpu_s.map(|cpu_s| (Instant::now(), cpu_s)));
    }
    percent(&readings).context("it ended too soon to say what its coordinator costs")
}

/// Returns the process that was typed: the first that runs `program`.
fn coordinator_of(pid: u32, program: &Path) -> Option<u32> {
    let exe = |pid: &u32| -> Option<PathBuf> { fs::read_link(format!("/proc/{pid}/exe")).ok() };
    tree(pid).into_iter().find(|pid| exe(pid).as_deref() == Some(program))
}

fn percent(readings: &[(Instant, f64)]) -> Option<f64> {
    let (start, _) = readings.first()?;
    let first = readings.iter().find(|(at, _)| at.duration_since(*start) >= START)?;
    let last = readings.last()?;
    let seconds = last.0.duration_since(first.0).as_secs_f64();
    (seconds > 0.0).then(|| 100.0 * (last.1 - first.1) / seconds)
}

/// Somebody who reads the stream of a live page to its end.
struct Reader {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Reader {
    fn start(address: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        Self { is_over, thread: std::thread::spawn(move || read_stream(address, &over)) }
    }

    /// Returns the number of bytes that came.
    fn end(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("the reader of the live page panicked"))
    }
}

fn read_stream(address: SocketAddr, is_over: &AtomicBool) -> Result<u64> {
    let deadline = Instant::now() + LIVE_WAIT;
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("the live page is not there");
            }
            Err(_) => std::thread::sleep(INTERVAL),
        }
    };
    stream.set_read_timeout(Some(INTERVAL))?;
    write!(stream, "GET /events?after=0 HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let (mut bytes, mut buffer) = (0, vec![0; 65_536]);
    while !is_over.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes += count as u64,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // The run is over.
            Err(_) => break,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_second_is_left_out() {
        let start = Instant::now();
        let at = |ms: u64, cpu_s: f64| (start + Duration::from_millis(ms), cpu_s);
        let readings = [at(0, 0.1), at(500, 0.5), at(1_000, 0.6), at(2_000, 0.61), at(3_000, 0.64)];
        assert!((percent(&readings).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(percent(&readings[..3]), None);
        assert_eq!(percent(&[]), None);
    }
}
