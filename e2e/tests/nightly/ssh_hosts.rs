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
                for n in $(seq 200); do [ -e /proc/$A ] || break; sleep 0.1; done; \
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

#[test]
#[ignore = "takes ten minutes"]
fn a_host_that_is_killed_at_any_of_fifty_instants_leaves_a_truthful_report() {
    let load = ["load", URL, "--hosts", HOSTS, "--rate", "300", "--duration", "2s"];
    let flags = [&load[..], &LOGIN, &["--slo", "errors<100%", "--json", "out.json"]].concat();
    let (mut before_start, mut lost, mut after_end) = (0, 0, 0);
    for seed in 0..50 {
        let random = chance(seed + 1);
        // From the login of the hosts to a moment after the load's end.
        let wait_ms = random % 5_000;
        let host = (random >> 20) % 3 + 1;
        let victim = match (random >> 40) % 3 {
            0 => format!("$(agents {host})"),
            1 => format!("$(pgrep -P $P -f '10.77.0.{host} ')"),
            _ => format!("$(ip netns pids h{host} | sort -n | tail -n +2)"),
        };
        let kill = format!(
            "sleep {}.{:03}; kill -KILL {victim} 2> /dev/null",
            wait_ms / 1_000,
            wait_ms % 1_000
        );
        let Some(finished) = ssh_hosts::run(&flags, &kill) else { return };
        let shown = format!("seed {seed}, {wait_ms} ms, {victim}: {}", finished.stderr);
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
                let errors: u64 = summary.counts("errors").values().sum();
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
    assert!(lost > 0 && before_start > 0, "{before_start} {lost} {after_end}");
}
