//! Golden help texts, and the errors for unknown words.

use super::parse_words;
use super::*;

const URL: &str = "http://127.0.0.1";

fn golden(name: &str, words: &[&str]) {
    let Err(Stop::Asked(text)) = parse_words(words) else { panic!("{words:?} shows no text") };
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Returns the words of every command that is shown, the root's first.
fn commands() -> Vec<Vec<String>> {
    fn below(command: &clap::Command, words: &[String], found: &mut Vec<Vec<String>>) {
        found.push(words.to_vec());
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            below(inner, &[words, &[inner.get_name().to_owned()]].concat(), found);
        }
    }
    let mut found = Vec::new();
    below(&Cli::command(), &[], &mut found);
    found
}

/// Returns the help of a command in a terminal of the given number of columns.
fn help(words: &[String], flag: &str, columns: usize) -> String {
    let words = words.iter().map(String::as_str).chain([flag]);
    let args: Vec<_> = std::iter::once("plimsoll").chain(words).map(OsString::from).collect();
    let Err(Stop::Asked(text)) = parse_from(args, Some(columns), false) else { panic!("no help") };
    text
}

#[test]
fn examples_fit_into_80_columns_as_they_are() {
    fn check(command: &clap::Command) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        fits(&text.lines().filter(|line| line.starts_with(' ')).collect::<Vec<_>>().join("\n"), 80);
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

fn fits(text: &str, columns: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= columns, "{columns}: {line}");
    }
}

#[test]
fn help_in_full() {
    for words in commands() {
        let name = [&["help".to_owned()][..], &words].concat().join("_");
        golden(&name, &[words.iter().map(String::as_str).collect(), vec!["--help"]].concat());
    }
}

#[test]
fn help_in_short() {
    for words in [
        &[][..],
        &["load"],
        &["hold"],
        &["find", "rate"],
        &["lab", "rate"],
        &["compare"],
        &["serve"],
    ] {
        let name = [&["short_help"][..], words].concat().join("_");
        golden(&name, &[words, &["-h"]].concat());
    }
}

#[test]
fn short_help_fits_on_a_screen() {
    let mut long = Vec::new();
    for words in commands() {
        for columns in [80, HELP_COLUMNS_MAX] {
            let text = help(&words, "-h", columns);
            let lines = text.lines().count();
            if lines > 40 {
                long.push((words.join(" "), columns, lines));
            }
            fits(&text, columns);
        }
        let text = help(&words, "-h", 80);
        let is_group = words.is_empty() || words == ["tune"] || words == ["k8s"];
        assert!(is_group || text.contains("\nExamples:\n"), "{text}");
        assert!(text.contains("--help"), "{text}");
    }
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn full_help_has_every_flag_and_names_protocols_last() {
    const PROTOCOLS: [&str; 3] = ["WebSocket:", "MQTT:", "Raw TCP and TLS:"];
    for words in commands() {
        for columns in [80, 100] {
            let text = help(&words, "--help", columns);
            fits(&text, columns);
        }
        let text = help(&words, "--help", 100);
        let mut command = &Cli::command();
        for word in &words {
            command = command.find_subcommand(word).unwrap();
        }
        let is_searching = words.len() == 2 && ["find", "lab"].contains(&words[0].as_str());
        let is_refused = |arg: &clap::Arg| {
            let heading = arg.get_help_heading().unwrap_or_default();
            let path = words.join(" ");
            ["find deliveries", "find rfc9411", "lab rfc9411"].contains(&path.as_str())
                && PROTOCOLS.contains(&format!("{heading}:").as_str())
        };
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_refused(arg)) {
            let long = arg.get_long().map_or_else(String::new, |long| format!("--{long}"));
            assert!(text.contains(&long), "{words:?} {long}");
        }
        if is_searching && !["hold", "rfc9411", "sweep"].contains(&words[1].as_str()) {
            assert!(text.contains("97 unstable or undecided"), "{text}");
        }
        let headings: Vec<_> = text.lines().filter(|line| line.ends_with(':')).collect();
        let first = headings.iter().position(|line| PROTOCOLS.contains(line));
        let after = headings[first.unwrap_or(headings.len())..].iter();
        assert!(after.clone().all(|line| PROTOCOLS.contains(line)), "{words:?} {headings:?}");
    }
}

#[test]
fn every_flag_of_a_short_help_exists() {
    let mut parser = Cli::command();
    parser.build();
    for (path, flags) in help::CORE {
        let mut command = &parser;
        for word in path.split(' ') {
            command = command.find_subcommand(word).unwrap();
        }
        for flag in flags.iter().flat_map(|group| group.split(' ')) {
            assert!(command.get_arguments().any(|arg| arg.get_id() == flag), "{path} {flag}");
        }
    }
    let listed: Vec<_> = help::GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let mut shown: Vec<_> = Cli::command()
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .map(|one| one.get_name().to_owned())
        .collect();
    shown.sort();
    let mut listed = listed;
    listed.sort_unstable();
    assert_eq!(shown, listed);
}

#[test]
fn the_parser_is_consistent() {
    Cli::command().debug_assert();
}

/// Asserts that each command line is refused with its line.
fn complains<'a>(cases: impl IntoIterator<Item = (Vec<&'a str>, &'a str)>) {
    for (words, line) in cases {
        assert_eq!(parse_words(&words), Err(Stop::Usage(line.to_owned())), "{words:?}");
    }
}

#[test]
fn unknown_words_are_answered_in_one_line_with_a_fix() {
    complains([
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
    ]);
}

#[test]
fn bad_values_of_a_load_are_answered_in_one_line_with_a_fix() {
    complains([
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
    ]);
}

#[test]
fn bad_words_of_other_commands_are_answered_in_one_line_with_a_fix() {
    complains([
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
            vec!["find", "connections", URL, "--max", "0.5"],
            "--max \"0.5\" is not accepted; write a number of connections from 1 to 10M, such as \
             100 or 20k",
        ),
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
    ]);
}

#[test]
fn experiments_are_named_and_flags_of_others_refused_in_one_line() {
    complains([
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
            "unknown experiment \"speed\"; use rate, deliveries, handshakes, connections, storm or rfc9411",
        ),
        (
            vec!["lab", "now"],
            "unknown experiment \"now\"; use rate, handshakes, connections, storm, hold, rfc9411 or sweep",
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
        // A flag of another experiment, and one that this experiment sets by itself.
        (
            vec!["find", "rate", URL, "--push"],
            "unknown flag --push of find rate; find connections has it",
        ),
        (
            vec!["find", "handshakes", URL, "--data", "x"],
            "unknown flag --data of find handshakes; find rate, find deliveries, find connections, \
             find storm and find rfc9411 have it",
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
            vec!["find", "rfc9411", URL, "--slo", "p99<5ms"],
            "unknown flag --slo; the RFC's own criteria apply",
        ),
        (
            vec!["find", "rfc9411", URL],
            "rfc9411 runs one test case; name it with --case 7.1 to --case 7.9",
        ),
        (vec!["hold", URL, "--duration", "5s"], "unknown flag --duration; write --for"),
        (vec!["lab", "hold", "-d", "5s"], "unknown flag -d; write --for"),
    ]);
}

#[test]
fn flags_of_other_programs_are_answered_with_ours() {
    for (words, part) in [
        // wrk, wrk2.
        (vec!["load", URL, "-R", "500"], "unknown flag -R; write --rate"),
        (vec!["load", URL, "--latency"], "always shows corrected latency"),
        (vec!["load", URL, "-L"], "redirects are not followed (curl)"),
        (vec!["load", URL, "-s", "a.lua"], "--targets FILE"),
        // hey, oha.
        (vec!["load", URL, "-q", "100"], "-q is --no-ui here; for a rate write --rate 100"),
        (vec!["load", URL, "-m", "POST"], "for a method write -X, --method"),
        (vec!["load", URL, "-d", "{\"a\": 1}"], "for a body write --data"),
        (vec!["load", URL, "-t", "20s"], "--connect-timeout bound waits"),
        (vec!["load", URL, "-D", "body"], "--body FILE"),
        (vec!["load", URL, "-j"], "write --json -"),
        (vec!["load", URL, "-o", "a.csv"], "--json FILE, or --out DIR"),
        (vec!["load", URL, "--http2"], "write --http 2"),
        (vec!["find", "rate", URL, "--h2c"], "write --http 2"),
        (vec!["load", URL, "--http3"], "HTTP/3 is not spoken"),
        // vegeta: one dash.
        (vec!["load", URL, "-rate=500"], "unknown flag -rate; write --rate"),
        (vec!["load", URL, "-duration", "5s"], "unknown flag -duration; write --duration"),
        (vec!["load", URL, "-timeout=5s"], "unknown flag -timeout; --deadline marks late answers"),
        (vec!["load", URL, "-root-certs", "a"], "unknown flag -root-certs; write --cacert"),
        // k6, h2load, ab, curl.
        (vec!["load", URL, "--vus", "5"], "write --connections"),
        (vec!["load", URL, "--rps", "5"], "write --rate"),
        (vec!["load", URL, "--max-concurrent-streams", "5"], "write --streams"),
        (vec!["load", URL, "-p", "post"], "--body FILE (ab)"),
        (vec!["load", URL, "-u", "me:secret"], "for credentials write --header 'Authorization: …'"),
        (vec!["load", URL, "--connect-to", "a:1:b:2"], "write --resolve"),
        (vec!["load", URL, "--timeout", "5s"], "--linger ends the wait"),
        // Names that mean something else in another command.
        (vec!["load", "mqtt://a", "--mqtt", "5"], "write --mqtt-version"),
        (vec!["serve", "--tls", "7443"], "write --tcp-tls"),
        (vec!["watch", "--for", "5s"], "write --duration"),
        (vec!["load", URL, "--for", "5s"], "write --duration"),
        (vec!["find", "rate", URL, "--handshake-only"], "write find handshakes"),
        (vec!["lab", "--find", "connections"], "name the experiment"),
        (vec!["find", "-k", "rate", URL], "the experiment comes first; write plimsoll find rate"),
    ] {
        let Err(Stop::Usage(line)) = parse_words(&words) else { panic!("{words:?}") };
        assert!(line.contains(part) && !line.contains("secret"), "{words:?}: {line}");
    }
}

#[test]
fn hidden_commands_are_there_and_not_shown() {
    let Ok(Command::Agent(agent)) = parse_words(&["agent"]) else { panic!("no agent") };
    assert_eq!((agent.join, agent.write_keys), (None, None));
    let Err(Stop::Asked(help)) = parse_words(&["--help"]) else { panic!("no help") };
    assert!(!help.contains("pod ") && help.contains("  agent "), "{help}");
    let Err(Stop::Asked(help)) = parse_words(&["agent", "--help"]) else { panic!("no help") };
    assert!(!help.contains("--nonce") && help.contains("--join"), "{help}");
    let version = concat!("plimsoll ", env!("CARGO_PKG_VERSION"), " (");
    let Err(Stop::Asked(text)) = parse_words(&["--version"]) else { panic!("no version") };
    let build = text.strip_prefix(version).and_then(|rest| rest.strip_suffix(")\n"));
    let (commit, target) = build.and_then(|build| build.split_once(", ")).expect("two parts");
    assert!(!commit.is_empty() && target.contains("-linux-"), "{text}");
}
