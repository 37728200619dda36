//! Command lines of `compare`.

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
            vec!["lab", "lab --mode rfc9411"],
            "B: rfc9411 runs one test case; name it with --case 7.1 to --case 7.9",
        ),
        (
            vec!["lab", "lab rfc9411 --case 7.2"],
            "B: lab rfc9411 does not give one figure to compare; use a URL, lab, find or load",
        ),
        (
            vec!["serve", "serve"],
            "A: serve does not give one figure to compare; use a URL, lab, find or load",
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
            vec!["--metric", "p99", a, b],
            "A: a load is compared at a load that is named; add --rate 1k for both, or --rate 0 \
             for a closed loop, after two dashes",
        ),
        (
            vec!["--metric", "p99", a, b, "--", "--rate", "0"],
            "--metric p99 is no figure of load in a closed loop; compare with load --rate 1k, or \
             use another metric",
        ),
        (
            vec!["--metric", "p99", "lab", "lab"],
            "--metric p99 is no figure of lab on the axis rate; compare with load --rate 1k, or \
             use another metric",
        ),
        (
            vec![a, "http://127.0.0.1:2/ --json -"],
            "B: every round has an archive of its own, below that of the comparison; give --out \
             and --json to compare itself",
        ),
        (
            vec!["load --targets - --rate 9", "load --targets - --rate 9"],
            "A: --targets - reads standard input, and every round needs it again; name a file",
        ),
        (vec!["lab --help", "lab"], "A asks for help; name a measurement"),
        (
            vec![a, b, "--rounds", "5"],
            "--rounds \"5\" is not accepted; write a number of rounds from 6 to 200",
        ),
        (
            vec![a, b, "--metric", "p50"],
            "--metric \"p50\" is not accepted; write lower-bound, p99, throughput or client-cpu",
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
    assert_eq!((job.metric, job.unit), (Metric::LowerBound, "requests/s"));
    assert_eq!(job.b.args, ["find", "rate", b]);
    assert_eq!((job.rounds, job.seed, job.threshold), (10, 1, 0.0));
    assert!(job.a.skips_probe && job.b.skips_probe);
    let job = compare(&["lab", "lab --probe-timeouts=3s"]);
    assert!(job.a.skips_probe && !job.b.skips_probe);
    let job = compare(&[a, b, "--threshold", "2%", "--", "--rate", "1k", "--seed=3"]);
    assert_eq!((job.metric, job.unit, job.threshold), (Metric::P99, "ms", 0.02));
    assert_eq!(job.a.args, ["load", a, "--rate", "1k", "--seed=3"]);
    assert!(job.a.has_seed && !job.a.is_silent && !job.a.skips_probe);
    let job = compare(&[a, b, "--metric", "client-cpu", "--", "-r", "0", "--no-ui"]);
    assert_eq!((job.metric, job.unit, job.a.is_silent), (Metric::ClientCpu, "us", true));
    let job = compare(&[a, b, "--", "-r", "0"]);
    assert_eq!(job.metric, Metric::Throughput);
    let job = compare(&["plimsoll lab --find handshakes", "lab --find handshakes --tls 1.2"]);
    assert_eq!((job.metric, job.unit), (Metric::LowerBound, "handshakes/s"));
    assert_eq!(job.a.args, ["lab", "--find", "handshakes"]);
    // What is typed as one word may hold secrets in some of its own.
    let secret = "load http://127.0.0.1:1/ -r 5 -H 'Authorization: hunter2'";
    let job = compare(&[secret, "load http://127.0.0.1:2/ -r 5"]);
    assert!(job.a.args.contains(&"Authorization: hunter2".to_owned()));
    let args = job.args_redacted(["plimsoll", "compare", secret].into_iter().map(str::to_owned));
    let shown = format!("{args:?} {} {}", job.a.text, job.target_name());
    assert!(!shown.contains("hunter2") && shown.contains("-r 5"), "{shown}");
}
