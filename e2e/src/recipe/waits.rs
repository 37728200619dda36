//! Recipes of waits while CPUs are idle: pools, locks, backends, logs, disks, pauses.
//!
//! Each [`Recipe`] has a row of the table of causes, a name and the expected cause. Files, the script that starts the
//! server, and the search follow. The server waits for something other than CPU; most of them saturate at about 300
//! requests per second, within the range of the search. Small servers are Python programs in this file or modes of
//! the program `fault`. `all` joins the lists: pools, backends, pauses. Start with `pools`.

use super::Expected::Cause;
use super::{ONE_THREAD, PONG, Recipe, behind, haproxy, nginx};
use crate::cgroup::GroupLimit;

/// Each request is a connection, and latency is judged with room for a few of them.
const ROOMY: [&str; 7] =
    ["--no-keepalive", "--slo", "p99<150ms,errors<1%", "--min", "90", "--max", "900"];

/// A reader of a FIFO that takes one line of 256 bytes in each 1/300 s.
const READER: &str = "import fcntl, os, time\n\
    fifo = os.open('access.fifo', os.O_RDWR)\n\
    fcntl.fcntl(fifo, 1031, 4096)\n\
    due = time.monotonic()\n\
    while True:\n    \
    os.read(fifo, 256)\n    \
    due = max(due + 1 / 300, time.monotonic() - 0.02)\n    \
    time.sleep(max(0, due - time.monotonic()))\n";

/// A server of one thread that lets 8 requests wait 25 ms at a time, with keep-alive, and lets the others wait their
/// turn: to the kernel it sleeps, however many wait.
const SEMAPHORE: &str = "import asyncio\n\
    async def serve(reader, writer):\n    \
    try:\n        \
    while await reader.readuntil(b'\\r\\n\\r\\n'):\n            \
    async with turns:\n                \
    await asyncio.sleep(0.025)\n            \
    writer.write(b'HTTP/1.1 200 OK\\r\\ncontent-length: 4\\r\\n\\r\\npong')\n    \
    except (asyncio.IncompleteReadError, ConnectionError):\n        \
    writer.close()\n\
    async def main():\n    \
    global turns\n    \
    turns = asyncio.Semaphore(8)\n    \
    server = await asyncio.start_server(serve, '127.0.0.1', 8080, backlog=4096)\n    \
    await server.serve_forever()\n\
    asyncio.run(main())\n";

pub(super) fn all() -> Vec<Recipe> {
    [pools(), backends(), pauses()].concat()
}

/// Locks, pools and backends that do one thing at a time.
fn pools() -> Vec<Recipe> {
    vec![
        Recipe::new(
            4,
            "a lock that is held over a wait of 3 ms, 8 threads",
            Cause("serial-section"),
        )
        .script("fault_sut lock 8 3")
        .rate(&ROOMY),
        Recipe::new(5, "8 workers that wait 25 ms", Cause("worker-pool"))
            .script("fault_sut pool 8 25")
            .rate(&ROOMY),
        Recipe::new(5, "8 requests of 25 ms at a time in one thread", Cause("concurrency-limit"))
            .file("server.py", SEMAPHORE)
            .script("server python3 server.py; up 8080; WATCH+=(--watch \"pid:$SUT\")")
            .rate(&["-c", "400", "--slo", "p99<150ms,errors<1%", "--min", "90", "--max", "900"]),
        Recipe::new(11, "HAProxy before a backend of 300/s", Cause("backend-capacity"))
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
            .script("fault_backend bucket 300; haproxy_sut")
            .rate(&["-c", "400", "--min", "90", "--max", "900"]),
        Recipe::new(11, "HAProxy before 10 workers that wait 30 ms", Cause("backend-capacity"))
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
            .script("fault_backend pool 10 30; haproxy_sut")
            .rate(&["-c", "400", "--slo", "p99<150ms,errors<1%", "--min", "90", "--max", "900"]),
        Recipe::new(5, "HAProxy before 10 workers that wait 30 ms, watched", Cause("worker-pool"))
            .on("fault")
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
            .script("fault_backend pool 10 30; watch_backend; haproxy_sut")
            .rate(&["-c", "400", "--slo", "p99<150ms,errors<1%", "--min", "90", "--max", "900"]),
    ]
}

/// Backends that are slow, refuse or are not watched.
fn backends() -> Vec<Recipe> {
    vec![
        Recipe::new(
            12,
            "a timeout of 200 ms before a backend of up to 230 ms",
            Cause("backend-timeout"),
        )
        .file(
            "haproxy.cfg",
            haproxy(ONE_THREAD, "", &format!("{}\n    timeout server 200ms", behind(""))),
        )
        .script("serve; haproxy_sut")
        .rate(&[
            "-c",
            "400",
            "-H",
            "sleep: 230",
            "--slo",
            "p99<400ms,errors<1%",
            "--min",
            "90",
            "--max",
            "900",
        ]),
        Recipe::new(
            20,
            "one of two backends refuses, and gets 2 % of the requests",
            Cause("backend-refuses"),
        )
        .file(
            "haproxy.cfg",
            haproxy(
                ONE_THREAD,
                "",
                &format!(
                    "{}\n    retries 0\n    server s2 127.0.0.1:8082 weight 4",
                    behind("weight 250")
                ),
            ),
        )
        .script("serve; haproxy_sut")
        .rate(&["-c", "100", "--min", "90", "--max", "900"]),
        Recipe::new(44, "a backend that is not watched, behind nginx", super::Expected::Unknown)
            .file(
                "nginx.conf",
                nginx(
                    "",
                    "worker_connections 4000;",
                    "",
                    "location / { proxy_pass http://127.0.0.1:8081; }",
                ),
            )
            .script("fault_backend bucket 300; nginx_sut")
            .rate(&["-c", "400", "--min", "90", "--max", "900"]),
    ]
}

/// Pauses, logs and disks.
fn pauses() -> Vec<Recipe> {
    vec![
        Recipe::new(28, "the server stands still for 80 ms every second", Cause("periodic-pause"))
            .file("haproxy.cfg", haproxy(ONE_THREAD, PONG, ""))
            .script(
                "haproxy_sut\n\
                 while sleep 0.92; do kill -STOP $SUT; sleep 0.08; kill -CONT $SUT; done &",
            )
            .rate(&["-c", "50", "--min", "90", "--max", "900"]),
        Recipe::new(29, "an access log to a FIFO that is read at 300 lines/s", Cause("log-writes"))
            .file(
                "nginx.conf",
                nginx(
                    "",
                    "worker_connections 2000;",
                    // A line of 256 bytes.
                    &format!("log_format padded '{}';", "x".repeat(255)),
                    "access_log access.fifo padded;\nlocation / { return 200 'pong'; }",
                ),
            )
            .file("reader.py", READER)
            .script("mkfifo access.fifo; python3 reader.py > reader.log 2>&1 & nginx_sut")
            .rate(&["-c", "100", "--min", "90", "--max", "900"]),
        // A request is about three writes: its data, and twice the file system's journal.
        Recipe::new(41, "a disk that makes 900 writes/s", Cause("disk"))
            .on("write operations per second of fault")
            .within(GroupLimit::WritesPerS(900))
            .script("fault_sut write-sync \"$PWD/written\"")
            .rate(&[
                "--no-keepalive",
                "--slo",
                "p99<150ms,errors<1%",
                "--min",
                "60",
                "--max",
                "900",
            ]),
    ]
}
