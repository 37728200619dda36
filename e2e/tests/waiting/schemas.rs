//! `plimsoll schema`: what commands write is described by the schemas that they print, field by field.

use std::fs;

use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use serde_json::Value;

fn schema(name: &str) -> Value {
    let printed = Plimsoll::new(["schema", name]).run();
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    serde_json::from_str(&printed.stdout).expect("a schema is JSON")
}

fn assert_described(name: &str, text: &str) {
    let document = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let faults = testkit::schema::faults(&schema(name), &document);
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

#[test]
fn what_runs_write_is_described() {
    let serve = Serve::start(&["--http", "0"], 1);
    let url = serve.url();
    let reset = "http://127.0.0.1:1/";
    let pace = ["--rate", "50", "-d", "1s"];
    let held = ["-c", "20", "--for", "1s", "--heartbeat", "500ms"];
    for (command, url, flags) in
        [("load", url, &pace[..]), ("load", reset, &pace), ("hold", url, &held)]
    {
        let places = ["--json", "out.json", "--out", "run", "--no-ui"];
        let ran = Plimsoll::new([&[command, url][..], flags, &places].concat()).run();
        let read = |name: &str| fs::read_to_string(ran.folder().join(name)).expect(name);
        assert_described("summary", &read("out.json"));
        assert_described("summary", &read("run/summary.json"));
        let manifest: Value = serde_json::from_str(&read("run/manifest.json")).expect("JSON");
        assert_described("plan", &manifest["plan"].to_string());
    }
}

#[test]
fn what_is_written_of_a_host_is_described() {
    let goal = ["--connections", "50k", "--json", "-"];
    let of_host = |command: &[&str]| Plimsoll::new([command, &goal].concat()).run().stdout;
    assert_described("doctor", &of_host(&["doctor"]));
    assert_described("tune", &of_host(&["tune", "plan"]));
    let words = ["watch", "--interval", "200ms", "--duration", "1s", "--json", "-"];
    let watched = Plimsoll::new(words).run().stdout;
    let lines: Vec<_> = watched.lines().collect();
    assert!(!lines.is_empty());
    lines.iter().for_each(|line| assert_described("watch", line));
}

#[test]
fn an_unknown_name_is_answered_with_those_that_exist() {
    let refused = Plimsoll::new(["schema", "sumary"]).run();
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("summary"), "{}", refused.stderr);
}
