//! The limits that `doctor` names are those that stop `hold`: each is lowered in a network namespace, in a
//! control group or by prlimit, and both are asked. `hold` refuses what does not fit before it begins; that
//! the kernel would, too, is shown by a limit that is lowered after its start, or by `load`, which has no
//! such check.

use std::fs;
use std::process::{Command, Output};

use e2e::cgroup::{Group, GroupLimit};
use e2e::doctor::stops;
use e2e::plimsoll::{Finished, Plimsoll, Running};
use e2e::serve::Serve;
use e2e::{program, wait};

/// Runs `script` in its own network namespace, where `$P` is plimsoll and a backend answers at
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
    assert_eq!(stops(&output.stdout, &output).0, [""; 0], "{output:?}");
    let output = in_namespace(&hold(400, ""));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_narrow_port_range_is_named_and_stops_one_connection_more_than_fit() {
    let narrow = "echo '40000 40099' > /proc/sys/net/ipv4/ip_local_port_range\n";
    let reserved = "echo 40010-40019 > /proc/sys/net/ipv4/ip_local_reserved_ports\n";
    for (lowered, ports) in [(narrow.to_owned(), 100), (format!("{narrow}{reserved}"), 90)] {
        let output = in_namespace(&format!("{lowered}{DOCTOR}"));
        let (names, fits) = stops(&output.stdout, &output);
        assert_eq!((names, fits), (vec!["source ports (clients)".to_owned()], ports), "{output:?}");
        let held = in_namespace(&format!("{lowered}{}", hold(fits, "")));
        assert_eq!(held.status.code(), Some(0), "{fits} fit: {held:?}");
        let refused = in_namespace(&format!("{lowered}{}", hold(fits + 1, "")));
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains("source ports (clients)"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}

/// Connections for tests in which a limit is lowered.
const MANY: u64 = 2_000;
/// Files of a process, so that many connections need many processes: 100 in each.
const FEW_FILES: &str = "ulimit -n 164";

/// Role of a host that opens the connections.
const CLIENT: &[&str] = &["--role", "client"];
/// It accepts them as well, as far as `hold` knows: the server has an address of this host.
const BOTH_ENDS: &[&str] = &["--role", "client", "--role", "backend"];

/// Returns `doctor` for [`MANY`] connections, started by a shell that first does `before`.
fn doctor(before: &str, roles: &[&str]) -> (Vec<String>, u64) {
    let asked = MANY.to_string();
    let arguments = [&["doctor", "-c", &asked, "--json", "-"], roles].concat();
    let finished = Plimsoll::after(before, &arguments).run();
    stops(finished.stdout.as_bytes(), &finished)
}

fn held(before: &str, server: &Serve, connections: u64, flags: &[&str]) -> Plimsoll {
    let connections = connections.to_string();
    let own = ["hold", server.url(), "-c", &connections, "--for", "0", "--heartbeat", "0"];
    let own = [&own[..], &["--json", "out.json", "--out", "run"], flags].concat();
    Plimsoll::after(before, &own)
}

/// Checks that of [`MANY`] connections only `name` stops some, that as many are held as fit, and
/// that [`MANY`] are refused because of it alone; returns how many fit.
fn assert_stops(before: &str, roles: &[&str], name: &str) -> u64 {
    let server = Serve::plain();
    let (names, fits) = doctor(before, roles);
    assert_eq!(names, [name], "{fits} fit");
    assert!((1..MANY).contains(&fits), "{fits} fit");
    let most = held(before, &server, fits, &["--rate", "2k"]).run().written(0);
    assert_eq!(most.count("hold.held"), fits, "{most:?}");
    let refused = held(before, &server, MANY, &["--rate", "2k"]).run();
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let lines: Vec<_> = refused.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[1].contains(name), "{lines:?}");
    fits
}

#[test]
fn many_processes_are_no_obstacle_where_nothing_limits_threads() {
    let server = Serve::plain();
    assert_eq!(doctor(FEW_FILES, CLIENT).0, [""; 0]);
    let all = held(FEW_FILES, &server, MANY, &["--rate", "2k"]).run().written(0);
    assert_eq!(all.count("hold.held"), MANY, "{all:?}");
    assert_eq!(all.count("generator.processes"), 20);
}

/// Returns a group called `name`, or says that this test checks nothing.
fn group(name: &str, limit: GroupLimit) -> Option<(Group, String)> {
    let made = Group::new(name, limit);
    if let Err(error) = &made {
        eprintln!("SKIPPED: no control group can be made (run as root): {error}");
    }
    let group = made.ok()?;
    let enter = format!("echo $$ > '{}'", group.procs().display());
    Some((group, enter))
}

/// Runs a load of `processes` processes, without a check before it.
fn load(before: &str, processes: u64) -> Finished {
    let server = Serve::plain();
    let (connections, processes) = ((processes * 10).to_string(), processes.to_string());
    let flags = ["--rate", "100", "-d", "1s", "-c", &connections, "--processes", &processes];
    Plimsoll::after(before, &[&["load", server.url()], &flags[..]].concat()).run()
}

/// Checks that `fit` processes can be started, and that half as many again cannot, with the words
/// of the kernel.
fn assert_processes_run_out(before: &str, fit: u64, words: &str) {
    let enough = load(before, fit);
    assert!([Some(0), Some(98)].contains(&enough.code), "{}", enough.stderr);
    let too_many = load(before, fit + fit.div_ceil(2));
    assert_eq!(too_many.code, Some(1), "{}", too_many.stderr);
    assert!(too_many.stderr.contains(words), "{}", too_many.stderr);
}

const NO_THREAD: &str = "Resource temporarily unavailable";
const NO_FILE: &str = "Too many open files";

/// Waits until a hold has been opening connections for a second.
fn wait_for_a_second(running: &mut Running) {
    let file = running.folder().join("run/intervals.jsonl");
    wait::until("a second of the ramp", || {
        assert!(!running.has_ended(), "the hold ended too soon");
        fs::read_to_string(&file).ok().filter(|text| text.contains('\n'))
    });
}

#[test]
fn few_threads_of_a_control_group_stop_what_needs_many_processes() {
    let Some((_group, enter)) = group("threads", GroupLimit::Threads(120)) else { return };
    let before = format!("{enter} && {FEW_FILES}");
    let fits = assert_stops(&before, CLIENT, "threads (pids.max)");
    assert_processes_run_out(&before, fits / 100, NO_THREAD);
}

#[test]
fn few_threads_of_a_user_stop_it_unless_it_is_root() {
    // Nobody else is this user.
    let user = 64_000 + std::process::id() % 1_000;
    let few = "ulimit -u 120 && ulimit -n 164";
    let as_user = format!(
        "chown {user} . tmp && {few} && exec setpriv --reuid {user} --clear-groups \"$0\" \"$@\""
    );
    if Plimsoll::after(&as_user, &["--version"]).run().code != Some(0) {
        eprintln!(
            "SKIPPED: becoming another user needs root, and plimsoll in a folder that all may read"
        );
        return;
    }
    let fits = assert_stops(&as_user, CLIENT, "threads (ulimit -u)");
    assert_processes_run_out(&as_user, fits / 100, NO_THREAD);
    assert_eq!(doctor(few, CLIENT).0, [""; 0], "root is exempt");
}

#[test]
fn little_memory_of_a_control_group_stops_what_needs_more() {
    let little = GroupLimit::MemoryBytes(24 << 20);
    let Some((group, enter)) = group("memory", little) else { return };
    let fits = assert_stops(&enter, BOTH_ENDS, "memory of the control group");
    group.limit(GroupLimit::MemoryBytes(1 << 40)).expect("it is root's");
    let server = Serve::plain();
    let mut running = held(&enter, &server, 3 * MANY, &["--rate", "1k"]).start();
    wait_for_a_second(&mut running);
    group.limit(little).expect("it is root's");
    let ended = running.finish();
    // The kernel kills the clients, or who coordinates them.
    let shown = format!("{fits} fit, code {:?}: {}", ended.code, ended.stderr);
    assert!([None, Some(98)].contains(&ended.code), "{shown}");
}

#[test]
fn few_open_files_stop_a_process_at_the_connections_that_fit() {
    let server = Serve::plain();
    let arguments = held("ulimit -n 564", &server, MANY, &["--processes", "1"]).run();
    assert!(arguments.stderr.contains("it can hold 500"), "{}", arguments.stderr);
    let mut running = held("true", &server, MANY, &["--processes", "1", "--rate", "250"]).start();
    wait_for_a_second(&mut running);
    let agent = running.named("plimsoll-agent").pop().expect("one agent");
    let lowered = Command::new(program::installed("prlimit"))
        .args(["--nofile=564:564", "--pid", &agent.pid.to_string()])
        .status();
    assert!(lowered.is_ok_and(|status| status.success()));
    let summary = running.finish().written(98);
    // Up to 64 files of a process are no connections.
    assert!((500..=564).contains(&summary.count("hold.held")), "{summary:?}");
    assert!(summary.counts("connection_error_classes").contains_key("local-files"), "{summary:?}");
}

#[test]
fn few_open_files_of_the_coordinator_stop_many_processes() {
    // 16 connections in each of 125 processes.
    let before = "ulimit -n 80";
    let fits = assert_stops(before, CLIENT, "open files of a process (coordinator)");
    assert_processes_run_out(before, fits / 16, NO_FILE);
}
