//! Loads that other hosts make, over ssh: one load, exactly merged, and nothing left on any of them.

use e2e::plimsoll::{Finished, undisturbed};
use e2e::ssh_hosts;
use e2e::ssh_hosts::{HOSTS, LOGIN, URL};

use crate::connections::QUICK;

/// 300 operations in each second.
const LOAD: [&str; 8] =
    ["--rate", "300", "--slo", "errors<100%", "--json", "out.json", "--out", "run"];

fn load(flags: &[&str], meanwhile: &str) -> Option<Finished> {
    let always = ["load", URL, "--hosts", HOSTS];
    ssh_hosts::run(&[&always, &LOGIN[..], &LOAD, flags].concat(), meanwhile)
}

/// Returns the text that is in one line, however wide the terminal was.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_nothing_left(finished: &Finished) {
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}

#[test]
fn three_hosts_make_one_load_and_get_the_program_where_it_is_not() {
    let Some(finished) = load(&["--duration", "1s"], "") else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a load INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    assert_eq!((summary.number("scheduled"), summary.number("ok")), (300.0, 300.0));
    assert_eq!(summary.number("generator.processes"), 3.0);
    let hosts = summary.at("load_hosts").as_object().expect("hosts").clone();
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["10.77.0.1", "10.77.0.2", "10.77.0.3"]);
    for (name, host) in &hosts {
        // All have the same clock: its offset is 0, and at most the bound, which is half of a round trip.
        let bound = host["clock_bound_ms"].as_f64().expect("milliseconds");
        assert!(bound > 0.0, "{name}: {bound} ms");
        let offset = host["clock_offset_ms"].as_f64().expect("milliseconds");
        assert!(offset.abs() <= bound, "{name}: {offset} ms, and at most {bound} ms are stated");
        assert_eq!(host["clock_drift_ms"], 0.0, "{name}");
        let margin = host["start_margin_ms"].as_f64().expect("milliseconds");
        assert!(margin > 0.0, "{name}: {margin} ms");
    }
    let read = summary.at("hosts").as_object().expect("hosts were read");
    assert!(read.keys().eq(hosts.keys()), "{read:?}");
    for (name, host) in read {
        assert_eq!(host["roles"], serde_json::json!(["client"]), "{name}");
        for figure in ["cpus", "cpu_max", "memory_max", "packets_per_s_max", "bytes_per_s_max"] {
            assert!(host[figure].as_f64() > Some(0.0), "{name}: {figure} of {host}");
        }
    }
    let copies = std::fs::read_dir(finished.folder().join("cache1/plimsoll/agents"));
    assert_eq!(copies.expect("copied").count(), 1);
    // The others find the program where this one has it.
    assert!(!finished.folder().join("cache2").exists());
    assert_nothing_left(&finished);
}

/// Files that another user of the first host has put where root will look: a program at the coordinator's path, whose
/// directory has mode 01777, a link in the place of the cache, and a copy in the next cache. Whatever is run leaves a
/// line in `ran`.
const PLANTED: &str = r#"
D=$PWD; S=$(ip netns pids h1 | head -n 1); B=$("$0" agent --identity)
mkdir -p cache1 victim home1/.cache/plimsoll/agents/$B
chmod 1777 cache1 home1
printf '%s\n' '#!/bin/sh' "id -u >> $D/ran" "[ \"\$2\" != --identity ] || echo $B" > planted
chmod 755 planted
cp planted home1/.cache/plimsoll/agents/$B/plimsoll
ln -s $D/victim cache1/plimsoll
chown -hR 65534:65534 cache1/plimsoll home1/.cache
nsenter -t $S -m sh -c "cp $D/planted '$0'; chown 65534:65534 '$0'; stat -c %a '$(dirname "$0")' > $D/mode"
nsenter -t $S -m -n $(command -v sshd || echo /usr/sbin/sshd) -D -e -f $D/keys/sshd1 -p 2222 \
  -o "SetEnv XDG_CACHE_HOME=$D/cache1 HOME=$D/home1 XDG_RUNTIME_DIR=$D/own1" 2> keys/log1b < /dev/null > /dev/null &
until (exec 3<> /dev/tcp/10.77.0.1/2222) 2> /dev/null; do sleep 0.05; done
"#;

#[test]
fn what_others_have_put_on_a_host_is_neither_run_nor_followed() {
    let load = ["load", URL, "--hosts", "10.77.0.1:2222", "--ssh-option", "HostKeyAlias=10.77.0.1"];
    let flags = [&load[..], &LOGIN, &LOAD, &["--duration", "1s"]].concat();
    let Some(finished) = ssh_hosts::run_with(1, PLANTED, &flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    assert!([0, 98].contains(&code), "{}", finished.stderr);
    assert_eq!(finished.written(code).number("scheduled"), 300.0);
    let at = |name: &str| finished.folder().join(name);
    assert_eq!(std::fs::read_to_string(at("mode")).expect("a mode").trim(), "1777");
    assert!(!at("ran").exists(), "{}", std::fs::read_to_string(at("ran")).unwrap_or_default());
    assert_eq!(std::fs::read_dir(at("victim")).expect("a folder").count(), 0);
    // The first place that nobody else has a hand in.
    let copies = std::fs::read_dir(at("own1/plimsoll/agents"));
    assert_eq!(copies.expect("copied").count(), 1);
    assert_nothing_left(&finished);
}

#[test]
fn a_host_that_is_lost_is_named_and_every_operation_of_the_plan_is_accounted_for() {
    let kill = "middle; kill -KILL $(agents 2)";
    let Some(finished) = load(&["--duration", "3s"], kill) else { return };
    let summary = finished.written(98);
    assert_eq!(summary.number("scheduled"), 900.0);
    let unsent = summary.number("unsent");
    assert!((100.0..=300.0).contains(&unsent), "{unsent}");
    assert!(finished.stderr.contains("10.77.0.2 ended unexpectedly"), "{}", finished.stderr);
    let lost = summary.at("load_hosts")["10.77.0.2"]["lost"].as_str();
    assert!(lost.is_some_and(|how| how.starts_with("ended unexpectedly")), "{lost:?}");
    assert_nothing_left(&finished);
}

#[test]
fn a_hold_is_steered_over_three_hosts_and_ends_when_it_is_told() {
    let hold =
        ["hold", URL, "--hosts", HOSTS, "--connections", "300", "--rate", "1k", "--for", "10m"];
    let flags = ["--json", "out.json", "--out", "run"];
    let all = "until [ \"$(ss -Htn state established sport = :8080 | wc -l)\" -ge 300 ]; do \
               kill -0 $P || break; sleep 0.2; done; kill -TERM $P";
    let Some(finished) = ssh_hosts::run(&[&hold[..], &LOGIN, &flags].concat(), all) else {
        return;
    };
    let summary = finished.written(143);
    assert_eq!(summary.number("connections.held_max"), 300.0);
    assert_eq!(summary.at("load_hosts").as_object().map(|hosts| hosts.len()), Some(3));
    assert_nothing_left(&finished);
}

#[test]
fn kill_9_of_the_coordinator_leaves_nothing() {
    let kill = "middle; kill -KILL $P";
    let Some(finished) = load(&["--duration", "10m"], kill) else { return };
    assert_eq!(finished.code, Some(137), "{}", finished.stderr);
    assert_nothing_left(&finished);
}

#[test]
fn hosts_that_cannot_take_part_have_a_line_each_and_nothing_is_started() {
    let stranger = ["--ssh-option", "IdentityFile=keys/stranger", LOGIN[2], LOGIN[3]];
    let unknown = ["--ssh-option", "UserKnownHostsFile=keys/none", LOGIN[0], LOGIN[1]];
    let cases = [
        (stranger, HOSTS, "10.77.0.[1-3] accepts no key of this user"),
        (unknown, "10.77.0.1", "10.77.0.1 has a host key that is not in known_hosts"),
        (LOGIN, "10.77.0.1,nowhere.invalid", "nowhere.invalid is not known"),
        (LOGIN, "10.77.0.2:23", "10.77.0.2:23 refuses connections"),
    ];
    let words = |options: &[&'static str; 4], hosts| {
        let always =
            ["load", URL, "--no-ui", "--ssh-option", "IdentitiesOnly=yes", "--hosts", hosts];
        [&always[..], options].concat()
    };
    // All in one place: the first as what is run, the others beside it.
    let others = cases[1..].iter().map(|(options, hosts, _)| {
        format!("\"$0\" {} < /dev/null; echo \"CODE $?\" >&2\n", words(options, hosts).join(" "))
    });
    let Some(finished) =
        ssh_hosts::run(&words(&cases[0].0, cases[0].1), &others.collect::<String>())
    else {
        return;
    };
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("CODE 1").count(), 3, "{}", finished.stderr);
    for (_, _, said) in cases {
        assert!(finished.stderr.contains(said), "{said}: {}", finished.stderr);
    }
    assert_nothing_left(&finished);
}

#[test]
fn a_login_that_an_sshd_drops_among_many_is_tried_again() {
    // This sshd has room for one login at a time, and somebody has it until a login was dropped.
    let before = "ip netns exec h2 /usr/sbin/sshd -D -e -f keys/sshd2 -p 2222 -o MaxStartups=1:100:1 \
                  2> keys/dropped < /dev/null > /dev/null &
                  first() { until exec 4<> /dev/tcp/10.77.0.2/2222 && read -r -t 5 -u 4 banner; do sleep 0.2; done
                    touch keys/taken; until grep -q MaxStartups keys/dropped; do sleep 0.05; done; }
                  first 2> /dev/null & until [ -e keys/taken ]; do sleep 0.05; done";
    let load = ["load", URL, "--hosts", "10.77.0.2:2222", "--ssh-option", "HostKeyAlias=10.77.0.2"];
    let flags = [&load[..], &LOGIN, &LOAD, &["--duration", "1s"]].concat();
    let Some(finished) = ssh_hosts::run_with(3, before, &flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    assert!([0, 98].contains(&code), "{}", finished.stderr);
    assert_eq!(finished.written(code).number("scheduled"), 300.0);
    let dropped = std::fs::read_to_string(finished.folder().join("keys/dropped")).expect("a log");
    assert!(dropped.contains("MaxStartups"), "{dropped}");
    assert_nothing_left(&finished);
}

#[test]
fn what_is_missing_on_which_host_is_one_table_before_the_first_packet() {
    // Only the first host has a way to the server; the second one has 77 ports for 100 connections.
    let before = "ip addr add 10.78.0.1/24 dev br0; ip -n h1 route add 10.78.0.0/24 via 10.77.0.254
                  ip netns exec h2 sysctl -qw net.ipv4.ip_local_port_range='1024 1100'";
    let load = ["load", "http://10.78.0.1:8080/", "--hosts", HOSTS, "--connections", "300"];
    let flags = [&load[..], &LOGIN, &["--duration", "1s", "--out", "run"]].concat();
    let Some(finished) = ssh_hosts::run_with(3, before, &flags, "") else { return };
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let row = |first: &str, second: &str| {
        finished
            .stderr
            .lines()
            .any(|line| line.trim_start().starts_with(first) && line.contains(second))
    };
    for (hosts, what) in [
        ("hosts ", "what raises it"),
        ("10.77.0.[2-3] ", "route to 10.78.0.1"),
        ("10.77.0.2 ", "source ports (clients)"),
    ] {
        assert!(row(hosts, what), "{hosts} {what}: {}", finished.stderr);
    }
    assert!(!finished.folder().join("run").exists());
    assert_nothing_left(&finished);
}

#[test]
fn a_host_with_few_files_a_process_makes_its_part_with_many_processes() {
    // A login there gives processes 200 open files; 64 of them are no connections.
    let before = "bash -c 'ulimit -n 200; exec ip netns exec h2 /usr/sbin/sshd -D -e -f keys/sshd2 -p 2222' \
                  2> keys/few < /dev/null > /dev/null &
                  until (exec 3<> /dev/tcp/10.77.0.2/2222) 2> /dev/null; do sleep 0.05; done";
    let hosts = ["--hosts", "10.77.0.2:2222", "--ssh-option", "HostKeyAlias=10.77.0.2"];
    let hold =
        ["hold", URL, "--connections", "600", "--rate", "2k", "--for", "1s", "--json", "out.json"];
    let flags = [&hold[..], &hosts, &LOGIN].concat();
    let Some(finished) = ssh_hosts::run_with(3, before, &flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a hold INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{}{}", finished.stdout, finished.stderr);
    let summary = finished.written(code);
    assert_eq!(summary.number("connections.held_max"), 600.0);
    let processes = summary.number("generator.processes");
    assert!((5.0..=8.0).contains(&processes), "{processes}");
    assert_nothing_left(&finished);
}

#[test]
fn each_host_has_source_ports_of_its_own() {
    let few = "for host in h1 h2 h3; do \
               ip netns exec $host sysctl -qw net.ipv4.ip_local_port_range='20000 20109'; done";
    let hold =
        ["hold", URL, "--hosts", HOSTS, "--connections", "300", "--rate", "1k", "--for", "1s"];
    let flags = [&hold[..], &LOGIN, &["--json", "out.json"]].concat();
    let Some(finished) = ssh_hosts::run_with(3, few, &flags, "") else { return };
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a hold INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{}{}", finished.stdout, finished.stderr);
    let summary = finished.written(code);
    assert_eq!(summary.number("connections.held_max"), 300.0, "{}", finished.stdout);
    assert_eq!(summary.number("connections.failed"), 0.0, "{}", finished.stdout);
    assert_eq!(summary.number("hold.ports_per_source"), 110.0);
    let stdout = words_of(&finished.stdout);
    assert!(stdout.contains(", 110 ports each; closed"), "{stdout}");
    assert_nothing_left(&finished);
}

/// Two hosts have 110 source ports, the second one 90: together they hold three times as many as that.
const UNEQUAL_PORTS: &str = "for host in h1 h3; do \
     ip netns exec $host sysctl -qw net.ipv4.ip_local_port_range='20000 20109'; done
     ip netns exec h2 sysctl -qw net.ipv4.ip_local_port_range='20000 20089'";

#[test]
fn a_host_that_is_added_to_the_file_of_a_hold_joins_it() {
    // For 15 s connections are opened: to start plimsoll on a host takes some of them on a busy machine.
    let hold = [
        "hold", URL, "--hosts", "@hosts", "-c", "300", "--rate", "20", "--for", "2s", "--json",
        "out.json",
    ];
    let count = "ss -Htn state established sport = :8080";
    let reached = |connections: u32| {
        format!(
            "until [ $({count} | wc -l) -ge {connections} ]; do kill -0 $P || break; sleep 0.2; done"
        )
    };
    // No sshd answers where the server is.
    let meanwhile = format!(
        "{}; printf '10.77.0.254\\n10.77.0.2\\n' >> hosts\n{}; {count} > peak",
        reached(10),
        reached(300)
    );
    let before = "echo 10.77.0.1 > hosts";
    let flags = [&hold[..], &LOGIN].concat();
    let Some(finished) = ssh_hosts::run_with(2, before, &flags, &meanwhile) else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a hold INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    for (field, value) in
        [("hold.held", 300.0), ("connections.opened", 300.0), ("connections.failed", 0.0)]
    {
        assert_eq!(summary.number(field), value, "{field}: {shown}");
    }
    let hosts = summary.at("load_hosts").as_object().expect("hosts").clone();
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["10.77.0.1", "10.77.0.2"]);
    let words = words_of(&finished.stderr);
    for note in ["10.77.0.2 joins in second", "10.77.0.254 does not join: "] {
        assert!(words.contains(note), "{note}: {shown}");
    }
    let peak = std::fs::read_to_string(finished.folder().join("peak")).expect("counted");
    let of_second = peak.lines().filter(|line| line.contains("10.77.0.2:")).count();
    assert!((1..=150).contains(&of_second), "{of_second} of {}: {shown}", peak.lines().count());
    assert_nothing_left(&finished);
}

#[test]
fn a_hold_up_to_what_hosts_have_room_for_holds_so_many() {
    let hold = ["hold", URL, "--hosts", HOSTS, "--rate", "1k", "--for", "2s", "-c", "900"];
    let up_to = [&hold[..], &LOGIN, &["--up-to", "--json", "out.json"]].concat();
    let all = [&hold[..], &LOGIN].concat().join(" ");
    let count = "ss -Htn state established sport = :8080 | wc -l";
    let meanwhile = format!(
        "until [ $({count}) -ge 270 ]; do kill -0 $P || break; sleep 0.2; done; {count} > peak; wait $P; C=$?
         \"$0\" {all} < /dev/null; echo \"CODE $?\" >&2"
    );
    let Some(finished) = ssh_hosts::run_with(3, UNEQUAL_PORTS, &up_to, &meanwhile) else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a hold INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    for (field, value) in [
        ("hold.asked", 270.0),
        ("hold.held", 270.0),
        ("hold.ports_per_source", 90.0),
        ("connections.opened", 270.0),
        ("connections.failed", 0.0),
    ] {
        assert_eq!(summary.number(field), value, "{field}: {shown}");
    }
    assert_eq!(summary.at("load_hosts")["10.77.0.1"]["ports_per_source"], 110);
    let peak = std::fs::read_to_string(finished.folder().join("peak")).expect("counted");
    assert_eq!(peak.trim(), "270", "{shown}");
    let shown = words_of(&shown);
    for said in [
        "the hosts can hold 270 of 900 connections: source ports (clients) of 10.77.0.2 for 270",
        "at least 90 ports each",
        "together they can hold 270 connections; --up-to holds as many",
        "CODE 1",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert_nothing_left(&finished);
}

#[test]
fn a_search_for_connections_over_hosts_ends_where_one_of_them_has_no_ports_left() {
    let find = ["find", "connections", URL, "--hosts", HOSTS, "--min", "30", "--max", "900"];
    let flags = [&find[..], &LOGIN, &QUICK, &["--json", "out.json", "--out", "run"]].concat();
    let Some(finished) = ssh_hosts::run_with(3, UNEQUAL_PORTS, &flags, "") else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let summary = finished.written(98);
    assert_eq!(summary.number("find.lower"), 270.0, "{shown}");
    let why = summary.text("find.outcome.generator-limited.why");
    assert!(why.starts_with("source ports (clients) of 10.77.0.2 for 270 connections"), "{why}");
    assert_eq!(summary.number("connections.held_max"), 270.0);
    assert_eq!(summary.number("connections.failed"), 0.0);
    assert_eq!(summary.number("generator.processes"), 3.0);
    assert_nothing_left(&finished);
}

/// Starts HAProxy at 10.77.0.254:8081 with a line of its section `global`, and one of its frontend.
fn haproxy(global: &str, frontend: &str) -> String {
    let haproxy = e2e::program::installed("haproxy");
    format!(
        "printf '%s\\n' global ' {global}' defaults ' mode http' ' timeout connect 5s' ' timeout client 60s' \
           ' timeout server 60s' 'frontend sut' ' bind 10.77.0.254:8081' ' {frontend}' \
           ' http-request return status 200 content-type text/plain string pong' > haproxy.cfg
         {} -db -f haproxy.cfg > haproxy.log 2>&1 < /dev/null &
         until (exec 3<> /dev/tcp/10.77.0.254/8081) 2> /dev/null; do sleep 0.05; done",
        haproxy.display()
    )
}

#[test]
fn a_storm_over_hosts_cuts_the_share_of_each() {
    let before = haproxy("maxconnrate 100", "maxconn 3000");
    let find = ["find", "storm", "http://10.77.0.254:8081/", "--hosts", HOSTS, "-c", "300"];
    let storm = ["--rate", "60", "--recover", "1s", "--budget", "30s", "--yes-storm-remote"];
    let goal = ["--slo", "p99<1s,errors<1%", "--json", "out.json", "--out", "run"];
    let flags = [&find[..], &LOGIN, &storm, &goal].concat();
    let Some(finished) = ssh_hosts::run_with(3, &before, &flags, "") else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    // 100 clients come back in the second that they have. A short search may end with bounds, or INVALID on a busy
    // machine.
    let code = finished.code.unwrap_or(-1);
    assert!([0, 97, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    assert_eq!(summary.number("generator.processes"), 3.0, "{shown}");
    assert_eq!(summary.count("storm.held"), 300, "{shown}");
    let storms = summary.at("storm.storms").as_array().expect("a list").clone();
    assert!(!storms.is_empty(), "{shown}");
    for storm in storms.iter().filter(|storm| storm["verdict"] != "invalid") {
        let is_good = storm["verdict"] == "good";
        assert!(storm["cut"].as_u64() < Some(150) || !is_good, "{storm}");
        assert!(!is_good || (storm["missing"] == 0 && storm["lost"] == 0), "{storm}");
        assert!(storm["attempts"].as_u64() >= storm["cut"].as_u64(), "{storm}");
        // Its first second is that of the cut, on all hosts.
        assert!(storm["seconds"][0]["attempts"].as_u64() > Some(0), "{storm}");
    }
    assert_nothing_left(&finished);
}

#[test]
fn a_search_over_hosts_finds_how_many_connections_a_server_holds() {
    let before = haproxy("maxconn 4000", "maxconn 211");
    let find = ["find", "connections", "http://10.77.0.254:8081/", "--hosts", HOSTS, "--max", "1k"];
    let flags = [&find[..], &LOGIN, &QUICK, &["--json", "out.json", "--out", "run"]].concat();
    if !ssh_hosts::is_possible() {
        return;
    }
    let search = || ssh_hosts::run_with(3, &before, &flags, "").expect("possible");
    let finished = undisturbed(search);
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let summary = finished.written(0);
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    assert!(
        lower <= 211.0 && 211.0 < upper && upper / lower <= 1.06,
        "[{lower}, {upper}]: {shown}"
    );
    assert_eq!(summary.number("find.connections.soak_held"), lower, "{shown}");
    // Whatever was opened was counted at one end of its life or the other.
    let opened = summary.number("connections.opened");
    assert!(opened >= lower && summary.number("hold.held") == lower, "{opened}: {shown}");
    assert_nothing_left(&finished);
}

#[test]
fn a_second_run_on_a_host_is_refused_and_the_first_goes_on() {
    let load = ["load", URL, "--hosts", "10.77.0.[1-2]", "--duration", "10m"];
    let second = ["load", URL, "--hosts", "10.77.0.[2-3]", "--duration", "1s", "--rate", "10"];
    let second = [&second[..], &LOGIN].concat().join(" ");
    let meanwhile =
        format!("middle; \"$0\" {second} < /dev/null; echo \"CODE $?\" >&2; kill -INT $P");
    let Some(finished) = ssh_hosts::run(&[&load[..], &LOGIN, &LOAD].concat(), &meanwhile) else {
        return;
    };
    let summary = finished.written(130);
    assert_eq!(summary.number("ok"), summary.number("scheduled"), "{}", finished.stderr);
    let row = finished.stderr.lines().find(|line| line.contains("host to itself"));
    assert!(
        row.is_some_and(|row| row.trim_start().starts_with("10.77.0.2 ")),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains("CODE 1"), "{}", finished.stderr);
    assert_nothing_left(&finished);
}

#[test]
fn a_host_that_sends_no_frames_is_lost_and_nobody_else() {
    // What is sent instead, once the load runs: too long, not a message, cut off.
    let cases = [
        (r"head -c 8 /dev/zero | tr '\0' X", "not a frame of plimsoll's"),
        (r#"printf '\007\000\000\000{"a":1}'"#, "not a message of this version"),
        (r"printf '\011\000\000\000{'", "ended inside a frame"),
    ];
    for (sent, said) in cases {
        let before = format!(
            r#"cat > reach <<'END'
#!/bin/bash
if [ "$1" != h2 ]; then exec ip netns exec "$1" sh; fi
ip netns exec h2 sh | {{ cat <&0 & C=$!; until [ -s run/intervals.jsonl ]; do sleep 0.2; done
  sleep 0.3; kill -KILL $C; wait $C 2> /dev/null; {sent}; }}
END
chmod +x reach"#
        );
        let load = ["load", URL, "--hosts", "h[1-3]", "--launch", "./reach %h", "--duration", "5s"];
        let flags = [&load[..], &LOAD].concat();
        let Some(finished) = ssh_hosts::run_with(3, &before, &flags, "") else { return };
        let summary = finished.written(98);
        assert_eq!(summary.number("scheduled"), 1_500.0, "{}", finished.stderr);
        let hosts = summary.at("load_hosts");
        let lost = hosts["h2"]["lost"].as_str().unwrap_or("not lost");
        assert!(lost.contains(said), "{lost}: {}", finished.stderr);
        assert!(hosts["h1"]["lost"].is_null() && hosts["h3"]["lost"].is_null(), "{hosts}");
        assert_nothing_left(&finished);
    }
}

#[test]
fn another_build_and_no_program_are_said_before_the_load() {
    let before = "printf '%s\\n' '#!/bin/sh' 'echo plimsoll 0.0.1; exit 2' > old; chmod +x old";
    let words = |path: &str| {
        let load = ["load", URL, "--no-ui", "--hosts", HOSTS, "--remote-path", path];
        [&load[..], &LOGIN].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let old = words("/nowhere/plimsoll");
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let meanwhile = format!(
        "wait $P; \"$0\" {} < /dev/null; echo \"CODE $?\" >&2",
        words("$PWD/old").join(" ")
    );
    let Some(finished) = ssh_hosts::run_with(3, before, &old, &meanwhile) else { return };
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    for said in [
        "10.77.0.[1-3] cannot start plimsoll: /nowhere/plimsoll is no program there",
        "10.77.0.[1-3] ended unexpectedly: exit code 2",
        "CODE 1",
    ] {
        assert!(finished.stderr.contains(said), "{said}: {}", finished.stderr);
    }
    assert_nothing_left(&finished);
}

#[test]
fn a_process_that_a_host_loses_is_told_and_its_part_accounted_for() {
    let before = "bash -c 'ulimit -n 200; exec ip netns exec h2 /usr/sbin/sshd -D -e -f keys/sshd2 -p 2222' \
                  2> keys/few < /dev/null > /dev/null &
                  until (exec 3<> /dev/tcp/10.77.0.2/2222) 2> /dev/null; do sleep 0.05; done";
    let hosts = ["--hosts", "10.77.0.2:2222", "--ssh-option", "HostKeyAlias=10.77.0.2"];
    let load = ["load", URL, "--connections", "600", "--duration", "3s"];
    // The last one to start is no relay.
    let kill = "middle; kill -KILL $(agents 2 | sort -n | tail -n 1)";
    let flags = [&load[..], &hosts, &LOGIN, &LOAD].concat();
    let Some(finished) = ssh_hosts::run_with(3, before, &flags, kill) else { return };
    let summary = finished.written(98);
    assert_eq!(summary.number("scheduled"), 900.0);
    assert!(summary.number("unsent") > 0.0);
    assert!(
        finished.stderr.contains("ended unexpectedly: killed by signal 9"),
        "{}",
        finished.stderr
    );
    assert_nothing_left(&finished);
}
