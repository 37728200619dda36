//! CPU: of a thread, a process, a quota, a host. HAProxy is given so much work for each request that a few
//! hundred of them fill a CPU, which leaves the client nearly idle.

use super::Expected::Cause;
use super::{ONE_THREAD, PONG, Recipe, behind, haproxy};
use crate::cgroup::GroupLimit;

/// About 2.7 ms of CPU for each request.
pub const BURN: &str = "core.register_action('burn', {'http-req'}, function(txn)\n    \
                    local x = 0\n    for i = 1, 120000 do x = (x * 31 + i) % 1000003 end\nend)\n";
const LUA: &str = "lua-load burn.lua";

/// Uses 5 ms of CPU in each 10 ms, also if other processes want the CPU.
const NEIGHBOUR: &str = "import time\n\
    due = time.monotonic()\n\
    while True:\n    \
    until = time.thread_time() + 0.005\n    \
    while time.thread_time() < until:\n        \
    pass\n    \
    due = max(due, time.monotonic() - 0.1) + 0.01\n    \
    time.sleep(max(0, due - time.monotonic()))\n";

/// Returns a frontend that burns CPU and answers.
fn burning() -> String {
    format!("http-request lua.burn\n    {PONG}")
}

/// Makes a certificate whose signatures cost a CPU milliseconds.
const RSA_4096: &str = "openssl req -x509 -newkey rsa:4096 -nodes -days 2 -subj /CN=x -keyout key.pem -out chain.pem \
                        2> /dev/null\ncat chain.pem key.pem > both.pem";

/// Command that makes a key of P-256, whose signatures take a hundred microseconds.
const P_256: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x \
                     -keyout key.pem -out chain.pem 2> /dev/null\ncat chain.pem key.pem > both.pem";

/// HAProxy that answers by itself; `global` is added to its section, `tls` to its address.
fn with_tls(global: &str, tls: &str) -> String {
    let address = "bind 127.0.0.1:8080";
    haproxy(global, PONG, "").replace(address, &format!("{address} {tls}"))
}

/// Keeps `sessions` sessions, on the server alone.
fn without_tickets(sessions: u32) -> String {
    let global = format!("{ONE_THREAD}\n    tune.ssl.cachesize {sessions}");
    with_tls(&global, "ssl crt both.pem no-tls-tickets")
}

/// HAProxy with this work; `global` is added to its section, `frontend` comes first in the other one.
fn burner(global: &str, frontend: &str) -> String {
    haproxy(&format!("{global}\n    {LUA}"), &format!("{frontend}\n    {}", burning()), "")
}

pub(super) fn all() -> Vec<Recipe> {
    [own(), shared(), handshakes()].concat()
}

/// Returns the CPUs that a server and its backends may use.
fn own() -> Vec<Recipe> {
    vec![
        Recipe::new(1, "one thread that works 3 ms for each request", Cause("server-cpu"))
            .on("haproxy/0")
            .alone()
            .file("burn.lua", BURN)
            .file("haproxy.cfg", burner(ONE_THREAD, ""))
            .script("haproxy_sut")
            .rate(&["--min", "60", "--max", "1000", "--slo", "p99<100ms,errors<1%"]),
        Recipe::new(1, "nginx, plain", Cause("server-cpu"))
            .on("nginx")
            .alone()
            .file(
                "nginx.conf",
                super::nginx(
                    "",
                    "worker_connections 2000;",
                    "keepalive_requests 1000000;",
                    "location / { return 200 'pong'; }",
                ),
            )
            .script("nginx_sut")
            .rate(&["--min", "5000"]),
        Recipe::new(2, "all connections on one of two threads", Cause("hot-thread"))
            .on("haproxy/0")
            .alone()
            .file("burn.lua", BURN)
            .file(
                "haproxy.cfg",
                burner("nbthread 2\n    maxconn 4000", "")
                    .replace("127.0.0.1:8080", "127.0.0.1:8080 thread 1"),
            )
            .script("haproxy_sut")
            .rate(&["--min", "60", "--max", "1000", "--slo", "p99<100ms,errors<1%"]),
        Recipe::new(3, "4 threads that work under one lock", Cause("serialised-process"))
            .on("fault")
            .alone()
            .script("fault_sut burn 4 3")
            .rate(&[
                "--no-keepalive",
                "--min",
                "60",
                "--max",
                "1000",
                "--slo",
                "p99<100ms,errors<1%",
            ]),
        Recipe::new(
            11,
            "HAProxy before another that works 3 ms for each request",
            Cause("backend-cpu"),
        )
        .on("haproxy-2/0")
        .alone()
        .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
        .file("burn.lua", BURN)
        .file(
            "backend.cfg",
            burner(ONE_THREAD, "").replace("8080", "8081").replace("stats.sock", "backend.sock"),
        )
        .script("backend haproxy -db -f backend.cfg; up 8081; watch_backend; haproxy_sut")
        .rate(&[
            "-c",
            "200",
            "--min",
            "60",
            "--max",
            "1000",
            "--slo",
            "p99<100ms,errors<1%",
        ]),
        Recipe::new(16, "accept queue of 8, drained by a busy thread", Cause("server-cpu"))
            .on("haproxy/0")
            .decoy()
            .alone()
            .file("burn.lua", BURN)
            .file("haproxy.cfg", burner(ONE_THREAD, "").replace(":8080", ":8080 backlog 8"))
            .script("sysctl -qw net.core.somaxconn=8; haproxy_sut")
            .rate(&[
                "--no-keepalive",
                "--min",
                "60",
                "--max",
                "1000",
                "--slo",
                "p99<100ms,errors<1%",
            ]),
    ]
}

/// Returns CPUs that a quota, a neighbour or the clients take.
fn shared() -> Vec<Recipe> {
    vec![
        Recipe::new(24, "20 ms of CPU in each 100 ms", Cause("cpu-quota"))
            .on("haproxy")
            .within(GroupLimit::CpuUs(20_000))
            .file("burn.lua", BURN.replace("120000", "20000"))
            .file("haproxy.cfg", burner(ONE_THREAD, ""))
            .script("haproxy_sut")
            .rate(&["--min", "90", "--max", "1000", "--slo", "p99<50ms"]),
        Recipe::new(
            25,
            "a neighbour that takes half of the server's CPU",
            Cause("noisy-neighbour"),
        )
        .alone()
        .file("burn.lua", BURN)
        .file("haproxy.cfg", burner(ONE_THREAD, ""))
        .file("neighbour.py", NEIGHBOUR)
        .script("haproxy_sut; taskset -c 1 python3 neighbour.py & ")
        .rate(&["--min", "15", "--max", "900", "--slo", "p99<100ms,errors<1%"]),
        Recipe::new(27, "clients on the CPU of one of the server's two threads", Cause("host-cpu"))
            .alone()
            .file("haproxy.cfg", with_tls("nbthread 2\n    maxconn 4000", "ssl crt both.pem"))
            .script(P_256)
            .script("haproxy_sut; taskset -acp 0-1 $SUT > /dev/null")
            .search(&["find", "handshakes", "https://127.0.0.1:8080/", "-k", "--mode", "quick"]),
    ]
}

/// Handshakes.
fn handshakes() -> Vec<Recipe> {
    vec![
        Recipe::new(37, "full handshakes with RSA-4096", Cause("tls-handshakes"))
            .on("haproxy/0")
            .alone()
            .file("haproxy.cfg", without_tickets(0))
            .script(RSA_4096)
            .script("haproxy_sut")
            .handshakes(&[]),
        // Each of the clients offers its last session, and the cache has room for fewer.
        Recipe::new(
            38,
            "a session cache of 2 entries, 24 clients that resume",
            Cause("session-cache"),
        )
        .on("haproxy/0")
        .alone()
        .file("haproxy.cfg", without_tickets(2))
        .script(RSA_4096)
        .script("haproxy_sut")
        .handshakes(&["--tls", "1.2", "--resume", "1", "--processes", "24", "-t", "1"]),
    ]
}
