//! HAProxy 2.4 and later.

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
    // Strong quotes, in which nothing has a meaning; a quote stands outside of them.
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
    text.comment(
        "A reload doubles the memory of the process until hard-stop-after; glibc may keep 10 to 20 % \
         more.",
    );
    text.plain("global");
    text.block(|text| global(text, version, goal, threads, descriptors));
    text.plain("");
    text.plain("defaults");
    text.block(|text| defaults(text, version, goal));
    if !goal.named_backends.is_empty() {
        text.plain("");
        text.set(
            "resolvers system",
            "Names of backends are resolved again while HAProxy runs, by the name servers of /etc/resolv.conf.",
            "HAProxy manual, resolvers",
        );
        text.block(|text| {
            text.plain("parse-resolv-conf");
        });
    }
    text.plain("");
    text.plain("frontend clients");
    text.block(|text| frontend(text, version, goal, threads));
    text.plain("");
    text.plain("backend servers");
    text.block(|text| backend(text, goal));
    Configuration { text: text.finish(), memory, descriptors }
}

fn global(text: &mut Text, version: Version, goal: &ProxyGoal, threads: u32, descriptors: u64) {
    text.set(
        &format!("maxconn {}", goal.connections),
        &format!(
            "Two open files for each connection: HAProxy raises its own limit to {}, no ulimit-n is \
             needed. Without it the limit follows from the unit's LimitNOFILE: Debian's 524,288 is \
             262,000 connections.",
            grouped(descriptors)
        ),
        "HAProxy manual, maxconn",
    );
    if descriptors > DESCRIPTORS_DEFAULT_MAX && version >= (2, 6) {
        text.set(
            &format!("fd-hard-limit {descriptors}"),
            "More open files than the default of newer versions; fs.nr_open has to allow them.",
            "HAProxy manual, fd-hard-limit",
        );
    }
    text.set(
        "strict-limits",
        "Too few open files stop the start, instead of lowering maxconn silently.",
        "HAProxy manual, strict-limits; the default since 2.3",
    );
    text.set(
        &format!("nbthread {threads}"),
        "One thread for each CPU; more would wait for each other.",
        "HAProxy manual, nbthread",
    );
    if let Some(log) = &goal.places.log {
        text.set(
            &format!("log {} local0", HAPROXY.word(log)),
            "The usual place; see dontlog-normal below.",
            "Debian's configuration",
        );
    }
    let Places { user, chroot, statistics, .. } = &goal.places;
    if let Some(user) = user {
        text.plain(&format!("user {user}"));
        text.plain(&format!("group {user}"));
    }
    if let Some(chroot) = chroot {
        text.plain(&format!("chroot {}", HAPROXY.word(chroot)));
    }
    if let Some(socket) = statistics {
        text.set(
            &format!(
                "stats socket {} mode 600 level operator expose-fd listeners",
                HAPROXY.word(socket)
            ),
            "For plimsoll watch --haproxy, and so that a reload drops no connection.",
            "HAProxy manual, stats socket",
        );
        text.plain("stats timeout 30s");
    }
    text.set(
        "hard-stop-after 60s",
        "After a reload the old process, with all of its memory, ends at last.",
        "HAProxy manual, hard-stop-after",
    );
    text.set(
        "ssl-default-bind-options ssl-min-ver TLSv1.2",
        "Tickets stay on: sessions are resumed from the client's memory, not from the locked cache that no-tls-tickets of \
         Debian and Mozilla leaves. HAProxy makes their keys at each start: reload it once a day, or add no-tls-tickets if \
         a stolen key must not open older sessions of TLS 1.2.",
        "HAProxy manual, ssl-default-bind-options",
    );
    text.set(
        &format!("tune.ssl.cachesize {}", goal.sessions()),
        "The new connections of five minutes, for clients without tickets; the default is 20,000.",
        "HAProxy manual, tune.ssl.cachesize",
    );
    text.set(
        &format!("ssl-default-bind-ciphers {CIPHERS}"),
        "Up to TLS 1.2: only suites with forward secrecy and authenticated encryption.",
        "Mozilla, intermediate 6.0",
    );
    text.set(
        "ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256",
        "AES-128 first: its handshakes use SHA-256, which costs less than SHA-384.",
        "Mozilla, intermediate 6.0; measured in docs/journal",
    );
}

fn logging(text: &mut Text) {
    text.plain("log global");
    text.plain("option httplog");
    text.set(
        "option dontlog-normal",
        "Requests without an error are not logged: writing a line for each took a fifth of the CPU \
         time of a small request. The manual discourages this, because normal lines explain complex faults: drop this \
         line if there is CPU time for them.",
        "HAProxy manual, option dontlog-normal; measured by --try",
    );
    text.plain("option dontlognull");
}

fn defaults(text: &mut Text, version: Version, goal: &ProxyGoal) {
    text.plain("mode http");
    if goal.places.log.is_some() {
        logging(text);
    }
    text.set(
        "option http-keep-alive",
        "Client connections stay open between requests: a handshake costs as much as many requests.",
        "HAProxy manual, option http-keep-alive; the default",
    );
    text.set(
        "http-reuse safe",
        "Requests share connections to the backends: no source port and no handshake for each. The first request of a \
         client has a connection of its own, so that no failed reuse is lost; aggressive and always share that one, too, \
         for clients that can retry.",
        "HAProxy manual, http-reuse; the default",
    );
    text.plain("retries 2");
    text.plain("option redispatch");
    text.set(
        "timeout connect 4s",
        "A SYN that is lost is sent again after 1 s and 3 s, and the answer to the second one has to arrive, too.",
        "HAProxy manual, timeout connect",
    );
    text.set(
        "timeout http-request 10s",
        "Slow request heads do not hold buffers for long.",
        "HAProxy manual, timeout http-request",
    );
    if version >= (2, 9) {
        text.set(
            "timeout client-hs 5s",
            "Half-open TLS handshakes need 76 KiB each.",
            "HAProxy manual, timeout client-hs",
        );
    }
    text.set(
        "timeout http-keep-alive 60s",
        "How long an idle client stays connected: the number of held connections follows from it.",
        "HAProxy manual, timeout http-keep-alive",
    );
    text.plain("timeout client 60s");
    text.plain("timeout server 60s");
    text.plain("timeout queue 5s");
    text.plain("timeout client-fin 10s");
    text.plain("timeout tunnel 1h");
}

fn frontend(text: &mut Text, version: Version, goal: &ProxyGoal, threads: u32) {
    let backlog = goal.backlog();
    let is_sharded = version >= (2, 5) && threads >= SHARDED_THREADS_MIN;
    let shards = if is_sharded { " shards by-thread" } else { "" };
    let each = match shards {
        "" => "",
        _ => " Each thread has a listening socket of its own.",
    };
    text.set(
        &format!(
            "bind {} ssl crt {} alpn h2,http/1.1 backlog {backlog}{shards}",
            goal.listen,
            HAPROXY.word(&goal.certificate)
        ),
        &format!(
            "Connections of one second may wait while the acceptor pauses; net.core.somaxconn has to \
             allow as many.{each}"
        ),
        "HAProxy manual, bind",
    );
    text.set(
        "http-request del-header X-Forwarded-For",
        "Backends see the proxy's address: the client's is in X-Forwarded-For. Values that a client sends there itself are \
         removed; drop this line behind another proxy that is trusted.",
        "HAProxy, examples/basic-config-edge.cfg; manual, option forwardfor",
    );
    text.plain("option forwardfor");
    text.plain("http-request set-header X-Forwarded-Proto https");
    text.plain("default_backend servers");
}

fn backend(text: &mut Text, goal: &ProxyGoal) {
    text.plain("balance roundrobin");
    text.set(
        "option abortonclose",
        "Requests of clients that are gone do not wait for a server.",
        "HAProxy, examples/basic-config-edge.cfg; the default in newer versions",
    );
    text.set(
        "default-server check inter 2s pool-purge-delay 30s",
        "Idle connections to the backends outlive pauses of the load.",
        "HAProxy manual, pool-purge-delay; the default is 5s",
    );
    for (index, backend) in goal.backends.iter().enumerate() {
        let named = match goal.named_backends.contains(backend) {
            // A name that is not known at the start does not stop it.
            true => " resolvers system init-addr last,libc,none",
            false => "",
        };
        text.plain(&format!("server s{} {backend}{named}", index + 1));
    }
}
