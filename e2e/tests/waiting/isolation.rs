//! A laboratory whose hosts are network namespaces: each counts for itself, and however it ends, nothing of
//! it is left. These tests need CAP_SYS_ADMIN; without it they say so and check nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

use e2e::namespace::is_privileged;
use e2e::plimsoll::{Plimsoll, Running};
use e2e::process::{self, Process};
use e2e::wait;

fn hold(flags: &[&str]) -> Plimsoll {
    let always = ["lab", "hold", "--sut", "haproxy", "--connections", "300", "--json", "out.json"];
    Plimsoll::new([&always[..], &["--out", "run"], flags].concat())
}

/// Returns the network namespace of a process, such as `net:[4026531840]`.
fn network(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Waits for a hold that makes load, and returns its namespaces. They stay open: the kernel gives the number of one that
/// is gone to the next, which may be another test's.
fn networks(running: &mut Running) -> BTreeMap<PathBuf, File> {
    let file = running.folder().join("run/intervals.jsonl");
    wait::until("a second of load", || {
        assert!(!running.has_ended(), "the lab ended too soon");
        fs::read_to_string(&file).ok().filter(|text| text.contains('\n'))
    });
    let open = |seen: &Process| {
        let file = File::open(format!("/proc/{}/ns/net", seen.pid)).ok()?;
        Some((fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?, file))
    };
    running.descendants().iter().filter_map(open).collect()
}

/// Returns every process that is in one of `networks` or keeps one open, but for this one and those that it starts.
fn holders(networks: &BTreeMap<PathBuf, File>) -> Vec<PathBuf> {
    let others = process::entries(Path::new("/proc")).into_iter();
    let own = env::current_exe().ok();
    let folders = others.filter(|folder| fs::read_link(folder.join("exe")).ok() != own);
    let holds = |folder: &PathBuf| {
        let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let links = files.map(|file| file.path()).chain([folder.join("ns/net")]);
        links.filter_map(|link| fs::read_link(link).ok()).any(|link| networks.contains_key(&link))
    };
    folders.filter(holds).collect()
}

/// Returns the highest TCP established of each host of the archive.
fn established(folder: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(folder.join("run/hosts.jsonl")).expect("archived");
    let (mut at, mut most) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("one JSON object in each line");
        let host = line["host"].as_str().expect("a name").to_owned();
        if let Some(series) = line["series"].as_array() {
            let place = series.iter().position(|one| one["metric"] == "tcp_established");
            at.insert(host, place.expect("TCP is counted"));
        } else if let Some(value) = line["values"][at[&host]].as_f64() {
            let most = most.entry(host).or_insert(0.0f64);
            *most = most.max(value);
        }
    }
    most
}

#[test]
fn every_host_counts_for_itself() {
    if !is_privileged() {
        return;
    }
    let mut running = hold(&["--isolate", "netns", "--for", "3s"]).start();
    let networks = networks(&mut running);
    assert_eq!(networks.len(), 3, "{networks:?}");
    assert!(!networks.contains_key(&network(running.pid()).expect("it runs")));
    let haproxy = running.named("haproxy").pop().expect("the SUT runs");
    let links = fs::read_to_string(format!("/proc/{}/net/dev", haproxy.pid)).expect("links");
    assert!(links.contains("clients:") && links.contains("backends:"), "{links}");
    let finished = running.finish();
    let summary = finished.written(0);
    assert_eq!(summary.text("settings.isolate"), "netns");
    assert_eq!(holders(&networks), Vec::<PathBuf>::new());
    let most = established(&finished.folder());
    let names: Vec<_> = most.keys().map(String::as_str).collect();
    assert_eq!(names, ["backends", "clients", "sut"]);
    // On one loopback all three would be the sum of both ends.
    assert_eq!(most["clients"], 300.0, "{most:?}");
    assert!((1.0..300.0).contains(&most["backends"]), "{most:?}");
    assert!((300.0..600.0).contains(&most["sut"]), "{most:?}");
}

#[test]
fn nothing_is_left_however_it_ends() {
    if !is_privileged() {
        return;
    }
    for end in ["Ctrl-C", "kill -9 of the coordinator", "kill -9 of the supervisor"] {
        let mut running = hold(&["--isolate", "netns", "--for", "10m"]).start();
        let networks = networks(&mut running);
        assert_eq!(networks.len(), 3, "{end}: {networks:?}");
        assert!(!holders(&networks).is_empty());
        match end {
            "Ctrl-C" => running.signal_group("INT"),
            "kill -9 of the coordinator" => running.signal("KILL"),
            _ => {
                let haproxy = running.named("haproxy").pop().expect("the SUT runs");
                Process::of(haproxy.ppid).expect("HAProxy's parent").kill();
            }
        }
        wait::until("the end of the coordinator", || running.has_ended().then_some(()));
        running.assert_nothing_left();
        running.assert_no_scratch();
        assert_eq!(holders(&networks), Vec::<PathBuf>::new(), "{end}");
    }
}

#[test]
fn without_privilege_all_share_loopback_and_the_report_says_so() {
    let before = r#"exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$0" "$@""#;
    let flags = ["lab", "hold", "--sut", "haproxy", "-c", "50", "--for", "1s", "--out", "run"];
    let auto = Plimsoll::after(
        before,
        &[&flags[..], &["--isolate", "auto", "--json", "out.json"]].concat(),
    )
    .run();
    assert_eq!(auto.written(0).text("settings.isolate"), "none");
    assert!(auto.stderr.contains("no separate hosts: "), "{}", auto.stderr);
    assert!(auto.stderr.contains("cannot be distinguished from"), "{}", auto.stderr);
    let netns = Plimsoll::after(before, &[&flags[..], &["--isolate", "netns"]].concat()).run();
    assert_eq!(netns.code, Some(1), "{}", netns.stderr);
    assert!(netns.stderr.contains("use --isolate none"), "{}", netns.stderr);
}

#[test]
fn wishes_that_exclude_each_other_are_refused() {
    for (arguments, said) in [
        (vec!["lab", "--isolate", "netns", "--source", "127.0.0.0/24"], "--source names addresses"),
        (
            vec!["compare", "lab --isolate netns", "lab --isolate none"],
            "A and B have the same clients",
        ),
    ] {
        let refused = Plimsoll::new(&arguments).run();
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}
