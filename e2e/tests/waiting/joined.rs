//! Loads by agents that connect by themselves, with TLS at both ends: one load, exactly accounted for; strangers
//! disturb nothing; nothing is left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use e2e::joined::Meeting;
use e2e::plimsoll::{Running, archived_lines};
use e2e::serve::Serve;
use e2e::wait;

/// 300 operations in each second.
const RATE: [&str; 2] = ["--rate", "300"];
/// Far longer than a test: a certificate must not become old while it runs.
const HOUR_S: u32 = 3_600;

fn all_end(agents: Vec<Running>, code: i32) {
    for agent in agents {
        let ended = agent.finish();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    }
}

#[test]
fn three_agents_make_one_load_whoever_is_there_first() {
    let (server, meeting) = (Serve::plain(), Meeting::new(3, HOUR_S));
    // Two are there before their coordinator, one after it.
    let mut agents = meeting.agents(2);
    let flags = [&RATE[..], &["--duration", "1s"]].concat();
    let load = meeting.load(server.url(), 3, &flags).start();
    agents.push(meeting.agent(2));
    let finished = load.finish();
    let code = finished.code.unwrap_or(-1);
    // A busy machine makes a load INVALID, which is no matter here.
    assert!([0, 98].contains(&code), "{}", finished.stderr);
    let summary = finished.written(code);
    assert_eq!((summary.number("scheduled"), summary.number("ok")), (300.0, 300.0));
    assert_eq!(summary.number("generator.processes"), 3.0);
    let hosts = summary.at("load_hosts").as_object().expect("agents").clone();
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["agent-0", "agent-1", "agent-2"]);
    for (name, host) in &hosts {
        // All have the same clock: its offset is 0, and the bound is no more than half of a round trip.
        let bound = host["clock_bound_ms"].as_f64().expect("milliseconds");
        assert!(bound > 0.0 && bound < 50.0, "{name}: {bound} ms");
    }
    all_end(agents, 0);
}

#[test]
fn strangers_are_refused_and_disturb_nothing() {
    let (server, meeting) = (Serve::plain(), Meeting::new(2, HOUR_S));
    let (other, old) = (Meeting::new(2, HOUR_S), Meeting::new(2, 0));
    let flags = [&RATE[..], &["--duration", "1s"]].concat();
    let load = meeting.load(server.url(), 2, &flags).start();
    wait::until("the listener", || wait::accepts(meeting.address).then_some(()));
    // One that says nothing is there all the time; one speaks HTTP; agents of another run and of one long over.
    let silent = TcpStream::connect(meeting.address).expect("it listens");
    let mut browser = TcpStream::connect(meeting.address).expect("it listens");
    browser.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    let _ = browser.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    let refused = |keys: &str| {
        let ended = meeting.agent_with(0, Path::new(keys)).finish();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr
    };
    assert!(refused(&other.agent_keys(0)).contains("not trusted"));
    assert!(refused(&old.agent_keys(0)).contains("not trusted"));
    // The run's authority and another run's key: only the coordinator can see that.
    let mixed = other.agent_keys(0);
    let copy = |from: String, name: &str| {
        std::fs::copy(format!("{from}/{name}"), format!("{mixed}/{name}")).expect("copied");
    };
    copy(meeting.agent_keys(0), "ca.pem");
    assert!(refused(&mixed).contains("alert"));
    // Of its own run, but with the key that leads all agents.
    copy(meeting.keys(), "coordinator.key");
    assert!(refused(&mixed).contains("must not have the coordinator's key"));
    let agents = meeting.agents(2);
    let finished = load.finish();
    let code = finished.code.unwrap_or(-1);
    assert!([0, 98].contains(&code), "{}", finished.stderr);
    assert_eq!(finished.written(code).number("ok"), 300.0);
    assert!(finished.stderr.contains("was refused: "), "{}", finished.stderr);
    all_end(agents, 0);
    drop(silent);
}

#[test]
fn an_agent_that_is_lost_is_named_and_every_operation_is_accounted_for() {
    let (server, meeting) = (Serve::plain(), Meeting::new(3, HOUR_S));
    let flags = [&RATE[..], &["--duration", "3s", "--out", "run"]].concat();
    let load = meeting.load(server.url(), 3, &flags).start();
    let mut agents = meeting.agents(3);
    wait::until("a second of it", || {
        (archived_lines(load.folder(), "intervals.jsonl") > 0).then_some(())
    });
    let killed = agents.remove(1);
    killed.signal("KILL");
    let finished = load.finish();
    let summary = finished.written(98);
    assert_eq!(summary.number("scheduled"), 900.0);
    let unsent = summary.number("unsent");
    assert!((50.0..=300.0).contains(&unsent), "{unsent}");
    assert!(finished.stderr.contains("agent-1 closed its connection"), "{}", finished.stderr);
    let lost = summary.at("load_hosts")["agent-1"]["lost"].as_str();
    assert_eq!(lost, Some("closed its connection"));
    killed.finish();
    all_end(agents, 0);
}

#[test]
fn ctrl_c_ends_all_with_a_partial_report_and_kill_9_leaves_nothing() {
    for (signal, code) in [("INT", 0), ("KILL", 1)] {
        let (server, meeting) = (Serve::plain(), Meeting::new(2, HOUR_S));
        let flags = [&RATE[..], &["--duration", "10m", "--out", "run"]].concat();
        let load = meeting.load(server.url(), 2, &flags).start();
        let agents = meeting.agents(2);
        wait::until("a second of it", || {
            (archived_lines(load.folder(), "intervals.jsonl") > 0).then_some(())
        });
        load.signal(signal);
        let finished = load.finish();
        if signal == "INT" {
            assert!(finished.written(130).number("ok") > 0.0);
        }
        // Without an order to end, what an agent meets is an error.
        all_end(agents, code);
    }
}

#[test]
fn agents_that_do_not_come_are_named_and_the_wait_can_be_interrupted() {
    let meeting = Meeting::new(3, HOUR_S);
    let agent = meeting.agent(1);
    let flags = ["--agents-within", "2s"];
    let finished = meeting.load("http://127.0.0.1:1/", 3, &flags).run();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let said = "agent-[0,2] did not connect within 2 s";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    all_end(vec![agent], 1);
    let load = meeting.load("http://127.0.0.1:1/", 3, &[]).start();
    wait::until("the listener", || wait::accepts(meeting.address).then_some(()));
    load.signal("INT");
    assert_eq!(load.finish().code, Some(130));
}
