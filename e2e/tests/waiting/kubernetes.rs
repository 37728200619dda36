//! Tests of the processes in the pods of `k8s run`: the coordinator with its agents, and the ways of its results; and
//! of `k8s run` says where there is no cluster.

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

/// Returns the objects of a run whose command has a secret in a header and in a file.
fn objects(flags: &[&str], header: &str) -> Vec<String> {
    let always = ["k8s", "run", "--image", "registry.example/plimsoll:1", "--dry-run"];
    let command =
        ["--", "load", "http://web.shop/", "-H", header, "--body", "body", "--rate", "1k"];
    let words = [&always[..], flags, &command].concat();
    let printed = Plimsoll::without_path(&words).with_file("body", header).run();
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    printed.stdout.split("\n---\n").skip(1).map(str::to_owned).collect()
}

#[test]
fn no_object_but_secrets_has_the_command() {
    let header = "Ocp-Apim-Subscription-Key: hunter2-sesame $(HOSTNAME) $$";
    for object in objects(&[], header) {
        assert!(!object.contains("hunter2") && !object.contains('$'), "{object}");
    }
    let (secrets, others): (Vec<_>, Vec<_>) = objects(&["--inline-secrets"], header)
        .into_iter()
        .partition(|object| object.contains("kind: \"Secret\"") || object.contains("kind: Secret"));
    assert_eq!((secrets.len(), others.len()), (3, 5));
    for object in others {
        let hidden = ["hunter2", "web.shop", "$", "aHVudGVyM", "h1bnRlcj", "odW50ZXIy"];
        assert!(!hidden.iter().any(|part| object.contains(part)), "{object}");
    }
    for secret in &secrets {
        // Nobody has another's key.
        assert_eq!(secret.matches(".key: ").count(), 1, "{secret}");
    }
}

#[test]
fn a_command_and_its_files_come_out_of_a_secret_as_they_went_in() {
    let serve = Serve::plain();
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let (order, results) = (folder.path().join("order"), folder.path().join("results"));
    fs::create_dir_all(&order).expect("an own folder is writable");
    fs::create_dir_all(&results).expect("an own folder is writable");
    let write = |name: &str, text: &str| {
        fs::write(order.join(name), text).expect("an own folder is writable");
    };
    let words = serde_json::json!({
        "words": ["load", "--targets", "in/targets", "-H", "x: $(HOME) $$", "--rate", "0", "-n", "20", "--json", "-"],
        "files": ["in/targets", "body"],
    });
    write("command", &words.to_string());
    write("file-0", &format!("POST {}\n@body\n", serve.url()));
    write("file-1", "hello");
    let [order, results] = [&order, &results].map(|dir| dir.display().to_string());
    let always = ["pod", "coordinate", "--results", &results, "--keep-for", "0", "--order", &order];
    let ended = Plimsoll::new(always).run();
    let summary = ended.summary(ended.code.expect("a code"));
    assert_eq!(summary.count("ok"), 20, "{}", ended.stderr);
    assert!(summary.count("bytes.sent") > 20 * "hello$(HOME) $$".len() as u64);
}

#[test]
fn a_dry_run_prints_objects_and_keys_only_on_request() {
    let always = ["k8s", "run", "--image", "registry.example/plimsoll:1", "--dry-run"];
    let command = ["--", "find", "rate", "http://web.shop/", "--slo", "p99<50ms"];
    let printed = Plimsoll::without_path(&[&always[..], &command].concat()).run();
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    // The coordinator's Job, Secret, name and policy, and a Job and a Secret for each of two agents.
    assert_eq!(printed.stdout.matches("\n---\n").count(), 8, "{}", printed.stdout);
    assert!(!printed.stdout.contains("ca.pem") && !printed.stdout.contains("web.shop"));
    let printed =
        Plimsoll::without_path(&[&always[..], &["--inline-secrets"], &command].concat()).run();
    assert_eq!(printed.stdout.matches(".key: ").count(), 3, "{}", printed.stdout);
}
