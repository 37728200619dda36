//! Ports, queues of connections, links.

use super::Expected::Cause;
use super::{ONE_THREAD, PONG, Recipe, behind, haproxy};

/// A server that closes each connection with 100 kB in its buffer, which the kernel sends at 100 kB/s.
const SENDS_AFTER_CLOSE: &str = "import socket\n\
    SO_MAX_PACING_RATE = 47\n\
    listener = socket.create_server(('127.0.0.1', 8080), backlog=4096)\n\
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400000)\n\
    head = b'HTTP/1.1 200 OK\\r\\ncontent-length: 100000\\r\\nconnection: close\\r\\n\\r\\n'\n\
    answer = head + bytes(100000)\n\
    while True:\n    \
    stream, _ = listener.accept()\n    \
    stream.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 100000)\n    \
    stream.settimeout(0.1)\n    \
    try:\n        \
    if stream.recv(65536):\n            \
    stream.sendall(answer)\n    \
    except OSError:\n        \
    pass\n    \
    stream.close()\n";

pub(super) fn all() -> Vec<Recipe> {
    vec![
        Recipe::new(13, "41 ports to the backend, 100 ms", Cause("ports"))
            .on("ports")
            .file(
                "haproxy.cfg",
                haproxy(ONE_THREAD, "", &format!("{}\n    http-reuse never\n    option http-server-close", behind(""))),
            )
            .script("sysctl -qw net.ipv4.ip_local_port_range='40000 40040'; serve; haproxy_sut")
            // Clients come from addresses of their own, each of which has as many ports.
            .rate(&[
                "-c", "400", "--source", "127.0.1.0/26", "-H", "sleep-fixed: 100", "--slo", "p99<300ms,errors<1%",
                "--min", "90", "--max", "1000",
            ]),
        Recipe::new(15, "accept queue of 8, drained every 50 ms", Cause("accept-queue"))
            .script("sysctl -qw net.core.somaxconn=8; fault_sut accept-every 50")
            .rate(&["--no-keepalive", "--slo", "p99<200ms,errors<1%", "--min", "50", "--max", "500"]),
        Recipe::new(30, "20 Mbit/s, bodies of 10 kB", Cause("link"))
            .file("haproxy.cfg", haproxy(ONE_THREAD, "", &behind("")))
            .script("serve; haproxy_sut; tc qdisc add dev lo root tbf rate 40mbit burst 30kb latency 30ms")
            .rate(&["-c", "200", "-H", "size: 10000", "--slo", "p99<150ms,errors<1%", "--min", "60", "--max", "900"]),
        Recipe::new(39, "300 orphans, each for nearly a second", Cause("orphans"))
            .on("orphaned sockets")
            .alone()
            .with_host("/proc/sys/net/ipv4/tcp_max_orphans", || "300".to_owned())
            .file("slow.py", SENDS_AFTER_CLOSE)
            .script(
                "ip link set lo mtu 1500\nserver python3 slow.py; up 8080; WATCH+=(--watch \"pid:$SUT\")",
            )
            .rate(&[
                "-c", "2000", "--no-keepalive", "--slo", "p99<2s,errors<1%", "--min", "90", "--max", "900",
            ]),
        Recipe::new(32, "2 % of the segments are lost", Cause("packet-loss"))
            .file("haproxy.cfg", haproxy(ONE_THREAD, PONG, ""))
            .script(
                "ip link set lo gso_max_segs 1\n\
                 nft add table t; nft add chain t c '{ type filter hook output priority 0; }'\n\
                 haproxy_sut; nft add rule t c tcp sport 8080 numgen random mod 100 '<' 2 drop",
            )
            .rate(&["-c", "50", "--min", "90", "--max", "900"]),
    ]
}
