//! What runs in the pods of `k8s run`, as processes: the coordinator with its agents, and the ways of its results. And what
//! `k8s run` says where there is no cluster.

use std::fs;

use e2e::joined::Meeting;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::serve::Serve;
use e2e::wait;

fn pod(order: &str, results: &str) -> Finished {
    Plimsoll::new(["pod", order, "--results", results]).run()
}

#[test]
fn a_coordinator_keeps_its_results_until_they_are_fetched() {
    let (server, meeting) = (Serve::plain(), Meeting::new(2, 3_600));
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let results = folder.path().display().to_string();
    let (listen, keys, out) =
        (meeting.address.to_string(), meeting.keys(), format!("{results}/run"));
    let load = ["load", server.url(), "--rate", "300", "--duration", "10m", "--json", "-"];
    let joined = ["--agents", "2", "--listen", &listen, "--keys", &keys, "--out", &out];
    let always = ["pod", "coordinate", "--results", &results, "--"];
    let mut coordinator = Plimsoll::new(always.iter().chain(&load).chain(&joined)).start();
    let agents = meeting.agents(2);
    let intervals = folder.path().join("run/intervals.jsonl");
    wait::until("a second of it", || {
        fs::read_to_string(&intervals).ok().filter(|text| text.contains('\n'))
    });
    assert_eq!(pod("ended", &results).code, Some(1));
    assert_eq!(pod("results", &results).code, Some(1));
    assert_eq!(pod("interrupt", &results).code, Some(0));
    wait::until("its end", || (pod("ended", &results).code == Some(0)).then_some(()));
    assert!(!coordinator.has_ended(), "it waits until somebody comes");
    let sent = pod("results", &results);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let header = sent.stdout.lines().next().unwrap_or_default();
    let header: serde_json::Value = serde_json::from_str(header).expect("a line of JSON");
    assert_eq!(header["exit_code"], 130, "{header}");
    let names: Vec<_> = header["files"].as_array().expect("files").iter().collect();
    assert!(names.iter().any(|file| file["name"] == "run/summary.json"), "{header}");
    assert!(sent.stdout.contains("\"partial\""), "the command's own output comes first");
    assert_eq!(pod("fetched", &results).code, Some(0));
    let ended = coordinator.finish();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("the command has ended"));
    for agent in agents {
        assert_eq!(agent.finish().code, Some(0));
    }
}

#[test]
fn results_that_nobody_fetches_are_in_the_log() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let results = folder.path().display().to_string();
    let always = ["pod", "coordinate", "--results", &results, "--keep-for", "0", "--"];
    let ended = Plimsoll::new(always.iter().chain(&["load", "--help"])).run();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("Usage: plimsoll load"), "{}", ended.stdout);
    let ended = Plimsoll::new(always.iter().chain(&["load"])).run();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn what_cannot_run_in_a_cluster_is_one_line() {
    let load = ["load", "http://web.shop/", "--rate", "1k"];
    for (before, command, code, said) in [
        (vec![], vec!["find", "connections", "http://a/"], 2, "are for load, hold, find rate"),
        (vec![], vec!["load", "http://a/", "--hosts", "b"], 2, "k8s run sets itself"),
        (vec![], vec!["load", "http://a/", "--rat", "1"], 2, "did you mean --rate"),
        (vec!["--agents", "501"], load.to_vec(), 2, "1..=500"),
        (vec!["--memory", "1GB"], load.to_vec(), 2, "with Mi or Gi"),
        (vec!["--out", "/"], load.to_vec(), 2, "is there already"),
        (vec![], load.to_vec(), 1, "kubectl is not there"),
    ] {
        let always = ["k8s", "run", "--image", "registry.example/plimsoll:1"];
        let words = [&always[..], &before, &["--"], &command].concat();
        let ended = Plimsoll::without_path(&words).run();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn a_dry_run_prints_objects_and_keys_only_on_request() {
    let always = ["k8s", "run", "--image", "registry.example/plimsoll:1", "--dry-run"];
    let command = ["--", "find", "rate", "http://web.shop/", "--slo", "p99<50ms"];
    let printed = Plimsoll::without_path(&[&always[..], &command].concat()).run();
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert_eq!(printed.stdout.matches("\n---\n").count(), 6, "{}", printed.stdout);
    assert!(!printed.stdout.contains("ca.pem"));
    let printed =
        Plimsoll::without_path(&[&always[..], &["--inline-secrets"], &command].concat()).run();
    assert_eq!(printed.stdout.matches(".key: ").count(), 3, "{}", printed.stdout);
}
