//! The cost of watching: CPU of `plimsoll watch` and of the readings that every run makes, once a second, with few
//! sockets and with half a million; and what a server under full load loses by it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bench::client::{Connection, Extent, Load};
use crate::bench::process::Guarded;
use crate::bench::results::{Outcome, Results, Row, Spread};
use crate::bench::server::{Server, ServerKind};
use crate::bench::tool::Tool;
use crate::bench::{Bench, footprint};

const ROUNDS: u32 = 10;
const SECONDS: u32 = 20;
/// Both ends are on this machine: twice as many sockets.
const CONNECTIONS: u32 = 250_000;
const FEW: u32 = 100;
const PAIRS_PER_ROUND: u32 = 10;
/// With `watch` and without, each. Whole seconds.
const TURN: Duration = Duration::from_secs(2);
/// The most of a core, %.
const COST_PERCENT_MAX: f64 = 1.0;
const COST_PERCENT_MAX_MANY: f64 = 2.0;
/// A server's capacity may differ by so much, %.
const CAPACITY_PERCENT_MAX: f64 = 1.0;
/// The longest that connections take to be opened.
const OPENING: Duration = Duration::from_secs(300);
/// Time that is left out: starting, and the effects of opening connections.
const SETTLING: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The thread of a run that reads a host.
const READER: &str = "recorder";
/// Name of the threads that measure the speed of the CPUs.
const YARDSTICK: &str = "yardstick";
/// All of them together, of a core, %.
const YARDSTICK_PERCENT_MAX: f64 = 0.5;

/// Measures everything and fills the results. What fails does not stop the rest.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let seconds = bench.settings.seconds_or(SECONDS);
    let many = bench.settings.connections_or(CONNECTIONS);
    results.method = method(seconds);
    for (id, connections, most) in
        [("probes-few", FEW, COST_PERCENT_MAX), ("probes-many", many, COST_PERCENT_MAX_MANY)]
    {
        match beside(bench, connections, seconds, results) {
            Ok(cost) => cost.report(id, connections, most, results),
            Err(error) => results.fail(format!("{connections} connections: {error:#}")),
        }
    }
    pairs(bench, results)
}

/// CPU use next to held connections, in percent of one core.
#[derive(Clone, Copy, Debug)]
struct Cost {
    watch: f64,
    readings: f64,
    yardstick: f64,
    sockets: u64,
}

impl Cost {
    fn report(self, id: &str, connections: u32, most: f64, results: &mut Results) {
        let Self { watch, readings, yardstick, sockets } = self;
        println!("probes: {connections} connections: {self:?}");
        results.figures.push(json!({
            "what": format!("CPU of watching at 1 s beside {connections} held connections, % of a core"),
            "watch": watch, "readings_of_a_run": readings, "yardstick_of_a_run": yardstick, "sockets": sockets,
        }));
        let row = Row::alone(
            id,
            &format!(
                "`watch` and the readings of a run at 1 s, {sockets} sockets open: CPU, % of a core"
            ),
            format!("{watch:.2} + {readings:.2}"),
            &format!("together less than {most:.0}"),
            Outcome::of(watch + readings < most),
        );
        results.row(row, "");
        let row = Row::alone(
            &format!("{id}-yardstick"),
            &format!("yardstick of a run, all CPUs, {sockets} sockets open: CPU, % of a core"),
            format!("{yardstick:.2}"),
            &format!("at most {YARDSTICK_PERCENT_MAX}"),
            Outcome::of(yardstick <= YARDSTICK_PERCENT_MAX),
        );
        results.row(row, "");
    }
}

/// Holds connections with both ends here, and watches that.
fn beside(bench: &Bench, connections: u32, seconds: u32, results: &mut Results) -> Result<Cost> {
    let before = established_at_rest()?;
    let words = format!(
        "lab hold -k --sut embedded --isolate none --connections {connections} --rate 6000 --heartbeat 10m \
         --for 1h --no-ui --out probes-run"
    );
    // The archive of an earlier run would be refused.
    let _ = fs::remove_dir_all(bench.scratch.join("probes-run"));
    results.note_command(format!("plimsoll {words}"));
    let mut hold = start(bench, &words)?;
    let wanted = before + 2 * u64::from(connections);
    let deadline = Instant::now() + OPENING;
    while footprint::established_here()? < wanted {
        if let Some(status) = hold.child.try_wait()? {
            bail!("the hold ended before all connections were open: {status}");
        }
        if Instant::now() > deadline {
            bail!("not all open after {OPENING:?}");
        }
        thread::sleep(LOOK_AGAIN);
    }
    let words = format!("watch --interval 1s --no-ui --pid {}", hold.child.id());
    results.note_command("plimsoll watch --interval 1s --no-ui --pid N".to_owned());
    let watch = start(bench, &words)?;
    thread::sleep(SETTLING);
    let sockets = footprint::established_here()?;
    let cpu = || -> Result<[f64; 3]> {
        let of_run = |name| cpu_s(hold.child.id(), Some(name));
        Ok([cpu_s(watch.child.id(), None)?, of_run(READER)?, of_run(YARDSTICK)?])
    };
    let (began, first) = (Instant::now(), cpu()?);
    thread::sleep(Duration::from_secs(seconds.into()));
    let (last, took_s) = (cpu()?, began.elapsed().as_secs_f64());
    let percent = |nth: usize| 100.0 * (last[nth] - first[nth]) / took_s;
    let [watch, readings, yardstick] = [percent(0), percent(1), percent(2)];
    Ok(Cost { watch, readings, yardstick, sockets })
}

/// Returns the established connections, once the connections of an earlier measurement have ended.
fn established_at_rest() -> Result<u64> {
    let mut last = footprint::established_here()?;
    loop {
        thread::sleep(SETTLING);
        let now = footprint::established_here()?;
        if now >= last {
            return Ok(now);
        }
        last = now;
    }
}

fn start(bench: &Bench, words: &str) -> Result<Guarded> {
    let mut command = Command::new(&bench.tools.plimsoll);
    command.args(words.split(' ')).current_dir(&bench.scratch);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Guarded::start(&mut command)
}

/// Returns the CPU time so far of the threads of `pid`, or of those called `name`: exact, where ticks of 10 ms are not.
fn cpu_s(pid: u32, name: Option<&str>) -> Result<f64> {
    let tasks = format!("/proc/{pid}/task");
    let (mut ns, mut found) = (0u64, false);
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let task = task?.path();
        let is_it = |name: &str| text(&task, "comm").trim() == name;
        if name.is_none_or(is_it) {
            let ran = text(&task, "schedstat");
            ns += ran.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            found = true;
        }
    }
    if !found {
        bail!("{tasks}: no thread is called {name:?}");
    }
    Ok(ns as f64 / 1e9)
}

fn text(task: &Path, file: &str) -> String {
    fs::read_to_string(task.join(file)).unwrap_or_default()
}

/// Compares a server's answers while `watch` reads its host and runs the yardstick with those while `watch` is stopped:
/// in one load, turn by turn, since a virtual CPU is slow for seconds.
fn pairs(bench: &Bench, results: &mut Results) -> Result<()> {
    let server = Server::start(ServerKind::Plimsoll, &bench.tools.plimsoll, &bench.scratch)?;
    let load = Load { is_tls: false, connection: Connection::Kept };
    let pairs = bench.settings.rounds_or(ROUNDS) * PAIRS_PER_ROUND;
    let seconds = 2 * pairs * TURN.as_secs() as u32 + 2 * SETTLING.as_secs() as u32;
    let extent = Extent { connections: 50, seconds };
    let job = bench.tools.job(Tool::Plimsoll, &server.url(false), extent, load);
    let job = job.context("plimsoll makes any load")?;
    results.note_command(job.shown());
    let words = format!("watch --interval 1s --no-ui --pid {}", server.pid());
    let watch = start(bench, &words)?;
    let percents = thread::scope(|scope| {
        let load = scope.spawn(|| job.run());
        let percents = turns(&watch, pairs);
        load.join().expect("a benchmark may panic")?;
        percents
    })?;
    let spread = Spread::of(percents.iter().copied());
    let (low, high) = around_median(&percents);
    println!("probes: watched over not watched: {} ({low:.2} to {high:.2}) %", spread.middle());
    let figure = "requests/s of `serve` at saturation, watched over not watched, paired, %";
    results.figures.push(json!({"what": figure, "rounds": percents, "interval": [low, high]}));
    let is_small = low > -CAPACITY_PERCENT_MAX && high < CAPACITY_PERCENT_MAX;
    let shown = format!("{} ({low:.2} - {high:.2}, 95 %)", spread.middle());
    let target = format!("less than {CAPACITY_PERCENT_MAX:.0} apart");
    results.row(Row::alone("probes-pairs", figure, shown, &target, Outcome::of(is_small)), "");
    Ok(())
}

/// Returns the segments of pairs of turns, one with `watch` and one without; the difference of each, %.
fn turns(watch: &Guarded, pairs: u32) -> Result<Vec<f64>> {
    let signal = |name: &str| -> Result<()> {
        let pid = watch.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().context("kill")?;
        if sent.success() { Ok(()) } else { bail!("watch has ended: kill {name} {pid}: {sent}") }
    };
    thread::sleep(SETTLING);
    let mut percents = Vec::new();
    for pair in 0..pairs {
        let mut segments = [0.0; 2];
        for turn in 0..2 {
            // Who comes first changes.
            let is_watched = turn == pair % 2;
            signal(if is_watched { "-CONT" } else { "-STOP" })?;
            let (began, first) = (Instant::now(), footprint::segments_here()?);
            thread::sleep(TURN);
            let seen = footprint::segments_here()?.saturating_sub(first);
            segments[usize::from(is_watched)] = seen as f64 / began.elapsed().as_secs_f64();
        }
        percents.push(100.0 * (segments[1] / segments[0] - 1.0));
    }
    Ok(percents)
}

/// Returns the 95 % interval of the median, by order statistics.
fn around_median(figures: &[f64]) -> (f64, f64) {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let low = (0.5 * (count - 1.96 * count.sqrt())).floor().max(1.0) as usize;
    let at = |nth: usize| sorted.get(nth).copied().unwrap_or(f64::NAN);
    (at(low - 1), at(sorted.len().saturating_sub(low)))
}

fn method(seconds: u32) -> String {
    format!(
        "`plimsoll lab hold` keeps connections open between its own clients and `serve` on this machine, and reads \
         its host once a second as every run does, with a yardstick on each CPU (threads \"{YARDSTICK}\"); `plimsoll watch` does the \
         same and reads the same host and the coordinator's process \
         beside it. CPU of `watch` includes all its threads, CPU of the readings of a run is its thread \
         \"{READER}\", both by schedstat over {seconds} s after all connections are open. In the pairs, one client \
         on one CPU loads `serve` on the other in a closed loop over 50 connections, while `watch` is stopped by a signal \
         and continues, {} s each in turn; the segments that the host received are counted. There is no way to run \
         without the readings of the run itself.",
        TURN.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_an_interval() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(around_median(&figures), (40.0, 61.0));
        assert_eq!(around_median(&[2.0, 1.0, 3.0]), (1.0, 3.0));
    }

    #[test]
    fn cpu_of_threads_is_told_by_their_names() {
        let busy = thread::Builder::new().name("spinner".to_owned());
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let work = move || {
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {}
            ready.send(()).unwrap();
            stopped.recv().unwrap_err();
        };
        let thread = busy.spawn(work).unwrap();
        is_ready.recv().unwrap();
        let (own, all) =
            (cpu_s(std::process::id(), Some("spinner")), cpu_s(std::process::id(), None));
        let (own, all) = (own.unwrap(), all.unwrap());
        assert!(own > 0.0 && all >= own, "{own} {all}");
        assert!(cpu_s(std::process::id(), Some("nobody")).is_err());
        drop(stop);
        thread.join().unwrap();
    }
}
