//! The tables of some hosts, and whether what they say is true.

use plimsoll_probe::limits::{Allowance, CgroupLimits, HostLimits};

use super::*;

/// 2 cores, 24 GB, 20,000 descriptors a process.
fn this_host() -> HostLimits {
    HostLimits {
        descriptors_per_process: Some(20_000),
        nr_open: Some(1_048_576),
        file_max: Some(2_466_177),
        files_in_use: Some(831),
        may_exceed_file_max: true,
        epoll_watches_max: Some(5_491_511),
        ports_per_source: Some(28_232),
        port_range: Some((32_768, 60_999)),
        tcp_memory_max_bytes: Some(575_802 * 4096),
        orphans_max: Some(131_072),
        time_wait_max: Some(131_072),
        accept_queue_max: Some(4096),
        connection_buckets: Some(262_144),
        conntrack_max: Some(262_144),
        conntrack_in_use: Some(0),
        conntrack_time_wait_s: Some(120),
        reuse_delay_ms: None,
        memory_total_bytes: Some(24_684_092 * 1024),
        memory_available_bytes: Some(23_805_892 * 1024),
        tasks_max: Some(32_768),
        tasks_in_use: Some(234),
        user_tasks: None,
        cgroup: CgroupLimits::default(),
    }
}

/// Returns a rented virtual machine as delivered: 4 GiB, no privilege.
fn small_vm() -> HostLimits {
    HostLimits {
        descriptors_per_process: Some(4096),
        file_max: Some(398_000),
        files_in_use: Some(1500),
        may_exceed_file_max: false,
        epoll_watches_max: Some(930_000),
        tcp_memory_max_bytes: Some(94_000 * 4096),
        orphans_max: Some(16_384),
        time_wait_max: Some(16_384),
        connection_buckets: Some(32_768),
        conntrack_max: Some(131_072),
        conntrack_in_use: Some(412),
        memory_total_bytes: Some(4 << 30),
        memory_available_bytes: Some(3_400_000_000),
        ..this_host()
    }
}

/// Returns a container on a large host.
fn container() -> HostLimits {
    HostLimits {
        descriptors_per_process: Some(1_048_576),
        nr_open: Some(1_073_741_816),
        file_max: Some(u64::MAX >> 1),
        may_exceed_file_max: false,
        epoll_watches_max: Some(57_000_000),
        memory_total_bytes: Some(256 << 30),
        memory_available_bytes: Some(200 << 30),
        conntrack_max: None,
        conntrack_in_use: None,
        tasks_max: Some(4_194_304),
        cgroup: CgroupLimits {
            memory_bytes: Some(Allowance { left: 1_900_000_000, max: 2 << 30 }),
            tasks: Some(Allowance { left: 90, max: 200 }),
        },
        ..this_host()
    }
}

/// Returns a server tuned for many connections.
fn prepared() -> HostLimits {
    HostLimits {
        descriptors_per_process: Some(1_048_576),
        file_max: Some(20_000_000),
        epoll_watches_max: Some(30_000_000),
        ports_per_source: Some(64_512),
        port_range: Some((1024, 65_535)),
        memory_total_bytes: Some(128 << 30),
        memory_available_bytes: Some(120 << 30),
        connection_buckets: Some(8_388_608),
        conntrack_max: None,
        conntrack_in_use: None,
        ..this_host()
    }
}

fn hop(name: &str, sources: Option<u64>, destinations: u64) -> Hop {
    Hop { name: name.to_owned(), sources, destinations, by_kernel: name == "proxy" }
}

/// Clients alone, to a server elsewhere.
fn clients_only(connections: u64) -> Shape {
    Shape {
        connections,
        parts: vec![Part::clients(450)],
        hops: vec![hop("clients", Some(1), 1)],
        opening_max: 500,
        opened_per_s: 0,
        closes_by_reset: true,
        memory_is_watched: false,
    }
}

/// Both ends here.
fn both_ends(connections: u64) -> Shape {
    Shape {
        parts: vec![Part::clients(450), Part::servers(600)],
        hops: vec![hop("clients", None, 1)],
        ..clients_only(connections)
    }
}

/// Returns a proxy between other hosts.
fn proxy_only(connections: u64) -> Shape {
    Shape {
        parts: vec![Part::proxy(36_000, Processes::Exactly(4))],
        hops: vec![hop("proxy", Some(1), 10)],
        ..clients_only(connections)
    }
}

/// Clients, four processes of a proxy, backends on ten ports.
fn through_proxy(connections: u64) -> Shape {
    Shape {
        parts: vec![
            Part::clients(450),
            Part::proxy(36_000, Processes::Exactly(4)),
            Part { name: "backends".to_owned(), ..Part::servers(300) },
        ],
        hops: vec![hop("clients", None, 1), hop("proxy", Some(1), 10)],
        closes_by_reset: false,
        ..clients_only(connections)
    }
}

#[test]
fn this_host_and_a_million_connections_with_both_ends() {
    insta::assert_snapshot!(Needs::of(&both_ends(1_000_000), &this_host()).render());
}

#[test]
fn this_host_and_two_million_through_a_proxy() {
    insta::assert_snapshot!(Needs::of(&through_proxy(2_000_000), &this_host()).render());
}

#[test]
fn a_small_vm_and_a_million_connections_to_elsewhere() {
    insta::assert_snapshot!(Needs::of(&clients_only(1_000_000), &small_vm()).render());
}

#[test]
fn a_container_and_a_million_connections_with_both_ends() {
    insta::assert_snapshot!(Needs::of(&both_ends(1_000_000), &container()).render());
}

#[test]
fn a_prepared_host_and_two_million_connections_with_both_ends() {
    insta::assert_snapshot!(Needs::of(&both_ends(2_000_000), &prepared()).render());
}

#[test]
fn unknown_limits_are_not_called_low() {
    let needs = Needs::of(&both_ends(1_000_000), &HostLimits::default());
    assert!(needs.are_met());
    insta::assert_snapshot!(needs.render());
}

#[test]
fn the_host_holds_what_it_can_hold_and_not_one_more() {
    for limits in [this_host(), small_vm(), container(), prepared()] {
        for shape in [clients_only, both_ends, through_proxy] {
            let fits = Needs::of(&shape(1), &limits).fits();
            let at_most = Needs::of(&shape(fits), &limits);
            assert!(at_most.are_met(), "{}", at_most.render());
            assert_eq!(at_most.fits(), fits);
            assert!(!Needs::of(&shape(fits + 1), &limits).are_met());
        }
    }
}

#[test]
fn a_fix_raises_the_limit_that_it_names() {
    let asked = clients_only(1_000_000);
    let short = |limits: &HostLimits| -> Vec<String> {
        Needs::of(&asked, limits).short().map(|line| line.limit.clone()).collect()
    };
    let mut limits = small_vm();
    limits.conntrack_in_use = Some(0);
    assert!(short(&limits).contains(&"source ports (clients)".to_owned()));
    // 16 addresses with the wide range, as the line says.
    limits.ports_per_source = Some(64_512);
    let wide = Shape { hops: vec![hop("clients", Some(16), 1)], ..asked.clone() };
    let needs = Needs::of(&wide, &limits);
    assert!(!needs.short().any(|line| line.limit.starts_with("source ports")));
    // CAP_SYS_ADMIN may exceed fs.file-max; a proxy that has dropped it may not.
    let file_max = |shape: &Shape, limits: &HostLimits| {
        let lines = Needs::of(shape, limits).lines;
        lines.into_iter().find(|line| line.limit == "fs.file-max").unwrap().verdict
    };
    assert_eq!(file_max(&both_ends(2_000_000), &this_host()), Verdict::Warn);
    assert_eq!(file_max(&through_proxy(2_000_000), &this_host()), Verdict::Short);
}

#[test]
fn closed_connections_need_ports_and_tracking_for_a_while() {
    let limits = HostLimits { conntrack_in_use: Some(5), ..this_host() };
    let churn = Shape { opened_per_s: 1_000, closes_by_reset: false, ..clients_only(10_000) };
    let need = |shape: &Shape, limit: &str| {
        let lines = Needs::of(shape, &limits).lines;
        lines.into_iter().find(|line| line.limit == limit).unwrap().need
    };
    assert_eq!(need(&churn, "source ports (clients)"), 10_000 + 60 * 1_000);
    assert_eq!(need(&churn, "nf_conntrack_max"), 5 + 10_000 + 120 * 1_000);
    let text = Needs::of(&churn, &limits).render();
    assert!(text.starts_with(
        "This host cannot hold 10,000 connections with 1,000 new ones per second; it can hold 0 "
    ));
    // A proxy has a connection at each side, also where clients and backends are on this host.
    for shape in [&proxy_only(10_000), &through_proxy(10_000)] {
        assert_eq!(need(shape, "nf_conntrack_max"), 5 + 2 * 10_000);
    }
    // A reset leaves nothing behind.
    let reset = Shape { closes_by_reset: true, ..churn };
    assert_eq!(need(&reset, "source ports (clients)"), 10_000);
}

#[test]
fn a_fix_names_the_file_that_keeps_it() {
    let needs = Needs::of(&clients_only(1_000_000), &small_vm());
    let worst = needs.worst_first();
    assert_eq!(worst[0].limit, "source ports (clients)");
    let (file, line) = worst[0].fix.as_ref().unwrap().settings[0].kept();
    assert_eq!(file, SYSCTL_FILE);
    assert_eq!(line, "net.ipv4.ip_local_port_range = 1024 65535");
    let fits: Vec<u64> =
        worst.iter().take_while(|n| n.verdict == Verdict::Short).map(|n| n.fits).collect();
    assert!(fits.len() > 3 && fits.is_sorted(), "{fits:?}");
}

#[test]
fn json_says_what_stops_and_what_slows() {
    let json = Needs::of(&clients_only(1_000_000), &small_vm()).json();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["ok"]), (&"plimsoll.doctor/1".into(), &false.into()));
    assert_eq!(json["fits"], 28_232);
    let schema = include_str!("../../../plimsoll-report/schemas/doctor.json");
    let faults = testkit::schema::faults(&serde_json::from_str(schema).unwrap(), &json);
    assert!(faults.is_empty(), "{faults:#?}");
    let worst = &json["limits"][0];
    assert_eq!(
        (&worst["name"], &worst["effect"]),
        (&"source ports (clients)".into(), &"stops".into())
    );
    assert_eq!((&worst["present"], &worst["ok"]), (&28_232.into(), &false.into()));
    assert_eq!(worst["persist"][0]["file"], "/etc/sysctl.d/60-plimsoll.conf");
    let limits = json["limits"].as_array().unwrap();
    let buckets =
        limits.iter().find(|limit| limit["name"] == "net.ipv4.tcp_ehash_entries").unwrap();
    assert_eq!((&buckets["effect"], &buckets["fits"]), (&"slows".into(), &serde_json::Value::Null));
}

#[test]
fn memory_that_is_watched_is_no_reason_to_refuse() {
    let verdict = |shape: &Shape, limit: &str| {
        let lines = Needs::of(shape, &container()).lines;
        lines.into_iter().find(|line| line.limit == limit).unwrap().verdict
    };
    let known = both_ends(100_000_000);
    let watched = Shape { memory_is_watched: true, ..known.clone() };
    for limit in ["memory of the host", "memory of the control group"] {
        assert_eq!(verdict(&known, limit), Verdict::Short, "{limit}");
        assert_eq!(verdict(&watched, limit), Verdict::Warn, "{limit}");
    }
    assert!(Needs::of(&watched, &container()).fits() > Needs::of(&known, &container()).fits());
}

#[test]
fn a_part_that_runs_already_needs_only_its_connections() {
    let servers = Part { processes: Processes::Running, ..Part::servers(600) };
    let shape = Shape { parts: vec![Part::clients(450), servers], ..both_ends(1_000) };
    let few = HostLimits { descriptors_per_process: Some(1_100), ..this_host() };
    let needs = Needs::of(&shape, &few);
    assert_eq!(needs.processes.len(), 1);
    let need = |limit: &str| needs.lines.iter().find(|line| line.limit == limit).unwrap().need;
    assert_eq!(need("fs.epoll.max_user_watches"), 2_000);
    assert_eq!(need("memory of the host"), 9_000_000 + 1_000 * (450 + 600 + 2 * 4_100));
    assert_eq!(need("threads (kernel.pid_max)"), 6 + 3 + 4);
}

#[test]
fn the_number_of_processes_is_bounded() {
    let of = |connections, descriptors| {
        let limits = HostLimits { descriptors_per_process: Some(descriptors), ..this_host() };
        Needs::of(&Shape { hops: Vec::new(), ..clients_only(connections) }, &limits)
    };
    let most = 1_024 * (3_200 - 64);
    assert!(of(most, 3_200).are_met());
    assert_eq!(of(most + 1, 3_200).fits(), most);
    // One process starts all the others, and has three pipes to each.
    let needs = of(1_000, 80);
    let short: Vec<_> = needs.short().map(|line| line.limit.as_str()).collect();
    assert_eq!((short, needs.fits()), (vec!["open files of a process (coordinator)"], 20 * 16));
}

#[test]
fn threads_are_limited_by_the_host_the_group_and_the_user() {
    let left = |left| Some(Allowance { left, max: 1_000 });
    let limits = HostLimits {
        descriptors_per_process: Some(164),
        tasks_in_use: Some(32_000),
        user_tasks: left(400),
        cgroup: CgroupLimits { tasks: left(90), ..CgroupLimits::default() },
        ..this_host()
    };
    // 100 processes with 6 threads, and 3 for each in the one that starts them.
    let needs = Needs::of(&clients_only(10_000), &limits);
    let short: Vec<_> = needs
        .worst_first()
        .into_iter()
        .filter(|line| line.limit.starts_with("threads"))
        .map(|line| (line.limit.as_str(), line.have, line.fits, line.need))
        .collect();
    let names = ["threads (pids.max)", "threads (ulimit -u)", "threads (kernel.pid_max)"];
    let have = [(90, 900), (400, 4_400), (768, 8_400)];
    let expected: Vec<_> = names.iter().zip(have).collect();
    let expected: Vec<_> =
        expected.into_iter().map(|(name, (have, fits))| (*name, Some(have), fits, 904)).collect();
    assert_eq!(short, expected);
    let kept: Vec<_> = needs
        .short()
        .filter(|line| line.limit.starts_with("threads"))
        .flat_map(|line| &line.fix.as_ref().unwrap().settings)
        .map(|setting| setting.kept().1)
        .collect();
    assert_eq!(
        kept,
        [
            "kernel.pid_max = 32904",
            "kernel.threads-max = 32904",
            "[Service] TasksMax=1814",
            "[Service] LimitNPROC=1504"
        ]
    );
}

#[test]
fn ports_that_rest_for_a_second_are_enough_for_more() {
    let churn =
        |opened_per_s| Shape { opened_per_s, closes_by_reset: false, ..clients_only(10_000) };
    let ports = |shape: &Shape, limits: &HostLimits| {
        let lines = Needs::of(shape, limits).lines;
        lines.into_iter().find(|line| line.limit == "source ports (clients)").unwrap()
    };
    let now = |need: &Need| need.fix.as_ref().unwrap().now.clone();
    let reuses = HostLimits { reuse_delay_ms: Some(1_000), ..this_host() };
    assert_eq!(ports(&churn(1_000), &this_host()).need, 70_000);
    assert_eq!(ports(&churn(1_000), &reuses).need, 11_000);
    assert_eq!(ports(&churn(1_000), &reuses).verdict, Verdict::Ok);
    let (range, reuse) =
        ("sysctl -w net.ipv4.ip_local_port_range=", "sysctl -w net.ipv4.tcp_tw_reuse=1");
    assert!(now(&ports(&churn(500), &this_host())).starts_with(range));
    assert_eq!(now(&ports(&churn(1_000), &this_host())), reuse);
    let both = now(&ports(&churn(20_000), &this_host()));
    assert!(both.starts_with(&format!("{reuse}; {range}")) && !both.contains(" and "), "{both}");
    let all = now(&ports(&churn(100_000), &this_host()));
    assert!(all.starts_with(&format!("{reuse}; {range}")), "{all}");
    assert!(all.ends_with(" and 2 source addresses (--source), or more server ports"), "{all}");
    assert!(!now(&ports(&churn(100_000), &reuses)).contains("tw_reuse"));
}

#[test]
fn a_limit_is_a_sentence() {
    let few = HostLimits { descriptors_per_process: Some(164), ..this_host() };
    let clients = Part { processes: Processes::Exactly(2), ..Part::clients(450) };
    let shape = Shape { parts: vec![clients], ..clients_only(1_000) };
    let short: Vec<_> = Needs::of(&shape, &few).short().map(ToString::to_string).collect();
    assert_eq!(
        short,
        ["open files of a process (clients): needs 564, has 164; ulimit -Hn 564 as root, \
          LimitNOFILE=564 in systemd, or 10 processes"]
    );
}
