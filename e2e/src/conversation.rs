//! A program that is talked to over its standard input and output, line by line.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::process::Guarded;
use crate::wait;

/// A running program and all that it has said.
#[derive(Debug)]
pub struct Conversation {
    guarded: Guarded,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Conversation {
    /// Starts `command`; what it writes to standard error is heard as well.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guarded = Guarded::start(command);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let stdout = guarded.child().stdout.take().expect("the pipe was asked for");
        let stderr = guarded.child().stderr.take().expect("the pipe was asked for");
        listen(stdout, &heard);
        listen(stderr, &heard);
        Self { guarded, heard }
    }

    /// Writes `text` in one piece.
    pub fn say(&mut self, text: &str) {
        let stdin = self.guarded.child().stdin.as_mut().expect("the pipe was asked for");
        stdin.write_all(text.as_bytes()).expect("the program reads what it is told");
        stdin.flush().expect("as above");
    }

    /// Waits until `part` was heard `times` times in all.
    pub fn hear(&self, part: &str, times: usize) {
        let count = || self.text().matches(part).count();
        if wait::within(wait::PATIENCE, &mut || (count() >= times).then_some(())).is_none() {
            panic!("heard {part:?} {} times, not {times}:\n{}", count(), self.text());
        }
    }

    /// All that was heard so far.
    pub fn text(&self) -> String {
        let heard = self.heard.lock().expect("no listener panics");
        String::from_utf8_lossy(&heard).into_owned()
    }
}

/// Reads a pipe to its end in a thread of its own.
fn listen(mut pipe: impl Read + Send + 'static, heard: &Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            heard.lock().expect("no listener panics").extend_from_slice(&buffer[..count]);
        }
    });
}
