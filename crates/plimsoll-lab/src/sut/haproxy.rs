//! HAProxy, 2.4 and later: the configuration of a TLS-terminating proxy, and how to check and
//! start an installed one. It needs no privileges: no chroot, no change of user, no daemon.

pub(super) mod levers;

use std::path::Path;

use plimsoll_fleet::message::{Readiness, SupervisedProgram};
use plimsoll_model::cliff::{Awaits, KnownTimer};
use plimsoll_model::target::Protocol;
use plimsoll_model::units::grouped;
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::limits;
use plimsoll_sys::process::Signal;
use plimsoll_tune::proxy::{self, HAPROXY, Version};

use super::{Description, Prepared, Proxy, check_descriptors, several, write};
use crate::controls::Reload;
use crate::error::Result;
use crate::plan::LabPlan;
use crate::program;
use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;

/// The most threads of one process that every supported version can bind to CPUs as one group.
const THREADS_MAX: u32 = 64;

/// The hard limit of open files of a systemd service, from which Debian's HAProxy computes its maxconn.
const UNIT_DESCRIPTORS: u64 = 524_288;
/// TLS sessions that each of several HAProxy processes caches: a session cannot be
/// resumed at another process, and the default of 20,000 would need more memory than the held
/// connections of a small laboratory.
const TLS_SESSIONS_OF_MANY: u32 = 1_000;

/// The default of `fd-hard-limit` in HAProxy 3.0 and later.
const DESCRIPTORS_DEFAULT_MAX: u64 = 1_048_576;

pub(super) static DESCRIPTION: Description = Description {
    proxy: Some(&Haproxy),
    reload: Some(|_, _| Reload::Signal(Signal::USR2)),
    drains: true,
    carries_tcp: true,
    options: &["tune.*"],
    ..Description::PROXY
};

/// HAProxy.
struct Haproxy;

impl Proxy for Haproxy {
    fn package(&self) -> &'static str {
        "haproxy"
    }

    fn version(&self, program: &Path) -> Result<String, CheckError> {
        program::version(program, "-v", "roxy version ")
    }

    fn logs_to_socket(&self) -> bool {
        true
    }

    fn check_argv(&self, program: &Path, config: &Path) -> Vec<String> {
        let config = config.to_string_lossy();
        vec![program.to_string_lossy().into(), "-c".into(), "-f".into(), config.into()]
    }

    fn alert(&self, stderr: &[u8]) -> String {
        let alert = program::alert(stderr, "[ALERT]");
        // `(22787) : config : parsing [...]`: the process id is of no use to the reader.
        let alert = alert.split_once(") : ").map_or(&*alert, |(_, text)| text);
        alert.strip_prefix("config : ").unwrap_or(alert).to_owned()
    }

    /// Prepares processes that share one port, as many as descriptors require. Each has its own configuration and
    /// statistics socket.
    fn prepare(&self, program: &Path, lab: &LabPlan, plan: ProxyPlan) -> Result<Prepared> {
        let fit = connections_fit(&plan, limits::raise_descriptor_limit());
        let processes = lab.processes(fit);
        let version = self.version(program)?;
        let numbers = proxy::version(&version).unwrap_or(HAPROXY.oldest);
        let (mut children, mut sockets) = (Vec::new(), Vec::new());
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
            check_descriptors("haproxy", descriptors_needed(&plan))?;
            write(&config, &render(&plan, numbers))?;
            if number == 1 {
                self.check(program, &config)?;
            }
            sockets.push(HaproxySocket::from(plan.stats_socket.as_path()));
            let name = format!("haproxy {version}");
            children.push(SupervisedProgram {
                name: if processes == 1 { name } else { format!("{name} ({number})") },
                argv: argv(program, &config, plan.settings.reloads),
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
            timers: timers(&plan),
            // Each of several processes counts only its own connections.
            sockets: match plan.settings.configuration {
                // Its servers have other names.
                ProxyConfiguration::Tuned(_) => Vec::new(),
                ProxyConfiguration::Laboratory | ProxyConfiguration::Debian => sockets,
            },
            statistics: (processes == 1)
                .then(|| CounterSource::Haproxy(plan.stats_socket.as_path().into())),
        })
    }
}

/// Returns the number of file descriptors that one process with this plan needs, an upper bound; HAProxy refuses to
/// start when its limit is lower and it cannot raise it.
fn descriptors_needed(plan: &ProxyPlan) -> u64 {
    // Two per proxied connection; with 2 threads, pollers and pipes needed 28 more.
    let own = 64 + 8 * u64::from(plan.threads);
    plan.connections_max.saturating_mul(2).saturating_add(own)
}

/// Returns the number of client connections that one process with this plan can have when it may open `descriptors`
/// files, whatever `plan.connections_max` is.
fn connections_fit(plan: &ProxyPlan, descriptors: u64) -> u64 {
    let own = descriptors_needed(&ProxyPlan { connections_max: 0, ..plan.clone() });
    descriptors.saturating_sub(own) / 2
}

/// Returns the whole configuration file, for a program of this `version`. Threads beyond [`THREADS_MAX`] are
/// not started.
fn render(plan: &ProxyPlan, version: Version) -> String {
    match &plan.settings.configuration {
        ProxyConfiguration::Laboratory => {}
        ProxyConfiguration::Debian => return render_debian(plan, version),
        ProxyConfiguration::Tuned(goal) => return plan.tuned(&HAPROXY, version, goal),
    }
    let mut text = String::with_capacity(2_048);
    render_global(plan, &mut text);
    render_defaults(plan, &mut text);
    render_proxies(plan, &mut text);
    text
}

fn render_global(plan: &ProxyPlan, text: &mut String) {
    let threads = plan.threads.clamp(1, THREADS_MAX);
    line!(text, "# Written by plimsoll for one run.");
    line!(text, "global");
    line!(text, "    maxconn {}", plan.connections_max.max(1));
    if descriptors_needed(plan) > DESCRIPTORS_DEFAULT_MAX {
        line!(text, "    fd-hard-limit {}", descriptors_needed(plan));
    }
    line!(
        text,
        "    # With too few file descriptors, refuse to start instead of lowering maxconn."
    );
    line!(text, "    strict-limits");
    line!(text, "    nbthread {threads}");
    for (index, cpu) in plan.cpu_per_thread(threads).iter().enumerate() {
        line!(text, "    cpu-map 1/{} {cpu}", index + 1);
    }
    // The next worker gets the listening sockets from there.
    let passes = if plan.settings.reloads { " expose-fd listeners" } else { "" };
    let socket = HAPROXY.word(&plan.stats_socket);
    line!(text, "    stats socket {socket} mode 600 level admin{passes}");
    if let Some(sessions) = plan.tls_sessions_max.or_else(|| (!plan.resumes).then_some(0)) {
        line!(text, "    tune.ssl.cachesize {sessions}");
    }
    let tickets = if plan.resumes { "" } else { " no-tls-tickets" };
    line!(text, "    ssl-default-bind-options ssl-min-ver TLSv1.2{tickets}");
    if plan.settings.logs {
        line!(text, "    log {} local0", HAPROXY.word(&plan.log()));
    }
    for option in &plan.settings.options {
        line!(text, "    {option}");
    }
    line!(text, "");
}

fn render_defaults(plan: &ProxyPlan, text: &mut String) {
    line!(text, "defaults");
    let is_http = plan.protocol.has_headers();
    if is_http {
        line!(text, "    mode http");
        line!(text, "    option http-keep-alive");
        line!(text, "    http-reuse always");
    } else {
        line!(text, "    mode tcp");
    }
    if plan.settings.logs {
        line!(text, "    log global");
        line!(text, "    option {}", if is_http { "httplog" } else { "tcplog" });
    }
    line!(
        text,
        "    # Longer than plimsoll waits, so that none of these fires during a measurement."
    );
    for phase in phases(plan.protocol) {
        line!(text, "    timeout {phase} {}ms", plan.timeout_ms());
    }
    line!(text, "");
}

/// Returns the timeouts that concern a protocol.
fn phases(protocol: Protocol) -> Vec<&'static str> {
    let mut phases = vec!["connect", "client", "server", "queue", "client-fin"];
    if protocol.has_headers() {
        phases.extend(["http-request", "http-keep-alive"]);
    }
    if protocol != Protocol::Http1 {
        phases.push("tunnel");
    }
    phases
}

fn render_proxies(plan: &ProxyPlan, text: &mut String) {
    if plan.tls {
        line!(text, "frontend tls");
        line!(
            text,
            "    bind {} ssl crt {}{}",
            plan.listen,
            HAPROXY.word(&plan.certificate_pem_path),
            if plan.protocol.has_headers() { " alpn h2,http/1.1" } else { "" }
        );
    } else {
        line!(text, "frontend plain");
        line!(text, "    bind {}", plan.listen);
    }
    line!(text, "    default_backend backends");
    line!(text, "");
    line!(text, "backend backends");
    // Connections that last are counted, not requests.
    let balance = if plan.protocol.has_headers() { "roundrobin" } else { "leastconn" };
    line!(text, "    balance {balance}");
    let checked = if plan.settings.backends_end {
        line!(text, "    # One that ends is noticed, and its connections go to another.");
        line!(text, "    option redispatch 1");
        " check inter 500ms fall 2 rise 1"
    } else {
        line!(text, "    # No health checks: they would be additional load.");
        ""
    };
    for (index, backend) in plan.backends.iter().enumerate() {
        line!(text, "    server b{} {backend}{checked}", index + 1);
    }
}

/// Returns the timers of the configuration that a client can meet.
fn timers(plan: &ProxyPlan) -> Vec<KnownTimer> {
    let all = [
        ("server", Awaits::Answer),
        ("queue", Awaits::Answer),
        ("connect", Awaits::Answer),
        ("http-request", Awaits::Request),
        ("client", Awaits::Request),
        ("http-keep-alive", Awaits::NextRequest),
        ("tunnel", Awaits::NextRequest),
    ];
    let known = phases(plan.protocol);
    plan.timers("HAProxy timeout", all.into_iter().filter(|(phase, _)| known.contains(phase)))
}

/// Returns program and arguments that run HAProxy in the foreground, as one process.
fn argv(haproxy: &Path, config: &Path, reloads: bool) -> Vec<String> {
    let mut argv = vec![haproxy.to_string_lossy().into_owned(), "-db".to_owned()];
    // A master, which starts another worker on SIGUSR2.
    argv.extend(reloads.then(|| "-W".to_owned()));
    argv.extend(["-f".to_owned(), config.to_string_lossy().into_owned()]);
    argv
}

/// Returns Debian's haproxy.cfg (2.6): every request is logged, and sessions are cached, not sent as tickets.
fn render_debian(plan: &ProxyPlan, version: Version) -> String {
    let mut text = String::with_capacity(2_048);
    let text = &mut text;
    let log = HAPROXY.word(&plan.log());
    line!(text, "global");
    line!(text, "    log {log} local0");
    line!(text, "    log {log} local1 notice");
    line!(text, "    stats socket {} mode 660 level admin", HAPROXY.word(&plan.stats_socket));
    line!(text, "    stats timeout 30s");
    if version >= (2, 6) {
        line!(text, "    # LimitNOFILE of the unit");
        line!(text, "    fd-hard-limit {UNIT_DESCRIPTORS}");
    }
    line!(text, "    nbthread {}", plan.threads.clamp(1, THREADS_MAX));
    line!(
        text,
        "    ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
         ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:\
         ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384"
    );
    line!(
        text,
        "    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:\
         TLS_CHACHA20_POLY1305_SHA256"
    );
    line!(text, "    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets");
    line!(text, "defaults");
    line!(text, "    log global");
    line!(text, "    mode http");
    line!(text, "    option httplog");
    line!(text, "    option dontlognull");
    line!(text, "    timeout connect 5000");
    line!(text, "    timeout client 50000");
    line!(text, "    timeout server 50000");
    render_proxies(plan, text);
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
        assert_snapshot!(render(&ProxyPlan::sample(Path::new("/scratch")), (2, 6)));
    }

    #[test]
    fn lines_that_depend_on_the_plan() {
        let mut plan = ProxyPlan::sample(Path::new("/it's here"));
        plan.connections_max = 2_000_000;
        plan.cpus.clear();
        plan.threads = 200;
        plan.listen = "[::1]:443".parse().unwrap();
        plan.tls_sessions_max = Some(1_000);
        let text = render(&plan, (2, 6));
        assert!(text.contains("    maxconn 2000000\n    fd-hard-limit 4001664\n"), "{text}");
        assert!(text.contains("    nbthread 64\n"), "{text}");
        assert!(!text.contains("cpu-map"), "{text}");
        assert!(text.contains("    tune.ssl.cachesize 1000\n"), "{text}");
        assert!(text.contains(r"bind [::1]:443 ssl crt '/it'\''s here/lab.pem' alpn"), "{text}");
    }

    #[test]
    fn what_fits_needs_no_more_than_there_is() {
        let mut plan = ProxyPlan::sample(Path::new("/scratch"));
        for descriptors in [0, 81, 20_000, 1_048_576] {
            plan.connections_max = connections_fit(&plan, descriptors);
            assert!(plan.connections_max == 0 || descriptors_needed(&plan) <= descriptors);
            assert!(plan.connections_max == 0 || descriptors_needed(&plan) + 2 > descriptors);
        }
    }

    #[test]
    fn haproxy_accepts_what_we_render() {
        let haproxy = installed("haproxy", "haproxy");
        let scratch = tempfile::Builder::new().prefix("plimsoll lab's ").tempdir().unwrap();
        let mut plan = ProxyPlan::sample(scratch.path());
        write_certificate(&plan.certificate_pem_path);
        let config = scratch.path().join("haproxy.cfg");
        for (listen, cpus, threads, tls, resumes, protocol) in [
            ("127.0.0.1:8443", vec![0], 1, true, true, Protocol::Http1),
            ("[::1]:8443", vec![], 2, true, false, Protocol::WebSocket),
            ("0.0.0.0:8443", vec![0], 4, false, true, Protocol::Mqtt),
            ("127.0.0.1:8443", vec![0], 1, true, true, Protocol::Script),
        ] {
            plan.protocol = protocol;
            plan.settings.logs = !protocol.has_headers();
            plan.settings.reloads = !protocol.has_headers();
            plan.settings.backends_end = protocol != Protocol::WebSocket;
            plan.listen = listen.parse().unwrap();
            (plan.cpus, plan.threads) = (cpus, threads);
            (plan.tls, plan.resumes) = (tls, resumes);
            plan.tls_sessions_max = resumes.then_some(1_000);
            fs::write(&config, render(&plan, (2, 6))).unwrap();
            Haproxy.check(&haproxy, &config).unwrap();
        }
    }

    #[test]
    fn a_rejection_names_the_line_and_the_reason() {
        let haproxy = installed("haproxy", "haproxy");
        let scratch = tempfile::tempdir().unwrap();
        let config = scratch.path().join("haproxy.cfg");
        // The certificate is missing.
        fs::write(&config, render(&ProxyPlan::sample(scratch.path()), (2, 6))).unwrap();
        let text = Haproxy.check(&haproxy, &config).unwrap_err().to_string();
        assert!(text.contains("haproxy.cfg: parsing ["), "{text}");
        assert!(text.contains("lab.pem"), "{text}");
        // A file that is not there.
        let text =
            Haproxy.check(&haproxy, &scratch.path().join("none.cfg")).unwrap_err().to_string();
        assert!(text.contains("No such file"), "{text}");
    }

    #[test]
    fn debians_configuration_is_accepted() {
        let scratch = tempfile::Builder::new().prefix("plimsoll debian ").tempdir().unwrap();
        let plan = ProxyPlan::debian(scratch.path());
        write_certificate(&plan.certificate_pem_path);
        let text = render(&plan, (2, 6));
        assert!(text.contains("no-tls-tickets") && text.contains("option httplog"), "{text}");
        let config = scratch.path().join("config");
        fs::write(&config, text).unwrap();
        Haproxy.check(&installed("haproxy", "haproxy"), &config).unwrap();
    }

    #[test]
    fn version_is_a_version() {
        let version = Haproxy.version(&installed("haproxy", "haproxy")).unwrap();
        assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        assert!(version.contains('.'), "{version}");
    }

    #[test]
    fn it_stays_in_the_foreground() {
        let argv = argv(Path::new("/usr/sbin/haproxy"), Path::new("/scratch/haproxy.cfg"), false);
        assert_eq!(argv, ["/usr/sbin/haproxy", "-db", "-f", "/scratch/haproxy.cfg"]);
    }
}
