//! An interactive program, driven over its standard input and output.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::process::Guarded;
use crate::wait;

/// A running program and all of its output.
#[derive(Debug)]
pub struct Conversation {
    guarded: Guarded,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Conversation {
    /// Starts `command`; standard error counts as output as well.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guarded = Guarded::start(command);
        let output = Arc::new(Mutex::new(Vec::new()));
        let stdout = guarded.child().stdout.take().expect("the pipe was asked for");
        let stderr = guarded.child().stderr.take().expect("the pipe was asked for");
        collect(stdout, &output);
        collect(stderr, &output);
        Self { guarded, output }
    }

    /// Writes `text` in one piece.
    pub fn write(&mut self, text: &str) {
        let stdin = self.guarded.child().stdin.as_mut().expect("the pipe was asked for");
        stdin.write_all(text.as_bytes()).expect("the program reads its input");
        stdin.flush().expect("as above");
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.guarded.pid()
    }

    /// Waits until the output contains `part` `times` times.
    pub fn wait_for(&self, part: &str, times: usize) {
        let count = || self.text().matches(part).count();
        if wait::within(wait::PATIENCE, &mut || (count() >= times).then_some(())).is_none() {
            panic!("{part:?} was written {} times, not {times}:\n{}", count(), self.text());
        }
    }

    /// Returns the output so far.
    pub fn text(&self) -> String {
        let output = self.output.lock().expect("no reader panics");
        String::from_utf8_lossy(&output).into_owned()
    }
}

/// Reads a pipe to its end in its own thread.
fn collect(mut pipe: impl Read + Send + 'static, output: &Arc<Mutex<Vec<u8>>>) {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            output.lock().expect("no reader panics").extend_from_slice(&buffer[..count]);
        }
    });
}
