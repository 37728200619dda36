//! Hidden timers of 3 to 120 s in five places, all looked for at once: loads that wait need next to no
//! CPU.

use std::thread;
use std::time::Duration;

use e2e::cliff::{assert_cliff, assert_row, cliffs, proxy};
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::silent::SilentServer;
use e2e::summary::Summary;

use crate::alone;

const TIMERS_S: [u32; 5] = [3, 17, 30, 60, 120];
/// The longest timer, and a search around it.
const PATIENCE: Duration = Duration::from_secs(300);
/// Other timers of HAProxy must not come first.
const CLIENT: &str = "    timeout client 600s\n";
const SERVER: &str = "    timeout server 600s\n";
/// 40 operations that no server answers in time.
const LOAD: [&str; 10] = ["--json", "-", "-r", "10", "-d", "4s", "-c", "50", "-t", "1"];
const SLEEP: [&str; 2] = ["-H", "sleep-fixed: 600000"];

fn patient_server() -> Serve {
    Serve::start(&["--http", "127.0.0.1:0", "--request-timeout", "600s"], 1)
}

/// The one cliff that a load found.
fn assert_found(url: &str, flags: &[&str], closer: &str, timer_s: u32, owner: &str) {
    let finished = Plimsoll::new([&["load", url], &LOAD[..], flags].concat()).start();
    let summary = Summary::parse(&finished.finish_within(PATIENCE).stdout);
    println!("{timer_s} s: {:?}", assert_cliff(&summary, closer, timer_s.into(), owner));
    assert_eq!(cliffs(&summary).len(), 1, "{:?}", cliffs(&summary));
}

fn our_own_linger(timer_s: u32) {
    let linger = format!("{timer_s}s");
    let flags = [&SLEEP[..], &["--linger", &linger]].concat();
    assert_found(patient_server().url(), &flags, "own-timer", timer_s, "client");
}

fn the_proxys_timer_for_its_backend(timer_s: u32) {
    let serve = patient_server();
    let haproxy = proxy(serve.address(), CLIENT, &format!("    timeout server {timer_s}s"));
    let flags = [&SLEEP[..], &["--linger", "200s"]].concat();
    assert_found(&haproxy.url("http"), &flags, "status-504", timer_s, "sut");
}

fn a_backend_that_closes(timer_s: u32) {
    let silent = SilentServer::start(Duration::from_secs(timer_s.into()));
    let haproxy = proxy(silent.address, CLIENT, SERVER);
    assert_found(&haproxy.url("http"), &["--linger", "200s"], "status-502", timer_s, "backend");
}

fn both_met_by_the_probe(timer_s: u32) {
    let (timer, probe) = (format!("{timer_s}s"), format!("{}s", timer_s + timer_s / 10 + 1));
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--request-timeout", &timer], 1);
    let timers = format!("{CLIENT}    timeout http-keep-alive {timer}\n");
    let haproxy = proxy(serve.address(), &timers, SERVER);
    let url = haproxy.url("http");
    let flags =
        ["find", "rate", &url, "--mode", "quick", "--min", "20", "--max", "40", "--json", "-"];
    let lax = ["--slo", "p99<5s,errors<50%", "-c", "4", "-t", "1", "--probe-timeouts", &probe];
    let finished = Plimsoll::new([&flags[..], &lax].concat()).start().finish_within(PATIENCE);
    let summary = Summary::parse(&finished.stdout);
    println!("{timer_s} s: {:?}", summary.at("timers"));
    assert_row(&summary, "answered", timer_s.into(), "sut");
    assert_row(&summary, "half-body", timer_s.into(), "backend");
}

#[test]
#[ignore = "takes 3 minutes"]
fn timers_up_to_two_minutes_are_found_and_ascribed() {
    let _alone = alone();
    thread::scope(|scope| {
        for timer_s in TIMERS_S {
            scope.spawn(move || our_own_linger(timer_s));
            scope.spawn(move || the_proxys_timer_for_its_backend(timer_s));
            scope.spawn(move || a_backend_that_closes(timer_s));
            scope.spawn(move || both_met_by_the_probe(timer_s));
        }
    });
}
