//! Counters that move and limits that are reached without being the cause, limits close together, and runs
//! without any.

use super::Expected::{Both, Cause, Nothing, Unknown};
use super::{ONE_THREAD, PONG, Recipe, behind, haproxy, nginx};

/// Each request is a connection.
const CONNECTIONS: [&str; 5] = ["--no-keepalive", "--min", "90", "--max", "900"];
/// A search of a backend whose requests pile up.
const QUEUED: [&str; 6] = ["-c", "400", "--min", "90", "--max", "900"];

fn rate_limited(global: &str, frontend: &str) -> String {
    haproxy(
        &format!("{ONE_THREAD}\n    {global}"),
        &format!("rate-limit sessions 320\n    {frontend}\n    {PONG}"),
        "",
    )
}

pub(super) fn all() -> Vec<Recipe> {
    vec![
        Recipe::new(40, "TIME_WAIT overflows beside a rate limit", Cause("rate-limit"))
            .on("rate-limit of frontend sut")
            .decoy()
            .file("haproxy.cfg", rate_limited("", ""))
            .script("sysctl -qw net.ipv4.tcp_max_tw_buckets=20; haproxy_sut")
            .rate(&CONNECTIONS),
        Recipe::new(9, "logs are dropped beside a rate limit", Cause("rate-limit"))
            .on("rate-limit of frontend sut")
            .decoy()
            .file("haproxy.cfg", rate_limited("log unix@log.sock local0", "log global\n    option httplog"))
            .file("unread.py", "import socket, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ns.bind('log.sock')\ntime.sleep(900)\n")
            .script("python3 unread.py & until [ -S log.sock ]; do sleep 0.05; done; haproxy_sut")
            .rate(&CONNECTIONS),
        Recipe::new(9, "busy polling beside a rate limit", Cause("rate-limit"))
            .on("rate-limit of frontend sut")
            .decoy()
            .alone()
            .file("haproxy.cfg", rate_limited("busy-polling", ""))
            .script("haproxy_sut")
            .rate(&CONNECTIONS),
        Recipe::new(11, "a server maxconn fills before a slow backend", Cause("backend-capacity"))
            .decoy()
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("maxconn 60")))
            .script("fault_backend bucket 300; haproxy_sut")
            .rate(&QUEUED),
        Recipe::new(11, "maxconn is reached before a slow backend", Cause("backend-capacity"))
            .decoy()
            .file("haproxy.cfg", haproxy("nbthread 1\n    maxconn 120", "", &behind("")))
            .script("fault_backend bucket 300; haproxy_sut")
            .rate(&["--no-keepalive", "--min", "90", "--max", "900"]),
        Recipe::new(6, "retransmissions beside a server maxconn", Cause("server-maxconn"))
            .on("maxconn of server b/s1")
            .decoy()
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("maxconn 8")))
            .script(
                "serve\nnft add table t; nft add chain t c '{ type filter hook output priority 0; }'\n\
                 haproxy_sut; nft add rule t c tcp sport 8081 numgen random mod 1000 '<' 2 drop",
            )
            .rate(&["-c", "200", "-H", "sleep-fixed: 25", "--slo", "p95<100ms,errors<1%", "--min", "95", "--max", "900"]),
        Recipe::new(0, "a rate limit of 320/s and a server maxconn of 8 at 25 ms", Both(["rate-limit", "server-maxconn"]))
            .file(
                "haproxy.cfg",
                haproxy(ONE_THREAD, "rate-limit sessions 320", &behind("maxconn 8")),
            )
            .script("serve; haproxy_sut")
            .rate(&["--no-keepalive", "-H", "sleep-fixed: 25", "--slo", "p99<100ms,errors<1%", "--min", "95", "--max", "900"]),
        Recipe::new(0, "35 connections and a server maxconn of 34, both at 100 ms", Both(["maxconn", "server-maxconn"]))
            .file("haproxy.cfg", haproxy("nbthread 1\n    maxconn 35", "", &behind("maxconn 34")))
            .script("serve; haproxy_sut")
            .rate(&["--no-keepalive", "-H", "sleep-fixed: 100", "--slo", "p99<300ms,errors<1%", "--min", "90", "--max", "1000"]),
        Recipe::new(44, "a bucket of which only the process is watched", Unknown)
            .script("fault_sut bucket 300")
            .rate(&["--no-keepalive", "--min", "90", "--max", "900"]),
        Recipe::new(44, "a bucket that is not watched at all", Unknown)
            .script("fault_sut bucket 300; WATCH=()")
            .rate(&["--no-keepalive", "--min", "90", "--max", "900"]),
        Recipe::new(14, "ten ports of the clients", Nothing)
            .decoy()
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
            .script("serve; haproxy_sut; sysctl -qw net.ipv4.ip_local_port_range='40000 40009'")
            .rate(&["--source", "127.0.0.1", "--no-keepalive", "-H", "sleep-fixed: 100", "--slo", "p99<300ms,errors<1%", "--min", "20", "--max", "900"]),
        Recipe::new(0, "a healthy HAProxy", Nothing)
            .file("haproxy.cfg", haproxy(ONE_THREAD, PONG, ""))
            .script("haproxy_sut")
            .rate(&["--min", "90", "--max", "500"]),
        Recipe::new(0, "a healthy HAProxy before a backend, a connection for each request", Nothing)
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
            .script("serve; haproxy_sut")
            .rate(&CONNECTIONS),
        Recipe::new(0, "a healthy nginx", Nothing)
            .file(
                "nginx.conf",
                nginx("", "worker_connections 2000;", "", "location / { return 200 'pong'; }"),
            )
            .script("nginx_sut")
            .rate(&["--min", "90", "--max", "500"]),
    ]
}
