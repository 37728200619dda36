//! Recipes of limits that have a number: of a server, of a process, of a control group.
//!
//! Each [`Recipe`] has a row of the table of causes, a name and the expected cause. Files, the script that starts the
//! server, and the search (a rate, or held connections) follow. The limit is chosen so low that the search reaches it
//! first, and `on` names the resource that the finding must contain. `all` joins the lists: connections, rates,
//! files, held. The shell functions of the scripts are in the parent module. Start with `connections`.

use std::fs;

use super::Expected::Cause;
use super::{ONE_THREAD, PONG, Recipe, behind, haproxy, nginx};
use crate::cgroup::GroupLimit;

/// Each request is a connection, and is with the server for 100 ms: its connections are a tenth of the rate.
const HELD: [&str; 9] = [
    "--no-keepalive",
    "-H",
    "sleep-fixed: 100",
    "--slo",
    "p99<300ms,errors<1%",
    "--min",
    "90",
    "--max",
    "1000",
];
/// Each request is a connection.
const CONNECTIONS: [&str; 5] = ["--no-keepalive", "--min", "90", "--max", "900"];

/// Returns the number of files that are open now, and 8,000 more: what other programs open meanwhile is little beside
/// them.
fn files_of_the_host() -> String {
    let text = fs::read_to_string("/proc/sys/fs/file-nr").unwrap_or_default();
    let open = text.split_ascii_whitespace().next().and_then(|open| open.parse::<u64>().ok());
    (open.unwrap_or(100_000) + 8_000).to_string()
}

pub(super) fn all() -> Vec<Recipe> {
    [connections(), rates(), files(), held()].concat()
}

/// Limits of the connections of a server.
fn connections() -> Vec<Recipe> {
    vec![
        Recipe::new(6, "server maxconn 8, 25 ms", Cause("server-maxconn"))
            .on("maxconn of server b/s1")
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("maxconn 8")))
            .script("serve; haproxy_sut")
            .rate(&[
                "-c",
                "200",
                "-H",
                "sleep-fixed: 25",
                "--slo",
                "p99<100ms,errors<1%",
                "--min",
                "95",
                "--max",
                "900",
            ]),
        Recipe::new(6, "server maxconn 12, 40 ms", Cause("server-maxconn"))
            .on("maxconn of server b/s1")
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("maxconn 12")))
            .script("serve; haproxy_sut")
            .rate(&[
                "-c",
                "300",
                "-H",
                "sleep-fixed: 40",
                "--slo",
                "p99<150ms,errors<1%",
                "--min",
                "90",
                "--max",
                "900",
            ]),
        Recipe::new(7, "maxconn 35, 100 ms", Cause("maxconn"))
            .on("maxconn")
            .file("haproxy.cfg", haproxy("nbthread 1\n    maxconn 35", "", &behind("")))
            .script("serve; haproxy_sut")
            .rate(&HELD),
        Recipe::new(7, "maxconn 28 of the frontend, 100 ms", Cause("maxconn"))
            .on("maxconn of frontend sut")
            .file("haproxy.cfg", haproxy(ONE_THREAD, "maxconn 28", &behind("")))
            .script("serve; haproxy_sut")
            .rate(&HELD),
        Recipe::new(8, "worker_connections 64, 100 ms", Cause("worker-connections"))
            .on("worker_connections")
            .file(
                "nginx.conf",
                nginx(
                    "",
                    "worker_connections 64;",
                    "",
                    "location / { proxy_pass http://127.0.0.1:8081; }",
                ),
            )
            .script("serve; nginx_sut")
            .rate(&HELD),
    ]
}

/// Limits of a rate or of an address.
fn rates() -> Vec<Recipe> {
    vec![
        Recipe::new(9, "rate-limit sessions 320", Cause("rate-limit"))
            .on("rate-limit of frontend sut")
            .file("haproxy.cfg", haproxy(ONE_THREAD, &format!("rate-limit sessions 320\n    {PONG}"), ""))
            .script("haproxy_sut")
            .rate(&CONNECTIONS),
        Recipe::new(9, "maxconnrate 280", Cause("rate-limit"))
            .on("maxconnrate")
            .file("haproxy.cfg", haproxy(&format!("{ONE_THREAD}\n    maxconnrate 280"), PONG, ""))
            .script("haproxy_sut")
            .rate(&CONNECTIONS),
        Recipe::new(9, "limit_req 300r/s of nginx", Cause("rate-limit"))
            .file(
                "nginx.conf",
                nginx(
                    "",
                    "worker_connections 2000;",
                    "limit_req_zone $server_port zone=all:1m rate=300r/s;",
                    "location / { limit_req zone=all burst=10 nodelay; root .; try_files /pong =404; }",
                ),
            )
            .file("pong", "pong")
            .script("nginx_sut")
            .rate(&["--min", "90", "--max", "900"]),
        Recipe::new(9, "429 of a stick table from 300 requests/s", Cause("rate-limit"))
            .file(
                "haproxy.cfg",
                haproxy(
                    ONE_THREAD,
                    &format!(
                        "stick-table type string len 8 size 10 expire 10s store http_req_rate(1s)\n    \
                         http-request track-sc0 str(all)\n    \
                         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 300 }}\n    {PONG}"
                    ),
                    "",
                ),
            )
            .script("haproxy_sut")
            .rate(&["--min", "90", "--max", "900"]),
        Recipe::new(10, "30 connections of each address, 100 ms", Cause("address-limit"))
            .file(
                "haproxy.cfg",
                haproxy(
                    ONE_THREAD,
                    "stick-table type ip size 1m expire 10s store conn_cur\n    \
                     tcp-request connection track-sc0 src\n    \
                     tcp-request connection reject if { sc_conn_cur(0) gt 30 }",
                    &behind(""),
                ),
            )
            .script("serve; haproxy_sut")
            .rate(&HELD),
    ]
}

/// Open files, of requests that wait.
fn files() -> Vec<Recipe> {
    vec![
        Recipe::new(19, "nginx with 80 files, 100 ms", Cause("open-files"))
            .on("open files of nginx")
            .file(
                "nginx.conf",
                nginx(
                    "worker_rlimit_nofile 80;",
                    // A worker without a descriptor does not accept for so long.
                    "worker_connections 4096; accept_mutex_delay 10ms;",
                    "",
                    "location / { proxy_pass http://127.0.0.1:8081; }",
                ),
            )
            .script("serve; nginx_sut")
            .rate(&HELD),
        Recipe::new(19, "HAProxy, prlimit to 90 files, 100 ms", Cause("open-files"))
            .on("open files of haproxy")
            .file(
                "haproxy.cfg",
                haproxy(
                    ONE_THREAD,
                    "option http-server-close",
                    &format!("{}\n    http-reuse never", behind("")),
                ),
            )
            .script("serve; haproxy_sut; prlimit --pid $SUT --nofile=90:90")
            .rate(&HELD),
    ]
}

/// Limits that held connections fill, and threads.
fn held() -> Vec<Recipe> {
    vec![
        Recipe::new(7, "maxconn 731, held", Cause("maxconn"))
            .on("maxconn")
            .file("haproxy.cfg", haproxy("nbthread 1\n    maxconn 731", PONG, ""))
            .script("haproxy_sut")
            .connections(&["--max", "3k", "--push"]),
        Recipe::new(8, "worker_connections 600, held", Cause("worker-connections"))
            .on("worker_connections")
            .file(
                "nginx.conf",
                nginx("", "worker_connections 600;", "", "location / { return 200 'pong'; }"),
            )
            .script("nginx_sut")
            .connections(&["--max", "3k", "--push"]),
        Recipe::new(19, "nginx with 700 files, held", Cause("open-files"))
            .on("open files of nginx")
            .file(
                "nginx.conf",
                nginx(
                    "worker_rlimit_nofile 700;",
                    "worker_connections 4096; accept_mutex_delay 10ms;",
                    "",
                    "location / { return 200 'pong'; }",
                ),
            )
            .script("nginx_sut")
            .connections(&["--max", "3k", "--push"]),
        Recipe::new(21, "the files of the host, and 8,000 more, held", Cause("host-files"))
            .on("open files")
            .alone()
            .with_host("/proc/sys/fs/file-max", files_of_the_host)
            // Only who may administrate the system opens more.
            .file("haproxy.cfg", haproxy("nbthread 1\n    maxconn 9000\n    user nobody", PONG, ""))
            .script("haproxy_sut")
            .connections(&["--max", "8k", "--push"]),
        Recipe::new(34, "24 MiB of a control group, held", Cause("memory"))
            .on("cgroup memory")
            .within(GroupLimit::MemoryBytes(24 << 20))
            .file("haproxy.cfg", haproxy("nbthread 1\n    maxconn 9000", PONG, ""))
            .script("haproxy_sut")
            .connections(&["--max", "9k", "--push"]),
        Recipe::new(36, "64 threads of a control group, 150 ms", Cause("threads"))
            .on("cgroup threads")
            .within(GroupLimit::Threads(64))
            .script("fault_sut thread-each 150")
            .rate(&[
                "--no-keepalive",
                "--slo",
                "p99<400ms,errors<1%",
                "--min",
                "110",
                "--max",
                "1000",
            ]),
    ]
}
