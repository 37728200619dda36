//! Laboratories whose parts are on named hosts, over ssh: clients, server and backends, and nothing left on any of
//! them.

use e2e::plimsoll::Finished;
use e2e::ssh_hosts;
use e2e::ssh_hosts::LOGIN;
use serde_json::json;

/// Two clients, the server, and its backends.
const HOSTS: [&str; 6] =
    ["--clients", "10.77.0.[1-2]", "--sut-host", "10.77.0.3", "--backends-on", "10.77.0.4"];

/// Looks for what a server at this port would leave behind; no other test has the port, whose number is in the name of
/// the folder with the configuration.
fn folders(port: u16) -> String {
    let list = format!("ls -d /tmp/plimsoll-lab-{port}-* 2> /dev/null");
    format!(
        "for n in $(seq 50); do {list} || break; sleep 0.2; done > /dev/null; {list} && echo LEFT a folder >&2"
    )
}

fn lab(port: u16, experiment: &[&str], flags: &[&str], meanwhile: &str) -> Option<Finished> {
    e2e::program::installed("haproxy");
    let at = format!("10.77.0.3:{port}");
    let output = ["--sut-address", &at, "--json", "out.json", "--out", "run"];
    let words = [&["lab"][..], experiment, &HOSTS[..4], &LOGIN, &output, flags].concat();
    ssh_hosts::run_with(4, "", &words, &format!("{meanwhile}\nwait $P\n{}", folders(port)))
}

/// Waits until the server at this port has fifty connections.
fn held(port: u16) -> String {
    format!(
        "until [ \"$(ip netns exec h3 ss -Htn state established sport = :{port} | wc -l)\" -ge 50 ]; do \
         kill -0 $P || break; sleep 0.2; done"
    )
}

fn assert_nothing_left(finished: &Finished) {
    assert!(!finished.stderr.contains("LEFT"), "{}", finished.stderr);
}

#[test]
fn a_rate_is_searched_with_each_part_on_its_host() {
    let quick = ["--mode", "quick", "--slo", "p99<1s,errors<5%", "--linger", "1s", "--max", "150"];
    let Some(finished) = lab(8447, &["rate"], &[&quick[..], &HOSTS[4..]].concat(), "") else {
        return;
    };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a search INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    let target = summary.text("target");
    assert!(
        target.starts_with("haproxy ")
            && target.contains(" on 10.77.0.3 at https://10.77.0.3:8447/"),
        "{target}"
    );
    let load_hosts = summary.at("load_hosts").as_object().expect("clients").clone();
    assert_eq!(load_hosts.keys().collect::<Vec<_>>(), ["10.77.0.1", "10.77.0.2"]);
    // Each host was read, and by what it did: no client is told from the server by its name alone.
    let hosts = summary.at("hosts").as_object().expect("hosts").clone();
    let roles: Vec<_> = hosts.iter().map(|(name, host)| (name.as_str(), &host["roles"])).collect();
    assert_eq!(
        roles,
        [
            ("10.77.0.1", &json!(["client"])),
            ("10.77.0.2", &json!(["client"])),
            ("10.77.0.3", &json!(["server"])),
            ("10.77.0.4", &json!(["backend"])),
        ],
        "{shown}"
    );
    // The server's own counters were asked for over the link, and agree.
    let trials =
        std::fs::read_to_string(finished.folder().join("run/trials.jsonl")).expect("trials");
    let first: serde_json::Value =
        serde_json::from_str(trials.lines().next().expect("one")).expect("JSON");
    let peer = &first["measurement"]["observations"]["peer"];
    assert!(peer["received"].as_u64() > Some(0) && peer["received"] == peer["sent"], "{first}");
    assert!(shown.contains("4 backends on 10.77.0.4"), "{shown}");
    assert_nothing_left(&finished);
}

#[test]
fn a_hold_goes_through_a_server_with_its_backends_beside_it() {
    let hold = ["hold", "--connections", "200", "--rate", "500", "--for", "1s"];
    let Some(finished) = lab(8448, &hold, &[], "") else { return };
    let shown = format!("{}{}", finished.stdout, finished.stderr);
    let code = finished.code.unwrap_or(-1);
    assert!([0, 98].contains(&code), "{shown}");
    let summary = finished.written(code);
    assert_eq!((summary.number("hold.held"), summary.number("connections.failed")), (200.0, 0.0));
    assert_eq!(summary.number("hold.last_sweep.answered"), 200.0, "{shown}");
    assert!(shown.contains("beside the SUT: its CPUs and its network are theirs, too"), "{shown}");
    assert_nothing_left(&finished);
}

#[test]
fn kill_9_of_the_coordinator_ends_the_server_and_its_backends() {
    let hold = ["hold", "--connections", "50", "--for", "10m"];
    let kill = format!("{}; kill -KILL $P", held(8449));
    let Some(finished) = lab(8449, &hold, &HOSTS[4..], &kill) else { return };
    assert_eq!(finished.code, Some(137), "{}", finished.stderr);
    assert_nothing_left(&finished);
}

#[test]
fn a_server_that_dies_is_a_finding_and_a_host_that_is_lost_is_none() {
    let hold = ["hold", "--connections", "50", "--for", "10m"];
    // The agent is the first to start there, by its start time, since process ids begin again; what keeps the server
    // running ends the server after it.
    let server = "for p in $(ip netns pids h3); do [ $(cat /proc/$p/comm) = haproxy ] && kill -KILL $p; done";
    let agent = "kill -KILL $(for p in $(agents 3); do echo $(cut -d' ' -f22 /proc/$p/stat) $p; done \
                 | sort -n | head -n 1 | cut -d' ' -f2)";
    for (port, victim, said) in
        [(8450, server, "ended: killed by signal 9"), (8451, agent, "10.77.0.3 ended unexpectedly")]
    {
        let kill = format!("{}; {victim}", held(port));
        let Some(finished) = lab(port, &hold, &HOSTS[4..], &kill) else { return };
        let shown = format!("{}{}", finished.stdout, finished.stderr);
        assert!([98, 99].contains(&finished.code.unwrap_or(-1)), "{victim}: {shown}");
        assert!(shown.contains(said), "{victim}: {shown}");
        assert_nothing_left(&finished);
    }
}

#[test]
fn what_cannot_be_started_on_its_host_is_one_line_and_nothing_else_is() {
    // The port of the host's sshd.
    let taken =
        ["lab", "hold", "-c", "50", "--sut-host", "10.77.0.3", "--sut-address", "10.77.0.3:22"];
    let elsewhere =
        ["lab", "hold", "-c", "50", "--sut-host", "10.77.0.3", "--sut-address", "10.9.9.9"];
    let other = [&elsewhere[..], &LOGIN].concat().join(" ");
    let meanwhile = format!("wait $P\n\"$0\" {other} < /dev/null; echo \"CODE $?\" >&2");
    let words = [&taken[..], &LOGIN].concat();
    let Some(finished) = ssh_hosts::run_with(4, "", &words, &meanwhile) else { return };
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    for said in [
        "10.77.0.3: the server cannot listen at 10.77.0.3:22: Address already in use",
        "10.77.0.3: cannot listen on 10.9.9.9:0: this host does not have the address",
        "CODE 1",
    ] {
        assert!(finished.stderr.contains(said), "{said}: {}", finished.stderr);
    }
    assert_nothing_left(&finished);
}
