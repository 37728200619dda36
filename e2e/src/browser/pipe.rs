//! The Chrome DevTools Protocol over a pair of pipes: one JSON object a message, each ended by a zero byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::thread;

use serde_json::{Value, json};

use crate::wait;

/// A report that the browser sends without being asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The page that it belongs to; empty for the browser itself.
    pub session: String,
    /// `Network.requestWillBeSent`.
    pub name: String,
    /// Values of the report in the protocol.
    pub values: Value,
}

/// The connection to a browser.
#[derive(Debug)]
pub(super) struct Pipe {
    commands: ChildStdin,
    answers: Receiver<Value>,
    last_id: u64,
    events: Vec<Event>,
}

impl Pipe {
    pub(super) fn new(commands: ChildStdin, answers: ChildStdout) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for message in messages(answers) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { commands, answers: receiver, last_id: 0, events: Vec::new() }
    }

    /// Calls a method and waits for its result; an error of the protocol is a text.
    pub(super) fn call(
        &mut self,
        session: &str,
        method: &str,
        parameters: &Value,
    ) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let lost = |why: String| format!("{method}: the browser is gone: {why}");
        self.commands.write_all(&bytes).map_err(|error| lost(error.to_string()))?;
        loop {
            let answer = self.answers.recv_timeout(wait::PATIENCE);
            let mut answer = answer.map_err(|error| lost(error.to_string()))?;
            if answer["id"] == self.last_id {
                if let Some(error) = answer.get("error") {
                    return Err(format!("{method}: {error}"));
                }
                return Ok(answer["result"].take());
            }
            self.keep(answer);
        }
    }

    /// Removes and returns the events of a page so far.
    pub(super) fn take_events(&mut self, session: &str) -> Vec<Event> {
        while let Ok(message) = self.answers.try_recv() {
            self.keep(message);
        }
        let (own, others) = self.events.drain(..).partition(|event| event.session == session);
        self.events = others;
        own
    }

    /// Keeps an event; an answer that nobody waits for any more is dropped.
    fn keep(&mut self, mut message: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if message.get("method").is_some() {
            let (session, name) = (text(&message["sessionId"]), text(&message["method"]));
            self.events.push(Event { session, name, values: message["params"].take() });
        }
    }
}

/// Returns the messages of a stream, until it ends.
fn messages(stream: impl Read) -> impl Iterator<Item = Value> {
    let parts = BufReader::new(stream).split(0).map_while(Result::ok);
    parts.filter_map(|part| serde_json::from_slice(&part).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_with_a_zero_byte() {
        let stream = b"{\"id\":1}\0{\"method\":\"a.b\"}\0{\"cut\":".as_slice();
        let found: Vec<_> = messages(stream).collect();
        assert_eq!(found, [json!({ "id": 1 }), json!({ "method": "a.b" })]);
    }
}
