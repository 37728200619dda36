//! nginx 1.18 and later.

use std::path::PathBuf;

use plimsoll_model::SutKind;

use super::memory::Memory;
use super::text::Text;
use super::{CIPHERS, Configuration, Dialect, ProxyGoal, Version};

/// One slot of a worker's table: a connection and its two events.
const SLOT_BYTES: u64 = 424;
/// Sessions in a megabyte of the cache: nginx documentation, ssl_session_cache.
const SESSIONS_PER_MB: u64 = 4_000;

/// Connections of one worker in Debian's configuration, including those to the backends.
pub const DEBIAN_WORKER_CONNECTIONS: u64 = 768;

/// nginx's language.
pub static NGINX: Dialect = Dialect {
    kind: SutKind::Nginx,
    oldest: (1, 18),
    check_flag: "-t",
    user: "www-data",
    chroot: None,
    state: "/run",
    statistics: "nginx-status.sock",
    log: "/var/log/nginx/access.log",
    debian_connections: |cores| DEBIAN_WORKER_CONNECTIONS / 2 * u64::from(cores),
    // The only escapes that a path can need; `\$` is no escape.
    quote: |text| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")),
    write: configure,
};

fn configure(version: Version, goal: &ProxyGoal) -> Configuration {
    let workers = u64::from(goal.cores.max(1));
    let slots = slots_per_worker(goal.connections, workers);
    let descriptors = slots + 64;
    let cache = session_megabytes(goal) << 20;
    let slots_bytes = workers.saturating_mul(slots).saturating_mul(SLOT_BYTES);
    let memory = Memory::of(goal, slots_bytes.saturating_add(cache));
    let mut text = Text::default();
    NGINX.heading(&mut text, version, goal, &memory);
    text.comment("A reload doubles the memory of the workers until worker_shutdown_timeout.");
    process(&mut text, goal, workers, slots, descriptors);
    text.plain("http {");
    text.block(|text| {
        http(text, version, goal);
        upstream(text, goal, workers);
        server(text, version, goal);
        status(text, goal);
    });
    text.plain("}");
    Configuration { text: text.finish(), memory, descriptors }
}

/// Both sides of the connections of one worker, where the kernel spreads them by a hash, not evenly: a
/// quarter and 256 more are over five standard deviations.
fn slots_per_worker(connections: u64, workers: u64) -> u64 {
    let share = connections.max(1).div_ceil(workers);
    let clients = share.saturating_add(share / 4 + 256).min(connections.max(1));
    clients.saturating_mul(2).saturating_add(64)
}

fn process(text: &mut Text, goal: &ProxyGoal, workers: u64, slots: u64, descriptors: u64) {
    if let Some(user) = &goal.places.user {
        text.plain(&format!("user {user};"));
    }
    text.plain(&format!("pid {};", NGINX.word(&goal.places.state.join("nginx.pid"))));
    // Without a directory of its own, what is wrong goes to the terminal or the journal.
    let log = goal.places.log.as_ref().map(|log| log.with_file_name("error.log"));
    let log = log.map_or_else(|| "stderr".to_owned(), |log| NGINX.word(&log));
    text.plain(&format!("error_log {log} warn;"));
    text.set(
        &format!("worker_processes {workers};"),
        "One worker for each CPU; more would wait for each other.",
        "nginx documentation, worker_processes",
    );
    text.set(
        &format!("worker_rlimit_nofile {descriptors};"),
        "One open file for each slot below; the unit's soft limit of 1,024 would be the end.",
        "nginx documentation, worker_rlimit_nofile",
    );
    text.set(
        "worker_shutdown_timeout 60s;",
        "After a reload the old workers, with all of their memory, end at last.",
        "nginx documentation, worker_shutdown_timeout",
    );
    text.plain("events {");
    text.block(|text| {
        text.set(
            &format!("worker_connections {slots};"),
            "In each worker, both sides of a connection counted, and a quarter more: the kernel does \
             not spread them evenly. Debian's 768 are 384 proxied connections in a worker.",
            "nginx documentation, worker_connections",
        );
    });
    text.plain("}");
}

/// The size of the session cache.
fn session_megabytes(goal: &ProxyGoal) -> u64 {
    goal.sessions().div_ceil(SESSIONS_PER_MB)
}

fn http(text: &mut Text, version: Version, goal: &ProxyGoal) {
    match &goal.places.log {
        Some(log) => text.set(
            &format!("access_log {} combined buffer=64k flush=1s;", NGINX.word(log)),
            "Lines are written 64 KiB at once, not one by one.",
            "nginx documentation, access_log",
        ),
        None => text.plain("access_log off;"),
    }
    text.plain("server_tokens off;");
    text.set(
        "keepalive_timeout 60s;",
        "How long an idle client stays connected: the number of held connections follows from it.",
        "nginx documentation, keepalive_timeout",
    );
    text.set(
        "keepalive_requests 100000;",
        "The default closes each client connection after 1,000 requests (100 before 1.19.10): a \
         handshake each time.",
        "nginx documentation, keepalive_requests",
    );
    if goal.http2 && version < (1, 19) {
        text.plain("http2_max_requests 100000;");
    }
    text.set(
        "reset_timedout_connection on;",
        "A client that is gone keeps no memory in FIN_WAIT_1.",
        "nginx documentation, reset_timedout_connection",
    );
    text.plain("ssl_protocols TLSv1.2 TLSv1.3;");
    text.set(
        &format!("ssl_ciphers {CIPHERS};"),
        "Up to TLS 1.2: only suites with forward secrecy and authenticated encryption; the client's order counts, as by \
         default.",
        "Mozilla, intermediate 6.0",
    );
    text.set(
        &format!("ssl_session_cache shared:tls:{}m;", session_megabytes(goal)),
        "The new connections of five minutes, 4,000 sessions in a megabyte, for clients without tickets; by default none \
         is kept.",
        "nginx documentation, ssl_session_cache",
    );
    text.plain("ssl_session_timeout 5m;");
    text.set(
        "map $http_upgrade $connection_upgrade { default upgrade; '' ''; }",
        "WebSocket is passed on; other requests keep the connection to the backend open.",
        "nginx documentation, WebSocket proxying and upstream keepalive",
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        // Where there is none yet, the built-in places may not be writable either.
        if goal.places.user.is_none() {
            let path = goal.places.state.join(format!("temp_{kind}"));
            text.plain(&format!("{kind}_temp_path {};", NGINX.word(&path)));
        }
    }
}

fn upstream(text: &mut Text, goal: &ProxyGoal, workers: u64) {
    let keep = goal.rate_per_s.div_ceil(workers).clamp(64, 10_000);
    if !goal.named_backends.is_empty() {
        text.comment(
            "Names are resolved once, at the start and at each reload; one that is unknown stops the start. Since 1.27.3 \
             `resolve` behind a server resolves it again, with the name server of a `resolver` directive.",
        );
    }
    text.plain("upstream servers {");
    text.block(|text| {
        text.plain("zone servers 256k;");
        for backend in &goal.backends {
            text.plain(&format!("server {backend};"));
        }
        text.set(
            &format!("keepalive {keep};"),
            "Idle connections to the backends that each worker keeps. By default there are none (32 since 1.29.7): every \
             request opens one and leaves its port in TIME_WAIT.",
            "nginx documentation, upstream keepalive",
        );
        text.plain("keepalive_requests 100000;");
    });
    text.plain("}");
}

fn server(text: &mut Text, version: Version, goal: &ProxyGoal) {
    // A parameter of listen until 1.25.1 made it a directive.
    let is_directive = version >= (1, 26);
    let parameter = if goal.http2 && !is_directive { " http2" } else { "" };
    let certificate = NGINX.word(&goal.certificate);
    text.plain("server {");
    text.block(|text| {
        text.set(
            &format!(
                "listen {} ssl{parameter} reuseport backlog={};",
                goal.listen,
                goal.backlog()
            ),
            "Each worker has a listening socket of its own. Connections of one second may wait while a \
             worker pauses (511 by default); net.core.somaxconn has to allow as many.",
            "nginx documentation, listen",
        );
        if goal.http2 && is_directive {
            text.plain("http2 on;");
        }
        text.plain(&format!("ssl_certificate {certificate};"));
        text.plain(&format!("ssl_certificate_key {certificate};"));
        text.plain("location / {");
        text.block(|text| {
            text.plain("proxy_pass http://servers;");
            text.set(
                "proxy_http_version 1.1;",
                "HTTP/1.0, the default before 1.29.7, closes each connection to a backend.",
                "nginx documentation, proxy_http_version",
            );
            text.plain("proxy_set_header Upgrade $http_upgrade;");
            text.plain("proxy_set_header Connection $connection_upgrade;");
            text.plain("proxy_set_header Host $http_host;");
            text.set(
                "proxy_set_header X-Forwarded-For $remote_addr;",
                "Backends see the proxy's address: the client's is in this header. Values that a client sends there itself \
                 are removed; write $proxy_add_x_forwarded_for behind another proxy that is trusted.",
                "nginx documentation, proxy_set_header; HAProxy, examples/basic-config-edge.cfg",
            );
            text.plain("proxy_set_header X-Forwarded-Proto $scheme;");
            text.set(
                "proxy_read_timeout 60s;",
                "Also ends a WebSocket on which the backend is silent: give such paths a location with a longer one.",
                "nginx documentation, proxy_read_timeout",
            );
        });
        text.plain("}");
    });
    text.plain("}");
}

fn status(text: &mut Text, goal: &ProxyGoal) {
    let Some(socket) = &goal.places.statistics else { return };
    let address = PathBuf::from(format!("unix:{}", socket.display()));
    text.plain("server {");
    text.block(|text| {
        text.set(
            &format!("listen {};", NGINX.word(&address)),
            "For plimsoll watch: on a TCP port, clients could reach it.",
            "nginx documentation, stub_status",
        );
        text.plain("access_log off;");
        text.plain("location / { stub_status; }");
    });
    text.plain("}");
}
