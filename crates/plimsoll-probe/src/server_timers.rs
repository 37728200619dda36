//! The timers of a running HAProxy, nginx or mosquitto, read from the configuration that its command line names.
//!
//! Neither reports its timeouts while it runs. A file that cannot be read leaves its timers unknown.

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_sys::input_file;

use crate::nginx_configuration::FILE_BYTES_MAX;
use crate::{file, mosquitto_configuration, nginx_configuration};

/// Timeouts of HAProxy that a client can meet. Where several have one value, the first is named.
const HAPROXY: [(&str, Awaits); 7] = [
    ("http-keep-alive", Awaits::NextRequest),
    ("http-request", Awaits::Request),
    ("client", Awaits::Request),
    ("tunnel", Awaits::NextRequest),
    ("server", Awaits::Answer),
    ("queue", Awaits::Answer),
    ("connect", Awaits::Answer),
];

/// Timeouts of nginx that a client can meet, and their defaults in seconds.
const NGINX: [(&str, Awaits, u64); 6] = [
    ("keepalive_timeout", Awaits::NextRequest, 75),
    ("client_header_timeout", Awaits::Request, 60),
    ("client_body_timeout", Awaits::Request, 60),
    ("proxy_timeout", Awaits::NextRequest, 600),
    ("proxy_read_timeout", Awaits::Answer, 60),
    ("proxy_connect_timeout", Awaits::Answer, 60),
];

/// Files of one HAProxy that are read.
const FILES_MAX: usize = 64;

/// Reports whether process `pid` below `root` (`/`) is a HAProxy.
pub(crate) fn is_haproxy(root: &Path, pid: u32) -> bool {
    names_haproxy(&file::command_line(root, pid))
}

fn names_haproxy(command_line: &str) -> bool {
    let program =
        command_line.split('\0').next().and_then(|program| Path::new(program).file_name());
    program.is_some_and(|name| name == "haproxy")
}

/// Returns the timers of process `pid` below `root` (`/`); none of other programs.
pub fn read(root: &Path, pid: u32) -> Vec<KnownTimer> {
    let own = file::command_line(root, pid);
    if own.starts_with("nginx: worker process") {
        return of_nginx(&nginx_configuration::of_worker(root, pid).unwrap_or_default());
    }
    if own.starts_with("nginx: master process") {
        return of_nginx(&nginx_configuration::texts(root, &own));
    }
    if let Some(broker) = mosquitto_configuration::read(root, pid) {
        return broker.max_keepalive_s.map(of_mosquitto).into_iter().collect();
    }
    if !names_haproxy(&own) {
        return Vec::new();
    }
    let words: Vec<&str> = own.split('\0').filter(|word| !word.is_empty()).collect();
    let folder = file::working_directory(root, pid);
    of_haproxy(&haproxy_files(root, &words, &folder).join("\n"))
}

/// Returns the texts of the files after each `-f`; a folder means its files that end in `.cfg`.
fn haproxy_files(root: &Path, words: &[&str], folder: &Path) -> Vec<String> {
    let named = words.windows(2).filter(|pair| pair[0] == "-f").map(|pair| folder.join(pair[1]));
    let files = named.flat_map(|path| {
        let path = file::below(root, &path);
        file::listed(&path, "cfg").unwrap_or_else(|_| vec![path])
    });
    files
        .take(FILES_MAX)
        .filter_map(|file| input_file::read_text(&file, FILE_BYTES_MAX).ok())
        .collect()
}

/// `timeout client 30s` in any section.
fn of_haproxy(text: &str) -> Vec<KnownTimer> {
    let rows = || text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = || rows().map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
    let has_tcp = words().any(|words| words.starts_with(&["mode", "tcp"]));
    let mut timers = Vec::new();
    for (name, awaits) in HAPROXY {
        let values = words().filter_map(|words| match words[..] {
            ["timeout", phase, value, ..] if phase == name => span(value, 1),
            _ => None,
        });
        let values: BTreeSet<Nanos> = values.filter(|at| *at > Nanos::ZERO).collect();
        for at in values {
            let timer = |awaits| KnownTimer {
                name: format!("HAProxy timeout {name}"),
                at,
                owner: Owner::Sut,
                awaits,
            };
            timers.push(timer(awaits));
            // In mode tcp an answer and rest are not distinguished: the server's side ends an idle connection, too.
            if has_tcp && name == "server" {
                timers.push(timer(Awaits::NextRequest));
            }
        }
    }
    timers
}

fn of_nginx(texts: &[String]) -> Vec<KnownTimer> {
    if texts.is_empty() {
        return Vec::new();
    }
    let mut timers = Vec::new();
    for (name, awaits, default_s) in NGINX {
        let mut values: BTreeSet<Nanos> = nginx_configuration::values(texts, name)
            // keepalive_timeout may be followed by the value of a header.
            .filter_map(|value| span(value.split_ascii_whitespace().next()?, 1_000))
            .filter(|at| *at > Nanos::ZERO)
            .collect();
        if values.is_empty() {
            values.insert(Nanos::from_secs(default_s));
        }
        let timer =
            |at| KnownTimer { name: format!("nginx {name}"), at, owner: Owner::Sut, awaits };
        timers.extend(values.into_iter().map(timer));
    }
    timers
}

/// A broker waits for one and a half times the keep-alive (MQTT 5.0, 3.1.2.10).
fn of_mosquitto(max_keepalive_s: u64) -> KnownTimer {
    KnownTimer {
        name: "mosquitto max_keepalive, one and a half times".to_owned(),
        at: Nanos::from_millis(max_keepalive_s.saturating_mul(1_500)),
        owner: Owner::Sut,
        awaits: Awaits::NextRequest,
    }
}

/// `30s`, `500ms`, `1m30s`, or a number of units of `bare_ms`.
fn span(text: &str, bare_ms: u64) -> Option<Nanos> {
    let mut rest = text;
    let mut micros = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit_us = match &rest[..letters] {
            "" => bare_ms * 1_000,
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        };
        rest = &rest[letters..];
        micros = micros.checked_add(number.checked_mul(unit_us)?)?;
    }
    micros.checked_mul(1_000).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tree;

    fn named(timers: &[KnownTimer]) -> Vec<(String, Nanos)> {
        timers.iter().map(|timer| (timer.name.clone(), timer.at)).collect()
    }

    fn timer(name: &str, ms: u64) -> (String, Nanos) {
        (name.to_owned(), Nanos::from_millis(ms))
    }

    #[test]
    fn haproxys_files_are_those_of_its_command_line() {
        let defaults = "defaults\n  timeout client 1m # 9s\n  timeout http-keep-alive 1500\n";
        let root = tree(&[
            ("proc/7/cmdline", "/usr/sbin/haproxy\0-W\0-f\0/etc/h/a.cfg\0-f\0/etc/h/more"),
            ("etc/h/a.cfg", defaults),
            ("etc/h/more/b.cfg", "frontend x\n  timeout client 500ms\n  timeout check 3s\n"),
            ("etc/h/more/b.txt", "timeout client 7s"),
            ("proc/8/cmdline", "/usr/bin/vim\0-f\0/etc/h/a.cfg"),
        ]);
        let expected = [
            timer("HAProxy timeout http-keep-alive", 1_500),
            timer("HAProxy timeout client", 500),
            timer("HAProxy timeout client", 60_000),
        ];
        assert_eq!(named(&read(root.path(), 7)), expected);
        assert_eq!(read(root.path(), 8), []);
        assert_eq!(read(root.path(), 9), []);
        assert_eq!([7, 8, 9].map(|pid| is_haproxy(root.path(), pid)), [true, false, false]);
    }

    #[test]
    fn in_mode_tcp_the_servers_side_ends_an_idle_connection() {
        let awaits =
            |text: &str| of_haproxy(text).iter().any(|timer| timer.awaits == Awaits::NextRequest);
        assert!(awaits("listen x\n mode tcp\n timeout server 3s\n"));
        assert!(!awaits("listen x\n mode http\n timeout server 3s\n"));
    }

    #[test]
    fn nginx_has_defaults_and_includes() {
        let root = tree(&[
            ("proc/8/cmdline", "nginx: worker process"),
            ("proc/8/status", "Name:\tnginx\nPPid:\t7\n"),
            ("proc/7/cmdline", "nginx: master process nginx -c /etc/n/main.conf\0"),
            ("etc/n/main.conf", "http {\n # keepalive_timeout 9;\n include conf.d/*.conf;\n}\n"),
            ("etc/n/conf.d/a.conf", "server { keepalive_timeout 2s 20; }\n"),
        ]);
        let timers = read(root.path(), 8);
        assert_eq!(timers, read(root.path(), 7));
        assert_eq!(named(&timers)[0], timer("nginx keepalive_timeout", 2_000));
        assert!(named(&timers).contains(&timer("nginx client_header_timeout", 60_000)));
        // A configuration that cannot be read has no defaults.
        assert_eq!(of_nginx(&[]), []);
    }

    #[test]
    fn a_broker_waits_for_longer_than_the_keep_alive() {
        let root = tree(&[
            ("proc/7/cmdline", "mosquitto\0-c\0/m.conf\0"),
            ("m.conf", "max_keepalive 60\n"),
            ("proc/8/cmdline", "mosquitto\0-c\0/none.conf\0"),
        ]);
        let expected = [timer("mosquitto max_keepalive, one and a half times", 90_000)];
        assert_eq!(named(&read(root.path(), 7)), expected);
        assert_eq!(read(root.path(), 8), []);
    }

    #[test]
    fn spans_have_units() {
        for (text, bare_ms, ms) in [
            ("1500", 1, Some(1_500)),
            ("75", 1_000, Some(75_000)),
            ("1m30s", 1, Some(90_000)),
            ("250ms", 1_000, Some(250)),
            ("2d", 1, Some(172_800_000)),
            ("1w", 1, None),
            ("s", 1, None),
            ("999999999999999999d", 1, None),
        ] {
            assert_eq!(span(text, bare_ms), ms.map(Nanos::from_millis), "{text}");
        }
    }
}
