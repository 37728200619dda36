//! Configurations of HAProxy 2.4 and later.
//!
//! [`HAPROXY`] is the description that the callers use: names, places, quoting, and the writer. The writer,
//! `configure`, turns a [`ProxyGoal`] into text, memory and descriptors. One function writes each section (`global`,
//! `defaults`, `frontend`, `backend`). Each setting has a comment with its reason and its source. The version decides
//! about directives that older versions do not have. Start with `configure`.

use plimsoll_model::SutKind;
use plimsoll_model::units::grouped;

use super::memory::Memory;
use super::text::Text;
use super::{CIPHERS, Configuration, Dialect, Places, ProxyGoal, Version};

/// The most threads of one process without thread groups.
const THREADS_MAX: u32 = 64;
/// Threads from which one listening socket may hold them up: the manual recommends more for very large numbers.
const SHARDED_THREADS_MIN: u32 = 32;
/// The default of `fd-hard-limit` in newer versions.
const DESCRIPTORS_DEFAULT_MAX: u64 = 1_048_576;
/// An entry of the session cache: HAProxy manual, tune.ssl.cachesize.
const SESSION_BYTES: u64 = 200;

/// HAProxy's language.
pub static HAPROXY: Dialect = Dialect {
    kind: SutKind::Haproxy,
    oldest: (2, 4),
    check_flag: "-c",
    user: "haproxy",
    chroot: Some("/var/lib/haproxy"),
    state: "/run/haproxy",
    statistics: "admin.sock",
    log: "/dev/log",
    // Computed from the unit's LimitNOFILE of 524,288: two open files for each connection, and some besides.
    debian_connections: |_| 262_000,
    // Within strong quotes no character is special; a quote itself is written outside of them.
    quote: |text| format!("'{}'", text.replace('\'', r"'\''")),
    write: configure,
};

fn configure(version: Version, goal: &ProxyGoal) -> Configuration {
    let threads = goal.cores.clamp(1, THREADS_MAX);
    // Both sides of each connection; pollers, pipes and listeners of each thread.
    let descriptors = goal
        .connections
        .saturating_mul(2)
        .saturating_add(64 + 8 * u64::from(threads) + 8 * goal.backends.len() as u64);
    let memory = Memory::of(goal, goal.sessions() * SESSION_BYTES);
    let mut text = Text::default();
    HAPROXY.heading(&mut text, version, goal, &memory);
    text.lines(
        "\
# A reload doubles the memory of the process until hard-stop-after; glibc may keep 10 to 20 % more.
global",
    );
    text.block(|text| global(text, version, goal, threads, descriptors));
    text.lines("\ndefaults");
    text.block(|text| defaults(text, version, goal));
    if !goal.named_backends.is_empty() {
        text.lines(
            "
# Names of backends are resolved again while HAProxy runs, by the name servers of /etc/resolv.conf. \
[HAProxy manual, resolvers]
resolvers system
    parse-resolv-conf",
        );
    }
    text.lines("\nfrontend clients");
    text.block(|text| frontend(text, version, goal, threads));
    text.lines("\nbackend servers");
    text.block(|text| backend(text, goal));
    Configuration { text: text.finish(), memory, descriptors }
}

fn global(text: &mut Text, version: Version, goal: &ProxyGoal, threads: u32, descriptors: u64) {
    text.lines(&format!(
        "\
# Two open files for each connection: HAProxy raises its own limit to {}, no ulimit-n is needed. Without it the limit \
follows from the unit's LimitNOFILE: Debian's 524,288 is 262,000 connections. [HAProxy manual, maxconn]
maxconn {}",
        grouped(descriptors),
        goal.connections
    ));
    if descriptors > DESCRIPTORS_DEFAULT_MAX && version >= (2, 6) {
        text.lines(&format!(
            "\
# More open files than the default of newer versions; fs.nr_open has to allow them. [HAProxy manual, fd-hard-limit]
fd-hard-limit {descriptors}"
        ));
    }
    text.lines(&format!(
        "\
# Too few open files stop the start, instead of lowering maxconn silently. [HAProxy manual, strict-limits; the default \
since 2.3]
strict-limits
# One thread for each CPU; more would wait for each other. [HAProxy manual, nbthread]
nbthread {threads}"
    ));
    if let Some(log) = &goal.places.log {
        text.lines(&format!(
            "\
# The usual place; see dontlog-normal below. [Debian's configuration]
log {} local0",
            HAPROXY.word(log)
        ));
    }
    let Places { user, chroot, statistics, .. } = &goal.places;
    if let Some(user) = user {
        text.lines(&format!("user {user}\ngroup {user}"));
    }
    if let Some(chroot) = chroot {
        text.lines(&format!("chroot {}", HAPROXY.word(chroot)));
    }
    if let Some(socket) = statistics {
        text.lines(&format!(
            "\
# For plimsoll watch --haproxy, and so that a reload drops no connection. [HAProxy manual, stats socket]
stats socket {} mode 600 level operator expose-fd listeners
stats timeout 30s",
            HAPROXY.word(socket)
        ));
    }
    text.lines(&format!(
        "\
# After a reload the old process, with all of its memory, ends at last. [HAProxy manual, hard-stop-after]
hard-stop-after 60s
# Tickets stay on: sessions are resumed from the client's memory, not from the locked cache that no-tls-tickets of \
Debian and Mozilla leaves. HAProxy makes their keys at each start: reload it once a day, or add no-tls-tickets if a \
stolen key must not open older sessions of TLS 1.2. [HAProxy manual, ssl-default-bind-options]
ssl-default-bind-options ssl-min-ver TLSv1.2
# The new connections of five minutes, for clients without tickets; the default is 20,000. [HAProxy manual, \
tune.ssl.cachesize]
tune.ssl.cachesize {}
# Up to TLS 1.2: only suites with forward secrecy and authenticated encryption. [Mozilla, intermediate 6.0]
ssl-default-bind-ciphers {CIPHERS}
# AES-128 first: its handshakes use SHA-256, which costs less than SHA-384. [Mozilla, intermediate 6.0; measured in \
docs/journal]
ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256",
        goal.sessions()
    ));
}

fn defaults(text: &mut Text, version: Version, goal: &ProxyGoal) {
    text.lines("mode http");
    if goal.places.log.is_some() {
        text.lines(
            "\
log global
option httplog
# Requests without an error are not logged: writing a line for each took a fifth of the CPU time of a small request. The \
manual discourages this, because normal lines explain complex faults: drop this line if there is CPU time for them. \
[HAProxy manual, option dontlog-normal; measured by --try]
option dontlog-normal
option dontlognull",
        );
    }
    text.lines(
        "\
# Client connections stay open between requests: a handshake costs as much as many requests. [HAProxy manual, option \
http-keep-alive; the default]
option http-keep-alive
# Requests share connections to the backends: no source port and no handshake for each. The first request of a client \
has a connection of its own, so that no failed reuse is lost; aggressive and always share that one, too, for clients \
that can retry. [HAProxy manual, http-reuse; the default]
http-reuse safe
retries 2
option redispatch
# A SYN that is lost is sent again after 1 s and 3 s, and the answer to the second one has to arrive, too. [HAProxy \
manual, timeout connect]
timeout connect 4s
# Slow request heads do not hold buffers for long. [HAProxy manual, timeout http-request]
timeout http-request 10s",
    );
    if version >= (2, 9) {
        text.lines(
            "\
# Half-open TLS handshakes need 76 KiB each. [HAProxy manual, timeout client-hs]
timeout client-hs 5s",
        );
    }
    text.lines(
        "\
# How long an idle client stays connected: the number of held connections follows from it. [HAProxy manual, timeout \
http-keep-alive]
timeout http-keep-alive 60s
timeout client 60s
timeout server 60s
timeout queue 5s
timeout client-fin 10s
timeout tunnel 1h",
    );
}

fn frontend(text: &mut Text, version: Version, goal: &ProxyGoal, threads: u32) {
    let is_sharded = version >= (2, 5) && threads >= SHARDED_THREADS_MIN;
    let (shards, each) = match is_sharded {
        true => (" shards by-thread", " Each thread has a listening socket of its own."),
        false => ("", ""),
    };
    text.lines(&format!(
        "\
# Connections of one second may wait while the acceptor pauses; net.core.somaxconn has to allow as many.{each} [HAProxy \
manual, bind]
bind {} ssl crt {} alpn h2,http/1.1 backlog {}{shards}
# Backends see the proxy's address: the client's is in X-Forwarded-For. Values that a client sends there itself are \
removed; drop this line behind another proxy that is trusted. [HAProxy, examples/basic-config-edge.cfg; manual, option \
forwardfor]
http-request del-header X-Forwarded-For
option forwardfor
http-request set-header X-Forwarded-Proto https
default_backend servers",
        goal.listen,
        HAPROXY.word(&goal.certificate),
        goal.backlog()
    ));
}

fn backend(text: &mut Text, goal: &ProxyGoal) {
    text.lines(
        "\
balance roundrobin
# Requests of clients that are gone do not wait for a server. [HAProxy, examples/basic-config-edge.cfg; the default in \
newer versions]
option abortonclose
# Idle connections to the backends outlive pauses of the load. [HAProxy manual, pool-purge-delay; the default is 5s]
default-server check inter 2s pool-purge-delay 30s",
    );
    for (index, backend) in goal.backends.iter().enumerate() {
        // A name that is not known at the start does not stop it.
        let named = match goal.named_backends.contains(backend) {
            true => " resolvers system init-addr last,libc,none",
            false => "",
        };
        text.lines(&format!("server s{} {backend}{named}", index + 1));
    }
}
