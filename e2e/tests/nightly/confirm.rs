//! `--confirm-cause` confirms what is the limit: with the real HAProxy, and limits that a wrapper
//! around it writes into its configuration or puts behind it.
//!
//! All but the first are at 200 to 450/s, so that one needs little CPU, and several may run beside each other, each in
//! its own process: `cargo test -p e2e --test nightly confirm::NAME -- --ignored --nocapture`.

use std::fs;
use std::time::Duration;

use e2e::certificate::{self, Certificate};
use e2e::cgroup::{Group, GroupLimit};
use e2e::haproxy::Haproxy;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::{machine, program, recipe};
use serde_json::Value;

use crate::wrapper::Wrapper;
use crate::{alone, client, pin_server};

/// A quick search takes less than 4 minutes, the test of its cause less than 3, and a search with the limit raised as
/// long.
const PATIENCE: Duration = Duration::from_secs(660);
/// Servers behind HAProxy, on ports that nobody else has in its own network namespace.
const BACKENDS: &str = "for n in 1 2 3 4 5; do setpriv --pdeathsig KILL @FAULT@ 127.0.0.1:900$n @SERVES@ & done\n\
                        for n in 1 2 3 4 5; do until (exec 3<> /dev/tcp/127.0.0.1/900$n) 2> /dev/null; do \
                        sleep 0.05; done; done";
/// A server behind HAProxy that accepts what waits each 50 ms; 9 connections may wait there, and only there.
const BURSTY: &str = "sysctl -qw net.core.somaxconn=8\n\
                      setpriv --pdeathsig KILL @FAULT@ 127.0.0.1:9001 accept-every 50 &\n\
                      until (exec 3<> /dev/tcp/127.0.0.1/9001) 2> /dev/null; do sleep 0.05; done\n\
                      sysctl -qw net.core.somaxconn=4096";

impl Wrapper {
    /// HAProxy that uses milliseconds of CPU for each request, which leaves the client nearly idle.
    fn burning(rounds: &str) -> Self {
        Self {
            edits: vec![
                "s|^global|global\\n    lua-load @FOLDER@/burn.lua|",
                "s|^frontend tls|frontend tls\\n    http-request lua.burn|",
            ],
            files: vec![("burn.lua", recipe::BURN.replace("120000", rounds))],
            ..Self::default()
        }
    }

    /// HAProxy before five fault servers.
    fn before_backends(serves: &str) -> Self {
        Self {
            edits: vec![r"s|^    server b\([0-9]*\) .*|    server b\1 127.0.0.1:900\1|"],
            before: BACKENDS.replace("@SERVES@", serves),
            ..Self::default()
        }
    }

    /// Returns the first cause that a laboratory with it names.
    fn first_cause(self, flags: &[&str]) -> Value {
        let (_folder, path) = self.write();
        first_cause(&[&["--haproxy", &path.to_string_lossy()], flags].concat())
    }
}

/// Returns the first cause that a laboratory with HAProxy names on a machine with control groups of version 2, which
/// are as `first`, commands of bash, has left them when it ends. `None` if this host cannot run one.
fn first_cause_on_a_machine(first: &str, wrapper: Wrapper) -> Option<Value> {
    let _alone = alone();
    let (folder, haproxy) = wrapper.write();
    let plimsoll = program::plimsoll();
    let script = format!(
        "groups() {{ find /sys/fs/cgroup -name '*plimsoll*'; cat /sys/fs/cgroup/cgroup.subtree_control; }}\n\
         {first}\ngroups > /tmp/before\n\
         {} lab rate --confirm-cause --mode quick --isolate none -k --sut haproxy --haproxy {} --min 10 --max 1000 \
         --slo 'p99<200ms,errors<1%' --no-ui --out /tmp/run --json - 2> /tmp/err || cat /tmp/err\n\
         groups | diff /tmp/before - && echo As before.",
        plimsoll.display(),
        haproxy.display()
    );
    let printed = machine::run(&[&plimsoll, folder.path()], &script)?;
    let json = printed.split_once('{').and_then(|(_, json)| json.rsplit_once('}'));
    let (json, left) = json.unwrap_or_else(|| panic!("no JSON: {printed}"));
    assert!(left.contains("As before."), "{left}");
    Some(first_of(&Summary::parse(&format!("{{{json}}}"))))
}

/// Returns the first cause of a laboratory, which names one.
fn first_cause(flags: &[&str]) -> Value {
    let _alone = alone();
    let priority = Group::new("confirm-run", GroupLimit::CpuFirst).expect("root may");
    let script = format!(
        "ip link set lo up; echo $$ > {}; \"$0\" \"$@\"; exit $?",
        priority.procs().display()
    );
    let own = ["lab", "rate", "--confirm-cause", "--mode", "quick", "--isolate", "none", "-k"];
    let arguments = [&own[..], flags, &["--no-ui", "--json", "-"]].concat();
    let run = Plimsoll::unshared("-n", &script, &arguments).start().finish_within(PATIENCE);
    first_of(&run.summary(0))
}

/// Returns the first cause of a summary, which has one.
fn first_of(summary: &Summary) -> Value {
    let cause = summary.at("causes").get(0).cloned();
    let cause = cause.unwrap_or_else(|| panic!("no cause: {summary:?}"));
    eprintln!("{}", serde_json::to_string(&cause).expect("it was JSON"));
    cause
}

fn assert_confirmed(cause: &Value, names: &[&str]) {
    assert!(names.contains(&cause["cause"].as_str().unwrap_or_default()), "{cause}");
    assert_eq!(cause["grade"], "confirmed", "{cause}");
    let confirmation = &cause["confirmations"][0];
    let took = |test: &Value| test["seconds"].as_f64().unwrap_or_default();
    let all = took(confirmation) + took(&cause["remedied"]);
    assert!(all > 0.0 && all < 300.0, "{cause}");
}

#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn tls_handshakes() {
    let cause = first_cause(&["--sut", "haproxy", "--no-keepalive"]);
    assert_confirmed(&cause, &["server-cpu", "tls-handshakes"]);
}

#[test]
#[ignore = "nightly: minutes with a CPU of its own; needs root"]
fn the_servers_cpu() {
    let flags = ["--slo", "p99<100ms,errors<1%", "--min", "60", "--max", "1000"];
    assert_confirmed(&Wrapper::burning("120000").first_cause(&flags), &["server-cpu"]);
}

#[test]
#[ignore = "nightly: minutes with a CPU of its own; needs root"]
fn one_hot_thread() {
    let mut wrapper = Wrapper::burning("120000");
    wrapper.edits.extend([
        "s|nbthread 1|nbthread 2|",
        "s|cpu-map.*||",
        "s|ssl crt|thread 1 ssl crt|",
    ]);
    let flags = ["--slo", "p99<100ms,errors<1%", "--min", "60", "--max", "1000"];
    assert_confirmed(&wrapper.first_cause(&flags), &["hot-thread"]);
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn a_cpu_quota() {
    let group = Group::new("confirm-quota", GroupLimit::CpuUs(20_000)).expect("root may");
    let mut wrapper = Wrapper::burning("20000");
    wrapper.before = format!("echo $$ > {}", group.procs().display());
    let flags = ["--slo", "p99<50ms,errors<1%", "--min", "90", "--max", "1000"];
    assert_confirmed(&wrapper.first_cause(&flags), &["cpu-quota"]);
}

/// As on a new Debian, where no group has a CPU quota yet.
#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn the_cpu_of_a_server_in_groups_of_version_2() {
    let Some(cause) = first_cause_on_a_machine("", Wrapper::burning("20000")) else { return };
    assert_confirmed(&cause, &["server-cpu"]);
}

#[test]
#[ignore = "nightly: minutes alone on two CPUs; needs root"]
fn a_cpu_quota_of_version_2() {
    let first = "echo +cpu > /sys/fs/cgroup/cgroup.subtree_control; mkdir /sys/fs/cgroup/quota\n\
                 echo 80000 100000 > /sys/fs/cgroup/quota/cpu.max";
    let mut wrapper = Wrapper::burning("20000");
    wrapper.before = "echo $$ > /sys/fs/cgroup/quota/cgroup.procs".to_owned();
    let Some(cause) = first_cause_on_a_machine(first, wrapper) else { return };
    assert_confirmed(&cause, &["cpu-quota"]);
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn the_most_connections() {
    let wrapper = Wrapper {
        // A queue as short as that would be the limit at times.
        edits: vec!["s|^    maxconn .*|    maxconn 35|", "s|ssl crt|backlog 4096 ssl crt|"],
        ..Wrapper::default()
    };
    let flags = ["--no-keepalive", "-H", "sleep-fixed: 100", "--slo", "p99<300ms,errors<1%"];
    let range = ["--min", "90", "--max", "1000"];
    assert_confirmed(&wrapper.first_cause(&[&flags[..], &range].concat()), &["maxconn"]);
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn the_connections_to_the_backends() {
    let wrapper =
        Wrapper { edits: vec![r"s|^\(    server b.*\)|\1 maxconn 10|"], ..Wrapper::default() };
    let flags =
        ["--backends", "1", "-H", "sleep-fixed: 25", "--slo", "p99<100ms,errors<1%", "-c", "200"];
    let range = ["--min", "90", "--max", "1000"];
    assert_confirmed(&wrapper.first_cause(&[&flags[..], &range].concat()), &["server-maxconn"]);
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn a_rate_limit() {
    let wrapper =
        Wrapper { edits: vec!["s|^global|global\\n    maxconnrate 400|"], ..Wrapper::default() };
    let flags = ["--no-keepalive", "--slo", "p99<100ms,errors<1%", "--min", "90", "--max", "1000"];
    let cause = wrapper.first_cause(&flags);
    assert_confirmed(&cause, &["rate-limit"]);
    let raised = &cause["remedied"];
    assert_eq!((&raised["from"], &raised["to"]), (&400.0.into(), &800.0.into()), "{cause}");
    let bound = |name: &str| raised[name].as_f64().unwrap_or_default();
    assert!(bound("lower") <= 800.0 && bound("upper") >= 784.0, "{cause}");
    assert!(bound("lower") >= 700.0, "{cause}");
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn the_capacity_of_backends() {
    let flags = ["--backends", "5", "-c", "200", "--slo", "p99<100ms,errors<1%", "--min", "90"];
    let cause = Wrapper::before_backends("bucket 70")
        .first_cause(&[&flags[..], &["--max", "1000"]].concat());
    assert_confirmed(&cause, &["backend-capacity"]);
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn a_pool_of_workers() {
    let flags = ["--backends", "5", "-c", "200", "--slo", "p99<250ms,errors<1%", "--min", "90"];
    let cause = Wrapper::before_backends("pool 4 50")
        .first_cause(&[&flags[..], &["--max", "1000"]].concat());
    assert_confirmed(&cause, &["worker-pool"]);
}

#[test]
#[ignore = "nightly: minutes; needs root"]
fn the_accept_queue() {
    let wrapper = Wrapper {
        edits: vec![r"s|^    server b.*|    server b1 127.0.0.1:9001|"],
        before: BURSTY.to_owned(),
        ..Wrapper::default()
    };
    let flags = ["--backends", "1", "--slo", "p99<600ms,errors<1%", "--min", "50", "--max", "500"];
    assert_confirmed(&wrapper.first_cause(&flags), &["accept-queue"]);
}

/// Confirms a limit of a server that plimsoll did not start, and may not change.
#[test]
#[ignore = "nightly: minutes"]
fn the_connections_of_each_address() {
    let _alone = alone();
    let serve = Serve::plain();
    let rules = "stick-table type ip size 1m expire 10s store conn_cur\n\
                 tcp-request connection track-sc0 src\n\
                 tcp-request connection reject if { sc_conn_cur(0) gt 30 }\ndefault_backend b";
    let sections = format!("backend b\nserver s {}", serve.address());
    let haproxy = Haproxy::start("", rules, &sections);
    let url = haproxy.url("http");
    let load = ["rate", &url, "--no-keepalive", "-H", "sleep-fixed: 100"];
    let search = ["--slo", "p99<300ms,errors<1%", "--min", "90", "--max", "1000"];
    let cause = cause_of(&haproxy, &[&load[..], &search].concat());
    assert_confirmed(&cause, &["address-limit"]);
    assert_eq!(cause["confirmations"][0]["intervention"], "source-addresses", "{cause}");
}

/// Confirms it with nothing but handshakes, and certificates of both types.
#[test]
#[ignore = "nightly: minutes alone on two CPUs"]
fn handshakes_of_a_server_with_two_certificates() {
    let _alone = alone();
    let (rsa, ecdsa) = (Certificate::rsa(), Certificate::new());
    let bind = format!("ssl crt {} crt {}", rsa.both().display(), ecdsa.both().display());
    let haproxy = Haproxy::start(&bind, "http-request return status 200\n", "");
    pin_server(haproxy.pid());
    let url = haproxy.url("https");
    let load = ["handshakes", &url, "-k", "--sni", certificate::NAME];
    let cause = cause_of(&haproxy, &load);
    assert_eq!(cause["cause"], "tls-handshakes", "{cause}");
    // A resumed session costs about as much as a signature by ECDSA, so that this may be the only change, and two are
    // needed to confirm a CPU.
    let last = cause["confirmations"].as_array().and_then(|all| all.last());
    let last = last.unwrap_or_else(|| panic!("no test: {cause}"));
    assert_eq!(last["intervention"], "certificate-key", "{cause}");
    assert_eq!(last["result"], "confirmed", "{cause}");
}

/// Confirms a link that files of 10 kB fill.
#[test]
#[ignore = "nightly: minutes; needs root"]
fn a_link() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display().to_string();
    fs::write(folder.path().join("index.html"), [b'x'; 10_000]).expect("a file");
    let config = format!(
        "user root;\ndaemon off;\nmaster_process off;\npid {at}/pid;\nerror_log {at}/error.log;\n\
         events {{ worker_connections 4096; }}\nhttp {{ access_log off; keepalive_requests 1000000;\n\
         server {{ listen 127.0.0.1:8080 backlog=4096; root {at}; }} }}\n"
    );
    fs::write(folder.path().join("nginx.conf"), config).expect("a file");
    let script = format!(
        "ip link set lo up; tc qdisc add dev lo root tbf rate 40mbit burst 30kb latency 30ms\n\
         setpriv --pdeathsig KILL {} -p {at} -c {at}/nginx.conf &\n\
         until (exec 3<> /dev/tcp/127.0.0.1/8080) 2> /dev/null; do sleep 0.05; done\n\
         \"$0\" \"$@\"; exit $?",
        program::installed("nginx").display()
    );
    let load = ["find", "rate", "http://127.0.0.1:8080/", "-c", "200"];
    let search = ["--slo", "p99<150ms,errors<1%", "--min", "60", "--max", "900"];
    let cause = foreign_cause(&[&load[..], &search].concat(), &|arguments| {
        Plimsoll::unshared("-n", &script, arguments)
    });
    assert_confirmed(&cause, &["link"]);
    assert_eq!(cause["confirmations"][0]["intervention"], "body-size", "{cause}");
}

/// Returns the first cause of a search on an HAProxy that only the load may test.
fn cause_of(haproxy: &Haproxy, search: &[&str]) -> Value {
    let watched =
        [format!("haproxy:{}", haproxy.stats_socket().display()), format!("pid:{}", haproxy.pid())];
    let watch = ["--watch", &watched[0], "--watch", &watched[1]];
    foreign_cause(&[&["find"], search, &watch].concat(), &client)
}

/// Returns the first cause that a quick search names, made by what `run` starts.
fn foreign_cause(search: &[&str], run: &dyn Fn(&[&str]) -> Plimsoll) -> Value {
    let own = ["--mode", "quick", "--confirm-cause", "--no-ui", "--json", "-"];
    first_of(&run(&[search, &own].concat()).start().finish_within(PATIENCE).summary(0))
}
