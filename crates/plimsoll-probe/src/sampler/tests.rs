//! A host made of files, and this one.

use std::fs;

use plimsoll_model::host::{EndStatus, LimitId, LimitKind, SourceState, fullest_limits};

use super::*;
use crate::fixture::tree;

/// Linux 6.18, shortened.
const FILES: &[(&str, &str)] = &[
    (
        "proc/stat",
        "cpu  300 0 100 1000 0 0 50 7 0 0\ncpu0 200 0 100 500 0 0 50 7 0 0\n\
         cpu1 100 0 0 500 0 0 0 0 0 0\nintr 5\nctxt 4711\nprocs_running 3\n",
    ),
    (
        "proc/pressure/cpu",
        "some avg10=7.25 avg60=12.87 avg300=8.34 total=7000000\n\
         full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    ("proc/vmstat", "allocstall_normal 6\nallocstall_movable 37\npgmajfault 9\noom_kill 1\n"),
    ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 250 kB\nSlab: 10 kB\n"),
    ("proc/loadavg", "0.10 0.20 0.30 2/150 4711\n"),
    ("proc/sys/kernel/pid_max", "1000\n"),
    ("proc/sys/kernel/threads-max", "2000\n"),
    ("proc/sys/fs/file-nr", "500\t0\t1000\n"),
    (
        "proc/thread-self/net/snmp",
        "Ip: Forwarding\nIp: 1\nTcp: ActiveOpens PassiveOpens CurrEstab OutSegs RetransSegs\n\
         Tcp: 5 6 7 100 2\n",
    ),
    (
        "proc/thread-self/net/netstat",
        "TcpExt: ListenOverflows Unheard TCPReqQFullDrop\nTcpExt: 3 99 4\n",
    ),
    (
        "proc/thread-self/net/sockstat",
        "sockets: used 9\nTCP: inuse 3 orphan 1 tw 2 alloc 4 mem 5\n",
    ),
    ("proc/sys/net/ipv4/tcp_mem", "10 20 50\n"),
    ("proc/sys/net/ipv4/tcp_max_tw_buckets", "4\n"),
    (
        "proc/thread-self/net/dev",
        "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop|bytes packets errs drop\n\
         eth0: 1000 10 0 1 0 0 0 0 2000 20 0 2 0 0 0 0\n",
    ),
    ("proc/net/softnet_stat", "0000000a 00000001 00000002 0 0 0 0 0 0 0 0 00000000 00000001\n"),
    ("proc/7/status", "Name:\tproxy\nVmSize:\t 51200 kB\nVmRSS:\t 800 kB\n"),
    ("proc/7/limits", "Max open files            10                 20000                files\n"),
    ("proc/7/smaps_rollup", "55d0-7ffe ---p 0 00:00 0 [rollup]\nPss: 300 kB\n"),
    ("proc/7/task/7/schedstat", "2000000000 500000000 10\n"),
    ("proc/7/task/7/comm", "proxy\n"),
    ("proc/7/task/12/schedstat", "1000000000 0 5\n"),
    ("proc/7/task/12/comm", "proxy\n"),
    ("proc/7/task/7/status", "State:\tS (sleeping)\nvoluntary_ctxt_switches:\t40\n"),
    ("proc/7/task/7/wchan", "anon_pipe_write"),
    ("proc/7/task/12/status", "State:\tD (disk sleep)\nvoluntary_ctxt_switches:\t2\n"),
    ("proc/7/io", "rchar: 1\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n"),
    ("proc/7/cgroup", "0::/sut\n"),
    (
        "sys/fs/cgroup/sut/cpu.stat",
        "usage_usec 4000000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1500000\n",
    ),
    ("sys/fs/cgroup/sut/memory.current", "4096\n"),
    ("sys/fs/cgroup/sut/memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n"),
    ("sys/fs/cgroup/sut/pids.current", "5\n"),
    ("sys/fs/cgroup/sut/pids.max", "20\n"),
];

fn proxy() -> Scope {
    let processes = vec![WatchedProcess { name: "proxy".into(), pid: 7, role: Role::Server }];
    Scope { processes, ..Scope::default() }
}

#[test]
fn the_files_of_a_host_become_one_reading() {
    let root = tree(FILES);
    let reading = Sampler::below(root.path(), proxy()).read();
    let sum = |metric, labels: &[(Label, &str)]| reading.sum(metric, labels);
    for (metric, labels, expected) in [
        (Metric::HostCpus, &[][..], 2.0),
        (Metric::CpuSeconds, &[(Label::Mode, "user")], 3.0),
        (Metric::CpuSeconds, &[(Label::Cpu, "0"), (Label::Mode, "steal")], 0.07),
        (Metric::ContextSwitches, &[], 4_711.0),
        (Metric::PressureSeconds, &[], 7.0),
        (Metric::AllocationStalls, &[], 43.0),
        (Metric::MemoryAvailableBytes, &[], 256_000.0),
        (Metric::TcpEstablished, &[], 7.0),
        (Metric::TcpOpens, &[(Label::Direction, "passive")], 6.0),
        (Metric::TcpListenOverflows, &[], 3.0),
        (Metric::TcpSynQueueFull, &[(Label::Action, "drop")], 4.0),
        (Metric::TcpSockets, &[(Label::State, "time_wait")], 2.0),
        (Metric::TcpMemoryBytes, &[], 20_480.0),
        (Metric::NetworkBytes, &[(Label::Direction, "transmit")], 2_000.0),
        (Metric::NetworkDrops, &[], 3.0),
        (Metric::SoftnetSqueezed, &[(Label::Cpu, "1")], 2.0),
        (Metric::ProcessCpuSeconds, &[(Label::Thread, "proxy/0")], 2.0),
        (Metric::ProcessCpuSeconds, &[(Label::Process, "proxy")], 3.0),
        (Metric::ProcessRunDelaySeconds, &[], 0.5),
        (Metric::ProcessThreads, &[], 2.0),
        (Metric::ProcessVoluntarySwitches, &[(Label::Process, "proxy")], 42.0),
        (Metric::ProcessWaiting, &[(Label::State, "pipe")], 1.0),
        (Metric::ProcessWaiting, &[(Label::State, "disk")], 1.0),
        (Metric::ProcessWaiting, &[(Label::State, "lock")], 0.0),
        (Metric::ProcessWrittenBytes, &[], 8_192.0),
        (Metric::ProcessPrivateBytes, &[], 307_200.0),
        (Metric::ProcessResidentBytes, &[], 819_200.0),
        (Metric::CgroupThrottledSeconds, &[(Label::Cgroup, "proxy")], 1.5),
        (Metric::CgroupThrottledPeriods, &[], 4.0),
        (Metric::CgroupMemoryEvents, &[(Label::Event, "max")], 3.0),
        (Metric::SourceUp, &[(Label::Kind, "process"), (Label::Source, "proxy")], 1.0),
        (Metric::SourceUp, &[(Label::Kind, "host")], 1.0),
        (Metric::WatchMissed, &[], 0.0),
    ] {
        let seen = sum(metric, labels);
        assert!(
            seen.is_some_and(|seen| (seen - expected).abs() < 1e-9),
            "{} {labels:?}: {seen:?}, not {expected}",
            metric.name()
        );
    }
    let fullest: Vec<String> = fullest_limits(&reading, 20)
        .into_iter()
        .map(|limit| format!("{}: {}/{}", limit.id, limit.used, limit.max))
        .collect();
    for expected in [
        "memory: 768000/1024000",
        "open files: 500/1000",
        "TIME_WAIT sockets: 2/4",
        "threads: 150/1000",
        "cgroup threads of proxy: 5/20",
        "TCP memory: 20480/204800",
    ] {
        assert!(fullest.iter().any(|line| line == expected), "{expected} in {fullest:#?}");
    }
}

/// Version 2, with the limits at a slice and one controller that the group of the process is without.
const SLICE: &[(&str, &str)] = &[
    ("proc/7/status", "Name:\tproxy\n"),
    ("proc/7/cgroup", "0::/web.slice/proxy.service\n"),
    ("sys/fs/cgroup/cpu.stat", "usage_usec 99000000\n"),
    ("sys/fs/cgroup/web.slice/cpu.max", "50000 100000\n"),
    (
        "sys/fs/cgroup/web.slice/cpu.stat",
        "usage_usec 6000000\nnr_periods 20\nnr_throttled 8\nthrottled_usec 700000\n",
    ),
    ("sys/fs/cgroup/web.slice/memory.max", "1000000\n"),
    ("sys/fs/cgroup/web.slice/memory.current", "900000\n"),
    ("sys/fs/cgroup/web.slice/memory.events", "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n"),
    ("sys/fs/cgroup/web.slice/pids.current", "40\n"),
    ("sys/fs/cgroup/web.slice/pids.max", "40\n"),
    ("sys/fs/cgroup/web.slice/pids.events", "max 6\n"),
    ("sys/fs/cgroup/web.slice/proxy.service/cpu.max", "max 100000\n"),
    (
        "sys/fs/cgroup/web.slice/proxy.service/cpu.stat",
        "usage_usec 1000000\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
    ),
    ("sys/fs/cgroup/web.slice/proxy.service/memory.max", "max\n"),
    ("sys/fs/cgroup/web.slice/proxy.service/memory.current", "300000\n"),
    (
        "sys/fs/cgroup/web.slice/proxy.service/memory.events",
        "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n",
    ),
    ("sys/fs/cgroup/web.slice/io.max", "254:0 rbps=max wbps=max riops=max wiops=250\n"),
    (
        "sys/fs/cgroup/web.slice/io.stat",
        "254:0 rbytes=1 wbytes=4096 rios=2 wios=70 dbytes=0 dios=0\n",
    ),
    (
        "sys/fs/cgroup/web.slice/proxy.service/io.max",
        "254:0 rbps=1000 wbps=max riops=max wiops=900\n",
    ),
    ("sys/dev/block/254:0/uevent", "MAJOR=254\nDEVNAME=vda\n"),
];

#[test]
fn limits_of_the_groups_above_count_too() {
    let beside_version_1: Vec<_> = SLICE
        .iter()
        .map(|(path, text)| (path.replace("fs/cgroup/", "fs/cgroup/unified/"), *text))
        .collect();
    let beside_version_1: Vec<_> =
        beside_version_1.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    for files in [SLICE, &beside_version_1] {
        let root = tree(files);
        let reading = Sampler::below(root.path(), proxy()).read();
        let event = |name| [(Label::Cgroup, "proxy"), (Label::Event, name)];
        for (metric, labels, expected) in [
            (Metric::CgroupCpuLimit, &[(Label::Cgroup, "proxy")][..], 0.5),
            (Metric::CgroupCpuSeconds, &[], 6.0),
            (Metric::CgroupPeriods, &[], 20.0),
            (Metric::CgroupThrottledPeriods, &[], 8.0),
            (Metric::CgroupThrottledSeconds, &[], 0.7),
            (Metric::CgroupMemoryBytes, &[], 300_000.0),
            (Metric::CgroupMemoryEvents, &event("max"), 12.0),
            (Metric::CgroupMemoryEvents, &event("oom_kill"), 2.0),
            // The service has no separate `pids`.
            (Metric::CgroupTasks, &[], 40.0),
            (Metric::CgroupPidsRefused, &[], 6.0),
            (Metric::CgroupDiskOperationsPerSecondMax, &[(Label::Device, "vda")], 250.0),
            (Metric::CgroupDiskOperations, &[(Label::Direction, "write")], 70.0),
            // The service has not read yet.
            (Metric::CgroupDiskBytesPerSecondMax, &[(Label::Direction, "read")], 1_000.0),
            (Metric::CgroupDiskBytes, &[(Label::Direction, "read")], 0.0),
        ] {
            let seen = reading.sum(metric, labels);
            assert_eq!(seen, Some(expected), "{} {labels:?}", metric.name());
        }
    }
}

#[test]
fn limits_of_disks_are_read_in_version_1() {
    let group = "sys/fs/cgroup/blkio/web/blkio.throttle";
    let files = [
        ("proc/7/status".to_owned(), "Name:\tproxy\n"),
        ("proc/7/cgroup".to_owned(), "4:blkio:/web\n0::/\n"),
        (format!("{group}.write_iops_device"), "254:0 250\n"),
        (format!("{group}.read_bps_device"), ""),
        (format!("{group}.io_serviced"), "254:0 Read 35\n254:0 Write 2002\nTotal 2041\n"),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let root = tree(&files);
    let reading = Sampler::below(root.path(), proxy()).read();
    // No disk of this host has a name.
    let labels = [(Label::Cgroup, "proxy"), (Label::Device, "254:0"), (Label::Direction, "write")];
    assert_eq!(reading.sum(Metric::CgroupDiskOperationsPerSecondMax, &labels), Some(250.0));
    assert_eq!(reading.sum(Metric::CgroupDiskOperations, &labels), Some(2_002.0));
    assert_eq!(reading.sum(Metric::CgroupDiskBytesPerSecondMax, &[]), None);
}

#[test]
fn what_cannot_be_read_is_named_and_never_0() {
    let root = tree(&[("proc/stat", "nonsense\ncpu0 a b\n"), ("proc/8/cgroup", "0::/gone\n")]);
    let reading = Sampler::below(root.path(), proxy()).read();
    assert_eq!(reading.sum(Metric::CpuSeconds, &[]), None);
    assert_eq!(reading.sum(Metric::TcpEstablished, &[]), None);
    assert_eq!(reading.sum(Metric::MemoryAvailableBytes, &[]), None);
    let missing: Vec<&str> =
        reading.missing.iter().map(|missing| missing.source.as_str()).collect();
    for source in
        ["/proc/vmstat", "/proc/thread-self/net/snmp", "/proc/meminfo", "process proxy (7)"]
    {
        assert!(missing.contains(&source), "{source} in {missing:?}");
    }
}

#[test]
fn the_host_is_read_on_after_the_end_of_a_process() {
    let root = tree(FILES);
    let mut sampler = Sampler::below(root.path(), proxy());
    let before = sampler.read();
    fs::remove_dir_all(root.path().join("proc/7")).expect("it ends");
    let [first, second] = [sampler.read(), sampler.read()];
    let names = |reading: &Reading| -> Vec<Metric> {
        let of_process = [Label::Process, Label::Cgroup];
        let is_of_host = |sample: &&plimsoll_model::host::Sample| {
            of_process.iter().all(|label| sample.series.label(*label).is_none())
                && sample.series.label(Label::Scope).is_none_or(|scope| scope == "host")
        };
        let mut names: Vec<Metric> =
            reading.samples.iter().filter(is_of_host).map(|sample| sample.series.metric).collect();
        names.dedup();
        names
    };
    assert_eq!(names(&second), names(&before));
    assert_eq!(second.sum(Metric::TcpEstablished, &[]), Some(7.0));
    assert_eq!(second.sum(Metric::ProcessThreads, &[]), None);
    let ended = SourceState::Ended { since: first.begin, status: EndStatus::Unknown };
    let state = |reading: &Reading| reading.sources_down().next().map(|one| one.state.clone());
    assert_eq!(
        (state(&before), state(&first), state(&second)),
        (None, Some(ended.clone()), Some(ended))
    );
}

#[test]
fn the_status_of_a_process_that_ends_is_kept() {
    let mut child = std::process::Command::new("sh")
        .args(["-c", "read line; exit 3"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut scope = Scope::default();
    scope.add_process(child.id(), Role::Server);
    let mut sampler = Sampler::new(scope.clone(), Totals::default());
    assert_eq!(sampler.read().sources_down().count(), 0);
    drop(child.stdin.take());
    // It is not reaped yet, which is why every kernel reports its status.
    while plimsoll_sys::process::is_alive(child.id()) {
        std::thread::yield_now();
    }
    for _ in 0..2 {
        let reading = sampler.read();
        let state = reading.sources_down().next().map(|source| source.state.clone());
        assert!(
            matches!(state, Some(SourceState::Ended { status: EndStatus::Exited(3), .. })),
            "{state:?}"
        );
        child.wait().expect("it has ended");
        // Its name stays, also if a scope is made anew.
        sampler.rescope(scope.clone());
    }
}

#[test]
fn the_network_of_a_process_outlives_it() {
    // Making a namespace needs root.
    let Ok(other) = plimsoll_sys::namespace::Namespace::new() else { return };
    let ties = plimsoll_sys::process::Ties { network: Some(other), ..Default::default() };
    let sleeper = || {
        let mut command = std::process::Command::new("sleep");
        command.arg("1000");
        command
    };
    let mut child = plimsoll_sys::process::spawn(sleeper(), &ties).expect("a process");
    let mut scope = Scope::default();
    scope.add_process(child.id(), Role::Server);
    let mut sampler = Sampler::new(scope, Totals::default());
    // A new namespace has opened no connection yet, and has loopback only.
    let is_there = |reading: &Reading| {
        assert_eq!(reading.sum(Metric::TcpOpens, &[]), Some(0.0));
        assert!(
            reading
                .of(Metric::NetworkBytes, &[])
                .all(|sample| sample.series.label(Label::Device) == Some("lo"))
        );
    };
    is_there(&sampler.read());
    child.kill().expect("it ends");
    child.wait().expect("it has ended");
    let after = sampler.read();
    is_there(&after);
    assert_eq!(after.sources_down().count(), 1);
}

#[test]
fn private_memory_is_read_rarely() {
    let root = tree(FILES);
    let mut sampler = Sampler::below(root.path(), proxy());
    let has_private = |reading: Reading| reading.sum(Metric::ProcessPrivateBytes, &[]).is_some();
    let read: Vec<bool> = (0..=SLOW_EVERY).map(|_| has_private(sampler.read())).collect();
    assert_eq!(read, [true, false, false, false, false, true]);
}

#[test]
fn this_host_is_readable() {
    let mut scope = Scope::default();
    scope.add_process(std::process::id(), Role::Server);
    let name = scope.processes[0].name.clone();
    let mut sampler = Sampler::new(scope, Totals::default());
    sampler.miss();
    let reading = sampler.read();
    assert!(reading.begin <= reading.end);
    for metric in [Metric::CpuSeconds, Metric::TcpSegments, Metric::NetworkBytes, Metric::LimitMax]
    {
        assert!(reading.sum(metric, &[]).is_some(), "{}", metric.name());
    }
    assert!(reading.sum(Metric::ProcessCpuSeconds, &[(Label::Process, &name)]).is_some());
    assert!(reading.sum(Metric::WatchCostSeconds, &[]) > Some(0.0));
    assert_eq!(reading.sum(Metric::WatchMissed, &[]), Some(1.0));
}

#[test]
fn processes_of_one_name_are_numbered() {
    let mut scope = Scope::default();
    for (name, pid) in [("nginx", 1), ("haproxy", 2), ("nginx", 3), ("nginx", 4), ("", 5)] {
        scope.add_named(name, pid, Role::Server);
    }
    let names: Vec<&str> = scope.processes.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["nginx", "haproxy", "nginx-2", "nginx-3", "process"]);
}

#[test]
fn limits_of_the_whole_host_are_known_in_other_namespaces() {
    let here = HostWide::read(Path::new("/"));
    // Making a namespace needs root.
    if let Ok(other) = plimsoll_sys::namespace::Namespace::new() {
        let there = other.run(|| HostWide::read(Path::new("/"))).expect("a thread");
        assert_eq!(there, here);
    }
    let ancestors: Vec<u32> = network::ancestors().collect();
    assert_eq!(ancestors.first(), Some(&std::os::unix::process::parent_id()));
    assert_ne!(ancestors.last(), Some(&0));
}

#[test]
fn processes_of_one_group_have_its_figures_each() {
    let root = tree(&[
        ("proc/self/cgroup", "0::/other\n"),
        ("proc/7/cgroup", "0::/sut\n"),
        ("proc/8/cgroup", "0::/sut\n"),
        ("sys/fs/cgroup/other/pids.current", "3\n"),
        ("sys/fs/cgroup/sut/pids.current", "40\n"),
        ("sys/fs/cgroup/sut/pids.max", "100\n"),
        ("sys/fs/cgroup/sut/memory.max", "1000000\n"),
        ("sys/fs/cgroup/sut/memory.current", "300000\n"),
    ]);
    let process = |(name, pid): (&str, u32)| WatchedProcess {
        name: name.to_owned(),
        pid,
        role: Role::Server,
    };
    let processes = [("a", 7), ("b", 8)].map(process).to_vec();
    let reading = Sampler::below(root.path(), Scope { processes, ..Scope::default() }).read();
    for name in ["a", "b"] {
        assert_eq!(
            reading.sum(Metric::CgroupTasks, &[(Label::Cgroup, name)]),
            Some(40.0),
            "{name}"
        );
        for (kind, max) in [(LimitKind::CgroupThreads, 100.0), (LimitKind::CgroupMemory, 1e6)] {
            let id = LimitId::of(kind, name);
            assert_eq!(reading.sum(Metric::LimitMax, &id.labels()), Some(max), "{id}");
        }
    }
    assert_eq!(reading.sum(Metric::CgroupTasks, &[(Label::Cgroup, "plimsoll")]), Some(3.0));
}
