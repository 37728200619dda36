//! Command lines of `compare`.

use std::ffi::OsString;

use plimsoll_model::Nanos;
use plimsoll_model::compare::Metric;

use super::{Asked, build, refused};

#[test]
fn bad_comparisons() {
    const URLS: [&str; 2] = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
    let [a, b] = URLS;
    for (words, line) in [
        (
            vec![a],
            "compare needs two things to measure; for example: plimsoll compare 'lab --sut haproxy' \
             'lab --sut nginx'",
        ),
        (vec!["lab", "lab 'x"], "B is not a command line: a quote is not closed; close or drop it"),
        (vec!["lab --sutt x", "lab"], "A: unknown flag --sutt; did you mean --sut?"),
        (
            vec!["lab", "lab rfc9411"],
            "B: rfc9411 runs one test case; name it with --case 7.1 to --case 7.9",
        ),
        (
            vec!["lab", "lab rfc9411 --case 7.2"],
            "B: lab rfc9411 cannot be measured in turns of a few seconds; compare URLs, or rates or \
             handshakes of lab or find, or loads",
        ),
        (
            vec!["serve", "serve"],
            "A: serve cannot be measured in turns of a few seconds; compare URLs, or rates or \
             handshakes of lab or find, or loads",
        ),
        (
            vec!["lab", a],
            "A is lab on the axis rate, and B is find on the axis rate; compare what gives the \
             same figure",
        ),
        (
            vec!["load http://127.0.0.1:1/ --rate 5", "load http://127.0.0.1:1/ --rate 0"],
            "A is load at a given rate, and B is load in a closed loop; compare what gives the \
             same figure",
        ),
        (
            vec!["--metric", "throughput", a, b],
            "A: a load is compared at a load that is named; add --rate 1k for both, or --rate 0 \
             for a closed loop, after two dashes",
        ),
        (
            vec![a, b, "--", "--rate", "5", "--event", "script:true@1s"],
            "A: --event is for one load, and compare makes many in turn; drop it, or use load",
        ),
        (
            vec!["--metric", "p99", a, b, "--", "--rate", "0"],
            "--metric p99 is no figure of load in a closed loop; use throughput or client-cpu",
        ),
        (
            vec!["--metric", "throughput", "lab", "lab"],
            "--metric throughput is no figure of lab on the axis rate; use goodput or server-cpu or \
             p50 or p99",
        ),
        (
            vec![a, "http://127.0.0.1:2/ --json -"],
            "B: a comparison has one archive and one result; give --out, --json and the like \
             to compare itself",
        ),
        (
            vec!["load --targets - --rate 9", "load --targets - --rate 9"],
            "A: --targets - reads standard input, and every round needs it again; name a file",
        ),
        (vec!["lab --help", "lab"], "A asks for help; name a measurement"),
        (
            vec![a, b, "--rounds", "7"],
            "--rounds \"7\" is not accepted; write a number of rounds from 8 to 200",
        ),
        (
            vec![a, b, "--metric", "lower-bound"],
            "--metric \"lower-bound\" is not accepted; write goodput, server-cpu, p50, p99, \
             throughput or client-cpu",
        ),
        (
            vec![a, b, "--budget", "30s"],
            "--budget 30.0 s is too short for 8 rounds; give 78.0 s or more",
        ),
        (
            vec!["lab connections", "lab connections"],
            "A: lab connections cannot be measured in turns of a few seconds; compare URLs, or \
             rates or handshakes of lab or find, or loads",
        ),
        (
            vec!["load http://127.0.0.1:1/ -r 5 --processes 2", "load http://127.0.0.1:1/ -r 5"],
            "A and B are loaded by the same processes, and name different numbers of them; give \
             --processes for both, after two dashes",
        ),
    ] {
        let (said, code) = refused(&[&["compare"], &words[..]].concat(), b"GET http://127.0.0.1/");
        assert_eq!((said.as_str(), code), (format!("plimsoll: {line}").as_str(), 2), "{words:?}");
    }
}

#[test]
fn comparisons() {
    let compare = |words: &[&str]| match build(&[&["compare"], words].concat(), b"") {
        Ok(Asked::Compare(job)) => job,
        other => panic!("{words:?}: {other:?}"),
    };
    let [a, b] = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
    // URLs are searched, unless the flags or the metric ask for a load.
    let job = compare(&[a, b]);
    assert_eq!(job.metrics, [Metric::Goodput, Metric::ServerCpu]);
    assert_eq!(job.of.unit(Metric::Goodput), "requests/s");
    assert_eq!(job.arms[1].args, ["find", "rate", b]);
    assert_eq!((job.turns.rounds, job.turns.seed, job.threshold), (24, 1, 0.0));
    assert_eq!(job.turns.budget, Some(Nanos::from_secs(300)));
    assert!(job.notes.is_empty(), "{:?}", job.notes);
    // More time is more rounds, unless they are named.
    assert_eq!(compare(&[a, b, "--budget", "1h"]).turns.rounds, 200);
    assert_eq!(compare(&[a, b, "--budget", "1h", "--rounds", "8"]).turns.rounds, 8);
    let job = compare(&["lab", "lab --mode=quick", "--", "-c50", "--slo", "p99<9ms"]);
    assert!(job.notes[0].ends_with("--slo --mode changes nothing"), "{:?}", job.notes);
    let job = compare(&[a, b, "--threshold", "2%", "--", "--rate", "1k", "--seed=3"]);
    assert_eq!((job.metrics, job.of.unit(Metric::P99)), (vec![Metric::P99], "ms"));
    assert_eq!((job.threshold, job.turns.rounds, job.turns.budget), (0.02, 12, None));
    assert_eq!(job.arms[0].args, ["load", a, "--rate", "1k", "--seed=3"]);
    assert!(job.arms[0].has_seed);
    let job = compare(&[a, b, "--metric", "client-cpu", "--", "-r", "0", "--no-ui"]);
    assert_eq!((job.metrics, job.of.unit(Metric::ClientCpu)), (vec![Metric::ClientCpu], "us"));
    let job = compare(&[a, b, "--", "-r", "0"]);
    assert_eq!(job.metrics, [Metric::Throughput]);
    // A URL without a rate is saturated, whatever is compared.
    let job = compare(&[a, b, "--metric", "p99"]);
    assert_eq!((job.metrics, job.arms[0].args.len()), (vec![Metric::P99], 3));
    let job = compare(&["plimsoll lab handshakes", "lab handshakes --tls 1.2"]);
    assert_eq!(job.of.unit(Metric::Goodput), "handshakes/s");
    assert_eq!(job.arms[0].args, ["lab", "handshakes"]);
    // What is typed as one word may hold secrets in some of its own.
    let secret = "load http://127.0.0.1:1/ -r 5 -H 'Authorization: hunter2'";
    let job = compare(&[secret, "load http://127.0.0.1:2/ -r 5"]);
    assert!(job.arms[0].args.contains(&"Authorization: hunter2".to_owned()));
    let other = "http://127.0.0.1:2/?token=hunter2";
    let args = ["plimsoll", "compare", secret, other, "--seed", "3", "--", "-H", "x: hunter2"];
    let line = job.command_line(args.map(OsString::from));
    let shown = format!("{line:?} {} {}", job.arms[0].text, job.target_name());
    assert!(!shown.contains("hunter2"), "{shown}");
    let hidden = "load http://127.0.0.1:1/ --rate 5 --header '<redacted>'";
    let other = "load http://127.0.0.1:2/ --rate 5";
    assert_eq!(line, ["plimsoll", "compare", hidden, other, "--seed", "3"]);
}
