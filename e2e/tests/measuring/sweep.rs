//! The sizing table of `lab sweep` as a user reads it, and as a script does.

use e2e::plimsoll::Plimsoll;

#[test]
fn a_handshake_for_every_request_costs_the_server_most_of_its_rate() {
    let flags = ["--vary", "keep-alive=on,off", "--rounds", "8", "--budget", "73s"];
    let finished = Plimsoll::new(
        [&["lab", "sweep"], &flags[..], &["--json", "out.json", "--", "--sut", "embedded"]]
            .concat(),
    )
    .run();
    let summary = finished.written(0);
    assert_eq!((summary.text("command"), summary.text("sizing.unit")), ("lab sweep", "requests/s"));
    assert_eq!(summary.count("sizing.rounds_made"), 8);
    let values = summary.at("sizing.values").as_array().expect("a list");
    let [on, off] = &values[..] else { panic!("{values:?}") };
    for (value, name) in [(on, "on"), (off, "off")] {
        assert_eq!(value["name"], format!("keep-alive={name}"));
        assert_eq!(value["settings"]["keep-alive"], name);
        assert!(value["per_cpu_per_s"].as_f64() > Some(0.0), "{value}");
        assert_eq!(value["rounds_used"], 8, "{value}");
    }
    assert!(on["goodput"].is_null() && on["per_cpu"].is_null(), "{on}");
    for figure in ["goodput", "per_cpu"] {
        let found = &off[figure];
        assert_eq!(found["finding"], "lower", "{found}");
        assert!(found["ratio_high"].as_f64() < Some(0.7), "{found}");
    }
    let rounds = summary.at("sizing.rounds").as_array().expect("a list");
    assert!(rounds.iter().all(|round| round["blocks"].as_array().is_some_and(|b| b.len() == 2)));
    // The table: the heading, and a line for each value.
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines[0].starts_with("Nothing to gain: no value carries more"), "{}", finished.stdout);
    let line = |word: &str| {
        let found = lines.iter().find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("no {word} in {}", finished.stdout))
    };
    assert!(line("difference, %").contains("requests/s"), "{}", finished.stdout);
    assert!(finished.stdout.contains("keep-alive=on"), "{}", finished.stdout);
    assert!(line(" to -").contains("(-"), "{}", finished.stdout);
    finished.assert_no_scratch();
}
