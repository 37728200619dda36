//! A server that reaches no limit, for which no cause may be named. `find.rs` names one; `nightly/causes.rs` has all of
//! them.

use std::fs;

use e2e::cgroup::{Group, GroupLimit};
use e2e::recipe;
use e2e::recipe::Answer;

/// A machine on which others measure, too, may make a search end without an interval.
const ATTEMPTS: usize = 2;

#[test]
fn a_healthy_server_names_none() {
    if let Err(why) = Group::new("causes", GroupLimit::CpuFirst) {
        return eprintln!("SKIPPED: recipes need control groups (run as root): {why}");
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
    let recipe = recipe::named("a healthy nginx");
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
