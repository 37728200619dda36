//! Tables of command lines: what is refused, with its line and exit code, and what is understood.

mod comparisons;
mod headers;
mod holds;
mod refused;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use plimsoll_capacity::Mode;
use plimsoll_lab::{LabPlan, Sut};
use plimsoll_model::pace::{Arrivals, Profile, Stage};
use plimsoll_model::plan::{
    Group, HoldPlan, Pacing, ServePlan, ServerName, TlsState, TlsVersion, Trust,
};
use plimsoll_model::settings::RateStep;
use plimsoll_model::slo::Slo;
use plimsoll_model::{Nanos, Rate, SutKind};

use super::Inputs;
use super::compare::CompareJob;
use super::connections::ConnectionsJob;
use super::hold::HoldJob;
use super::load::LoadJob;
use super::search::RateJob;
use super::*;
use crate::exit::{Result, Stop};
use crate::flags::shared::RequestFlags;
use crate::flags::values::{OutputFile, Processes};
use crate::flags::{Command, parse_words};

const URL: &str = "http://127.0.0.1:9/";

/// Returns a host with 4 CPUs on which one name has two addresses and every other name none.
pub(crate) fn inputs(stdin: &'static [u8]) -> Inputs {
    Inputs {
        stdin: Box::new(stdin),
        stdin_reader: None,
        resolve: |host, port| match host {
            "pair" => Ok(vec![
                SocketAddr::new("10.0.0.1".parse().unwrap(), port),
                SocketAddr::new("fd00::1".parse().unwrap(), port),
            ]),
            _ => Err(io::Error::other("no such name")),
        },
        accepts: |_| false,
        owns: |address| address != std::net::IpAddr::from([10, 9, 9, 9]),
        variable: |_| None,
        is_alive: |pid| pid < 4_000_000,
        cpus: 4,
        source_ports: 28_232,
    }
}

/// Address of a laboratory's SUT.
const SUT: &str = "127.0.0.1:4433";

/// Whatever a command line asks for, so that one table can hold them all.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a test makes one at a time")]
enum Asked {
    Load(LoadJob),
    Experiment(Job),
    Compare(CompareJob),
    Serve(ServePlan),
}

fn build(words: &[&str], stdin: &'static [u8]) -> Result<Asked> {
    let inputs = &mut inputs(stdin);
    match parse_words(words)? {
        Command::Load(flags) => load::build(&flags, inputs).map(Asked::Load),
        Command::Find(experiment) => {
            watch::of_experiment(&experiment, inputs)?;
            find(&experiment, inputs).map(Asked::Experiment)
        }
        Command::Hold(command) => {
            hold::build(&command, inputs).map(Job::Hold).map(Asked::Experiment)
        }
        Command::Lab(command) => {
            let experiment = command.experiment().unwrap();
            lab::hosts(experiment.hosts(), inputs)?;
            let url = format!("https://{SUT}/");
            let trust = lab::trust(experiment.hosts(), "ca");
            let to = Destination::laboratory(url, RequestFlags::default(), trust, None);
            lab(experiment, &to, inputs).map(Asked::Experiment)
        }
        Command::Compare(flags) => compare::build(&flags, inputs).map(Asked::Compare),
        Command::Serve(flags) => serve::build(&flags, inputs).map(Asked::Serve),
        other => panic!("{other:?} has no plan"),
    }
}

/// Returns the load that `flags` ask for.
pub(crate) fn load_job(flags: &[&str]) -> LoadJob {
    match build(&[&["load"], flags].concat(), b"") {
        Ok(Asked::Load(job)) => job,
        other => panic!("{flags:?}: {other:?}"),
    }
}

/// Returns the hold that `flags` ask for.
pub(crate) fn hold_job(flags: &[&str]) -> HoldJob {
    held(&[&["hold"], flags].concat())
}

fn held(words: &[&str]) -> HoldJob {
    match build(words, b"") {
        Ok(Asked::Experiment(Job::Hold(job))) => job,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn searched(words: &[&str]) -> RateJob {
    match build(words, b"") {
        Ok(Asked::Experiment(Job::Rate(job))) => job,
        other => panic!("{words:?}: {other:?}"),
    }
}

/// Parses the parts of a laboratory.
fn hosts(words: &[&str]) -> LabPlan {
    try_hosts(words).unwrap().plan
}

pub(crate) fn try_hosts(words: &[&str]) -> Result<lab::Hosts> {
    match parse_words(words)? {
        Command::Lab(command) => lab::hosts(command.experiment().unwrap().hosts(), &inputs(b"")),
        other => panic!("{words:?}: {other:?}"),
    }
}

pub(crate) fn refused(words: &[&str], stdin: &'static [u8]) -> (String, u8) {
    match build(words, stdin) {
        Err(stop) => (stop.complaint().unwrap(), stop.code()),
        Ok(job) => panic!("{words:?} was accepted: {job:?}"),
    }
}

fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).unwrap()
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_default_load() {
    let job = load_job(&[URL]);
    let plan = &job.plan;
    let profile = Profile::constant(rate(50.0), Nanos::from_secs(10));
    assert_eq!(plan.pacing, Pacing::Open { profile, arrivals: Arrivals::Poisson });
    assert_eq!((plan.connections, plan.threads, plan.seed), (100, 4, 1));
    assert_eq!((plan.keepalive, plan.prewarm), (true, true));
    assert_eq!((plan.timeouts.deadline, plan.timeouts.linger), (None, Nanos::from_secs(150)));
    assert_eq!(plan.timeouts.connect, Nanos::from_secs(30));
    assert_eq!(plan.targets.len(), 1);
    assert_eq!(plan.targets[0].method, "GET");
    let agent = concat!("plimsoll/", env!("CARGO_PKG_VERSION")).to_owned();
    assert_eq!(plan.targets[0].headers, [("User-Agent".to_owned(), agent)]);
    assert_eq!(plan.destinations[0].name, "127.0.0.1:9");
    assert_eq!(plan.destinations[0].tls, None);
    assert_eq!(
        (job.processes, job.output.no_ui, &job.output.json),
        (Processes::Auto, false, &None)
    );
    assert_eq!(job.target_name, URL);
    assert_eq!(job.settings.rate, [RateStep { per_s: 50.0, within_s: 0.0 }]);
}

#[test]
fn pacing_as_typed() {
    let constant = |per_s, s| Profile::constant(rate(per_s), Nanos::from_secs(s));
    let stage =
        |s, from, to| Stage { duration: Nanos::from_secs(s), from: rate(from), to: rate(to) };
    for (flags, profile) in [
        (vec!["--rate", "2k/s", "--duration", "5s"], constant(2e3, 5)),
        // Only a count: the rate decides how long it takes.
        (vec!["--rate", "10", "--requests", "5"], Profile::constant_ops(rate(10.0), 5)),
        // Both: whichever comes first.
        (vec!["-r", "10", "-n", "5", "-d", "9s"], constant(10.0, 9).limited_to(5)),
        (vec!["-r", "10", "-n", "500", "-d", "9s"], constant(10.0, 9)),
        (
            vec!["--stages", "2s:10,3s:0"],
            Profile::from_stages(vec![stage(2, 0.0, 10.0), stage(3, 10.0, 0.0)]),
        ),
        // A start rate, a jump, a cut.
        (
            vec!["--stages", "2s:10,0s:50", "--stages", "1s:50", "-r", "4", "-n", "9"],
            Profile::from_stages(vec![stage(2, 4.0, 10.0), stage(1, 50.0, 50.0)]).limited_to(9),
        ),
    ] {
        let job = load_job(&[&[URL, "--arrivals", "uniform"], &flags[..]].concat());
        let expected = Pacing::Open { profile, arrivals: Arrivals::Uniform };
        assert_eq!(job.plan.pacing, expected, "{flags:?}");
    }
    for (flags, duration, ops_total) in [
        (vec![], Some(10), None),
        (vec!["-n", "9"], None, Some(9)),
        (vec!["-n", "9", "-d", "2s"], Some(2), Some(9)),
    ] {
        let job = load_job(&[&[URL, "--rate", "0"], &flags[..]].concat());
        let duration = duration.map(Nanos::from_secs);
        assert_eq!(job.plan.pacing, Pacing::Closed { duration, ops_total }, "{flags:?}");
    }
}

#[test]
fn the_default_pool_is_no_larger_than_the_load() {
    assert_eq!(load_job(&[URL, "-n", "3"]).plan.connections, 3);
    assert_eq!(load_job(&[URL, "-n", "3"]).plan.threads, 3);
    // What was asked for is opened all the same.
    assert_eq!(load_job(&[URL, "-n", "3", "-c", "20k"]).plan.connections, 20_000);
    let job = load_job(&[URL, "-c", "8", "--processes", "2"]);
    assert_eq!((job.processes, job.plan.threads), (Processes::Exactly(2), 2));
    assert!(!load_job(&[URL, "--no-keepalive"]).plan.prewarm);
}

#[test]
fn deadlines_come_from_the_objective() {
    let deadline = |flags: &[&str]| load_job(&[&[URL], flags].concat()).plan.timeouts.deadline;
    assert_eq!(deadline(&["--slo", "p99<50ms,p50<5ms"]), Some(Nanos::from_millis(5)));
    assert_eq!(deadline(&["--slo", "errors<1%"]), None);
    assert_eq!(deadline(&["--slo", "p99<50ms", "--deadline", "1s"]), Some(Nanos::from_secs(1)));
}

#[test]
fn servers_and_names() {
    let job = load_job(&["https://pair:8443/x"]);
    let [only] = &job.plan.destinations[..] else { panic!("{:?}", job.plan.destinations) };
    assert_eq!(only.name, "pair:8443");
    assert_eq!(only.addresses.len(), 2);
    assert_eq!(only.tls, Some(ServerName("pair".into())));
    assert_eq!(job.plan.tls.trust, Trust::System);
    let named = load_job(&["https://[::1]/", "--sni", "www.example.com", "-k"]);
    assert_eq!(named.plan.destinations[0].name, "[::1]:443");
    assert_eq!(named.plan.destinations[0].tls, Some(ServerName("www.example.com".into())));
    assert_eq!(named.plan.tls.trust, Trust::Insecure);
    // IPv4 sources leave only the IPv4 address.
    let from = load_job(&["http://pair/", "--source", "127.0.0.0/8,10.0.0.9"]);
    assert_eq!(from.plan.destinations[0].addresses, ["10.0.0.1:80".parse().unwrap()]);
    assert_eq!(from.plan.sources.len(), 32_769);
    let rows = plimsoll_report::settings::rows(&crate::run::settings(&from));
    assert_eq!(rows["sources"], "32,769 of 127.0.0.0/8 10.0.0.9/32");
}

#[test]
fn bodies_and_headers() {
    let posted =
        load_job(&[URL, "--data", "a=1", "-H", "user-agent: me", "-H", "Content-Length: 3"]);
    let target = &posted.plan.targets[0];
    assert_eq!((target.method.as_str(), &target.body[..]), ("POST", &b"a=1"[..]));
    let own = [("user-agent", "me"), ("Content-Length", "3")];
    assert_eq!(target.headers, own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let Ok(Asked::Load(piped)) = build(&["load", URL, "-X", "PUT", "--body", "-"], b"x") else {
        panic!("a body from standard input is refused")
    };
    assert_eq!(piped.plan.targets[0].method, "PUT");
    assert_eq!(*piped.plan.targets[0].body, *b"x");
}

#[test]
fn targets_from_a_file_or_standard_input() {
    let list = b"GET http://127.0.0.1:9/a\nAccept: x\n\nPUT https://127.0.0.1:9/b\n\n\
                 GET http://127.0.0.1:9/c\n";
    let flags = ["load", "--targets", "-", "-H", "accept: y", "--data", "d"];
    let Ok(Asked::Load(job)) = build(&flags, list) else { panic!("targets are refused") };
    let paths: Vec<_> = job.plan.targets.iter().map(|target| &target.url.path[..]).collect();
    assert_eq!(paths, ["/a", "/b", "/c"]);
    // One server speaks plain HTTP and another, at the same address, TLS.
    assert_eq!(job.plan.target_destination, [0, 1, 0]);
    assert_eq!(job.plan.destinations.len(), 2);
    // A target's own header wins; the flags' body is for those without one.
    let accept = |index: usize| &job.plan.targets[index].headers[0].1[..];
    assert_eq!((accept(0), accept(1)), ("x", "y"));
    assert!(job.plan.targets.iter().all(|target| *target.body == *b"d"));
    assert_eq!(job.target_name, "http://127.0.0.1:9/a and 2 more");

    let json = br#"{"method":"GET","url":"http://127.0.0.1:9/"}"#;
    assert!(build(&["load", "--targets", "-"], json).is_ok());
    let (said, code) = refused(&["load", "--targets", "-", "--format", "http"], json);
    assert!(said.starts_with("plimsoll: --targets standard input, line 1: "), "{said}");
    assert_eq!(code, 2);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("targets");
    fs::write(&path, "GET http://127.0.0.1:9/\n\nnonsense\n").unwrap();
    let path = path.to_str().unwrap();
    let (said, code) = refused(&["load", "--targets", path], b"");
    assert!(said.starts_with(&format!("plimsoll: --targets {path}, line 3: ")), "{said}");
    assert_eq!(code, 2);
    let framed = b"GET http://127.0.0.1:9/\n\nGET http://127.0.0.1:9/\nContent-Length: 7\n";
    let (said, _) = refused(&["load", "--targets", "-"], framed);
    assert_eq!(
        said,
        "plimsoll: --targets standard input, target 2: header Content-Length: 7, and the body has 0 \
         bytes; drop it"
    );
}

#[test]
fn tls_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = [(); 2].map(|()| {
        let names = ["localhost".to_owned()];
        plimsoll_tls::self_signed(&names, plimsoll_tls::KeyKind::EcdsaP256).unwrap()
    });
    let roots = file(folder.path(), "ca.pem", &other.chain_pem);
    let cert = file(folder.path(), "cert.pem", &own.chain_pem);
    let key = file(folder.path(), "key.pem", &own.key_pem);
    let words = "--tls 1.3 --groups x25519mlkem768,p256,x25519mlkem768 --resume 0.5";
    let mut flags = vec!["https://127.0.0.1/", "--cacert", &roots, "--cert", &cert, "--key", &key];
    flags.extend(words.split(' '));
    let tls = load_job(&flags).plan.tls;
    assert_eq!(tls.trust, Trust::Roots(fs::read_to_string(&roots).unwrap()));
    assert_eq!(tls.identity.unwrap().key_pem, fs::read_to_string(&key).unwrap());
    assert_eq!(tls.version, Some(TlsVersion::V1_3));
    assert_eq!(tls.groups, [Group::X25519Mlkem768, Group::Secp256r1]);
    assert_eq!(tls.resume_ratio, 0.5);
    let swapped = ["load", "https://127.0.0.1/", "--cert", &key, "--key", &cert];
    let (said, code) = refused(&swapped, b"");
    assert!(said.starts_with("plimsoll: --cert ") && said.contains("BEGIN CERTIFICATE"), "{said}");
    assert_eq!(code, 2);
    // Of another pair: refused before anything is started, with the names of the files.
    let stranger = file(folder.path(), "stranger.pem", &other.key_pem);
    for command in [&["load", "https://127.0.0.1/"][..], &["serve", "--https", "1"]] {
        let words = [command, &["--cert", &cert, "--key", &stranger]].concat();
        let (said, code) = refused(&words, b"");
        assert!(said.contains(&stranger) && said.contains("does not match"), "{said}");
        assert_eq!(code, 2);
    }
}

#[test]
fn searches() {
    let find = |flags: &[&str]| searched(&[&["find", "rate", URL], flags].concat());
    let job = find(&[]);
    assert_eq!((job.search.mode, job.search.mode.name()), (Mode::Standard, "standard"));
    assert_eq!((&job.search.slo, job.search.slo_given), (&Slo::default(), false));
    assert_eq!(job.search.arrivals, Arrivals::Uniform);
    assert_eq!(job.load.plan.timeouts.deadline, Some(Nanos::from_millis(50)));
    assert_eq!(job.load.plan.timeouts.linger, Nanos::from_secs(5));
    assert_eq!(job.load.plan.connections, 100);
    let job = find(&["--deadline", "20ms", "--min", "10", "--max", "2k"]);
    assert_eq!(job.search.slo.to_string(), "p99<20ms,errors<0.1%");
    assert_eq!((job.search.min, job.search.max), (Some(rate(10.0)), Some(rate(2e3))));
    assert!(job.search.slo_given);
    // What is late by the first objective is waited for as long as the second one wants.
    let job = find(&["--slo", "p99<20ms", "--slo", "p99<300ms,errors<1%"]);
    assert_eq!(job.search.further, ["p99<300ms,errors<1%".parse().unwrap()]);
    assert_eq!(job.load.plan.timeouts.deadline, Some(Nanos::from_millis(20)));
    assert_eq!(job.load.plan.timeouts.linger, Nanos::from_millis(5_280));
    // Goals on few operations say how long they take; the default and usual ones do not.
    let notes = |slo: &str| find(&["--slo", slo, "--mode", "quick"]).search.notes;
    assert_eq!(
        notes("p99.9<50ms"),
        ["p99.9<50ms needs 3,000 operations that meet it: about 60 s of searching at 100/s; this \
          search has 3 m 30 s, which is enough from 28.6/s on"]
    );
    let asked = find(&["--slo", "p99.9<50ms", "--budget", "30s"]).search;
    assert_eq!((asked.mode, asked.budget()), (Mode::Quick, Nanos::from_secs(30)));
    assert!(asked.notes[0].ends_with("from 200/s on; for less give --budget 1m"), "{asked:?}");
    assert_eq!(find(&["--budget", "25m"]).search.mode, Mode::Standard);
    assert!(notes("p99<50ms,errors<1%").is_empty() && find(&[]).search.notes.is_empty());
    // A quick search does not wait for timers by default.
    for (flags, seconds) in [
        (&[][..], Some(150)),
        (&["--mode", "quick"], None),
        (&["--probe-timeouts", "0"], None),
        (&["--mode", "quick", "--probe-timeouts", "20s"], Some(20)),
    ] {
        assert_eq!(find(flags).search.probe, seconds.map(Nanos::from_secs), "{flags:?}");
    }
    let flags = ["find", "rate", URL, "--probe-timeouts", "2h"];
    assert!(matches!(build(&flags, b""), Err(Stop::Usage(_))));
}

#[test]
fn searches_of_handshakes() {
    let find =
        |url: &str, flags: &[&str]| searched(&[&["find", "handshakes", url], flags].concat());
    // On loopback there are addresses enough, and the search is bounded by what they allow.
    let job = find("https://127.0.0.1:9/", &["--resume", "0.3"]);
    let plan = &job.load.plan;
    assert!(plan.handshake_only && !plan.keepalive && !plan.prewarm);
    assert_eq!((plan.sources.len(), plan.tls.resume_ratio), (256, 0.3));
    assert_eq!(plan.sources[255].to_string(), "127.0.1.0");
    let cap = job.search.max.unwrap().get();
    assert!((84_000.0..85_000.0).contains(&cap), "{cap}");
    assert!(job.search.cap_reason.unwrap().contains("256 addresses"));
    assert_eq!(job.search.axis.name(), "handshakes");
    // As many as --max needs, which then is what ends the search.
    let job = find("https://127.0.0.1:9/", &["--max", "1000"]);
    assert_eq!((job.load.plan.sources.len(), job.search.max), (4, Some(rate(1e3))));
    assert_eq!(job.search.cap_reason, None);
    // Elsewhere one address is all there is, unless the user has more.
    let job = find("https://10.0.0.1/", &[]);
    assert_eq!(job.load.plan.sources.len(), 0);
    assert!((job.search.max.unwrap().get() - 329.4).abs() < 0.1);
    assert!(job.search.notes[0].ends_with("allows 329 handshakes/s from 1 address"));
    let job = find("https://10.0.0.1/", &["--source", "10.0.1.0/28", "--max", "2k"]);
    assert_eq!((job.load.plan.sources.len(), job.search.max), (14, Some(rate(2e3))));
    let found = searched(&["lab", "handshakes"]);
    assert!(found.load.plan.handshake_only && found.load.plan.sources.len() == 256);
    assert_eq!(found, searched(&["lab", "handshakes"]));
}

#[test]
fn laboratories() {
    let made = hosts(&["lab"]);
    assert_eq!((made.sut_is_default, made.backends, made.keep_config), (true, 4, false));
    let job = searched(&["lab"]);
    assert_eq!(job.search.mode, Mode::Quick);
    assert_eq!(job, searched(&["lab", "rate"]));
    let flags = ["--sut", "embedded", "-H", "sleep: 20", "-c", "7", "--slo", "p90<9ms"];
    let words = [&["lab"], &flags[..]].concat();
    let named = hosts(&words);
    assert_eq!((named.sut, named.sut_is_default), (Sut::embedded(), false));
    let plan = searched(&words).load.plan;
    // The lab trusts its own certificate; -k makes handshakes cheaper.
    assert_eq!((plan.connections, plan.tls.trust), (7, Trust::Roots("ca".into())));
    assert_eq!(plan.timeouts.deadline, Some(Nanos::from_millis(9)));
    assert_eq!(plan.targets[0].headers[0], ("sleep".to_owned(), "20".to_owned()));
    assert_eq!(plan.destinations[0].name, SUT);
    assert_eq!(searched(&["lab", "-k"]).load.plan.tls.trust, Trust::Insecure);
    // A program that is named is what is tested; it must not contradict --sut.
    let folder = tempfile::tempdir().unwrap();
    let program = file(folder.path(), "nginx", "PROGRAM");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let named = hosts(&["lab", "--nginx", &program]);
    let nginx = Sut { kind: SutKind::Nginx, program: (&program).into() };
    assert_eq!((named.sut, named.sut_is_default), (nginx, false));
    let (said, code) = refused(&["lab", "--sut", "haproxy", "--nginx", &program], b"");
    assert_eq!(code, 2, "{said}");
}

#[test]
fn handshakes_alone() {
    let job = load_job(&["https://127.0.0.1:9/", "--handshake-only", "--reuse-key-share"]);
    let plan = &job.plan;
    assert_eq!((plan.handshake_only, plan.keepalive, plan.prewarm), (true, false, false));
    assert!(plan.tls.reuse_key_share && plan.tls.state == TlsState::Compact);
}

#[test]
fn servers_to_run() {
    let serve = |flags: &[&str]| match build(&[&["serve"], flags].concat(), b"") {
        Ok(Asked::Serve(plan)) => plan,
        other => panic!("{flags:?}: {other:?}"),
    };
    let listeners = |flags: &[&str]| -> Vec<(String, bool)> {
        let plan = serve(flags);
        plan.listeners.iter().map(|at| (at.address.to_string(), at.tls)).collect()
    };
    let plain = |address: &str| (address.to_owned(), false);
    let tls = |address: &str| (address.to_owned(), true);
    assert_eq!(listeners(&[]), [plain("127.0.0.1:8080")]);
    assert_eq!(listeners(&["--https", "8443"]), [tls("127.0.0.1:8443")]);
    assert_eq!(
        listeners(&["--http", "0.0.0.0:80-81", "--http", "[::1]:0", "--https", "pair:1"]),
        [plain("0.0.0.0:80"), plain("0.0.0.0:81"), plain("[::1]:0"), tls("10.0.0.1:1")]
    );
    // The kernel chooses each of these ports, so they are not the same listener.
    assert_eq!(listeners(&["--http", ":0", "--http", ":0"]).len(), 2);
    let plan = serve(&["--processes", "2", "--statsd", "pair", "--idle-timeout", "1m"]);
    assert_eq!(plan.threads, 2);
    assert_eq!(plan.statsd, Some("10.0.0.1:8125".parse().unwrap()));
    assert_eq!(plan.idle_timeout, Nanos::from_secs(60));
    assert_eq!(plan.request_timeout, Nanos::from_secs(10));
    assert_eq!(plan.identity, None);
}

#[test]
fn outputs() {
    let job = load_job(&[URL, "--json", "-", "--no-ui", "--out", "no-such-folder/run"]);
    assert_eq!((job.output.json, job.output.no_ui), (Some(OutputFile::Stdout), true));
    assert_eq!(job.output.out.as_deref(), Some(Path::new("no-such-folder/run")));
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let file = file(folder.path(), "file", "FILE");
    for (flag, path, why) in [
        ("--json", here, "is a directory; name a file, or - for standard output"),
        ("--out", &file, "is not a directory; name a directory; it is made when it does not exist"),
        ("--out", here, "is not empty, and an archive never overwrites; name another directory"),
    ] {
        let (said, code) = refused(&["load", URL, flag, path], b"");
        assert!(said.ends_with(why) && code == 2, "{said}");
    }
}

#[test]
fn a_search_for_connections_is_a_hold_with_bounds() {
    let find = |flags: &[&str]| -> ConnectionsJob {
        let words = [&["find", "connections", "https://127.0.0.1:9/", "-k"], flags].concat();
        match build(&words, b"") {
            Ok(Asked::Experiment(Job::Connections(job))) => job,
            other => panic!("{words:?}: {other:?}"),
        }
    };
    let job = find(&["--mode", "quick"]);
    assert_eq!((job.lowest, job.highest, job.highest_given), (100, 10_000, false));
    assert_eq!((job.soak, job.push, job.load.both_ends_here), (Nanos::from_secs(10), false, true));
    let hold =
        HoldPlan { connections_per_s: 2_000.0, opening_max: 512, heartbeat: None, replace: false };
    assert_eq!(job.load.plan.pacing, Pacing::Hold(hold));
    assert_eq!((job.load.plan.connections, job.load.plan.prewarm), (10_000, false));
    // As long as an answer is waited for: 50 ms and the linger of a search.
    assert_eq!(job.load.plan.timeouts.connect, Nanos::from_millis(5_050));
    let flags = ["--max", "60", "--rate", "500", "--for", "3s", "--push"];
    let found = find(&flags);
    assert_eq!((found.lowest, found.highest, found.highest_given), (60, 60, true));
    assert_eq!((found.hold.connections_per_s, found.soak), (500.0, Nanos::from_secs(3)));
    assert!(found.push && find(&[]).highest == 200_000);
}

#[test]
fn a_search_for_storms_is_a_hold_whose_server_is_here() {
    let here = "https://127.0.0.1:9/";
    let words = |flags: &[&'static str]| [&["find", "storm", here, "-k"], flags].concat();
    let Ok(Asked::Experiment(Job::Storm(job))) =
        build(&words(&["-c", "2k", "--mode", "quick"]), b"")
    else {
        panic!("a storm");
    };
    assert_eq!((job.lowest, job.highest, job.load.plan.connections), (1, 2_000, 2_000));
    assert_eq!(
        (job.recover, job.hold.heartbeat),
        (Nanos::from_secs(30), Some(Nanos::from_secs(5)))
    );
    assert_eq!((job.load.plan.timeouts.connect, job.search.probe), (Nanos::from_secs(30), None));
    for (flags, why) in [
        (&[][..], "find storm needs the number of connections to hold"),
        (&["-c", "10", "--max", "11"], "--max 11 is above the 10 connections that are held"),
        (&["-c", "10", "--min", "9", "--max", "8"], "the smallest storm, 9 connections, is above"),
    ] {
        let (said, code) = refused(&words(flags), b"");
        assert!(said.contains(why) && code == 2, "{said}");
    }
    let elsewhere = ["find", "storm", "https://10.9.9.9/", "-k", "-c", "10"];
    let (said, code) = refused(&elsewhere, b"");
    assert!(said.contains("--yes-storm-remote") && code == 2, "{said}");
}
