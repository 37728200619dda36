//! `plimsoll k8s run`: a command whose agents and coordinator are pods of a Kubernetes cluster.
//!
//! [`run`] checks the words behind `--`, collects the command with the files that it names (`plan::carried`), and
//! builds a `KubernetesRun`. `--dry-run` prints its manifests; otherwise `in_cluster` creates the objects, stores the
//! results in `--out`, and prints the text that the coordinator's pod wrote. The exit code is the one of the command
//! in the pod. Output of a pod is untrusted and is cleaned before it reaches the terminal. Start with [`run`].

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_fleet::kubernetes::{
    Cluster, Hands, KubernetesRun, RunError, STDOUT, run as run_there,
};
use plimsoll_report::clean;
use plimsoll_sys::{clock, input_file};
use plimsoll_tls::RunKeys;

use crate::exit::{Result, Stop};
use crate::flags;
use crate::flags::k8s::{K8sCommand, K8sRunFlags};
use crate::flags::{Command, FindExperiment};
use crate::plan::{Inputs, carried};
use crate::run::{install_interrupts, interrupted_stop};

/// Clocks of nodes differ by less: certificates are valid so much earlier, and later than the longest run.
const CLOCKS_DIFFER_S: u64 = 3_600;

/// Runs it.
pub(crate) fn run(command: &K8sCommand) -> Result<()> {
    let K8sCommand::Run(flags) = command;
    check(&flags.command)?;
    let run = KubernetesRun {
        name: format!("plimsoll-{:08x}", RandomState::new().build_hasher().finish() as u32),
        image: flags.image.clone(),
        agents: flags.agents,
        cpus: flags.cpus,
        memory: flags.memory.clone(),
        active_for_s: u32::try_from(Duration::from(flags.at_most).as_secs().max(1))
            .unwrap_or(u32::MAX),
        command: carried::order(&flags.command, &mut Inputs::of_host(io::stdin()))?,
    };
    if flags.dry_run {
        return dry_run(&run, flags.inline_secrets);
    }
    in_cluster(flags, &run)
}

/// Refuses what would only fail in the pod, as far as it can be known here.
fn check(words: &[String]) -> Result<()> {
    let is_ours = |word: &&String| {
        let flag = word.split('=').next().unwrap_or_default();
        ["--agents", "--listen", "--keys", "--hosts", "--slurm", "--out"].contains(&flag)
    };
    if let Some(word) = words.iter().find(is_ours) {
        refuse!("{word} behind -- is what k8s run sets itself";
            "drop it; --agents and --out belong before --");
    }
    if let Some(flag) = output_file(words) {
        refuse!("{flag} behind -- names a file of the pod";
            "write --json -, or take it from the archive in --out");
    }
    let can_spread = match flags::parse_line(words)? {
        Command::Load(_) | Command::Hold(_) => true,
        Command::Find(find) => !matches!(
            *find,
            FindExperiment::Connections(_) | FindExperiment::Storm(_) | FindExperiment::Rfc9411(_)
        ),
        _ => false,
    };
    refuse_if!(!can_spread;
        "agents in pods are for load, hold, find rate and find handshakes";
        "give one of these behind --");
    Ok(())
}

/// Returns the first flag that has the command write a file beside its archive.
fn output_file(words: &[String]) -> Option<&'static str> {
    let value = |flag: &str, at: usize| {
        let rest = words.get(at)?.strip_prefix(flag)?;
        if rest.is_empty() { words.get(at + 1).map(String::as_str) } else { rest.strip_prefix('=') }
    };
    let names =
        |flag: &str| (0..words.len()).filter_map(|at| value(flag, at)).any(|value| value != "-");
    ["--json", "--rows"].into_iter().find(|flag| names(flag))
}

fn keys(run: &KubernetesRun) -> Result<RunKeys> {
    let now_s = clock::unix_seconds();
    let until_s = now_s + u64::from(run.active_for_s) + CLOCKS_DIFFER_S;
    RunKeys::new(run.agents, now_s.saturating_sub(CLOCKS_DIFFER_S)..until_s)
        .map_err(Stop::cannot_run)
}

fn dry_run(run: &KubernetesRun, inline_secrets: bool) -> Result<()> {
    let keys = inline_secrets.then(|| keys(run)).transpose()?;
    let yaml = run.manifests(keys.as_ref()).yaml();
    let first = if inline_secrets {
        "# With private keys of this run, its command and files. Delete it by the label plimsoll.run."
    } else {
        "# Without what is in the Secrets: --inline-secrets prints objects that can be applied as they are."
    };
    Err(Stop::Asked(format!("{first}\n{yaml}")))
}

fn in_cluster(flags: &K8sRunFlags, run: &KubernetesRun) -> Result<()> {
    let out = flags.out.clone().unwrap_or_else(|| PathBuf::from(&run.name));
    refuse_if!(out.exists(); "--out {} is there already", out.display(); "name another folder");
    let interrupts = install_interrupts()?;
    let cluster = Cluster { context: flags.context.clone(), namespace: flags.namespace.clone() };
    let mut say = |line: &str| {
        let _ = writeln!(io::stderr(), "{}", clean(line));
    };
    let interrupted = || interrupts.is_raised();
    let mut hands = Hands { say: &mut say, interrupted: &interrupted };
    let results =
        run_there(&cluster, run, &keys(run)?, &out, &mut hands).map_err(|error| match error {
            RunError::Interrupted => interrupted_stop(&interrupts),
            error => Stop::cannot_run(error),
        })?;
    show(&out.join(STDOUT))
        .map_err(|error| Stop::CannotRun(format!("{}: {error}", out.display())))?;
    say(&format!("results: {}", out.display()));
    if results.exit_code == 0 { Ok(()) } else { Err(Stop::Reported(results.exit_code)) }
}

/// Longer lines are printed in parts.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Prints what a pod has written, a line at a time.
fn show(path: &Path) -> io::Result<()> {
    let mut text = BufReader::new(input_file::open_regular(path)?);
    let mut line = Vec::new();
    while text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
        // Who has closed standard output wants no more.
        let _ = io::stdout().write_all(shown(&line).as_bytes());
        line.clear();
    }
    Ok(())
}

/// Returns the output of a pod, as text alone: a pod may be anybody's.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_writes_controls_no_terminal() {
        let text = "GOOD\n\x1b[2J::error::x\n::error::y\n\n";
        assert_eq!(shown(text.as_bytes()), "GOOD\n?[2J::error::x\n: :error::y\n\n");
    }
}
