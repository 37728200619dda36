//! Configurations of nginx 1.18 and later.
//!
//! [`NGINX`] is the description that the callers use: names, places, quoting, and the writer. The writer,
//! `configure`, turns a [`ProxyGoal`] into text, memory and descriptors; one function writes each block. Each setting
//! has a comment with its reason and its source. Every worker has slots for both sides of its share of the
//! connections and a quarter more, because the kernel distributes connections by a hash. Start with `configure`.

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
    text.lines("# A reload doubles the memory of the workers until worker_shutdown_timeout.");
    process(&mut text, goal, workers, slots, descriptors);
    text.lines("http {");
    text.block(|text| {
        http(text, version, goal);
        upstream(text, goal, workers);
        server(text, version, goal);
        status(text, goal);
    });
    text.lines("}");
    Configuration { text: text.finish(), memory, descriptors }
}

/// Returns the slots for both sides of the connections of one worker. The kernel spreads them by a hash, not evenly: a
/// quarter and 256 more are over five standard deviations.
fn slots_per_worker(connections: u64, workers: u64) -> u64 {
    let share = connections.max(1).div_ceil(workers);
    let clients = share.saturating_add(share / 4 + 256).min(connections.max(1));
    clients.saturating_mul(2).saturating_add(64)
}

fn process(text: &mut Text, goal: &ProxyGoal, workers: u64, slots: u64, descriptors: u64) {
    if let Some(user) = &goal.places.user {
        text.lines(&format!("user {user};"));
    }
    let log = goal.places.log.as_ref().map(|log| log.with_file_name("error.log"));
    text.lines(&format!(
        "\
pid {};
error_log {} warn;
# One worker for each CPU; more would wait for each other. [nginx documentation, worker_processes]
worker_processes {workers};
# One open file for each slot below; the unit's soft limit of 1,024 would be the end. [nginx documentation, \
worker_rlimit_nofile]
worker_rlimit_nofile {descriptors};
# After a reload the old workers, with all of their memory, end at last. [nginx documentation, worker_shutdown_timeout]
worker_shutdown_timeout 60s;
events {{
    # In each worker, both sides of a connection counted, and a quarter more: the kernel does not spread them evenly. \
Debian's 768 are 384 proxied connections in a worker. [nginx documentation, worker_connections]
    worker_connections {slots};
}}",
        NGINX.word(&goal.places.state.join("nginx.pid")),
        log.map_or_else(|| "stderr".to_owned(), |log| NGINX.word(&log)),
    ));
}

/// Returns the size of the session cache.
fn session_megabytes(goal: &ProxyGoal) -> u64 {
    goal.sessions().div_ceil(SESSIONS_PER_MB)
}

fn http(text: &mut Text, version: Version, goal: &ProxyGoal) {
    match &goal.places.log {
        Some(log) => text.lines(&format!(
            "\
# Lines are written 64 KiB at once, not one by one. [nginx documentation, access_log]
access_log {} combined buffer=64k flush=1s;",
            NGINX.word(log)
        )),
        None => text.lines("access_log off;"),
    }
    text.lines(
        "\
server_tokens off;
# How long an idle client stays connected: the number of held connections follows from it. [nginx documentation, \
keepalive_timeout]
keepalive_timeout 60s;
# The default closes each client connection after 1,000 requests (100 before 1.19.10): a handshake each time. [nginx \
documentation, keepalive_requests]
keepalive_requests 100000;",
    );
    if goal.http2 && version < (1, 19) {
        text.lines("http2_max_requests 100000;");
    }
    text.lines(&format!(
        "\
# A client that is gone keeps no memory in FIN_WAIT_1. [nginx documentation, reset_timedout_connection]
reset_timedout_connection on;
ssl_protocols TLSv1.2 TLSv1.3;
# Up to TLS 1.2: only suites with forward secrecy and authenticated encryption; the client's order counts, as by default. \
[Mozilla, intermediate 6.0]
ssl_ciphers {CIPHERS};
# The new connections of five minutes, 4,000 sessions in a megabyte, for clients without tickets; by default none is \
kept. [nginx documentation, ssl_session_cache]
ssl_session_cache shared:tls:{}m;
ssl_session_timeout 5m;
# WebSocket is passed on; other requests keep the connection to the backend open. [nginx documentation, WebSocket \
proxying and upstream keepalive]
map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}",
        session_megabytes(goal)
    ));
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        // Where there is none yet, the built-in places may not be writable either.
        if goal.places.user.is_none() {
            let path = goal.places.state.join(format!("temp_{kind}"));
            text.lines(&format!("{kind}_temp_path {};", NGINX.word(&path)));
        }
    }
}

fn upstream(text: &mut Text, goal: &ProxyGoal, workers: u64) {
    let keep = goal.rate_per_s.div_ceil(workers).clamp(64, 10_000);
    if !goal.named_backends.is_empty() {
        text.lines(
            "\
# Names are resolved once, at the start and at each reload; one that is unknown stops the start. Since 1.27.3 `resolve` \
behind a server resolves it again, with the name server of a `resolver` directive.",
        );
    }
    text.lines("upstream servers {\n    zone servers 256k;");
    for backend in &goal.backends {
        text.lines(&format!("    server {backend};"));
    }
    text.lines(&format!(
        "    \
# Idle connections to the backends that each worker keeps. By default there are none (32 since 1.29.7): every request \
opens one and leaves its port in TIME_WAIT. [nginx documentation, upstream keepalive]
    keepalive {keep};
    keepalive_requests 100000;
}}"
    ));
}

fn server(text: &mut Text, version: Version, goal: &ProxyGoal) {
    // A parameter of listen until 1.25.1 made it a directive.
    let is_directive = version >= (1, 26);
    let parameter = if goal.http2 && !is_directive { " http2" } else { "" };
    let directive = if goal.http2 && is_directive { "    http2 on;\n" } else { "" };
    let certificate = NGINX.word(&goal.certificate);
    text.lines(&format!(
        "\
server {{
    # Each worker has a listening socket of its own. Connections of one second may wait while a worker pauses (511 by \
default); net.core.somaxconn has to allow as many. [nginx documentation, listen]
    listen {} ssl{parameter} reuseport backlog={};
{directive}    ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    location / {{
        proxy_pass http://servers;
        # HTTP/1.0, the default before 1.29.7, closes each connection to a backend. [nginx documentation, \
proxy_http_version]
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_set_header Host $http_host;
        # Backends see the proxy's address: the client's is in this header. Values that a client sends there itself are \
removed; write $proxy_add_x_forwarded_for behind another proxy that is trusted. [nginx documentation, proxy_set_header; \
HAProxy, examples/basic-config-edge.cfg]
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;
        # Also ends a WebSocket on which the backend is silent: give such paths a location with a longer one. [nginx \
documentation, proxy_read_timeout]
        proxy_read_timeout 60s;
    }}
}}",
        goal.listen,
        goal.backlog()
    ));
}

fn status(text: &mut Text, goal: &ProxyGoal) {
    let Some(socket) = &goal.places.statistics else { return };
    let address = PathBuf::from(format!("unix:{}", socket.display()));
    text.lines(&format!(
        "\
server {{
    # For plimsoll watch: on a TCP port, clients could reach it. [nginx documentation, stub_status]
    listen {};
    access_log off;
    location / {{ stub_status; }}
}}",
        NGINX.word(&address)
    ));
}
