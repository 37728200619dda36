//! nginx, 1.18 and later: the configuration of a TLS-terminating proxy, and how to check and
//! start an installed one. It needs no privileges and writes only below the plan's scratch directory.
//!
//! Stop it with SIGTERM: its workers outlive a master that was killed with SIGKILL.

use std::path::Path;

use plimsoll_fleet::message::{Readiness, SupervisedProgram};
use plimsoll_model::cliff::Awaits;
use plimsoll_model::target::Protocol;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::limits;
use plimsoll_sys::process::Signal;
use plimsoll_tune::proxy::{self, DEBIAN_WORKER_CONNECTIONS, NGINX, Version};

use super::{Description, Prepared, Proxy, check_descriptors, write};
use crate::controls::Reload;
use crate::error::Result;
use crate::plan::{LabPlan, PROCESSES_MAX};
use crate::program;
use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;

/// The longest path of a Unix socket that HAProxy accepts; nginx's is a little longer.
const SOCKET_PATH_BYTES_MAX: usize = 97;

pub(super) static DESCRIPTION: Description = Description {
    proxy: Some(&Nginx),
    reload: Some(|_, _| Reload::Signal(Signal::HUP)),
    // Workers of a privileged master become `nobody`.
    keeps_privileges: false,
    // Directives of its block `http`.
    options: &["ssl_buffer_size", "proxy_buffer_size", "proxy_buffering", "sendfile", "gzip"],
    ..Description::PROXY
};

/// nginx.
struct Nginx;

impl Proxy for Nginx {
    fn package(&self) -> &'static str {
        "nginx-light"
    }

    fn version(&self, program: &Path) -> Result<String, CheckError> {
        program::version(program, "-v", "nginx version: nginx/")
    }

    fn shares_port(&self, configuration: &ProxyConfiguration) -> bool {
        *configuration != ProxyConfiguration::Debian
    }

    fn has_statistics(&self, program: &Path) -> bool {
        is_built_with(program, "stub_status")
    }

    fn has_http2(&self, program: &Path) -> bool {
        is_built_with(program, "http_v2_module")
    }

    /// Returns the words of `nginx -t`, which creates the temporary folders beside the configuration.
    fn check_argv(&self, program: &Path, config: &Path) -> Vec<String> {
        let mut argv = argv(program, config);
        argv.push("-t".to_owned());
        argv
    }

    fn alert(&self, stderr: &[u8]) -> String {
        let alert = program::alert(stderr, "[emerg]");
        // `31015#31015: cannot load ...`: the ids of process and thread are of no use to the reader.
        let text = alert.split_once(": ").filter(|(ids, _)| ids.contains('#'));
        text.map_or(alert.as_str(), |(_, text)| text).to_owned()
    }

    /// Prepares one nginx with as many workers as descriptors require: each worker has its own listening socket on
    /// the port.
    fn prepare(&self, program: &Path, lab: &LabPlan, mut plan: ProxyPlan) -> Result<Prepared> {
        let have = limits::raise_descriptor_limit();
        while lab.may_split() && plan.threads < PROCESSES_MAX && descriptors_needed(&plan) > have {
            plan.threads += 1;
        }
        check_descriptors("nginx", descriptors_needed(&plan))?;
        plan.stub_status &= plan.stats_socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
        let config = plan.scratch.join("nginx.conf");
        let version = self.version(program)?;
        let numbers = proxy::version(&version).unwrap_or(NGINX.oldest);
        write(&config, &render(&plan, numbers))?;
        self.check(program, &config)?;
        let name = format!("nginx {version}");
        let child = SupervisedProgram {
            name: name.clone(),
            argv: argv(program, &config),
            cpus: plan.cpus.clone(),
            ready: Readiness::Accepts(plan.listen),
        };
        let notes = match plan.threads > lab.sut_cpus().len().max(1) as u32 {
            true => vec![format!("nginx has {} workers on one port", plan.threads)],
            false => Vec::new(),
        };
        let statistics =
            plan.stub_status.then(|| CounterSource::NginxSocket(plan.stats_socket.clone()));
        let timers = plan.timers("nginx", TIMERS);
        let (children, sockets) = (vec![child], Vec::new());
        Ok(Prepared { name, children, notes, timers, statistics, sockets })
    }
}

/// Returns the number of file descriptors that each worker process with this plan needs, an upper bound. nginx starts
/// with fewer and then refuses connections, so compare this with the limit first.
fn descriptors_needed(plan: &ProxyPlan) -> u64 {
    // Besides connections: listeners, channels to the master, logs.
    connections_per_worker(plan).saturating_add(64)
}

/// Returns the number of client connections of one worker, at most. The kernel spreads them by hash, not evenly.
fn clients_per_worker(plan: &ProxyPlan) -> u64 {
    let share = plan.connections_max.max(1).div_ceil(u64::from(plan.threads.max(1)));
    // A quarter and 256 more: over five standard deviations of a binomial distribution.
    share.saturating_add(share / 4 + 256).min(plan.connections_max.max(1))
}

/// Returns the value of `worker_connections`, which counts both sides and the listening sockets of the worker.
fn connections_per_worker(plan: &ProxyPlan) -> u64 {
    clients_per_worker(plan).saturating_mul(2).saturating_add(64)
}

/// Returns the whole configuration file, for a program of this `version`. Paths in it are relative to the prefix that
/// [`argv`] sets.
fn render(plan: &ProxyPlan, version: Version) -> String {
    match &plan.settings.configuration {
        ProxyConfiguration::Laboratory => {}
        ProxyConfiguration::Debian => return render_debian(plan),
        ProxyConfiguration::Tuned(goal) => return plan.tuned(&NGINX, version, goal),
    }
    let mut text = String::with_capacity(2_048);
    render_process(plan, &mut text);
    text.push_str("http {\n");
    render_http(plan, &mut text);
    render_upstream(plan, &mut text);
    render_server(plan, &mut text);
    if plan.stub_status {
        render_status(plan, &mut text);
    }
    text.push_str("}\n");
    text
}

/// Directives with timers that a client can meet.
const TIMERS: [(&str, Awaits); 5] = [
    ("proxy_read_timeout", Awaits::Answer),
    ("proxy_connect_timeout", Awaits::Answer),
    ("client_header_timeout", Awaits::Request),
    ("client_body_timeout", Awaits::Request),
    ("keepalive_timeout", Awaits::NextRequest),
];

fn render_process(plan: &ProxyPlan, text: &mut String) {
    let threads = plan.threads.max(1);
    line!(text, "# Written by plimsoll for one run.");
    line!(text, "pid nginx.pid;");
    line!(text, "error_log stderr warn;");
    line!(text, "worker_processes {threads};");
    let masks: Vec<String> = plan.cpu_per_thread(threads).into_iter().map(affinity_mask).collect();
    if !masks.is_empty() {
        line!(text, "worker_cpu_affinity {};", masks.join(" "));
    }
    line!(text, "worker_rlimit_nofile {};", descriptors_needed(plan));
    line!(text, "events {{");
    line!(text, "    worker_connections {};", connections_per_worker(plan));
    line!(text, "}}");
}

/// Returns nginx's bit mask for one CPU: `100` is CPU 2.
fn affinity_mask(cpu: u32) -> String {
    format!("1{}", "0".repeat(cpu as usize))
}

fn render_http(plan: &ProxyPlan, text: &mut String) {
    if plan.settings.logs {
        line!(text, "    access_log {};", NGINX.word(&plan.log()));
    } else {
        line!(text, "    access_log off;");
    }
    for option in &plan.settings.options {
        line!(text, "    {option};");
    }
    line!(text, "    server_tokens off;");
    line!(text, "    tcp_nodelay on;");
    line!(text, "    keepalive_requests 1000000000;");
    line!(
        text,
        "    # Longer than plimsoll waits, so that none of these fires during a measurement."
    );
    for timer in [
        "keepalive_timeout",
        "client_header_timeout",
        "client_body_timeout",
        "send_timeout",
        "proxy_connect_timeout",
        "proxy_send_timeout",
        "proxy_read_timeout",
    ] {
        line!(text, "    {timer} {}ms;", plan.timeout_ms());
    }
    line!(text, "    # Bodies stay in memory, so that no disk is measured.");
    line!(text, "    client_max_body_size 0;");
    line!(text, "    proxy_request_buffering off;");
    line!(text, "    proxy_max_temp_file_size 0;");
    render_temporary(text);
}

/// Writes the paths of temporary files, which are below the prefix.
fn render_temporary(text: &mut String) {
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        line!(text, "    {kind}_temp_path temp_{kind};");
    }
}

fn render_upstream(plan: &ProxyPlan, text: &mut String) {
    line!(text, "    upstream backends {{");
    for backend in &plan.backends {
        // By default, nginx does not use a backend for 10 s after one failure.
        line!(text, "        server {backend} max_fails=0;");
    }
    line!(text, "        keepalive {};", clients_per_worker(plan));
    line!(text, "        keepalive_requests 1000000000;");
    line!(text, "        keepalive_timeout {}ms;", plan.timeout_ms());
    line!(text, "    }}");
}

/// Writes stub_status on a Unix socket: on a TCP port, load could reach it.
fn render_status(plan: &ProxyPlan, text: &mut String) {
    line!(text, "    server {{");
    let socket = format!("unix:{}", plan.stats_socket.display());
    line!(text, "        listen {};", NGINX.word(Path::new(&socket)));
    line!(text, "        location / {{");
    line!(text, "            stub_status;");
    line!(text, "        }}");
    line!(text, "    }}");
}

fn render_server(plan: &ProxyPlan, text: &mut String) {
    line!(text, "    server {{");
    render_listen(plan, " reuseport", text);
    if plan.tls {
        line!(text, "        ssl_protocols TLSv1.2 TLSv1.3;");
        if !plan.resumes {
            line!(text, "        ssl_session_cache off;");
            line!(text, "        ssl_session_tickets off;");
        }
    }
    line!(text, "        location / {{");
    line!(text, "            proxy_pass http://backends;");
    line!(text, "            proxy_http_version 1.1;");
    line!(text, "            proxy_set_header Host $http_host;");
    if plan.protocol == Protocol::WebSocket {
        line!(text, "            proxy_set_header Upgrade $http_upgrade;");
        line!(text, "            proxy_set_header Connection upgrade;");
    } else {
        line!(text, "            proxy_set_header Connection \"\";");
    }
    line!(text, "        }}");
    line!(text, "    }}");
}

/// Writes the listening socket for clients, with these `words`.
fn render_listen(plan: &ProxyPlan, words: &str, text: &mut String) {
    if !plan.tls {
        line!(text, "        listen {}{words};", plan.listen);
        return;
    }
    let certificate = NGINX.word(&plan.certificate_pem_path);
    let http2 = if plan.protocol == Protocol::Mqtt { "" } else { " http2" };
    line!(text, "        listen {} ssl{http2}{words};", plan.listen);
    line!(text, "        ssl_certificate {certificate};");
    line!(text, "        ssl_certificate_key {certificate};");
}

fn is_built_with(nginx: &Path, module: &str) -> bool {
    program::run(nginx, &["-V".to_owned()])
        .is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains(module))
}

/// Returns program and arguments that run nginx in the foreground: a master and its workers.
fn argv(nginx: &Path, config: &Path) -> Vec<String> {
    vec![
        nginx.to_string_lossy().into_owned(),
        "-g".to_owned(),
        "daemon off;".to_owned(),
        "-p".to_owned(),
        config.parent().unwrap_or(config).to_string_lossy().into_owned(),
        "-c".to_owned(),
        config.to_string_lossy().into_owned(),
    ]
}

/// Returns Debian's nginx.conf (1.22): 768 connections in a worker, and HTTP/1.0 to the servers behind it.
fn render_debian(plan: &ProxyPlan) -> String {
    let mut text = String::with_capacity(2_048);
    let text = &mut text;
    line!(text, "pid nginx.pid;");
    line!(text, "error_log stderr warn;");
    line!(text, "worker_processes {};", plan.threads.max(1));
    line!(text, "events {{ worker_connections {DEBIAN_WORKER_CONNECTIONS}; }}");
    line!(text, "http {{");
    line!(text, "    sendfile on;");
    line!(text, "    tcp_nopush on;");
    line!(text, "    types_hash_max_size 2048;");
    line!(text, "    ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;");
    line!(text, "    ssl_prefer_server_ciphers on;");
    line!(text, "    access_log {};", NGINX.word(&plan.log()));
    line!(text, "    gzip on;");
    render_temporary(text);
    line!(text, "    upstream backends {{");
    for backend in &plan.backends {
        line!(text, "        server {backend};");
    }
    line!(text, "    }}");
    line!(text, "    server {{");
    render_listen(plan, "", text);
    line!(text, "        location / {{ proxy_pass http://backends; }}");
    line!(text, "    }}");
    if plan.stub_status {
        render_status(plan, text);
    }
    line!(text, "}}");
    std::mem::take(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use insta::assert_snapshot;

    use super::*;
    use crate::program::tests::{installed, write_certificate};

    #[test]
    fn the_whole_configuration() {
        assert_snapshot!(render(&ProxyPlan::sample(Path::new("/scratch")), (1, 22)));
    }

    #[test]
    fn connections_fit_the_plan() {
        let mut plan = ProxyPlan::sample(Path::new("/scratch"));
        for (connections_max, threads, per_worker) in [
            (1, 4, 2 + 64),                // one client, wherever it lands
            (1_000, 1, 2_000 + 64),        // one worker holds all
            (100_000, 2, 2 * 62_756 + 64), // half, a quarter of that, 256
            (u64::MAX, 1, u64::MAX),       // saturates
            (0, 0, 2 + 64),                // nonsense still gives a valid file
        ] {
            (plan.connections_max, plan.threads) = (connections_max, threads);
            assert_eq!(connections_per_worker(&plan), per_worker, "{connections_max}/{threads}");
        }
    }

    #[test]
    fn nginx_accepts_what_we_render() {
        let nginx = installed("nginx", "nginx-light");
        let scratch = tempfile::Builder::new().prefix("plimsoll lab \"s ").tempdir().unwrap();
        let mut plan = ProxyPlan::sample(scratch.path());
        write_certificate(&plan.certificate_pem_path);
        let config = scratch.path().join("nginx.conf");
        for (listen, cpus, threads) in [("127.0.0.1:8443", vec![0], 1), ("[::1]:8443", vec![], 4)] {
            plan.listen = listen.parse().unwrap();
            (plan.cpus, plan.threads) = (cpus, threads);
            fs::write(&config, render(&plan, (1, 22))).unwrap();
            Nginx.check(&nginx, &config).unwrap();
        }
    }

    #[test]
    fn a_rejection_names_the_reason() {
        let nginx = installed("nginx", "nginx-light");
        let scratch = tempfile::tempdir().unwrap();
        let config = scratch.path().join("nginx.conf");
        // The certificate is missing.
        fs::write(&config, render(&ProxyPlan::sample(scratch.path()), (1, 22))).unwrap();
        let text = Nginx.check(&nginx, &config).unwrap_err().to_string();
        assert!(text.contains("nginx.conf: cannot load certificate"), "{text}");
        // A typing error is placed.
        fs::write(&config, "events {}\nhttp { keepalive_timeoutt 1s; }\n").unwrap();
        let text = Nginx.check(&nginx, &config).unwrap_err().to_string();
        assert!(text.contains("unknown directive \"keepalive_timeoutt\""), "{text}");
        assert!(text.ends_with("nginx.conf:2"), "{text}");
    }

    #[test]
    fn debians_configuration_is_accepted() {
        let scratch = tempfile::Builder::new().prefix("plimsoll debian ").tempdir().unwrap();
        let plan = ProxyPlan::debian(scratch.path());
        write_certificate(&plan.certificate_pem_path);
        let text = render(&plan, (1, 22));
        assert!(text.contains("worker_connections 768"), "{text}");
        let config = scratch.path().join("config");
        fs::write(&config, text).unwrap();
        Nginx.check(&installed("nginx", "nginx-light"), &config).unwrap();
    }

    #[test]
    fn version_is_a_version() {
        let version = Nginx.version(&installed("nginx", "nginx-light")).unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    }

    #[test]
    fn it_stays_in_the_foreground() {
        let argv = argv(Path::new("nginx"), Path::new("/s/nginx.conf"));
        assert_eq!(argv, ["nginx", "-g", "daemon off;", "-p", "/s", "-c", "/s/nginx.conf"]);
    }
}
