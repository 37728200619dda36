//! Both ends of a link over mutual TLS, on loopback.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use plimsoll_tls::{MutualContext, RunKeys};
use serde_json::json;

use super::{Gate, Joined, dial};
use crate::error::{FleetError, Result};
use crate::frame::FrameError;
use crate::hosts::HostName;
use crate::message::{FromAgent, ToAgent};
use crate::{Executor, agent, frame};

/// Longer than any test: what is waited for comes, or the test fails.
const FOR_EVER: Duration = Duration::from_secs(60);

fn keys(agents: u32) -> RunKeys {
    RunKeys::new(agents, 0..4_000_000_000).unwrap()
}

/// An agent that is asked for nothing.
struct Idle;

impl Executor for Idle {
    fn handle(&mut self, command: ToAgent, _: &Sender<FromAgent>) {
        panic!("{command:?}");
    }

    fn stop_now(&mut self) {}
}

/// Returns an agent's messages to a coordinator that has the run's keys and sends these messages, and its end.
fn told(messages: &[serde_json::Value]) -> (Vec<FromAgent>, Result<()>) {
    let keys = keys(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let (identity, roots_pem) = (keys.agents[0].clone(), keys.roots_pem.clone());
    let agent = thread::spawn(move || {
        let (commands, events) = dial(&to, &identity, &roots_pem, FOR_EVER).unwrap();
        agent::run(Idle, commands, events, Some(FOR_EVER))
    });
    let context = MutualContext::coordinator(&keys.coordinator, &keys.roots_pem).unwrap();
    let (socket, _) = listener.accept().unwrap();
    let Joined { mut reader, mut writer, .. } = Joined::new(socket, &context).unwrap();
    let frames = messages.iter().flat_map(|message| frame::encode(message).unwrap());
    writer.write_all(&frames.collect::<Vec<_>>()).unwrap();
    let mut said = Vec::new();
    while let Ok(Some(event)) = frame::read(&mut reader) {
        said.push(event);
    }
    (said, agent.join().unwrap())
}

#[test]
fn a_coordinator_of_a_joined_agent_cannot_have_programs_run_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let program =
        json!({ "name": "sut", "argv": ["touch", at("ran")], "cpus": [], "ready": "started" });
    let plan = json!({
        "scratch_dir": at("scratch"),
        "keep": true,
        "control_group": { "dir": at("group"), "home": folder.path(), "lend_cpu": true },
        "children": [program],
    });
    let (said, ended) = told(&[json!({ "supervise": plan }), json!("exit")]);
    // It knows no such message.
    assert!(said.iter().all(|event| matches!(event, FromAgent::Hello { .. })), "{said:?}");
    assert!(matches!(ended, Err(FleetError::Frame(FrameError::Malformed(_)))), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_a_joined_agent_understands_ends_it_as_it_should() {
    let (said, ended) = told(&[json!({ "ping": { "sent": 7 } }), json!("exit")]);
    assert!(said.iter().any(|event| matches!(event, FromAgent::Pong { .. })), "{said:?}");
    ended.unwrap();
}

/// Time for which an agent tries to connect: less than a handshake may take, so that nothing comes free by waiting.
const SHORTLY: Duration = Duration::from_secs(5);

#[test]
fn connections_that_say_nothing_keep_no_agent_out() {
    // Nothing, and less than a first record: one of a handshake, of 256 bytes.
    for said in [&b""[..], b"\x16\x03\x01\x01\x00half"] {
        let keys = keys(1);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let context = MutualContext::coordinator(&keys.coordinator, &keys.roots_pem).unwrap();
        let names = vec![HostName { user: None, host: "agent-0".to_owned(), port: None }];
        let gate = Gate::at(listener, context, names, FOR_EVER).unwrap();
        let idle = (0..100).map(|_| TcpStream::connect(address).unwrap());
        let idle: Vec<_> = idle.map(|mut socket| socket.write_all(said).map(|()| socket)).collect();
        let joined = dial(&address.to_string(), &keys.agents[0], &keys.roots_pem, SHORTLY);
        assert!(joined.is_ok(), "{:?}", joined.err());
        gate.await_all(&|| false).unwrap();
        drop(idle);
    }
}
