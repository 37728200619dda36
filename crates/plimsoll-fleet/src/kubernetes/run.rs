//! A run in Kubernetes, from the creation of its first object to the removal of the last one.
//!
//! [`run`] checks the user's permissions, then [`Going::drive`] creates the coordinator's Job and the objects that it
//! owns. Up to 300 s are spent waiting for its pod. The log is shown until the command ends, and then the results are
//! fetched in at most five attempts. All objects are then removed, also after an error. An interrupt is passed to the
//! command, whose results are still fetched. Start reading at [`Going::drive`].

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_tls::RunKeys;
use serde_json::Value;
use thiserror::Error;

use super::kubectl::{Cluster, TimeLimit};
use super::manifests::{CONTAINER, KubernetesRun, RUN_LABEL};
use super::pods::{Coordinator, Pods};
use super::results::Results;

/// Period of checking the pods.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Period of checking them while the command runs, and of checking for a stop.
const LOOK_WHILE_FOLLOWING: Duration = Duration::from_secs(5);
const INTERRUPT_CHECKS: Duration = Duration::from_millis(200);
/// Attempts at fetching results that did not arrive complete.
const FETCHES_MAX: u32 = 5;
/// The longest time for one fetch.
const FETCH_WAIT: Duration = Duration::from_secs(1_800);
/// Lines of the coordinator's log that wait to be shown, and most bytes of one.
const LINES_WAITING_MAX: usize = 256;
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Time within which the coordinator must start.
const START_WAIT: Duration = Duration::from_secs(300);
/// The line by which the coordinator's pod says that its command has ended.
pub const ENDED: &str = "plimsoll pod: the command has ended";
/// Limits of pods.
const LIMITS: &str = "pods have 64,512 source ports to each address and the open files that their runtime allows; all \
                      other kernel settings belong to the nodes, and pods cannot change them";
/// The folder of the results there.
const RESULTS: &str = "--results=/results";
/// Kinds of objects that are removed.
const KINDS: &str = "jobs.batch,services,secrets,networkpolicies.networking.k8s.io";

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum RunError {
    /// kubectl is not in PATH.
    #[error("kubectl is not there; install it, and check that kubectl get pods works")]
    NoKubectl,
    /// kubectl failed.
    #[error("kubectl {did}: {said}")]
    Kubectl {
        /// The action in words.
        did: String,
        /// The complaint in words.
        said: String,
    },
    /// The user may not do what is needed.
    #[error(
        "you may not {verb} {resource} in this namespace; ask for a role with create, get, list and delete \
         of jobs, services, secrets and networkpolicies, get and list of pods, events and pods/log, and create of pods/exec"
    )]
    Forbidden {
        /// The action.
        verb: &'static str,
        /// To what.
        resource: &'static str,
    },
    /// The cluster does not run the pods, and says why.
    #[error("{0}")]
    Pods(String),
    /// The user has stopped it before it ran.
    #[error("it was stopped before the coordinator ran")]
    Interrupted,
    /// Results that cannot be read or written.
    #[error("the results cannot be fetched: {0}")]
    Results(io::Error),
}

/// The caller's part in a run: words to show, and requests to stop.
pub struct Hands<'a> {
    /// Shows a line.
    pub say: &'a mut dyn FnMut(&str),
    /// Reports whether the user wants it to stop.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// Runs it, fetches its results into the folder `out`, which is new, and removes all that it has made, in every
/// case. What the command wrote to its standard output is in the file [`super::STDOUT`] there.
pub fn run(
    cluster: &Cluster,
    run: &KubernetesRun,
    keys: &RunKeys,
    out: &Path,
    hands: &mut Hands<'_>,
) -> Result<Results, RunError> {
    may(cluster)?;
    let mut going = Going { cluster, run, hands, said: Vec::new() };
    let outcome = going.drive(keys, out);
    let removed = going.remove();
    let results = outcome?;
    if let Err(error) = removed {
        let name = &run.name;
        (going.hands.say)(&format!(
            "the objects of the run are not all removed ({error}); kubectl delete {KINDS} -l {RUN_LABEL}={name} removes them, \
             and the cluster does so by itself in ten minutes"
        ));
    }
    Ok(results)
}

/// Asks for the rights that would be missed late.
fn may(cluster: &Cluster) -> Result<(), RunError> {
    for (verb, resource) in [
        ("create", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "secrets"),
        ("create", "services"),
        ("create", "networkpolicies.networking.k8s.io"),
        ("list", "pods"),
        ("get", "pods/log"),
        ("create", "pods/exec"),
    ] {
        match cluster.ask(&["auth", "can-i", verb, resource], None) {
            Ok(_) => {}
            // Without any word on stderr, it has answered "no".
            Err(RunError::Kubectl { said, .. }) if !said.contains("rror") => {
                return Err(RunError::Forbidden { verb, resource });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A run whose objects may be there.
struct Going<'a, 'b> {
    cluster: &'a Cluster,
    run: &'a KubernetesRun,
    hands: &'a mut Hands<'b>,
    /// State of waiting pods that was shown, so that each is shown once.
    said: Vec<String>,
}

impl Going<'_, '_> {
    fn drive(&mut self, keys: &RunKeys, out: &Path) -> Result<Results, RunError> {
        let manifests = self.run.manifests(Some(keys));
        let create = ["create", "--filename=-"];
        let owner = self.cluster.json(&create, Some(&manifests.owner.to_string()))?;
        let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
        let owned = manifests.owned_by(&self.run.name, uid).to_string();
        self.cluster.ask(&create, Some(&owned))?;
        (self.hands.say)(&format!("{}: {} agents are started", self.run.name, self.run.agents));
        (self.hands.say)(LIMITS);
        let pod = self.await_coordinator()?;
        self.follow(&pod)?;
        self.fetch(&pod, out)
    }

    fn look(&mut self) -> Result<Pods, RunError> {
        let label = format!("--selector={RUN_LABEL}={}", self.run.name);
        let pods = self.cluster.json(&["get", "pods", &label], None)?;
        let events = self.cluster.json(
            &["get", "events", "--field-selector=reason=FailedCreate,involvedObject.kind=Job"],
            None,
        )?;
        let events = Value::from_iter([("items".to_owned(), self.own(&events))]);
        let pods = Pods::read(&pods, &events);
        for line in &pods.waiting {
            if !self.said.contains(line) && self.said.len() < 20 {
                (self.hands.say)(line);
                self.said.push(line.clone());
            }
        }
        Ok(pods)
    }

    /// Returns the events of this run's Jobs.
    fn own(&self, events: &Value) -> Value {
        let is_own = |event: &&Value| {
            let name = event["involvedObject"]["name"].as_str().unwrap_or_default();
            let rest = name.strip_prefix(self.run.name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("-agent-"))
        };
        events["items"].as_array().into_iter().flatten().filter(is_own).cloned().collect()
    }

    /// Waits until the coordinator's container runs, or has run.
    fn await_coordinator(&mut self) -> Result<String, RunError> {
        let deadline = Instant::now() + START_WAIT;
        loop {
            if (self.hands.interrupted)() {
                return Err(RunError::Interrupted);
            }
            let pods = self.look()?;
            if let Some(why) = pods.hopeless {
                return Err(RunError::Pods(why));
            }
            match pods.coordinator {
                Some(pod) if pod.is_running || pod.exit_code.is_some() => return Ok(pod.name),
                Some(Coordinator { failed: Some(why), .. }) => {
                    return Err(RunError::Pods(format!("the coordinator's pod has failed: {why}")));
                }
                _ if Instant::now() > deadline => {
                    let why =
                        pods.waiting.first().map_or("the cluster does not say why", String::as_str);
                    let wait = START_WAIT.as_secs();
                    let text = format!("the coordinator did not start within {wait} s: {why}");
                    return Err(RunError::Pods(text));
                }
                _ => thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Shows what the coordinator says until its command has ended.
    fn follow(&mut self, pod: &str) -> Result<(), RunError> {
        let (mut kubectl, lines) = self.logs(pod)?;
        let (mut told, mut is_over) = (false, false);
        let mut next_look = Instant::now() + LOOK_WHILE_FOLLOWING;
        while !is_over {
            match lines.recv_timeout(INTERRUPT_CHECKS) {
                Ok(line) if line == ENDED => break,
                Ok(line) => (self.hands.say)(&line),
                Err(RecvTimeoutError::Timeout) => {}
                // The stream may end early: what the command does is asked by other ways.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK_AGAIN),
            }
            if Instant::now() > next_look {
                next_look = Instant::now() + LOOK_WHILE_FOLLOWING;
                let pods = self.look()?;
                // The coordinator itself waits for agents, and gives up in the end.
                if let Some(why) = pods.hopeless.filter(|_| pods.agents_running == 0) {
                    return Err(RunError::Pods(why));
                }
                let is_running = pods.coordinator.is_some_and(|pod| pod.is_running);
                is_over = !is_running || self.inside(pod, "ended").is_ok();
            }
            if (self.hands.interrupted)() && !told {
                told = true;
                (self.hands.say)("the run is stopped, and what it has is fetched");
                self.inside(pod, "interrupt")?;
            }
        }
        let _ = kubectl.kill();
        let _ = kubectl.wait();
        Ok(())
    }

    fn logs(&self, pod: &str) -> Result<(Child, Receiver<String>), RunError> {
        let mut kubectl =
            self.cluster.start(&["logs", "--follow", pod, "--container", CONTAINER], false)?;
        let (sender, lines) = mpsc::sync_channel(LINES_WAITING_MAX);
        if let Some(stdout) = kubectl.stdout.take() {
            thread::spawn(move || {
                let mut stdout = BufReader::new(stdout);
                while next_line(&mut stdout).is_some_and(|line| sender.send(line).is_ok()) {}
            });
        }
        Ok((kubectl, lines))
    }

    /// Runs this program in the coordinator's pod.
    fn inside(&self, pod: &str, order: &str) -> Result<Vec<u8>, RunError> {
        self.cluster.ask(&inside(pod, order), None)
    }

    fn fetch(&mut self, pod: &str, out: &Path) -> Result<Results, RunError> {
        let mut fetched = self.fetch_once(pod, out);
        for _ in 1..FETCHES_MAX {
            if fetched.is_ok() {
                break;
            }
            thread::sleep(LOOK_AGAIN);
            fetched = self.fetch_once(pod, out);
        }
        let error = match fetched {
            Ok(results) => {
                // Otherwise the pod waits for ten minutes, and is removed meanwhile.
                let _ = self.inside(pod, "fetched");
                return Ok(results);
            }
            Err(error) => error,
        };
        let pods = self.look()?;
        if let Some(Coordinator { exit_code: Some(code), .. }) = pods.coordinator {
            return Err(RunError::Pods(format!(
                "the coordinator's pod ended with exit code {code} before its results were fetched"
            )));
        }
        Err(RunError::Results(error))
    }

    fn fetch_once(&self, pod: &str, out: &Path) -> io::Result<Results> {
        let mut kubectl =
            self.cluster.start(&inside(pod, "results"), false).map_err(io::Error::other)?;
        let Some(stdout) = kubectl.stdout.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let limit = TimeLimit::start(kubectl.id(), FETCH_WAIT);
        let results = Results::receive(stdout, out);
        limit.end();
        let _ = kubectl.kill();
        let _ = kubectl.wait();
        results
    }

    /// Removes all objects with the label of the run. The cluster removes what the owner owns even if kubectl fails
    /// after it has deleted the owner.
    fn remove(&self) -> Result<(), RunError> {
        let label = format!("--selector={RUN_LABEL}={}", self.run.name);
        let words = [
            "delete",
            KINDS,
            &label,
            "--ignore-not-found",
            "--cascade=background",
            "--timeout=60s",
        ];
        self.cluster.ask(&words, None).map(drop)
    }
}

/// Reads the next line of a log, without its end. A line longer than [`LINE_BYTES_MAX`] comes in pieces.
fn next_line(log: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    log.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).ok().filter(|bytes| *bytes > 0)?;
    let end = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    line.truncate(end);
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// Returns the words with which kubectl runs this program in the coordinator's pod.
const fn inside<'a>(pod: &'a str, order: &'a str) -> [&'a str; 9] {
    ["exec", pod, "--container", CONTAINER, "--", "/plimsoll", "pod", order, RESULTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_in_lines_of_a_bounded_length() {
        let text = format!("a\r\n\n{}\nlast", "b".repeat(LINE_BYTES_MAX as usize + 1));
        let mut log = text.as_bytes();
        let lines: Vec<_> = std::iter::from_fn(|| next_line(&mut log)).collect();
        let lengths: Vec<_> = lines.iter().map(String::len).collect();
        assert_eq!(lengths, [1, 0, LINE_BYTES_MAX as usize, 1, 4]);
        assert_eq!(lines[4], "last");
    }
}
