//! Limits read from fixture trees.

use super::*;
use crate::fixture::tree;

const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
    Max processes             96365                96365                processes \n\
    Max open files            1024                 20000                files     \n";

#[test]
fn a_host_is_read_from_its_files() {
    let root = tree(&[
        ("proc/self/limits", LIMITS),
        ("proc/self/status", "Name:\tx\nUid:\t7\t0\t0\t0\nCapEff:\t0000000000200000\n"),
        ("proc/self/uid_map", "         0          0 4294967295\n"),
        ("proc/self/cgroup", "0::/\n"),
        ("proc/sys/fs/nr_open", "1048576\n"),
        ("proc/sys/fs/file-max", "2466177\n"),
        ("proc/sys/fs/file-nr", "831\t0\t2466177\n"),
        ("proc/sys/fs/epoll/max_user_watches", "5491511\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "700\t799\n"),
        ("proc/sys/net/ipv4/ip_local_reserved_ports", "710-719\n"),
        ("proc/sys/net/ipv4/tcp_mem", "287901\t383868\t575802\n"),
        ("proc/sys/net/ipv4/tcp_max_orphans", "131072\n"),
        ("proc/sys/net/ipv4/tcp_max_tw_buckets", "131071\n"),
        ("proc/sys/net/ipv4/tcp_ehash_entries", "-262144\n"),
        ("proc/sys/net/core/somaxconn", "4096\n"),
        ("proc/sys/net/netfilter/nf_conntrack_max", "262143\n"),
        ("proc/sys/net/netfilter/nf_conntrack_count", "7\n"),
        ("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", "30\n"),
        ("proc/sys/net/ipv4/tcp_tw_reuse", "1\n"),
        ("proc/sys/net/ipv4/tcp_timestamps", "1\n"),
        ("proc/sys/kernel/pid_max", "32768\n"),
        ("proc/sys/kernel/threads-max", "192730\n"),
        ("proc/loadavg", "0.10 0.20 0.30 1/234 5678\n"),
        ("proc/meminfo", "MemTotal:       24684092 kB\nMemAvailable:   23805892 kB\n"),
    ]);
    let read = HostLimits::read(root.path());
    let expected = HostLimits {
        descriptors_per_process: Some(20_000),
        nr_open: Some(1_048_576),
        file_max: Some(2_466_177),
        files_in_use: Some(831),
        may_exceed_file_max: true,
        epoll_watches_max: Some(5_491_511),
        // Where hardly any host has a listener.
        ports_per_source: Some(100 - 10),
        port_range: Some((700, 799)),
        tcp_memory_max_bytes: Some(575_802 * 4096),
        orphans_max: Some(131_072),
        time_wait_max: Some(131_071),
        accept_queue_max: Some(4096),
        connection_buckets: Some(262_144),
        conntrack_max: Some(262_143),
        conntrack_in_use: Some(7),
        conntrack_time_wait_s: Some(30),
        reuse_delay_ms: Some(1_000),
        memory_total_bytes: Some(24_684_092 * 1024),
        memory_available_bytes: Some(23_805_892 * 1024),
        tasks_max: Some(32_768),
        tasks_in_use: Some(234),
        user_tasks: None,
        cgroup: CgroupLimits::default(),
    };
    assert_eq!(read, expected);
}

#[test]
fn what_cannot_be_read_is_missing() {
    let root = tree(&[("proc/self/limits", "Max open files\n"), ("proc/sys/fs/file-max", "x\n")]);
    assert_eq!(HostLimits::read(root.path()), HostLimits::default());
    let unlimited = "Max open files            1024                 unlimited            files\n";
    let root = tree(&[("proc/self/limits", unlimited)]);
    assert_eq!(HostLimits::read(root.path()).descriptors_per_process, Some(u64::MAX));
}

#[test]
fn the_tightest_group_counts() {
    let root = tree(&[
        ("proc/self/cgroup", "0::/pod/box\n"),
        ("sys/fs/cgroup/pod/memory.max", "1000000\n"),
        // 300,000 used, of which 200,000 are cache: 900,000 are left.
        ("sys/fs/cgroup/pod/memory.current", "300000\n"),
        ("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 200000\nactive_file 5\n"),
        // Less is left here, although the limit is higher.
        ("sys/fs/cgroup/memory.max", "2000000\n"),
        ("sys/fs/cgroup/memory.current", "1900000\n"),
        ("sys/fs/cgroup/pod/box/memory.max", "max\n"),
        ("sys/fs/cgroup/pod/box/pids.max", "100\n"),
        ("sys/fs/cgroup/pod/box/pids.current", "40\n"),
    ]);
    let expected = CgroupLimits {
        memory_bytes: Some(Allowance { left: 100_000, max: 2_000_000 }),
        tasks: Some(Allowance { left: 60, max: 100 }),
    };
    assert_eq!(CgroupLimits::read(root.path()), expected);
}

#[test]
fn version_1_and_a_path_of_the_host_are_understood() {
    let root = tree(&[
        ("proc/self/cgroup", "8:pids:/a\n4:cpu,memory:/docker/0123\n0::/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n"),
        ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 40000\n"),
        ("sys/fs/cgroup/pids/a/pids.max", "max\n"),
    ]);
    let limits = CgroupLimits::read(root.path());
    let memory = Allowance { left: 440_000, max: 500_000 };
    assert_eq!(limits, CgroupLimits { memory_bytes: Some(memory), tasks: None });
    let unlimited = tree(&[
        ("proc/self/cgroup", "4:memory:/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ]);
    assert_eq!(CgroupLimits::read(unlimited.path()), CgroupLimits::default());
}

#[test]
fn threads_of_a_user_are_limited_where_it_is_not_privileged() {
    let user = |uid: u32, capabilities: &str, map: &str| {
        let status = format!("Uid:\t{uid}\t0\t0\t0\nCapEff:\t{capabilities}\nThreads:\t2\n");
        tree(&[
            ("proc/self/limits", LIMITS),
            ("proc/self/status", &status),
            ("proc/self/uid_map", map),
            ("proc/5/status", &status),
            ("proc/6/status", "Uid:\t7\t0\t0\t0\nThreads:\t40\n"),
            ("proc/8/status", "Uid:\t77\t0\t0\t0\nThreads:\t100\n"),
        ])
    };
    let (none, all, host) = ("0", "1ffffffffff", "0 0 4294967295\n");
    let read = |root: tempfile::TempDir| HostLimits::read(root.path());
    assert_eq!(
        read(user(7, none, host)).user_tasks,
        Some(Allowance { left: 96_365 - 42, max: 96_365 })
    );
    for privileged in [user(7, "1000000", host), user(7, all, host), user(0, none, host)] {
        assert_eq!(read(privileged).user_tasks, None);
    }
    // Root of a namespace has privileges there only.
    let within = read(user(0, all, "0 1000 1\n"));
    assert_eq!(within.user_tasks.map(|tasks| tasks.used()), Some(2));
    assert!(!within.may_exceed_file_max && read(user(7, all, host)).may_exceed_file_max);
}

#[test]
fn ports_are_reused_where_every_host_is_meant_and_timestamps_are_on() {
    let delay = |reuse: &str, timestamps: &str, delay: &str| {
        let root = tree(&[
            ("proc/sys/net/ipv4/tcp_tw_reuse", reuse),
            ("proc/sys/net/ipv4/tcp_timestamps", timestamps),
            ("proc/sys/net/ipv4/tcp_tw_reuse_delay", delay),
        ]);
        HostLimits::read(root.path()).reuse_delay_ms
    };
    assert_eq!(delay("1", "1", "500"), Some(500));
    assert_eq!((delay("2", "1", "500"), delay("1", "0", "500")), (None, None));
}

#[test]
fn throttling_is_summed_over_a_group_and_those_above_it() {
    let stat = |periods: u64| format!("nr_periods 900\nnr_throttled {periods}\nthrottled_time 5\n");
    let root = tree(&[
        ("proc/self/cgroup", "3:cpuset:/a\n1:cpu,cpuacct:/a/b\n0::/pod\n"),
        ("sys/fs/cgroup/cpu/a/b/cpu.stat", &stat(3)),
        ("sys/fs/cgroup/cpu/a/cpu.stat", &stat(4)),
        ("sys/fs/cgroup/pod/cpu.stat", &stat(50)),
        // A root has usage, and no limit.
        ("sys/fs/cgroup/cpu.stat", "usage_usec 1\n"),
    ]);
    assert_eq!(throttled_periods(root.path()), Some(57));
    assert_eq!(throttled_periods(&tree(&[]).path().join("none")), None);
}

#[test]
fn this_host_is_readable() {
    let limits = HostLimits::read(Path::new("/"));
    assert!(limits.descriptors_per_process > Some(0));
    assert!(limits.memory_available_bytes <= limits.memory_total_bytes);
    assert!(limits.ports_per_source > Some(0));
}
