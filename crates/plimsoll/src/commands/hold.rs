//! `plimsoll hold`: many connections to an existing server.

use plimsoll_probe::server_counters::CounterSource;
use plimsoll_probe::server_limits::haproxy_processes;

use crate::commands::find;
use crate::exit::Result;
use crate::flags::{HoldFlags, ServerExperiment};
use crate::plan;
use crate::plan::watch::{Watched, watched};
use crate::plan::{Inputs, Job};

/// Names the processes whose memory is read after each cycle: those given, or HAProxy's by its own word.
fn name_processes(watched: &mut Watched) -> Result<()> {
    if let (true, Some(CounterSource::Haproxy(socket))) = (watched.pids.is_empty(), &watched.counts)
    {
        watched.pids = haproxy_processes(socket);
    }
    match watched.pids.is_empty() {
        true => refuse!("--cycles reads the memory of the server, and no process of it is named";
            "name it: --watch pid:PID (find it with pidof), or --watch haproxy:SOCKET"),
        false => Ok(()),
    }
}

pub(crate) fn run(command: &ServerExperiment<HoldFlags>) -> Result<()> {
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::hold::build(command, &mut inputs)?;
    let mut watched = watched(&command.watch.watch, &inputs)?;
    if job.cycles.is_some() {
        name_processes(&mut watched)?;
    }
    find::run_job("hold", Job::Hold(job), watched)
}
