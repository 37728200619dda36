//! A server that reaches no limit, for which no cause may be named. `find.rs` names one; `nightly/causes.rs` has all of
//! them.

use std::fs;

use e2e::recipe;
use e2e::recipe::Answer;

/// A machine on which others measure, too, may make a search end without an interval.
const ATTEMPTS: usize = 2;

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !is_root {
        eprintln!("SKIPPED: recipes need namespaces and priorities (run as root)");
    }
    is_root
}

fn assert_named(name: &str) {
    if !is_root() {
        return;
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
    let recipe = recipe::named(name);
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let found = recipe.run(env!("CARGO_BIN_EXE_fault"), None).expect("this host can");
        match recipe.judge(&found, host.trim()) {
            Answer::Right => return,
            Answer::NoInterval => seen.push(found),
            answer => panic!("{}: {found:#?}", answer.name()),
        }
    }
    panic!("no interval: {seen:#?}");
}

#[test]
fn a_healthy_server_names_none() {
    assert_named("a healthy nginx");
}
