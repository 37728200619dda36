//! HAProxy and nginx ready to be started: how many processes, each with a configuration that the
//! program itself has checked.

use std::io::Write;
use std::path::Path;

use plimsoll_fleet::message::{Readiness, SupervisedProgram};
use plimsoll_model::cliff::KnownTimer;
use plimsoll_model::units::grouped;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::{limits, output_file};
use plimsoll_tune::proxy::Program;

use crate::error::LabError;
use crate::plan::{LabPlan, PROCESSES_MAX};
use crate::proxy_plan::ProxyPlan;
use crate::sut::several;
use crate::{haproxy, nginx};

/// TLS sessions that each of several HAProxy processes caches: a session cannot be
/// resumed at another process, and the default of 20,000 would need more memory than the held
/// connections of a small laboratory.
const TLS_SESSIONS_OF_MANY: u32 = 1_000;
/// The longest path of a Unix socket that HAProxy accepts.
const SOCKET_PATH_BYTES_MAX: usize = 97;

/// Programs whose configuration is written and checked.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) children: Vec<SupervisedProgram>,
    pub(crate) notes: Vec<String>,
    pub(crate) timers: Vec<KnownTimer>,
    pub(crate) statistics: Option<CounterSource>,
}

/// As many HAProxy processes on one port as descriptors require, each with a configuration and a
/// statistics socket of its own.
pub(crate) fn prepare_haproxy(
    path: &Path,
    lab: &LabPlan,
    plan: &ProxyPlan,
) -> Result<Prepared, LabError> {
    let fit = haproxy::connections_fit(plan, limits::raise_descriptor_limit());
    let processes = lab.processes(fit);
    let version = haproxy::version(path)?;
    let numbers = Program::Haproxy.version(&version).unwrap_or_else(|| Program::Haproxy.oldest());
    let mut children = Vec::new();
    for number in 1..=processes {
        let mut plan = plan.clone();
        let mut config = plan.scratch.join("haproxy.cfg");
        if processes > 1 {
            // As many as one can hold: the kernel chooses the process of each connection.
            plan.connections_max = fit;
            plan.tls_sessions_max = Some(TLS_SESSIONS_OF_MANY);
            plan.stats_socket = plan.scratch.join(format!("stats-{number}.sock"));
            config = plan.scratch.join(format!("haproxy-{number}.cfg"));
        }
        check_descriptors("haproxy", haproxy::descriptors_needed(&plan))?;
        write(&config, &haproxy::render(&plan, numbers))?;
        if number == 1 {
            haproxy::check(path, &config)?;
        }
        let name = format!("haproxy {version}");
        children.push(SupervisedProgram {
            name: if processes == 1 { name } else { format!("{name} ({number})") },
            argv: haproxy::argv(path, &config),
            cpus: plan.cpus.clone(),
            ready: if processes == 1 {
                Readiness::Accepts(plan.listen)
            } else {
                // The port is open as soon as the first of them listens.
                Readiness::Exists(plan.stats_socket.clone())
            },
        });
    }
    let mut notes = Vec::new();
    if processes > 1 {
        notes.push(format!(
            "{processes} HAProxy processes share the port, maxconn {} each; tune.ssl.cachesize \
             {TLS_SESSIONS_OF_MANY}, every other tune.* at HAProxy's default",
            grouped(fit)
        ));
    }
    Ok(Prepared {
        name: several(processes, &format!("haproxy {version}")),
        children,
        notes,
        timers: haproxy::timers(plan),
        // Each of several processes counts only its own connections.
        statistics: (processes == 1)
            .then(|| CounterSource::Haproxy(plan.stats_socket.as_path().into())),
    })
}

/// One nginx with as many workers as descriptors require: each worker has a listening socket of
/// its own on the port.
pub(crate) fn prepare_nginx(
    path: &Path,
    lab: &LabPlan,
    plan: &ProxyPlan,
) -> Result<Prepared, LabError> {
    let have = limits::raise_descriptor_limit();
    let mut plan = plan.clone();
    while lab.may_split() && plan.threads < PROCESSES_MAX && nginx::descriptors_needed(&plan) > have
    {
        plan.threads += 1;
    }
    check_descriptors("nginx", nginx::descriptors_needed(&plan))?;
    plan.stub_status = nginx::has_stub_status(path)
        && plan.stats_socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
    let config = plan.scratch.join("nginx.conf");
    let version = nginx::version(path)?;
    let numbers = Program::Nginx.version(&version).unwrap_or_else(|| Program::Nginx.oldest());
    write(&config, &nginx::render(&plan, numbers))?;
    nginx::check(path, &config, &plan.scratch)?;
    let name = format!("nginx {version}");
    let child = SupervisedProgram {
        name: name.clone(),
        argv: nginx::argv(path, &config, &plan.scratch),
        cpus: plan.cpus.clone(),
        ready: Readiness::Accepts(plan.listen),
    };
    let notes = match plan.threads > lab.sut_cpus().len().max(1) as u32 {
        true => vec![format!("nginx has {} workers on one port", plan.threads)],
        false => Vec::new(),
    };
    let statistics =
        plan.stub_status.then(|| CounterSource::NginxSocket(plan.stats_socket.clone()));
    let timers = nginx::timers(&plan);
    Ok(Prepared { name, children: vec![child], notes, timers, statistics })
}

pub(crate) fn check_descriptors(program: &'static str, needed: u64) -> Result<(), LabError> {
    let have = limits::raise_descriptor_limit();
    if needed <= have { Ok(()) } else { Err(LabError::Descriptors { program, needed, have }) }
}

/// Writes a new file of the SUT's.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let written =
        output_file::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| LabError::Write { path: path.to_owned(), source })
}
