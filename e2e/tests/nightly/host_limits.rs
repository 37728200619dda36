//! Limits of the whole host that `doctor` names, each lowered for some seconds: no namespace has them for
//! itself, so this is for a host that does nothing else. `hold` is started before the limit is lowered, since it
//! refuses what does not fit; it has to end at about the number that `doctor` says, in the class that
//! the kernel's refusal has.

use std::fs;
use std::path::PathBuf;

use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::wait;
use serde_json::Value;

use super::alone;

/// Connections that are asked for.
const MANY: &str = "6000";
/// More of the limit than is in use when it is lowered.
const SPARE: u64 = 3_000;
/// Drops CAP_SYS_ADMIN, whose holder may open files past `fs.file-max`.
const UNPRIVILEGED: &str =
    r#"exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$0" "$@""#;

/// A sysctl with another value; dropping it writes the old one.
struct Lowered {
    path: PathBuf,
    before: String,
}

impl Lowered {
    fn to(name: &str, value: u64) -> Self {
        let path = PathBuf::from(format!("/proc/sys/{}", name.replace('.', "/")));
        let before = fs::read_to_string(&path).expect("Linux has it");
        println!("{name}: {} -> {value}", before.trim());
        let lowered = Self { path, before };
        fs::write(&lowered.path, value.to_string()).expect("this test is run as root");
        lowered
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        fs::write(&self.path, &self.before).expect("it was written before");
    }
}

/// What `doctor` says that would stop the connections, and how many fit.
fn doctor(before: &str) -> (Vec<String>, u64) {
    let finished = Plimsoll::after(
        before,
        &["doctor", "-c", MANY, "--role", "client", "--role", "backend", "--json", "-"],
    )
    .run();
    let doctor: Value = serde_json::from_str(&finished.stdout).expect("one object");
    let limits = doctor["limits"].as_array().expect("a list").iter();
    let stops = limits.filter(|limit| limit["ok"] == false && limit["effect"] == "stops");
    let names = stops.map(|limit| limit["name"].as_str().expect("a name").to_owned());
    (names.collect(), doctor["fits"].as_u64().expect("a count"))
}

/// Lowers `name` to what is in use and [`SPARE`] more, in the ramp of a hold that has begun.
fn lowered_in_the_ramp(before: &str, name: &str, in_use: u64) -> (u64, Summary) {
    let server = Serve::plain();
    let flags = ["-c", MANY, "--rate", "1k", "--for", "0", "--heartbeat", "0", "--out", "run"];
    let own = [&["hold", server.url(), "--json", "out.json"], &flags[..]].concat();
    assert_eq!(doctor(before).0, [""; 0], "before {name} is lowered");
    let mut running = Plimsoll::after(before, &own).start();
    let file = running.folder().join("run/intervals.jsonl");
    wait::until("a second of the ramp", || {
        assert!(!running.has_ended(), "the hold ended too soon");
        fs::read_to_string(&file).ok().filter(|text| text.contains('\n'))
    });
    let lowered = Lowered::to(name, in_use + SPARE);
    let summary = running.finish().written(98);
    let (names, fits) = doctor(before);
    drop(lowered);
    assert_eq!(names, [name]);
    (fits, summary)
}

fn assert_stopped_at(summary: &Summary, fits: u64, class: &str) {
    let held = summary.count("hold.held");
    println!("fits {fits}, held {held}");
    assert!(held.abs_diff(fits) <= fits / 10, "{fits} fit: {summary:?}");
    assert!(summary.counts("connection_error_classes").contains_key(class), "{summary:?}");
}

#[test]
#[ignore = "changes sysctls of the whole host for seconds"]
fn limits_of_the_host_stop_a_hold_where_doctor_says() {
    let _alone = alone();
    let open = fs::read_to_string("/proc/sys/fs/file-nr").expect("Linux has it");
    let open: u64 =
        open.split_ascii_whitespace().next().and_then(|n| n.parse().ok()).expect("files");
    for (before, name, in_use, class) in [
        (UNPRIVILEGED, "fs.file-max", open, "local-files"),
        ("true", "fs.epoll.max_user_watches", 0, "local-memory"),
    ] {
        let (fits, summary) = lowered_in_the_ramp(before, name, in_use);
        assert_stopped_at(&summary, fits, class);
    }
}
