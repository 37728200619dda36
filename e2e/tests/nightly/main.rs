//! Tests that plimsoll is right, which measure for minutes on an otherwise idle machine with two CPUs:
//! `cargo test -p e2e --test nightly -- --ignored --nocapture`, or with a module's name for one part.
//! Each test prints what it measured; `docs/explanation/benchmarks.md` shows what was found so far.

mod alarms;
mod capacity;
mod causes;
mod cliffs;
mod collector;
mod confirm;
mod deliveries;
mod differential;
mod differential_http2;
mod differential_mqtt;
mod differential_websocket;
mod grpc;
mod histograms;
mod host_limits;
mod leaks;
mod memory;
mod mqtt_brokers;
mod page;
mod rfc9411;
mod sizing;
mod slurm;
mod ssh_hosts;
mod storms;
mod truth;
mod vegeta;
mod wrapper;

use std::process::{Command, Stdio};

use e2e::plimsoll::Plimsoll;
use e2e::reference::{Reference, Service};
use e2e::turn::alone;
use e2e::{process, program};

/// Clients run on this CPU, servers on the next.
const CLIENT_CPU: u32 = 0;
const SERVER_CPU: u32 = 1;

/// plimsoll on the CPU for clients.
fn client(arguments: &[&str]) -> Plimsoll {
    Plimsoll::after(&format!("taskset -cp {CLIENT_CPU} $$ > /dev/null"), arguments)
}

/// Moves a server and all that it started to the CPU for servers.
fn pin_server(pid: u32) {
    let children = process::descendants(pid).into_iter().map(|seen| seen.pid);
    for pid in children.chain([pid]) {
        let mut command = Command::new(program::installed("taskset"));
        command.args(["-acp", &SERVER_CPU.to_string(), &pid.to_string()]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(status.expect("an installed program can be run").success());
    }
}

fn reference(service: Service, seed: u64) -> Reference {
    Reference::start(env!("CARGO_BIN_EXE_reference"), SERVER_CPU, service, seed)
}
