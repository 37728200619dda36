//! Runs whose flags and files hold a secret in every place that takes any text: nothing that is written or shown has
//! it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::serve::Serve;

const SECRET: &str = "hunter2-sesame-open";

/// Returns the form in which `bytes` have the secret: as text, base64 at any offset, or a list of numbers.
fn contained(bytes: &[u8]) -> Option<String> {
    let text: String =
        String::from_utf8_lossy(bytes).chars().filter(|letter| !letter.is_whitespace()).collect();
    let encoded = (0..3).map(|offset| {
        let padded = [&vec![0; offset], SECRET.as_bytes()].concat();
        let encoded = STANDARD.encode(padded).trim_end_matches('=').to_owned();
        encoded[(offset * 8usize).div_ceil(6)..encoded.len() - 1].to_owned()
    });
    let numbers: Vec<_> = SECRET.bytes().map(|byte| byte.to_string()).collect();
    let mut forms = encoded.chain([SECRET.to_owned(), numbers.join(",")]);
    forms.find(|form| text.contains(form.as_str()))
}

fn assert_none(name: &str, bytes: &[u8]) {
    let found = contained(bytes);
    assert!(found.is_none(), "{name} has {found:?}: {}", String::from_utf8_lossy(bytes));
}

/// Checks all files of `dir`: that none has the secret, and that only their owner reads them.
fn assert_kept(dir: &Path) {
    for entry in fs::read_dir(dir).expect("an archive") {
        let path = entry.expect("an entry").path();
        assert_none(&path.display().to_string(), &fs::read(&path).expect("readable"));
        let mode = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

/// Checks what a run with `--out run` has shown and archived, and every report of that.
fn assert_silent(ran: &Finished) {
    // 1: nothing was answered as a script expects.
    assert!([Some(0), Some(1), Some(98), Some(99)].contains(&ran.code), "{}", ran.stderr);
    assert_none("standard output", ran.stdout.as_bytes());
    assert_none("standard error", ran.stderr.as_bytes());
    let archive = ran.folder().join("run");
    assert_kept(&archive);
    let archive = archive.to_str().expect("text");
    let exports = ["html", "csv", "ndjson", "hgrm", "hlog", "junit", "markdown", "json"];
    let flags = exports.map(|export| [format!("--{export}"), format!("{export}.out")]).concat();
    let report = ["report".to_owned(), archive.to_owned()];
    let drawn = Plimsoll::new(report.iter().chain(&flags)).run();
    assert_eq!(drawn.code, Some(0), "{}", drawn.stderr);
    assert_none("the report", drawn.stdout.as_bytes());
    for export in exports {
        let path = drawn.folder().join(format!("{export}.out"));
        assert_none(export, &fs::read(path).expect("written"));
    }
}

#[test]
fn requests_keep_their_secrets() {
    let serve = Serve::plain();
    let url = format!("{}a;s={SECRET}?{SECRET}&k={SECRET}", serve.url());
    let secret_of = |name: &str| format!("{name}: {SECRET}");
    let headers = [secret_of("Ocp-Apim-Subscription-Key"), secret_of(SECRET), secret_of("Cookie")];
    let otlp = format!("http://127.0.0.1:9/?token={SECRET}");
    let pace = ["--rate", "50", "-d", "1s", "--out", "run", "--rows", "rows.json"];
    let said = [
        "--data",
        SECRET,
        "--sni",
        SECRET,
        "-X",
        SECRET,
        "--otlp",
        &otlp,
        "--statsd",
        "127.0.0.1:9",
    ];
    let with = headers.iter().flat_map(|header| ["-H", header]);
    let words: Vec<&str> = pace.into_iter().chain(said).chain(with).collect();
    let ran = Plimsoll::load(&url, &words).run();
    assert_silent(&ran);
    assert_kept(&ran.folder().join("run"));
    assert_none("rows", &fs::read(ran.folder().join("rows.json")).expect("written"));
    // What a report is for is there.
    let target = ran.summary(ran.code.expect("a code")).text("target").to_owned();
    assert_eq!(target, format!("{}a;<redacted>?<redacted>", serve.url()));
    let targets = format!("POST http://u:{SECRET}@{}/b?{SECRET}\nx-y: {SECRET}\n", serve.address());
    let load = ["load", "--targets", "targets", "--rate", "50", "-d", "1s", "--out", "run"];
    let ran = Plimsoll::new(load).with_file("targets", targets).run();
    assert_silent(&ran);
}

#[test]
fn clients_of_mqtt_and_scripts_keep_their_secrets() {
    let serve = Serve::start(&["--mqtt", "127.0.0.1:0", "--tcp", "127.0.0.1:0"], 2);
    let pace = ["--rate", "50", "-d", "1s", "--out", "run", "--json", "-"];
    let mqtt = serve.urls().iter().find(|url| url.starts_with("mqtt")).expect("asked for");
    // Of another topic, whose deliveries are not counted.
    let filter = format!("x/{SECRET}");
    let said = [
        ["--users", "users"],
        ["--topic", SECRET],
        ["--subscribe", &filter],
        ["--will-topic", SECRET],
        ["--will-message", SECRET],
        ["--client-id", SECRET],
        ["--data", SECRET],
    ]
    .concat();
    let users = format!("{SECRET}:{SECRET}\n");
    let words = [&["load", mqtt.as_str()][..], &pace, &said].concat();
    assert_silent(&Plimsoll::new(words).with_file("users", users).run());
    // A server that sends back what it gets, and a script that expects something else: the fault has no echo.
    let echo = serve.urls().iter().find(|url| url.starts_with("tcp")).expect("asked for");
    let script = format!("loop\nsend \"{SECRET}\"\nexpect \"+OK\"\nend\n");
    let words = [&["load", echo.as_str(), "--script", "script"][..], &pace].concat();
    let ran = Plimsoll::new(words).with_file("script", script).run();
    assert_silent(&ran);
    assert!(!ran.stderr.contains("hunter2") && ran.stderr.contains("bytes of the script itself"));
}

#[test]
fn hosts_are_archived_without_their_logins() {
    let serve = Serve::plain();
    let host = format!("{SECRET}@a:22");
    let reached = ["--hosts", &host, "--launch", "env LOGIN=%u"];
    let pace = ["--rate", "50", "-d", "1s", "--out", "run"];
    let ran = Plimsoll::load(serve.url(), &[&reached[..], &pace].concat()).run();
    assert_silent(&ran);
    // What a report is for is there.
    assert_eq!(ran.summary(ran.code.expect("a code")).text("settings.hosts"), "a:22");
}

#[test]
fn a_refused_url_keeps_its_password() {
    let flag = format!("--otlp=http://u:{SECRET}@a/");
    let watched = format!("nginx:http://u:{SECRET}@a/");
    let [user, path, query] = [
        format!("http://u:{SECRET}@a/"),
        format!("http://u:{SECRET}/x@a"),
        format!("a/?k={SECRET}"),
    ];
    for words in [
        vec!["load", &user],
        vec!["load", &path],
        vec!["load", &query],
        vec!["load", "http://a/", &flag],
        vec!["load", "http://a/", "--watch", &watched],
        vec!["watch", "--nginx", &user],
        vec!["find", &user],
        vec!["lab", &user],
        vec![&user],
        vec!["compare", &user, "http://a/"],
    ] {
        let ran = Plimsoll::new(&words).run();
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert_none(&format!("{words:?}"), format!("{}{}", ran.stdout, ran.stderr).as_bytes());
    }
}
