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
