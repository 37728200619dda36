//! nginx, 1.18 and later: the configuration of a TLS-terminating proxy, and how to check and
//! start an installed one. It needs no privileges and writes only below the plan's scratch directory.
//!
//! Stop it with SIGTERM: its workers outlive a master that was killed with SIGKILL.

use std::path::{Path, PathBuf};

use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_model::target::Protocol;
use plimsoll_tune::proxy::{Program, Version};

use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;
use crate::{debian, program};

/// File descriptors that each worker process with this plan needs, an upper bound. nginx starts
/// with fewer and then refuses connections, so compare this with the limit first.
pub(crate) fn descriptors_needed(plan: &ProxyPlan) -> u64 {
    // Besides connections: listeners, channels to the master, logs.
    connections_per_worker(plan).saturating_add(64)
}

/// Client connections of one worker, at most. The kernel spreads them by hash, not evenly.
fn clients_per_worker(plan: &ProxyPlan) -> u64 {
    let share = plan.connections_max.max(1).div_ceil(u64::from(plan.threads.max(1)));
    // A quarter and 256 more: over five standard deviations of a binomial distribution.
    share.saturating_add(share / 4 + 256).min(plan.connections_max.max(1))
}

/// `worker_connections` counts both sides, and what the worker listens on.
fn connections_per_worker(plan: &ProxyPlan) -> u64 {
    clients_per_worker(plan).saturating_mul(2).saturating_add(64)
}

/// The whole configuration file, for a program of this `version`. Paths in it are relative to the prefix that [`argv`] sets.
pub(crate) fn render(plan: &ProxyPlan, version: Version) -> String {
    match &plan.settings.configuration {
        ProxyConfiguration::Laboratory => {}
        ProxyConfiguration::Debian => return debian::nginx(plan),
        ProxyConfiguration::Tuned(goal) => return plan.tuned(Program::Nginx, version, goal),
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

/// The timers of the configuration that a client can meet.
pub(crate) fn timers(plan: &ProxyPlan) -> Vec<KnownTimer> {
    let timer = |(directive, awaits)| KnownTimer {
        name: format!("nginx {directive}"),
        at: plan.timeout_in_effect(),
        owner: Owner::Sut,
        awaits,
    };
    [
        ("proxy_read_timeout", Awaits::Answer),
        ("proxy_connect_timeout", Awaits::Answer),
        ("client_header_timeout", Awaits::Request),
        ("client_body_timeout", Awaits::Request),
        ("keepalive_timeout", Awaits::NextRequest),
    ]
    .map(timer)
    .to_vec()
}

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

/// nginx's bit mask for one CPU: `100` is CPU 2.
fn affinity_mask(cpu: u32) -> String {
    format!("1{}", "0".repeat(cpu as usize))
}

fn render_http(plan: &ProxyPlan, text: &mut String) {
    if plan.settings.logs {
        line!(text, "    access_log {};", Program::Nginx.word(&plan.log()));
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

/// Temporary files lie below the prefix.
pub(crate) fn render_temporary(text: &mut String) {
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

/// stub_status on a Unix socket: on a TCP port, load could reach it.
pub(crate) fn render_status(plan: &ProxyPlan, text: &mut String) {
    line!(text, "    server {{");
    let socket = format!("unix:{}", plan.stats_socket.display());
    line!(text, "        listen {};", Program::Nginx.word(Path::new(&socket)));
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

/// Where clients connect, with these `words` of the listening socket.
pub(crate) fn render_listen(plan: &ProxyPlan, words: &str, text: &mut String) {
    if !plan.tls {
        line!(text, "        listen {}{words};", plan.listen);
        return;
    }
    let certificate = Program::Nginx.word(&plan.certificate_pem_path);
    let http2 = if plan.protocol == Protocol::Mqtt { "" } else { " http2" };
    line!(text, "        listen {} ssl{http2}{words};", plan.listen);
    line!(text, "        ssl_certificate {certificate};");
    line!(text, "        ssl_certificate_key {certificate};");
}

/// Checks a configuration file with `nginx -t`, which creates the temporary folders below `scratch`;
/// the error holds the first `[emerg]` line.
pub(crate) fn check(nginx: &Path, config: &Path, scratch: &Path) -> Result<(), CheckError> {
    let mut arguments = argv(nginx, config, scratch);
    arguments.push("-t".to_owned());
    let output = program::run(nginx, &arguments[1..])?;
    if output.status.success() {
        return Ok(());
    }
    let alert = program::alert(&output.stderr, "[emerg]");
    // `31015#31015: cannot load ...`: the ids of process and thread are of no use to the reader.
    let text = alert.split_once(": ").filter(|(ids, _)| ids.contains('#'));
    Err(CheckError::Rejected {
        program: nginx.to_owned(),
        config: config.to_owned(),
        alert: text.map_or(alert.as_str(), |(_, text)| text).to_owned(),
    })
}

/// The nginx to use: `explicit` (a path, or a name to look up) if it can be executed, else the
/// installed one, from PATH or the folders where daemons are installed.
pub(crate) fn find(explicit: Option<&Path>) -> Option<PathBuf> {
    program::find("nginx", explicit)
}

/// The version as nginx writes it: `1.22.1`.
pub(crate) fn version(nginx: &Path) -> Result<String, CheckError> {
    program::version(nginx, "nginx version: nginx/")
}

/// Whether this nginx was built with stub_status.
pub(crate) fn has_stub_status(nginx: &Path) -> bool {
    is_built_with(nginx, "stub_status")
}

/// Whether it speaks HTTP/2.
pub(crate) fn has_http2(nginx: &Path) -> bool {
    is_built_with(nginx, "http_v2_module")
}

fn is_built_with(nginx: &Path, module: &str) -> bool {
    program::run(nginx, &["-V".to_owned()])
        .is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains(module))
}

/// Program and arguments that run nginx in the foreground: a master and its workers.
pub(crate) fn argv(nginx: &Path, config: &Path, scratch: &Path) -> Vec<String> {
    vec![
        nginx.to_string_lossy().into_owned(),
        "-g".to_owned(),
        "daemon off;".to_owned(),
        "-p".to_owned(),
        scratch.to_string_lossy().into_owned(),
        "-c".to_owned(),
        config.to_string_lossy().into_owned(),
    ]
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
            check(&nginx, &config, scratch.path()).unwrap();
        }
    }

    #[test]
    fn a_rejection_names_the_reason() {
        let nginx = installed("nginx", "nginx-light");
        let scratch = tempfile::tempdir().unwrap();
        let config = scratch.path().join("nginx.conf");
        // The certificate is missing.
        fs::write(&config, render(&ProxyPlan::sample(scratch.path()), (1, 22))).unwrap();
        let text = check(&nginx, &config, scratch.path()).unwrap_err().to_string();
        assert!(text.contains("nginx.conf: cannot load certificate"), "{text}");
        // A typing error is placed.
        fs::write(&config, "events {}\nhttp { keepalive_timeoutt 1s; }\n").unwrap();
        let text = check(&nginx, &config, scratch.path()).unwrap_err().to_string();
        assert!(text.contains("unknown directive \"keepalive_timeoutt\""), "{text}");
        assert!(text.ends_with("nginx.conf:2"), "{text}");
    }

    #[test]
    fn version_is_a_version() {
        let version = version(&installed("nginx", "nginx-light")).unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
    }

    #[test]
    fn it_stays_in_the_foreground() {
        let argv = argv(Path::new("nginx"), Path::new("/s/nginx.conf"), Path::new("/s"));
        assert_eq!(argv, ["nginx", "-g", "daemon off;", "-p", "/s", "-c", "/s/nginx.conf"]);
    }
}
