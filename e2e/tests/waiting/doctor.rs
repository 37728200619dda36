//! The limits that `doctor` names are those that stop `hold`: each is lowered in a network namespace of
//! its own or by prlimit, and both are asked.

use std::process::{Command, Output};

use e2e::program;
use serde_json::Value;

/// Runs `script` in a network namespace of its own, where `$P` is plimsoll and a backend answers at
/// 127.0.0.1:8080.
fn in_namespace(script: &str) -> Output {
    let script = format!(
        "ip link set lo up\n\
         $P serve --http 127.0.0.1:8080 >/dev/null 2>&1 & S=$!\n\
         trap 'kill $S' EXIT\n\
         until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do :; done\n\
         {script}"
    );
    Command::new("unshare")
        .args(["--map-root-user", "--net", "timeout", "120", "bash", "-c", &script])
        .env("P", program::plimsoll())
        .output()
        .expect("doctor answers")
}

/// The limits that would stop the connections, by the JSON object on standard output, and how many fit.
fn stops(output: &Output) -> (Vec<String>, u64) {
    let doctor: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let limits = doctor["limits"].as_array().expect("doctor answers").iter();
    let names = limits
        .filter(|limit| limit["ok"] == false && limit["effect"] == "stops")
        .map(|limit| limit["name"].as_str().expect("doctor answers").to_owned());
    (names.collect(), doctor["fits"].as_u64().expect("doctor answers"))
}

fn hold(connections: u64, flags: &str) -> String {
    format!(
        "$P hold http://127.0.0.1:8080/ -c {connections} --source 127.0.0.1 --rate 2k --for 0 \
         --heartbeat 0 --no-ui {flags}"
    )
}

const DOCTOR: &str = "$P doctor -c 400 --json -";

#[test]
fn nothing_is_named_where_the_connections_are_held() {
    let output = in_namespace(DOCTOR);
    assert_eq!(stops(&output).0, [""; 0], "{output:?}");
    let output = in_namespace(&hold(400, ""));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_narrow_port_range_is_named_and_stops_one_connection_more_than_fit() {
    let narrow = "echo '40000 40099' > /proc/sys/net/ipv4/ip_local_port_range\n";
    let output = in_namespace(&format!("{narrow}{DOCTOR}"));
    let (names, fits) = stops(&output);
    assert_eq!(names, ["source ports (clients)"], "{output:?}");
    let held = in_namespace(&format!("{narrow}{}", hold(fits, "")));
    assert_eq!(held.status.code(), Some(0), "{fits} fit: {held:?}");
    let refused = in_namespace(&format!("{narrow}{}", hold(fits + 1, "")));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("source ports (clients)") && !text.contains("open files"), "{text}");
}

#[test]
fn few_open_files_are_named_and_stop_a_hold_that_may_not_have_more_processes() {
    let output = in_namespace("prlimit --nofile=65:65 $P doctor -c 2000 --json -");
    let (names, _) = stops(&output);
    assert_eq!(names, ["open files of a process (clients)"], "{output:?}");
    let few = "ulimit -n 200\n";
    let refused = in_namespace(&format!("{few}{}", hold(400, "--processes 1")));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("open files"), "{text}");
    assert!(!text.contains("source ports"), "{text}");
}
