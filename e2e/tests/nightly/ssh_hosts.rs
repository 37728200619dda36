//! Hosts that fall silent without a word: both ends find out by themselves, within seconds.

use e2e::plimsoll::Finished;
use e2e::ssh_hosts;
use e2e::ssh_hosts::{HOSTS, LOGIN, URL};

fn load(meanwhile: &str) -> Option<Finished> {
    let load = ["load", URL, "--hosts", HOSTS, "--rate", "300", "--duration", "25s"];
    let outputs = ["--json", "out.json", "--out", "run"];
    ssh_hosts::run(&[&load[..], &LOGIN, &outputs].concat(), meanwhile)
}

fn assert_second_host_was_given_up(finished: &Finished) {
    let summary = finished.written(98);
    assert_eq!(summary.number("scheduled"), 7_500.0);
    let lost = summary.at("load_hosts")["10.77.0.2"]["lost"].as_str();
    assert!(lost.is_some_and(|how| how.contains("was given up")), "{lost:?}");
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}

#[test]
#[ignore = "takes half a minute"]
fn a_host_whose_cable_is_pulled_stops_and_is_given_up() {
    // Without its lease the agent would go on: nothing tells it that the path is gone.
    let pull = "middle; ip link set v2 down; A=$(agents 2); \
                for n in $(seq 100); do [ -e /proc/$A ] || break; sleep 0.2; done; \
                [ -e /proc/$A ] && echo LEFT the agent >&2";
    let Some(finished) = load(pull) else { return };
    assert_second_host_was_given_up(&finished);
}

#[test]
#[ignore = "takes half a minute"]
fn a_host_that_is_frozen_is_given_up_and_ends_when_it_thaws() {
    let freeze = "middle; A=$(agents 2); kill -STOP $A; wait $P; kill -CONT $A";
    let Some(finished) = load(freeze) else { return };
    assert_second_host_was_given_up(&finished);
}

#[test]
#[ignore = "starts twenty hosts"]
fn twenty_hosts_begin_within_five_milliseconds_and_no_stated_bound_is_wrong() {
    let load = ["load", URL, "--hosts", "10.77.0.[1-20]", "--rate", "2000", "--duration", "5s"];
    let flags = [&load[..], &LOGIN, &["--slo", "errors<100%", "--json", "out.json"]].concat();
    let Some(finished) = ssh_hosts::run_with(20, "", &flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    assert!([0, 98].contains(&code), "{}", finished.stderr);
    let summary = finished.written(code);
    assert_eq!(summary.number("scheduled"), 10_000.0);
    let hosts = summary.at("load_hosts").as_object().expect("hosts").clone();
    assert_eq!(hosts.len(), 20);
    let (mut first, mut last, mut worst) = (f64::MAX, f64::MIN, 0.0f64);
    for (name, host) in &hosts {
        let number = |field: &str| host[field].as_f64().expect("milliseconds");
        // All of them have the one clock of this machine: the truth is 0.
        let (offset, bound) = (number("clock_offset_ms"), number("clock_bound_ms"));
        assert!(offset.abs() <= bound, "{name}: {offset} ms, and at most {bound} ms are stated");
        assert!(number("start_margin_ms") > 0.0 && number("clock_drift_ms") == 0.0, "{name}");
        (first, last, worst) = (first.min(offset), last.max(offset), worst.max(bound));
    }
    println!("start skew {:.3} ms, worst stated bound {worst:.3} ms", last - first);
    assert!(last - first < 5.0, "{} ms", last - first);
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}

/// SplitMix64, so that a failure can be repeated by its number.
fn chance(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 29)
}

/// Returns the number of instants at which a host is disturbed: all of them take a quarter of an hour.
fn instants() -> u64 {
    let asked = std::env::var("PLIMSOLL_E2E_INSTANTS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(50)
}

/// Returns the disturbance of a host, in the script of its bed. A cable that was pulled stays so; a frozen process
/// thaws in the end.
fn disturbance(kind: u64, host: u64) -> String {
    match kind % 5 {
        0 => format!("kill -KILL $(agents {host})"),
        1 => format!("kill -KILL $(pgrep -P $P -f '10.77.0.{host} ')"),
        2 => format!("kill -KILL $(ip netns pids h{host} | sort -n | tail -n +2)"),
        3 => format!("ip link set v{host} down"),
        _ => format!(
            "A=$(agents {host}); kill -STOP $A 2> /dev/null; wait $P; kill -CONT $A 2> /dev/null"
        ),
    }
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn a_host_that_is_disturbed_at_any_of_fifty_instants_leaves_a_truthful_report() {
    let load = ["load", URL, "--hosts", HOSTS, "--rate", "300", "--duration", "2s"];
    let flags = [&load[..], &LOGIN, &["--slo", "errors<100%", "--json", "out.json"]].concat();
    let (mut before_start, mut lost, mut after_end) = (0, 0, 0);
    for seed in 0..instants() {
        let random = chance(seed + 1);
        // From the login of the hosts to a moment after the load's end.
        let wait_ms = random % 5_000;
        let host = (random >> 20) % 3 + 1;
        let disturb = disturbance(seed, host);
        let script =
            format!("sleep {}.{:03}; {disturb} 2> /dev/null", wait_ms / 1_000, wait_ms % 1_000);
        let Some(finished) = ssh_hosts::run(&flags, &script) else { return };
        let shown = format!("seed {seed}, {wait_ms} ms, {disturb}: {}", finished.stderr);
        assert!(!finished.stderr.contains("LEFT"), "{shown}");
        match finished.code {
            Some(1) => {
                assert!(finished.stderr.contains(&format!("10.77.0.{host}")), "{shown}");
                before_start += 1;
            }
            Some(code @ (0 | 98)) => {
                let summary = finished.written(code);
                let number = |field: &str| summary.number(field);
                assert_eq!(number("scheduled"), 600.0, "{shown}");
                let errors = summary.count("errors");
                assert_eq!(number("ok") + errors as f64 + number("unsent"), 600.0, "{shown}");
                let is_lost =
                    !summary.at("load_hosts")[format!("10.77.0.{host}")]["lost"].is_null();
                assert!(is_lost || number("ok") == 600.0, "{shown}");
                if is_lost { lost += 1 } else { after_end += 1 }
            }
            other => panic!("{other:?}: {shown}"),
        }
    }
    println!("{before_start} before the start, {lost} in the load, {after_end} after it");
    assert!(lost > 0, "{before_start} {lost} {after_end}");
}

/// Script that makes hosts as namespaces, whose processes may open 4,000 files each: a host needs several.
const FEW_FILES: &str = "for i in $(seq $N); do
     bash -c \"ulimit -n 4000; exec ip netns exec h$i /usr/sbin/sshd -D -e -f keys/sshd$i -p 2222\" \\
       2> keys/few$i < /dev/null > /dev/null &
     until (exec 3<> /dev/tcp/10.77.0.$i/2222) 2> /dev/null; do sleep 0.05; done
     printf '[10.77.0.%s]:2222 %s\\n' $i \"$(cut -d' ' -f1,2 keys/host.pub)\" >> keys/known; done";

#[test]
#[ignore = "holds 200,000 TLS connections"]
fn twenty_hosts_hold_two_hundred_thousand_tls_connections() {
    let before = format!(
        "{FEW_FILES}\n\"$0\" serve --https 10.77.0.254:8443 --processes 16 --no-ui > /dev/null 2>&1 < /dev/null &
         until (exec 3<> /dev/tcp/10.77.0.254/8443) 2> /dev/null; do sleep 0.05; done"
    );
    let hold = ["hold", "https://10.77.0.254:8443/", "-k", "--hosts", "10.77.0.[1-20]:2222"];
    let size =
        ["-c", "200k", "--rate", "2500", "--for", "10s", "--heartbeat", "0", "--json", "out.json"];
    let Some(finished) = ssh_hosts::run_with(20, &before, &[&hold[..], &size, &LOGIN].concat(), "")
    else {
        return;
    };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let code = finished.code.unwrap_or(-1);
    assert!([0, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    println!("{}", finished.stdout);
    assert_eq!(summary.number("hold.held"), 200_000.0, "{shown}");
    assert_eq!(summary.number("hold.last_sweep.answered"), 200_000.0, "{shown}");
    assert_eq!((summary.number("connections.failed"), summary.number("hold.lost")), (0.0, 0.0));
    assert!(summary.number("generator.processes") >= 60.0, "{shown}");
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}

#[test]
#[ignore = "searches for minutes"]
fn twenty_hosts_find_the_capacity_of_a_haproxy_of_its_own_host() {
    // Five requests at a time, each of 10 ms: less than 500 a second.
    let haproxy = e2e::program::installed("haproxy");
    let before = format!(
        "printf '%s\\n' global ' maxconn 4000' defaults ' mode http' ' timeout connect 5s' ' timeout client 60s' \
           ' timeout server 60s' ' timeout queue 60s' 'frontend sut' ' bind 10.77.0.20:8081' ' default_backend slow' \
           'backend slow' ' http-request set-header sleep-fixed 10' ' server a 10.77.0.254:8080 maxconn 5' > haproxy.cfg
         ip netns exec h20 {} -db -f haproxy.cfg > haproxy.log 2>&1 < /dev/null &
         until (exec 3<> /dev/tcp/10.77.0.20/8081) 2> /dev/null; do sleep 0.05; done",
        haproxy.display()
    );
    let find =
        ["find", "rate", "http://10.77.0.20:8081/", "--hosts", "10.77.0.[1-19]", "-c", "190"];
    let quick =
        ["--mode", "quick", "--slo", "p99<1s,errors<1%", "--json", "out.json", "--out", "run"];
    let end = "wait $P; kill $(for p in $(ip netns pids h20); do [ $(cat /proc/$p/comm) = haproxy ] && echo $p; done)";
    let flags = [&find[..], &quick, &LOGIN].concat();
    let Some(finished) = ssh_hosts::run_with(20, &before, &flags, end) else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let summary = finished.written(0);
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    println!("[{lower:.0}, {upper:.0}]/s");
    assert!((400.0..500.0).contains(&lower) && upper <= 510.0, "[{lower}, {upper}]: {shown}");
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}

#[test]
#[ignore = "takes half a minute"]
fn a_server_whose_cable_is_pulled_ends_by_itself_with_its_supervisor() {
    let lab = ["lab", "hold", "-c", "50", "--for", "10m", "--sut-host", "10.77.0.3"];
    let pull = "until [ \"$(ip netns exec h3 ss -Htn state established sport = :8443 | wc -l)\" -ge 50 ]; do \
                kill -0 $P || break; sleep 0.2; done; ip link set v3 down; \
                for n in $(seq 150); do [ -z \"$(others)\" ] && break; sleep 0.2; done";
    let flags = [&lab[..], &LOGIN].concat();
    let Some(finished) = ssh_hosts::run(&flags, pull) else { return };
    assert!(finished.code == Some(98), "{:?}: {}", finished.code, finished.stderr);
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}
