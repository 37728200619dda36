//! HTTP/2, judged by h2spec, h2specd and nghttp2.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::certificate::Certificate;
use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::serve::Serve;
use e2e::{port, program, wait};

const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
const H2SPECD: &str = "github.com/summerwind/h2spec/cmd/h2specd@v2.2.1+incompatible";

/// Returns the output of a judge; it ends with an error if a case has failed.
fn judged(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it has been built");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the cases that failed: their headings and sentences, one after another.
fn failures(report: &str) -> Vec<&str> {
    // They are listed again behind this word, where there are any.
    let again = report.split_once("Failures:").map_or("", |(_, again)| again);
    again.lines().filter_map(|line| line.trim().strip_prefix("\u{d7} ")).collect()
}

#[test]
fn h2spec_finds_in_serve_what_the_docs_say() {
    let Some(h2spec) = program::built_by_go(H2SPEC) else { return };
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    // The same port speaks HTTP/1.1, and answers another preface with 400 instead of nothing.
    let plain = ["2: Sends invalid connection preface"];
    let expected = [(&[][..], &plain[..]), (&["-t", "-k"], &[])];
    for (url, (flags, expected)) in serve.urls.iter().zip(expected) {
        let port = url.trim_end_matches('/').rsplit_once(':').expect("a port").1;
        let mut command = Command::new(&h2spec);
        let report = judged(command.args(["-h", "127.0.0.1", "-p", port]).args(flags));
        assert_eq!(failures(&report), expected, "{report}");
        // One is skipped: it needs a server that limits streams to less than a client may open.
        assert!(
            report.contains(&format!("145 tests, {} passed", 144 - expected.len())),
            "{report}"
        );
    }
}

#[test]
fn h2specd_finds_in_our_client_what_the_docs_say() {
    let Some(h2specd) = program::built_by_go(H2SPECD) else { return };
    // It gives the URL alone, and judges the last connection that a client makes.
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let client = folder.path().join("client");
    let flags = "--http 2 -n 1 -c 1 --rate 0 --linger 1s --no-ui";
    let text = format!("#!/bin/sh\nexec {} load \"$1\" {flags}\n", program::plimsoll().display());
    fs::write(&client, text).expect("the temporary directory is writable");
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).expect("it is ours");
    // It compresses with a table of headers where the client allows none.
    let expected = ["1: Sends multiple CONTINUATION frames preceded by a HEADERS frame"];
    let mut failed: Option<Vec<String>> = None;
    // The client leaves when its only answer has come, which may be before the judge's last frame: a case that passes
    // once has passed.
    for _ in 0..8 {
        let mut command = Command::new(&h2specd);
        command.arg("-f").arg(port::free_row(57).to_string()).arg("-e").arg(&client);
        // Its two seconds are too short for a client that starts beside other tests.
        command.args(["-o", "10"]);
        let report = judged(&mut command);
        assert!(report.contains("57 tests, "), "{report}");
        let again: Vec<String> = failures(&report).into_iter().map(str::to_owned).collect();
        failed = Some(match failed {
            Some(before) => before.into_iter().filter(|case| again.contains(case)).collect(),
            None => again,
        });
        if failed.as_ref().is_some_and(|failed| *failed == expected) {
            return;
        }
    }
    panic!("failed each time: {failed:?}");
}

#[test]
fn nghttpd_answers_what_our_client_asks() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let file = |name: &str, bytes: u64| {
        let made = fs::File::create(folder.path().join(name)).and_then(|file| file.set_len(bytes));
        made.expect("the temporary directory is writable");
    };
    file("small", 4);
    file("large", 3_000_000);
    // Without a header table, which the first block of each connection must confirm.
    for table in ["4096", "0"] {
        ask_nghttpd(folder.path(), table);
    }
}

fn ask_nghttpd(folder: &Path, table: &str) {
    let certificate = Certificate::new();
    let address = port::free();
    let mut command = Command::new(program::installed("nghttpd"));
    command.arg(format!("--header-table-size={table}"));
    command.args(["-a", "127.0.0.1", "-d"]).arg(folder).arg(address.port().to_string());
    command.arg(certificate.key()).arg(certificate.chain());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _nghttpd = Guarded::start(&mut command);
    wait::until("nghttpd to listen", || wait::accepts(address).then_some(()));
    let ask = |file: &str, operations: u64, more: &[&str]| {
        let count = operations.to_string();
        let flags = ["-k", "--http", "2", "--rate", "0", "-c", "3", "-m", "10", "-n", &count];
        let url = format!("https://{address}/{file}");
        let ran = Plimsoll::load(&url, &[&flags[..], more].concat())
            .with_file("body", "x".repeat(300_000));
        ran.run().summary(0).assert_all_ok(operations);
    };
    ask("small", 3_000, &[]);
    ask("large", 30, &[]);
    ask("small", 30, &["--body", "body"]);
}

#[test]
fn h2load_is_served() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    for url in &serve.urls {
        let mut command = Command::new(program::installed("h2load"));
        let report = judged(command.args(["-c", "10", "-m", "32", "-n", "5000", url]));
        assert!(report.contains("5000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    }
}
