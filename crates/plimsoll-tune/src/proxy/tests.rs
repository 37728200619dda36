//! The configurations as a whole, and what of them follows the version and the goal.

use insta::assert_snapshot;

use super::*;

fn goal() -> ProxyGoal {
    ProxyGoal {
        connections: 200_000,
        rate_per_s: 2_000,
        cores: 4,
        certificate: "/etc/ssl/site.pem".into(),
        handshakes_per_cpu: 1_100,
        backends: vec!["192.0.2.11:8080".to_owned(), "192.0.2.12:8080".to_owned()],
        named_backends: Vec::new(),
        http2: true,
        listen: "*:443".to_owned(),
        places: Places {
            user: Some("proxy".to_owned()),
            chroot: Some("/var/lib/haproxy".into()),
            statistics: Some("/run/haproxy/admin.sock".into()),
            log: Some("/dev/log".into()),
            state: "/run".into(),
        },
    }
}

#[test]
fn the_whole_haproxy_configuration() {
    assert_snapshot!(HAPROXY.configure((2, 6), &goal()).text);
}

#[test]
fn the_whole_nginx_configuration() {
    let mut goal = goal();
    goal.places.log = Some("/var/log/nginx/access.log".into());
    assert_snapshot!(NGINX.configure((1, 22), &goal).text);
}

#[test]
fn clients_and_protocols_are_passed_on_by_both() {
    for (program, version, words) in [
        (
            &HAPROXY,
            (2, 6),
            &[
                "del-header X-Forwarded-For\n    option forwardfor",
                "alpn h2,http/1.1",
                "cachesize 600000",
            ][..],
        ),
        (
            &NGINX,
            (1, 22),
            &[
                "X-Forwarded-For $remote_addr;",
                " ssl http2 ",
                "$connection_upgrade;",
                "shared:tls:150m",
            ],
        ),
        (&NGINX, (1, 26), &["        http2 on;"]),
        (&NGINX, (1, 18), &["http2_max_requests 100000;"]),
    ] {
        let text = program.configure(version, &goal()).text;
        for word in words {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
    let without = NGINX.configure((1, 22), &ProxyGoal { http2: false, ..goal() }).text;
    assert!(!without.contains("http2"), "{without}");
}

#[test]
fn a_rate_that_the_cpus_cannot_make_is_named() {
    // 4 CPUs with RSA-2048.
    assert_eq!(ProxyGoal { rate_per_s: 4_400, ..goal() }.too_fast(), None);
    let fast = ProxyGoal { rate_per_s: 20_000, ..goal() };
    let warning = fast.too_fast().expect("too fast");
    assert!(
        warning.contains("about 1,100 full TLS handshakes per second, so that 19 CPUs"),
        "{warning}"
    );
    for program in [&HAPROXY, &NGINX] {
        let text = program.configure((2, 6), &fast).text.replace("\n# ", " ");
        assert!(text.contains(&warning), "{text}");
    }
}

#[test]
fn names_are_resolved_while_haproxy_runs() {
    let name = "app.example:8080".to_owned();
    let goal = ProxyGoal {
        backends: vec!["192.0.2.11:8080".to_owned(), name.clone()],
        named_backends: vec![name],
        ..goal()
    };
    let text = HAPROXY.configure((2, 6), &goal).text;
    assert!(text.contains("resolvers system\n    parse-resolv-conf\n"), "{text}");
    assert!(text.contains("    server s1 192.0.2.11:8080\n"), "{text}");
    let named = "    server s2 app.example:8080 resolvers system init-addr last,libc,none\n";
    assert!(text.contains(named), "{text}");
}

#[test]
fn words_follow_the_version() {
    let many = ProxyGoal { connections: 1_000_000, cores: 32, ..goal() };
    let has = |version, word: &str| {
        HAPROXY.configure(version, &many).text.lines().any(|line| line.contains(word))
    };
    for (word, since) in
        [("fd-hard-limit 2", (2, 6)), ("shards by-thread", (2, 5)), ("timeout client-hs", (2, 9))]
    {
        assert!(!has((since.0, since.1 - 1), word) && has(since, word), "{word}");
    }
}

/// Words that begin a section.
const SECTIONS: [&str; 9] = [
    "global",
    "defaults",
    "resolvers",
    "frontend",
    "backend",
    "events",
    "http",
    "upstream",
    "location",
];

/// Returns the name of the directive in a line of a configuration, if it has one.
fn directive(line: &str) -> Option<String> {
    let mut words = line.trim().trim_end_matches([';', '{']).split_whitespace();
    let first = words.next().filter(|word| !word.starts_with(['#', '}']))?;
    if SECTIONS.contains(&first) {
        return None;
    }
    let is_group = ["option", "timeout", "stats", "http-request"].contains(&first);
    let is_header = first == "proxy_set_header";
    let second = words.next().filter(|_| is_group || is_header);
    Some(second.map_or_else(|| first.to_owned(), |second| format!("{first} {second}")))
}

#[test]
fn each_directive_is_compared_with_its_guide_in_the_book() {
    let page = include_str!("../../../../docs/reference/proxy-configurations.md");
    let names = ProxyGoal {
        connections: 1_000_000,
        named_backends: vec!["192.0.2.11:8080".to_owned()],
        ..goal()
    };
    for (program, version) in
        [(&HAPROXY, (2, 4)), (&HAPROXY, (3, 2)), (&NGINX, (1, 18)), (&NGINX, (1, 28))]
    {
        for line in program.configure(version, &names).text.lines() {
            let Some(directive) = directive(line) else { continue };
            assert!(page.contains(&format!("| `{directive}")), "{directive} is not compared");
        }
    }
}

#[test]
fn versions_are_read_from_what_programs_call_themselves() {
    for (text, version) in [
        ("2.6.12-1+deb12u4", Some((2, 6))),
        ("3.0-dev1", Some((3, 0))),
        ("1.22.1", Some((1, 22))),
        ("2", None),
        ("unknown", None),
        ("", None),
    ] {
        assert_eq!(super::version(text), version, "{text:?}");
    }
}

#[test]
fn memory_grows_with_what_is_held_and_says_what_fits() {
    let memory = HAPROXY.configure((2, 6), &goal()).memory;
    // 200,000 idle TLS clients at 16.5 kB and 4.1 kB.
    assert_eq!((memory.held, memory.sockets), (3_300_000_000, 820_000_000));
    assert!(memory.busy > 0 && memory.handshakes > 0 && memory.fixed > 0);
    assert_eq!(memory.connections_fit(memory.total()), 200_000);
    assert_eq!(memory.connections_fit(0), 0);
    // Nonsense saturates, and is no crash.
    let all = ProxyGoal { connections: u64::MAX, rate_per_s: u64::MAX, ..goal() };
    assert_eq!(NGINX.configure((1, 22), &all).memory.total(), u64::MAX);
    let none = ProxyGoal { connections: 0, rate_per_s: 0, cores: 0, ..goal() };
    assert!(HAPROXY.configure((2, 6), &none).text.contains("nbthread 1\n"));
}
