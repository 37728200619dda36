//! The user's kubectl: one process per request, isolated from the terminal's signals.
//!
//! [`Cluster::ask`] runs kubectl with the given words and input, and returns its output, or its complaint as an
//! error; [`Cluster::json`] parses the output. An answer has at most 64 MiB, a complaint 64 KiB, and a request 120 s.
//! [`TimeLimit`] kills the session of a late kubectl. The limit ends before the process is reaped, so that the pid
//! cannot belong to another process. Start reading at [`Cluster::ask`].

use std::io;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_sys::process::{self, Group, Signal, Ties};
use serde_json::Value;

use super::run::RunError;

/// Most bytes of an answer: the pods of a run have some megabytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of a complaint.
const COMPLAINT_BYTES_MAX: u64 = 64 << 10;
/// The longest time for an answer: `kubectl delete` itself waits for one minute.
const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// Period of checking whether kubectl has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The cluster and namespace to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// A context of the user's kubeconfig; `None` is its current one.
    pub context: Option<String>,
    /// `None` is the one of the context.
    pub namespace: Option<String>,
}

impl Cluster {
    /// Starts kubectl with these words.
    pub(super) fn start(&self, words: &[&str], has_stdin: bool) -> Result<Child, RunError> {
        let mut command = Command::new("kubectl");
        command.args(self.context.iter().map(|context| format!("--context={context}")));
        command.args(self.namespace.iter().map(|namespace| format!("--namespace={namespace}")));
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if has_stdin { Stdio::piped() } else { Stdio::null() });
        // Ctrl-C in a terminal is for this process, which ends the run in order.
        let ties = Ties { group: Group::Session, dies_with_parent: true, ..Ties::default() };
        process::spawn(command, &ties).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RunError::NoKubectl,
            _ => RunError::Kubectl { did: words.join(" "), said: error.to_string() },
        })
    }

    /// Returns the output of kubectl; its own complaint if it fails.
    pub(super) fn ask(&self, words: &[&str], input: Option<&str>) -> Result<Vec<u8>, RunError> {
        let mut child = self.start(words, input.is_some())?;
        let error = |said: String| RunError::Kubectl { did: words.join(" "), said };
        let failed = |source: io::Error| error(source.to_string());
        let limit = TimeLimit::start(child.id(), ANSWER_WAIT);
        let complaint = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.by_ref().take(COMPLAINT_BYTES_MAX).read_to_end(&mut text);
                // The rest is read away, or kubectl would wait.
                let _ = io::copy(&mut stderr, &mut io::sink());
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // Where it ends without reading all, it says why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            // Then the pipe is closed, which ends kubectl.
            stdout.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer).map_err(failed)?;
        }
        while !process::has_ended(child.id()) {
            thread::sleep(LOOK_AGAIN);
        }
        let complaint = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let is_late = limit.end();
        let status = child.wait().map_err(failed)?;
        if is_late {
            return Err(error(format!("no answer within {} s", ANSWER_WAIT.as_secs())));
        }
        if answer.len() as u64 > ANSWER_BYTES_MAX {
            return Err(error("its answer has more than 64 MiB".to_owned()));
        }
        if status.success() { Ok(answer) } else { Err(error(one_line(&complaint))) }
    }

    /// Runs kubectl with `--output=json` and returns the parsed output.
    pub(super) fn json(&self, words: &[&str], input: Option<&str>) -> Result<Value, RunError> {
        let answer = self.ask(&[words, &["--output=json"]].concat(), input)?;
        serde_json::from_slice(&answer).map_err(|error| RunError::Kubectl {
            did: words.join(" "),
            said: format!("what it printed is no JSON: {error}"),
        })
    }
}

/// A time limit for a process that leads a session. The process must not be reaped before [`Self::end`].
pub(super) struct TimeLimit {
    ended: Sender<()>,
    watcher: JoinHandle<bool>,
}

impl TimeLimit {
    /// Kills the session of `pid` after `wait`.
    pub(super) fn start(pid: u32, wait: Duration) -> Self {
        let (ended, end) = mpsc::channel();
        let watcher = thread::spawn(move || {
            let is_late = end.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
            if is_late {
                let _ = process::kill(pid, Signal::KILL);
                // Its number, and so the session's, stays in use until it is reaped.
                for pid in process::session_members(pid).unwrap_or_default() {
                    let _ = process::kill(pid, Signal::KILL);
                }
            }
            is_late
        });
        Self { ended, watcher }
    }

    /// Ends the limit; `true` if it was reached.
    pub(super) fn end(self) -> bool {
        drop(self.ended);
        self.watcher.join().unwrap_or(false)
    }
}

/// Returns the words of kubectl, without the lines of its own log, line ends and control characters.
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
    fn a_process_that_never_ends_is_ended() {
        let ties = Ties { group: Group::Session, dies_with_parent: true, ..Ties::default() };
        // The pipe is also open in a process that the first one has started.
        let start = |words: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", words]).stdout(Stdio::piped());
            process::spawn(command, &ties).unwrap()
        };
        let mut child = start("sleep 1000 & echo a; sleep 1000");
        let limit = TimeLimit::start(child.id(), Duration::from_millis(50));
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        assert!(limit.end());
        assert!(!child.wait().unwrap().success());
        let mut child = start("echo a");
        let limit = TimeLimit::start(child.id(), ANSWER_WAIT);
        while !process::has_ended(child.id()) {
            thread::sleep(LOOK_AGAIN);
        }
        assert!(!limit.end());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn complaints_are_one_line_without_the_log() {
        let said = "E1123 21:08:31.641181   10392 memcache.go:265] \"Unhandled Error\"\n\
                    The connection to the server was\n refused\x1b[1m\n";
        assert_eq!(one_line(said), "The connection to the server was refused[1m");
    }
}
