//! Servers that choose a port and say so on their first line: `listening on http://ADDRESS/`.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

use crate::bench::process::Guarded;

/// A running server; killed with its handle.
pub(crate) struct Announced {
    pub(crate) process: Guarded,
    pub(crate) url: String,
    stdout: BufReader<ChildStdout>,
}

impl Announced {
    /// Starts it and waits for its line.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Guarded::start(command)?;
        let stdout = process.child.stdout.take().context("the pipe was asked for")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let url = line.trim().strip_prefix("listening on ");
        let url = url.with_context(|| format!("a server said {line:?} in place of its address"))?;
        Ok(Self { url: url.to_owned(), process, stdout })
    }

    /// Ends its input and reads what it says until its own end. For servers that end so.
    pub(crate) fn last_words(mut self) -> Result<String> {
        drop(self.process.child.stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_words_are_heard() {
        let script = "echo listening on http://x/; read -r line; echo 1; echo 2";
        let server = Announced::start(Command::new("bash").args(["-c", script])).unwrap();
        assert_eq!(server.url, "http://x/");
        assert_eq!(server.last_words().unwrap(), "1\n2\n");
        let error = Announced::start(Command::new("echo").arg("no")).err().unwrap().to_string();
        assert_eq!(error, "a server said \"no\\n\" in place of its address");
    }
}
