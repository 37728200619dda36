//! Measurements in turns of seconds: the sizing table of `lab sweep`, as a user reads it and as a
//! script does, and the configurations of `tune` beside Debian's.

use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::plimsoll::Plimsoll;

use super::alone;

const PATIENCE: Duration = Duration::from_secs(300);

#[test]
#[ignore = "takes 5 minutes"]
fn what_tune_writes_is_tried_beside_debians_default() {
    let _alone = alone();
    let certificate = Certificate::new();
    let both = certificate.both().display().to_string();
    for program in ["nginx", "haproxy"] {
        let goal =
            ["-c", "2k", "--cert", &both, "--backend", "127.0.0.1:8080", "--out", "proxy.cfg"];
        let words = [&["tune", program], &goal[..], &["--try", "--budget", "146s"]].concat();
        let finished = Plimsoll::new(words).start().finish_within(PATIENCE);
        assert_eq!(finished.code, Some(0), "{}\n{}", finished.stderr, finished.stdout);
        println!("{}", finished.stdout);
        for unit in ["requests/s", "handshakes/s"] {
            let lines = finished.stdout.lines();
            let mut table = lines.skip_while(|line| !line.trim_start().starts_with(unit));
            let heading =
                table.next().unwrap_or_else(|| panic!("no {unit} in {}", finished.stdout));
            assert!(heading.contains("per CPU"), "{heading}");
            // The figures of Debian's default, whose name is on the next line, and of the tuned one.
            for line in [table.next(), table.nth(1)].into_iter().flatten() {
                let is_number = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
                assert!(line.split("  ").filter(is_number).count() >= 2, "{line}");
            }
        }
        finished.assert_no_scratch();
    }
}

#[test]
#[ignore = "takes 75 s"]
fn a_handshake_for_every_request_costs_the_server_most_of_its_rate() {
    let _alone = alone();
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
    let blocks = summary.at("sizing.blocks").as_array().expect("a list");
    assert!(blocks.len() >= 16 && blocks.iter().all(|block| block["goodput_per_s"].is_number()));
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
