//! Laboratories whose hosts are network namespaces: the host of the cause counts for itself.

use super::Expected::Cause;
use super::Recipe;
use crate::cgroup::GroupLimit;

/// Waits for HAProxy of this run, and for the backends: their host has one link, to the server's.
const FIND: &str = r#"
mine() {
    for p in $(pgrep -x "$1"); do
        tr '\0' '\n' < "/proc/$p/environ" 2> /dev/null | grep -qx "PLIMSOLL_E2E_RUN=$PLIMSOLL_E2E_RUN" && echo "$p"
    done
}
running() { mine haproxy | while read -r p; do tr '\0' ' ' < "/proc/$p/cmdline" | grep -q -- ' -c ' || echo "$p"; done; }
sut() { until P=$(running | head -n 1) && grep -q ' *clients:' "/proc/${P:-0}/net/dev"; do sleep 0.05; done 2> /dev/null; }
backends() {
    until P=$(for p in $(mine plimsoll-agent); do grep -q '^ *sut:' "/proc/$p/net/dev" && echo "$p"; done); [ -n "$P" ]; do
        sleep 0.05
    done 2> /dev/null
}
"#;

/// HAProxy that closes its connections to the backends.
const CLOSING: &str = "#!/bin/bash\nfor last; do :; done\n\
                       if [ \"$1\" = -db ]; then\n\
                       sed -i 's|http-reuse always|http-reuse never\\n    option http-server-close|' \"$last\"\n\
                       fi\nexec haproxy \"$@\"\n";

const LAB: [&str; 11] = [
    "lab",
    "rate",
    "--sut",
    "haproxy",
    "--isolate",
    "netns",
    "--mode",
    "quick",
    "--insecure",
    "--backends",
    "1",
];

fn lab(flags: &[&'static str]) -> Vec<&'static str> {
    [&LAB[..], flags].concat()
}

pub(super) fn all() -> Vec<Recipe> {
    vec![
        // Each request is a handshake, so that a few hundred of them use the quota up.
        Recipe::new(24, "HAProxy of a laboratory, 20 ms of CPU in each 100 ms", Cause("cpu-quota"))
            .on("haproxy")
            .at("sut")
            .within(GroupLimit::CpuUs(20_000))
            .script(FIND)
            .script("{ sut; echo $P > @GROUP@; } &")
            .search(&lab(&["--no-keepalive", "--slo", "p99<50ms", "--min", "90", "--max", "1000"])),
        // Each request is a connection to the backend, so that some thousands of them use the quota up.
        Recipe::new(24, "backend of a laboratory, 10 ms of CPU in each 100 ms", Cause("cpu-quota"))
            .at("backends")
            .within(GroupLimit::CpuUs(10_000))
            .file("proxy", CLOSING)
            .script(FIND)
            .script("chmod +x proxy; { backends; for p in $P; do echo $p > @GROUP@; done; } &")
            .search(&lab(&[
                "--haproxy",
                "./proxy",
                "--slo",
                "p99<250ms,errors<1%",
                "--min",
                "200",
                "--max",
                "8000",
            ])),
        Recipe::new(19, "HAProxy of a laboratory with 300 files, 300 ms", Cause("open-files"))
            .on("open files of haproxy")
            .at("sut")
            .script(FIND)
            .script("{ sut; prlimit --pid $P --nofile=300:300; } &")
            .search(&lab(&[
                "--no-keepalive",
                "-H",
                "sleep-fixed: 300",
                "--slo",
                "p99<900ms,errors<1%",
                "--min",
                "90",
                "--max",
                "1000",
            ])),
        // Only the server's host tracks connections, so that clients do not stop before the limit. Those that have
        // ended are soon forgotten, so that they do not fill the table of the next level.
        Recipe::new(22, "6,000 tracked connections of a laboratory, held", Cause("conntrack"))
            .on("tracked connections")
            .at("sut")
            .with_host("/proc/sys/net/netfilter/nf_conntrack_max", || "6000".to_owned())
            .script(FIND)
            .script(
                "{ sut; N=\"nsenter -n -t $P nft\"; $N add table t\n\
                 for end in time_wait close fin_wait close_wait last_ack; do\n\
                 nsenter -n -t $P sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_$end=1\n\
                 done\n\
                 $N add chain t c '{ type filter hook input priority 0; }'; $N add rule t c ct state new counter; } &",
            )
            .search(&[
                "lab", "connections", "--sut", "haproxy", "--isolate", "netns", "--mode", "quick", "--insecure",
                "--backends", "1", "--max", "9k", "--push",
            ]),
    ]
}
