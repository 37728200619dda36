//! False alarms: healthy loads on an idle machine that call themselves INVALID, in short runs at moderate rates
//! against real servers on a CPU of their own.

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::summary::Summary;

use crate::{alone, client, pin_server};

const PONG: &str = "    http-request return status 200 content-type text/plain string pong";
const RATES: [&str; 3] = ["500", "2000", "5000"];
/// With a goal that a healthy server meets, and without one, where every check of the generator counts.
const GOALS: [&[&str]; 2] = [&["--slo", "p99<50ms,errors<0.1%"], &[]];
/// Runs of each of 24 kinds of load.
const RUNS: usize = 5;
/// A machine is idle while no more than this fraction of its CPU time goes to others. Half of what
/// makes a run INVALID, because the two clocks do not start together.
const STOLEN_MAX: f64 = 0.05;
/// The most runs for each on an idle machine.
const TRIES: usize = 4;
/// Runs per false alarm, at least.
const RUNS_PER_ALARM: usize = 100;

/// Returns the CPU time since boot in ticks: what the hypervisor gave to others, and all.
fn cpu_time() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux has it");
    // cpu  user nice system idle iowait irq softirq steal guest guest_nice; user includes guest.
    let line = stat.lines().next().expect("the sum of all CPUs");
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).flat_map(str::parse).collect();
    (ticks[7], ticks.iter().sum())
}

/// The summary of one run on an idle machine; `None` if others took its CPU each time.
fn quiet_run(url: &str, rate: &str, goal: &[&str], seed: usize) -> Option<Summary> {
    (0..TRIES).find_map(|attempt| {
        let seed = (seed * TRIES + attempt).to_string();
        let own = ["load", url, "-k", "--json", "-", "--no-ui", "-r", rate, "-d", "3s"];
        let one = ["-c", "50", "-t", "1", "--seed", &seed];
        let before = cpu_time();
        let finished = client(&[&own[..], &one, goal].concat()).run();
        let after = cpu_time();
        let stolen = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
        (stolen <= STOLEN_MAX).then(|| Summary::parse(&finished.stdout))
    })
}

#[test]
#[ignore = "takes 7 minutes on an idle machine"]
fn healthy_loads_are_not_called_invalid() {
    let _alone = alone();
    let certificate = Certificate::new();
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let secure = format!("ssl_certificate {chain}; ssl_certificate_key {key};");
    let bind = format!("ssl crt {}", certificate.both().display());
    let nginxes = [Nginx::start(false, ""), Nginx::start(true, &secure)];
    let haproxies = [Haproxy::start("", PONG, ""), Haproxy::start(&bind, PONG, "")];
    let urls = [
        nginxes[0].url("http"),
        nginxes[1].url("https"),
        haproxies[0].url("http"),
        haproxies[1].url("https"),
    ];
    nginxes.iter().map(Nginx::pid).chain(haproxies.iter().map(Haproxy::pid)).for_each(pin_server);
    let (mut runs, mut alarms) = (0, Vec::new());
    for url in &urls {
        for rate in RATES {
            for goal in GOALS {
                for summary in (0..RUNS).filter_map(|seed| quiet_run(url, rate, goal, seed)) {
                    runs += 1;
                    if summary.text("verdict") == "invalid" {
                        alarms
                            .push(format!("{url} {rate}/s {goal:?}: {:?}", summary.at("reasons")));
                    }
                }
                println!("{url} {rate}/s {goal:?}: {} false alarms of {runs} runs", alarms.len());
            }
        }
    }
    assert!(runs >= RUNS_PER_ALARM, "only {runs} runs on an idle machine");
    assert!(alarms.len() * RUNS_PER_ALARM < runs, "{} of {runs}: {alarms:#?}", alarms.len());
}
