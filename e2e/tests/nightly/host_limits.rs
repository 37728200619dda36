//! Limits of the whole host that `doctor` names, each lowered for some seconds: no namespace has them for
//! itself, so this is for a host that does nothing else. `hold` is started before the limit is lowered, since it
//! refuses what does not fit; it has to end at about the number that `doctor` says, in the class that
//! the kernel's refusal has.

use std::fs;

use e2e::doctor::stops;
use e2e::host_setting::HostSetting;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::wait;

use super::alone;

/// Connections that are asked for.
const MANY: &str = "6000";
/// More of the limit than is in use when it is lowered.
const SPARE: u64 = 3_000;
/// Drops CAP_SYS_ADMIN, whose holder may open files past `fs.file-max`.
const UNPRIVILEGED: &str =
    r#"exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$0" "$@""#;

/// Returns the limits that `doctor` says would stop the connections, and the number that fit.
fn doctor(before: &str) -> (Vec<String>, u64) {
    let finished = Plimsoll::after(
        before,
        &["doctor", "-c", MANY, "--role", "client", "--role", "backend", "--json", "-"],
    )
    .run();
    stops(finished.stdout.as_bytes(), &finished)
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
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    let lowered = HostSetting::set(&file, &(in_use + SPARE).to_string());
    let lowered = lowered.expect("this test is run as root");
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
