//! Command lines of cases: what is refused, with its line, and what is understood.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{ServerName, Trust};
use plimsoll_model::rfc9411::SUSTAIN_RECOMMENDED;

use super::*;
use crate::flags::shared::RequestFlags;
use crate::flags::{Command, parse_words};
use crate::plan;
use crate::plan::Job;

const URL: &str = "http://127.0.0.1:9/{size}";
const TLS: &str = "https://127.0.0.1:9/{size}";

/// Returns a host with 4 CPUs on which no name has an address.
fn inputs() -> Inputs {
    Inputs {
        stdin: Box::new(&b"GET http://127.0.0.1:9/a\nGET https://127.0.0.2:9/b\n"[..]),
        stdin_reader: None,
        resolve: |_, _| Err(std::io::Error::other("no such name")),
        accepts: |_| false,
        owns: |_| true,
        variable: |_| None,
        is_alive: |_| true,
        cpus: 4,
        source_ports: 28_232,
    }
}

fn find(words: &[&str]) -> Result<Rfc9411Job> {
    match parse_words(&[&["find", "rfc9411"], words].concat())? {
        Command::Find(experiment) => case_of(plan::find(&experiment, &mut inputs())),
        other => panic!("{other:?}"),
    }
}

fn lab(words: &[&str]) -> Result<Rfc9411Job> {
    match parse_words(&[&["lab", "rfc9411", "--sut", "embedded"], words].concat())? {
        Command::Lab(command) => {
            let experiment = command.experiment().unwrap();
            let scheme = if experiment.is_tls() { "https" } else { "http" };
            let url = format!("{scheme}://127.0.0.1:80/");
            let to = Destination::laboratory(url, RequestFlags::default(), Trust::Insecure, None);
            case_of(plan::lab(experiment, &to, &mut inputs()))
        }
        other => panic!("{other:?}"),
    }
}

fn case_of(job: Result<Job>) -> Result<Rfc9411Job> {
    match job? {
        Job::Rfc9411(job) => Ok(job),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_contradicts_a_case_is_refused_in_one_line() {
    let held = [URL, "--case", "7.5", "--target", "100"];
    for (words, line) in [
        (vec![URL], "rfc9411 runs one test case; name it with --case 7.1 to --case 7.9"),
        (
            vec![URL, "--case", "7.6"],
            "--case 7.6 is about HTTPS, and http://127.0.0.1:9/1000 is http; write https://, or \
             use --case 7.2",
        ),
        (
            vec!["http://127.0.0.1:9/", "--case", "7.2"],
            "--case 7.2 asks for objects of several sizes, and the URL is the same for all; \
             write {size} where the bytes go, as in http://host/{size} or -H 'size: {size}', \
             or choose one with --object-size",
        ),
        (
            vec![URL, "--case", "7.2", "--slo", "p99<5ms"],
            "unknown flag --slo; the RFC's own criteria apply",
        ),
        (
            vec![TLS, "--case", "7.6", "--resume", "1"],
            "unknown flag --resume; every handshake must be a full one",
        ),
        (
            vec![URL, "--case", "7.3", "-X", "POST"],
            "--case 7.3 requests objects with GET, so --method does not apply; drop \
             --method, or use --case 7.1",
        ),
        (
            vec![URL, "--case", "7.4", "--target", "5"],
            "--case 7.4 runs at half of what other cases reached, not at a target; drop \
             --target; see --measured-cps and --measured-tps",
        ),
        (
            held[..3].to_vec(),
            "--case 7.5 needs the number of connections; give --target, such as --target 10k",
        ),
        (
            vec![URL, "--case", "7.2", "--target", "1Gbit/s"],
            "--case 7.2 counts connections/s, not bits; write --target 10k",
        ),
        (
            vec![URL, "--case", "7.2", "--object-size", "mixed"],
            "--case 7.2 has no mixed objects; use --object-size mixed with --case 7.3 or 7.7",
        ),
        (
            vec![URL, "--case", "7.4", "--measured-cps", "5,6"],
            "--measured-cps has 2 figures for 3 object sizes; give one for each, or choose with \
             --object-size",
        ),
        (
            vec!["http://10.0.0.1/{size}", "--case", "7.2", "--target", "500"],
            "--target needs 500 connections/s, more than the 329 that the ports of 1 address \
             allow: each stays in TIME_WAIT for 60 s; give 2 addresses with --source, or lower --target",
        ),
        (
            vec!["--case", "7.1"],
            "no URL given; for example: plimsoll find rfc9411 http://127.0.0.1:8080/",
        ),
    ] {
        let stop = find(&words).expect_err("refused");
        let said = stop.complaint().unwrap_or_default();
        assert_eq!((said, stop.code()), (format!("plimsoll: {line}"), 2), "{words:?}");
    }
    for (value, flag) in [("7.0", "--case"), ("0", "--target"), ("90s30ms", "--sustain")] {
        let stop = find(&[URL, flag, value]).expect_err("refused");
        assert!(stop.complaint().is_some_and(|line| line.contains("is not accepted")), "{flag}");
    }
    assert!(lab(&["--case", "7.1"]).is_err());
}

#[test]
fn cases_are_sessions_of_their_objects() {
    let job = find(&[URL, "--case", "7.2"]).expect("accepted");
    let paths: Vec<_> = job.objects.iter().map(|one| one.targets[0].url.path.clone()).collect();
    assert_eq!(paths, ["/1000", "/2000", "/4000", "/16000", "/64000"]);
    assert_eq!(job.flags.sustain, SUSTAIN_RECOMMENDED);
    let plan = &job.load.plan;
    assert!(!plan.keepalive && !plan.prewarm && plan.session.is_some());
    assert_eq!((plan.connections, plan.timeouts.deadline), (1_000, None));
    // 64 loopback addresses for each CPU: the number of connections is not known.
    assert_eq!(plan.sources.len(), 256);
    assert!(job.ports_allow > 80_000.0);
    assert_eq!(job.largest.map(|one| one.targets[0].url.path.clone()), Some("/256000".into()));
    let mixed = find(&[TLS, "--case", "7.7", "--object-size", "mixed"]).expect("accepted");
    assert_eq!((mixed.objects[0].targets.len(), mixed.transactions), (10, 10));
    assert!(find(&[TLS, "--case", "7.6"]).is_ok());
    let held = find(&[URL, "--case", "7.5", "--target", "250"]).expect("accepted");
    assert!(held.load.plan.keepalive);
    assert_eq!((held.load.plan.connections, held.objects.len()), (250, 1));
    // One size needs no place for it.
    let one = ["http://127.0.0.1:9/a", "--case", "7.3", "--object-size", "16KB"];
    assert_eq!(find(&one).expect("accepted").objects[0].targets[0].url.path, "/a");
}

#[test]
fn a_mix_goes_to_the_servers_of_its_targets() {
    let job = find(&["--targets", "-", "--case", "7.1"]).expect("accepted");
    assert_eq!(job.objects[0].targets.len(), 2);
    let plan = &job.load.plan;
    assert_eq!(plan.target_destination, [0, 1]);
    let names: Vec<_> = plan.destinations.iter().map(|one| one.tls.clone()).collect();
    assert_eq!(names, [None, Some(ServerName("127.0.0.2".to_owned()))]);
    assert_eq!(plan.targets.len(), 2);
}

#[test]
fn a_laboratory_asks_its_own_backends() {
    let job = lab(&["--case", "7.2", "--sustain", "2s"]).expect("accepted");
    let sizes: Vec<_> = job
        .objects
        .iter()
        .flat_map(|one| &one.targets[0].headers)
        .filter(|(name, _)| name == "size")
        .map(|(_, value)| value.clone())
        .collect();
    assert_eq!(sizes, ["1000", "2000", "4000", "16000", "64000"]);
    assert_eq!(job.flags.sustain, Nanos::from_secs(2));
    let tls = lab(&["--case", "7.9", "--target", "2k"]).expect("accepted");
    assert!(tls.load.plan.targets[0].url.tls);
    assert_eq!(tls.load.plan.connections, 2_000);
}
