//! Whether `lab --confirm-cause` confirms what is the limit: with the real HAProxy, and limits that a wrapper
//! around it writes into its configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use e2e::plimsoll::Plimsoll;
use e2e::program;
use serde_json::Value;
use tempfile::TempDir;

use crate::alone;

/// A quick search takes less than 4 minutes, and the test of its cause less than 3.
const PATIENCE: Duration = Duration::from_secs(480);

/// A program that starts HAProxy with a configuration that `edit`, a script of sed, has changed.
fn wrapper(edit: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("haproxy");
    let real = program::installed("haproxy");
    let script = format!(
        "#!/bin/bash\n\
         for last; do :; done\n\
         if [ \"$1\" = -db ]; then sed -i -e '{edit}' \"$last\"; fi\n\
         exec {} \"$@\"\n",
        real.display()
    );
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    (folder, path)
}

/// The first cause of a laboratory, which names one.
fn first_cause(flags: &[&str]) -> Value {
    let _alone = alone();
    let arguments = ["lab", "rate", "--confirm-cause", "--mode", "quick", "--json", "-"];
    let run = Plimsoll::new(arguments.iter().chain(flags)).start().finish_within(PATIENCE);
    let summary = run.summary(0);
    let cause = summary.at("causes").get(0).cloned();
    let cause = cause.unwrap_or_else(|| panic!("no cause: {summary:?}"));
    eprintln!("{}", serde_json::to_string(&cause).expect("it was JSON"));
    cause
}

fn assert_confirmed(cause: &Value, names: &[&str]) {
    assert!(names.contains(&cause["cause"].as_str().unwrap_or_default()), "{cause}");
    assert_eq!(cause["grade"], "confirmed", "{cause}");
    assert!(cause["confirmation"]["seconds"].as_f64().is_some_and(|took| took < 300.0), "{cause}");
}

#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn the_servers_cpu() {
    assert_confirmed(&first_cause(&["--sut", "haproxy"]), &["server-cpu", "tls-handshakes"]);
}

#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn one_hot_thread() {
    let (_folder, path) =
        wrapper("s/nbthread 1/nbthread 2/; s/cpu-map.*//; s/ssl crt/process 1\\/1 ssl crt/");
    let path = path.to_string_lossy().into_owned();
    assert_confirmed(&first_cause(&["--haproxy", &path]), &["hot-thread"]);
}

#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn a_rate_limit() {
    let (_folder, path) = wrapper("s/^frontend tls/frontend tls\\n    rate-limit sessions 450/");
    let path = path.to_string_lossy().into_owned();
    assert_confirmed(&first_cause(&["--haproxy", &path, "--no-keepalive"]), &["rate-limit"]);
}

#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn the_connections_to_the_backends() {
    let (_folder, path) = wrapper("s/^\\(    server b.*\\)/\\1 maxconn 4/");
    let path = path.to_string_lossy().into_owned();
    let flags = ["--haproxy", &path, "-H", "sleep-fixed: 10", "--connections", "200"];
    assert_confirmed(&first_cause(&flags), &["server-maxconn"]);
}
