//! The user's kubectl: one process for each question or order, away from the terminal's signals.

use std::io;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use plimsoll_sys::process::{self, Group, Ties};
use serde_json::Value;

use super::run::RunError;

/// Most bytes of an answer: the pods of a run have some megabytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Which cluster and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// A context of the user's kubeconfig; `None` is its current one.
    pub context: Option<String>,
    /// `None` is the one of the context.
    pub namespace: Option<String>,
}

impl Cluster {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(self.context.iter().map(|context| format!("--context={context}")));
        command.args(self.namespace.iter().map(|namespace| format!("--namespace={namespace}")));
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts kubectl with these words.
    pub(super) fn start(&self, words: &[&str], has_stdin: bool) -> Result<Child, RunError> {
        let mut command = self.command(words);
        if has_stdin {
            command.stdin(Stdio::piped());
        }
        // Ctrl-C in a terminal is for this process, which ends the run in order.
        let ties = Ties { group: Group::Session, dies_with_parent: true, ..Ties::default() };
        process::spawn(command, &ties).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RunError::NoKubectl,
            _ => RunError::Kubectl { did: words.join(" "), said: error.to_string() },
        })
    }

    /// What kubectl prints; its own complaint where it fails.
    pub(super) fn ask(&self, words: &[&str], input: Option<&str>) -> Result<Vec<u8>, RunError> {
        let mut child = self.start(words, input.is_some())?;
        let failed =
            |error: io::Error| RunError::Kubectl { did: words.join(" "), said: error.to_string() };
        let complaint = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut text = String::new();
                let _ = stderr.read_to_string(&mut text);
                text
            })
        });
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // Where it ends without reading all, it says why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
        }
        let status = child.wait().map_err(failed)?;
        let complaint = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(answer);
        }
        Err(RunError::Kubectl { did: words.join(" "), said: one_line(&complaint) })
    }

    /// The same as JSON.
    pub(super) fn json(&self, words: &[&str], input: Option<&str>) -> Result<Value, RunError> {
        let answer = self.ask(&[words, &["--output=json"]].concat(), input)?;
        serde_json::from_slice(&answer).map_err(|error| RunError::Kubectl {
            did: words.join(" "),
            said: format!("what it printed is no JSON: {error}"),
        })
    }
}

/// What kubectl said, without the lines of its own log, line ends and control characters.
fn one_line(text: &str) -> String {
    // As `E1123 21:08:31.641181 10392 memcache.go:265] ...`.
    let is_log = |line: &&str| {
        let digits =
            line.get(1..5).is_some_and(|day| day.bytes().all(|byte| byte.is_ascii_digit()));
        digits && line.starts_with(['E', 'W', 'I'])
    };
    let words: Vec<&str> =
        text.lines().filter(|line| !is_log(line)).flat_map(str::split_whitespace).collect();
    let line: String = words.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    let surplus = line.chars().count().saturating_sub(600);
    line.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_one_line_without_the_log() {
        let said = "E1123 21:08:31.641181   10392 memcache.go:265] \"Unhandled Error\"\n\
                    The connection to the server was\n refused\x1b[1m\n";
        assert_eq!(one_line(said), "The connection to the server was refused[1m");
    }
}
