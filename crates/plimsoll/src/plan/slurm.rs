//! `--slurm`: the nodes of the allocation that this process runs in are the hosts, and srun starts what runs there.

use plimsoll_fleet::hosts::{HOSTS_MAX, Launcher, LoadHost, parse};

use super::Inputs;
use super::inputs::THREADS_DEFAULT_MAX;
use crate::exit::Result;

const JOB: &str = "SLURM_JOB_ID";
const NODES: &str = "SLURM_JOB_NODELIST";
/// CPUs that the job has on each node: `72(x2),36`.
const CPUS: &str = "SLURM_JOB_CPUS_PER_NODE";

/// Returns the nodes of the allocation, each with `threads`, or one for every CPU that the job has there.
pub(super) fn hosts(threads: Option<u32>, inputs: &Inputs) -> Result<(Vec<LoadHost>, Launcher)> {
    let set = |name: &str| {
        (inputs.variable)(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            usage!("--slurm takes the nodes of an allocation, and {name} is not set";
                "run it in a script of sbatch, or under salloc")
        })
    };
    let job = set(JOB)?;
    let list = set(NODES)?;
    let unusual = |name: &str, value: &str, why: &str| {
        usage!("--slurm: {name} is {value:?}: {why}";
            "run it in a script of sbatch, or under salloc")
    };
    if !job.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unusual(JOB, &job, "not the number of a job"));
    }
    let names = parse(&list).map_err(|error| unusual(NODES, &list, &error.to_string()))?;
    let cpus = match (inputs.variable)(CPUS) {
        None => Vec::new(),
        Some(text) => cpus_of_nodes(&text)
            .filter(|cpus| cpus.len() == names.len())
            .ok_or_else(|| unusual(CPUS, &text, "not the CPUs of each node"))?,
    };
    let threads =
        |at: usize| threads.or_else(|| Some((*cpus.get(at)?).clamp(1, THREADS_DEFAULT_MAX as u32)));
    let host = |(at, name)| LoadHost { name, threads: threads(at) };
    Ok((names.into_iter().enumerate().map(host).collect(), Launcher::Slurm(job)))
}

/// Returns the numbers of `72(x2),36`; `None` for anything else.
fn cpus_of_nodes(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for item in text.split(',') {
        let (number, times) = match item.strip_suffix(')').and_then(|item| item.split_once("(x")) {
            Some((number, times)) => (number, times.parse().ok()?),
            None => (item, 1),
        };
        let number: u32 = number.parse().ok()?;
        if times > HOSTS_MAX {
            return None;
        }
        cpus.extend(std::iter::repeat_n(number, times));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::inputs;

    use super::*;

    fn with(variable: fn(&str) -> Option<String>) -> Result<(Vec<LoadHost>, Launcher), String> {
        let inputs = Inputs { variable, ..inputs(b"") };
        hosts(None, &inputs).map_err(|stop| stop.complaint().unwrap_or_default())
    }

    #[test]
    fn nodes_have_a_thread_for_each_cpu_of_the_job() {
        let (hosts, launcher) = with(|name| match name {
            JOB => Some("17".to_owned()),
            NODES => Some("big[08-09],small".to_owned()),
            CPUS => Some("72(x2),2".to_owned()),
            _ => None,
        })
        .unwrap();
        assert_eq!(launcher, Launcher::Slurm("17".to_owned()));
        let hosts: Vec<_> =
            hosts.iter().map(|host| (host.name.to_string(), host.threads)).collect();
        let expected = [("big08", Some(16)), ("big09", Some(16)), ("small", Some(2))];
        assert_eq!(hosts, expected.map(|(name, threads)| (name.to_owned(), threads)));
    }

    #[test]
    fn what_is_no_allocation_is_refused() {
        assert!(
            with(|_| None).unwrap_err().contains("SLURM_JOB_ID is not set; run it in a script")
        );
        let without_nodes = with(|name| (name == JOB).then(|| "17".to_owned()));
        assert!(without_nodes.unwrap_err().contains("SLURM_JOB_NODELIST is not set"));
        let strange_job = with(|name| (name != CPUS).then(|| "n1".to_owned()));
        assert!(strange_job.unwrap_err().contains("SLURM_JOB_ID is \"n1\""));
        let strange_nodes = with(|name| Some(if name == NODES { "n[" } else { "1" }.to_owned()));
        assert!(strange_nodes.unwrap_err().contains("SLURM_JOB_NODELIST is \"n[\""));
        let strange_cpus = with(|name| Some(if name == CPUS { "2(x9)" } else { "1" }.to_owned()));
        assert!(strange_cpus.unwrap_err().contains("not the CPUs of each node"));
    }

    #[test]
    fn cpus_are_written_out() {
        assert_eq!(cpus_of_nodes("4"), Some(vec![4]));
        assert_eq!(cpus_of_nodes("2(x3),1"), Some(vec![2, 2, 2, 1]));
        for wrong in ["", "x", "2(x)", "2(3)", "2(x99999)", "2,"] {
            assert_eq!(cpus_of_nodes(wrong), None, "{wrong}");
        }
    }
}
