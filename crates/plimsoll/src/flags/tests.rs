//! Golden help texts, and the errors for unknown words.

use super::parse_words;
use super::*;

fn golden(name: &str, words: &[&str]) {
    let Err(Stop::Asked(text)) = parse_words(words) else { panic!("{words:?} shows no text") };
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn help_of_all() {
    golden("help", &["--help"]);
}

#[test]
fn help_of_load() {
    golden("help_load", &["load", "--help"]);
}

#[test]
fn help_of_find() {
    golden("help_find", &["find", "--help"]);
    for experiment in ["rate", "deliveries", "handshakes", "connections", "rfc9411"] {
        golden(&format!("help_find_{experiment}"), &["find", experiment, "--help"]);
    }
}

#[test]
fn help_of_compare() {
    golden("help_compare", &["compare", "--help"]);
}

#[test]
fn help_of_lab() {
    golden("help_lab", &["lab", "--help"]);
    golden("help_lab_rate", &["lab", "rate", "--help"]);
}

#[test]
fn help_of_hold() {
    golden("help_hold", &["hold", "--help"]);
}

#[test]
fn help_of_lab_sweep() {
    golden("help_lab_sweep", &["lab", "sweep", "--help"]);
}

#[test]
fn help_of_lab_hold() {
    golden("help_lab_hold", &["lab", "hold", "--help"]);
}

#[test]
fn help_of_serve() {
    golden("help_serve", &["serve", "--help"]);
}

#[test]
fn help_of_doctor() {
    golden("help_doctor", &["doctor", "--help"]);
}

#[test]
fn help_of_tune() {
    golden("help_tune", &["tune", "--help"]);
    for step in ["plan", "apply", "revert", "haproxy"] {
        golden(&format!("help_tune_{step}"), &["tune", step, "--help"]);
    }
}

#[test]
fn help_of_watch() {
    golden("help_watch", &["watch", "--help"]);
}

#[test]
fn help_of_report() {
    golden("help_report", &["report", "--help"]);
}

#[test]
fn short_and_long_help_are_the_same_and_fit() {
    for command in [
        "lab",
        "lab rate",
        "lab handshakes",
        "lab connections",
        "lab hold",
        "lab rfc9411",
        "find",
        "find rate",
        "load",
        "hold",
        "compare",
        "serve",
        "report",
    ] {
        let words: Vec<_> = command.split(' ').collect();
        let asked = |flag: &'static str| parse_words(&[&words[..], &[flag]].concat());
        let long = asked("--help").unwrap_err();
        assert_eq!(Some(&long), asked("-h").as_ref().err());
        assert_eq!(long.code(), 0);
        let Stop::Asked(text) = long else { panic!("{command} shows no help") };
        for line in text.lines() {
            assert!(line.chars().count() <= HELP_COLUMNS_MAX, "{command}: {line}");
        }
    }
}

#[test]
fn the_parser_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn complaints_are_one_line_with_a_fix() {
    const URL: &str = "http://127.0.0.1";
    for (words, line) in [
        (vec![], "no command given; try plimsoll lab, or plimsoll --help"),
        (vec!["laod"], "unknown command \"laod\"; did you mean load?"),
        (vec!["zzz"], "unknown command \"zzz\"; see plimsoll --help"),
        (vec!["tune", "plan"], "--connections is missing; see plimsoll tune plan --help"),
        // The verb was forgotten.
        (vec![URL], "\"http://127.0.0.1\" is not a command; write plimsoll load http://127.0.0.1"),
        (vec!["load", URL, "--rat", "5"], "unknown flag --rat; did you mean --rate?"),
        (vec!["load", URL, "--qps", "5"], "unknown flag --qps; write --rate"),
        (vec!["find", "rate", URL, "-z", "5s"], "unknown flag -z; write --duration"),
        (vec!["serve", "--workers", "2"], "unknown flag --workers; see plimsoll serve --help"),
        (vec!["load", URL, "-Z"], "unknown flag -Z; see plimsoll load --help"),
        (vec!["load", URL, "b"], "unexpected argument \"b\"; see plimsoll load --help"),
        (vec!["load", URL, "--rate"], "--rate needs a value; write --rate <RATE>"),
        (
            vec!["load", URL, "--rate", "fast"],
            "--rate \"fast\" is not accepted; write a rate such as 500, 500/s, 30/m or 2k/s",
        ),
        // A leading minus is a value here, not a flag.
        (
            vec!["load", URL, "--rate", "-5"],
            "--rate \"-5\" is not accepted; write a rate such as 500, 500/s, 30/m or 2k/s",
        ),
        (
            vec!["load", URL, "--rate", "11M"],
            "--rate \"11M\" is not accepted; write a rate of at most 10M/s",
        ),
        (
            vec!["load", URL, "--rate", "5", "--rate", "6"],
            "--rate was given more than once; give it once",
        ),
        (
            vec!["load", URL, "--body", "a", "--data", "b"],
            "--body and --data cannot be used together; drop one of them",
        ),
        (
            vec!["load", URL, "-k", "--cacert", "a"],
            "--insecure and --cacert cannot be used together; drop one of them",
        ),
        (
            vec!["load", URL, "--tls", "1.1"],
            "--tls \"1.1\" is not accepted; write a TLS version: 1.2 or 1.3",
        ),
        (
            vec!["load", URL, "--groups", "x25519,ffdhe"],
            "--groups \"ffdhe\" is not accepted; write a group: x25519, secp256r1, secp384r1 or \
             x25519mlkem768",
        ),
        (
            vec!["load", URL, "--arrivals", "bursts"],
            "--arrivals \"bursts\" is not accepted; write one of poisson, uniform",
        ),
        (
            vec!["load", URL, "--arrivals"],
            "--arrivals needs a value; write one of poisson, uniform",
        ),
        (
            vec!["load", URL, "--resume", "1.5"],
            "--resume \"1.5\" is not accepted; write a share from 0 to 1 such as 0.5 or 50%",
        ),
        (
            vec!["load", URL, "--connections", "0"],
            "--connections \"0\" is not accepted; write a number of connections from 1 to 10M, such \
             as 100 or 20k",
        ),
        (
            vec!["load", URL, "--requests-per-connection", "0"],
            "--requests-per-connection \"0\" is not accepted; write a whole number of at least 1, \
             such as 100, 20k or 2M",
        ),
        (
            vec!["load", URL, "-H", "Authorization secret"],
            "--header \"Authorization\" is not accepted; write a header such as 'Accept: text/html'",
        ),
        (
            vec!["load", URL, "--slo", "p99>5ms"],
            "--slo \"p99>5ms\" is not accepted; write a goal such as p99<50ms, p99.9<200ms or \
             errors<0.1%",
        ),
        (
            vec!["load", URL, "--seed", "x"],
            "--seed \"x\" is not accepted; write a whole number such as 1",
        ),
        (
            vec!["load", URL, "--no-ui=yes"],
            "unexpected value 'yes' for '--no-ui' found; no more were expected; see plimsoll load \
             --help",
        ),
        (
            vec!["report"],
            "report needs the directory of a run; for example: plimsoll report my-run",
        ),
        (
            vec!["report", "my-run", "--fail-if", "p99>10%"],
            "--baseline is missing; see plimsoll report --help",
        ),
        (
            vec!["serve", "--http", "::1:80"],
            "--http \"::1:80\" is not accepted; write an address such as 127.0.0.1:8080, \
             [::1]:8080, 0.0.0.0:8000-8009 or a bare port such as 8080 (on 127.0.0.1)",
        ),
        (
            vec!["find"],
            "no experiment and no URL given; for example: plimsoll find rate \
             http://127.0.0.1:8080/",
        ),
        (
            vec!["find", URL],
            "the experiment is missing before the URL; write plimsoll find rate http://127.0.0.1",
        ),
        (
            vec!["find", "-k", URL],
            "the experiment is missing before the URL; write plimsoll find rate http://127.0.0.1",
        ),
        (
            vec!["find", "speed", URL],
            "unknown experiment \"speed\"; use rate, deliveries, handshakes, connections or rfc9411",
        ),
        (
            vec!["lab", "now"],
            "unknown experiment \"now\"; use rate, handshakes, connections, hold, rfc9411 or sweep",
        ),
        (
            vec!["lab", URL],
            "unexpected argument \"http://127.0.0.1\"; the laboratory starts its own server; to \
             test another, use plimsoll find rate http://127.0.0.1",
        ),
        (
            vec!["lab", "-k", "connections"],
            "unexpected argument \"connections\"; write plimsoll lab connections first",
        ),
        (
            vec!["lab", "--find", "speed"],
            "unknown experiment \"speed\"; use rate, handshakes, connections, hold, rfc9411 or sweep",
        ),
        // A flag of another experiment, and one that this experiment sets by itself.
        (
            vec!["find", "rate", URL, "--push"],
            "unknown flag --push of find rate; find connections has it",
        ),
        (
            vec!["find", "handshakes", URL, "--data", "x"],
            "unknown flag --data of find handshakes; find rate, find deliveries, find connections and \
             find rfc9411 have it",
        ),
        (
            vec!["find", "rate", URL, "--case", "7.2"],
            "unknown flag --case of find rate; find rfc9411 has it",
        ),
        (
            vec!["find", "rate", URL, "--rate", "5"],
            "unknown flag --rate; a search sets the rate and length of every trial itself; use \
             --min, --max and --mode, or plimsoll load",
        ),
        (
            vec!["lab", "connections", "-c", "5k"],
            "unknown flag -c; the search raises the number of connections itself; limit it with \
             --max",
        ),
        (
            vec!["find", "connections", URL, "--no-keepalive"],
            "unknown flag --no-keepalive; held connections stay open; drop it, or use plimsoll load",
        ),
        (
            vec!["hold", URL, "--requests-per-connection", "5"],
            "unknown flag --requests-per-connection; held connections stay open; drop it, or use \
             plimsoll load",
        ),
        (
            vec!["find", "connections", URL, "--max", "0.5"],
            "--max \"0.5\" is not accepted; write a number of connections from 1 to 10M, such as \
             100 or 20k",
        ),
        (
            vec!["find", "rfc9411", URL, "--slo", "p99<5ms"],
            "unknown flag --slo; the RFC's own criteria apply",
        ),
        (
            vec!["find", "rate", URL, "--mode", "rfc9411"],
            "rfc9411 runs one test case; name it with --case 7.1 to --case 7.9",
        ),
        (vec!["hold", URL, "--duration", "5s"], "unknown flag --duration; write --for"),
        (vec!["lab", "hold", "-d", "5s"], "unknown flag -d; write --for"),
        (
            vec!["hold", URL, "--rate", "0"],
            "--rate \"0\" is not accepted; write a rate above 0 such as 500, 500/s or 2k/s",
        ),
        (
            vec!["hold", URL, "-c", "0"],
            "--connections \"0\" is not accepted; write a number of connections from 1 to 10M, \
             such as 100 or 20k",
        ),
        (
            vec!["hold", URL, "--opening", "0"],
            "--opening \"0\" is not accepted; write a number of connections from 1 to 1M, such as \
             512",
        ),
        (
            vec!["serve", "--tls-state", "full"],
            "--tls-state \"full\" is not accepted; write one of compact, rustls",
        ),
        (vec!["agent", "x"], "unexpected argument \"x\"; see plimsoll agent --help"),
    ] {
        assert_eq!(parse_words(&words), Err(Stop::Usage(line.to_owned())), "{words:?}");
    }
}

#[test]
fn the_hidden_command_is_there_and_not_shown() {
    let Ok(Command::Agent(agent)) = parse_words(&["agent"]) else { panic!("no agent") };
    assert_eq!((agent.join, agent.write_keys), (None, None));
    let Err(Stop::Asked(help)) = parse_words(&["--help"]) else { panic!("no help") };
    assert!(!help.contains("agent"), "{help}");
    let version = concat!("plimsoll ", env!("CARGO_PKG_VERSION"), " (");
    let Err(Stop::Asked(text)) = parse_words(&["--version"]) else { panic!("no version") };
    let build = text.strip_prefix(version).and_then(|rest| rest.strip_suffix(")\n"));
    let (commit, target) = build.and_then(|build| build.split_once(", ")).expect("two parts");
    assert!(!commit.is_empty() && target.contains("-linux-"), "{text}");
}
