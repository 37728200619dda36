//! The goal of a configuration of `tune haproxy` and `tune nginx`.
//!
//! [`build`] checks the certificate, finds the installed program, and collects a [`ProxyGoal`]: connections, rate,
//! cores, backends and the places of files that exist on this host. The dialect writes the configuration from that
//! goal, and [`build`] refuses it if it needs more memory than `--memory` or this host has. The length of the private
//! key estimates the handshakes per second of one CPU. The program checks the configuration later. Start with
//! [`build`].

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use plimsoll_lab::Installed;
use plimsoll_model::units::grouped;
use plimsoll_tune::proxy::{Configuration, Dialect, Places, ProxyGoal, unwritable};

use super::Inputs;
use super::inputs::read_text;
use crate::exit::{Result, Stop};
use crate::flags::ProxyFlags;
use crate::preflight::host_limits;

/// Timeout of idle clients in the configuration.
const IDLE_S: u64 = 60;
const PASSWD: &str = "/etc/passwd";
const HOSTS: &str = "/etc/hosts";

/// A proxy to configure, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TunedProxy {
    pub(crate) installed: Installed,
    pub(crate) goal: ProxyGoal,
    /// Configuration that is written.
    pub(crate) configuration: Configuration,
}

/// Finds the program, and writes the configuration for it, which it has not yet checked.
pub(crate) fn build(
    dialect: &'static Dialect,
    flags: &ProxyFlags,
    inputs: &Inputs,
) -> Result<TunedProxy> {
    refuse_if!(!flags.cert.is_file();
        "--cert {:?} is no file", flags.cert;
        "name a PEM file with the certificate chain and its key");
    let certificate = fs::canonicalize(&flags.cert)
        .map_err(|error| Stop::CannotRun(format!("--cert {:?}: {error}", flags.cert)))?;
    if let Some(character) = unwritable(&certificate) {
        refuse!(
            "--cert {certificate:?}: a path with {character:?} cannot be written in a configuration of {}",
                dialect.kind;
            "copy the file to another place");
    }
    let installed = Installed::find(dialect, flags.program.as_deref())?;
    let goal = ProxyGoal {
        connections: flags.connections,
        rate_per_s: flags
            .rate
            .map_or_else(|| flags.connections.div_ceil(IDLE_S), |rate| rate.get().ceil() as u64),
        cores: flags.cores.unwrap_or(inputs.cpus as u32),
        handshakes_per_cpu: handshakes_per_cpu(&read_text(&certificate).unwrap_or_default()),
        certificate,
        named_backends: named(&flags.backend, &fs::read_to_string(HOSTS).unwrap_or_default()),
        http2: installed.has_http2(),
        backends: flags.backend.clone(),
        listen: flags.listen.clone(),
        places: places(dialect, installed.has_statistics()),
    };
    let configuration = dialect.configure(installed.version, &goal);
    let memory = flags.memory.or_else(|| host_limits().memory_total_bytes);
    let needed = configuration.memory.total();
    if let Some(memory) = memory.filter(|memory| needed > *memory) {
        let whose = if flags.memory.is_some() { "--memory" } else { "this host" };
        let advice = match configuration.memory.connections_fit(memory) {
            0 => "give more --memory, or a lower --rate".to_owned(),
            fits => format!("use --connections {}, or give more --memory", grouped(fits)),
        };
        refuse!("{} connections need {:.1} GB, and {whose} has {:.1} GB",
                grouped(flags.connections), needed as f64 / 1e9, memory as f64 / 1e9;
            "{}", advice);
    }
    Ok(TunedProxy { installed, goal, configuration })
}

/// Returns the full TLS handshakes per second of one CPU, by the kind of key in `pem`, which its length shows. One
/// thread of HAProxy with OpenSSL 3 made at most 3,005 with ECDSA P-256 and 1,760 with RSA-2048 on an idle server CPU
/// of 2023; longer keys follow from the time of a signature (docs/journal/2026-11-26-advice.md).
fn handshakes_per_cpu(pem: &str) -> u64 {
    let key = pem
        .split("-----BEGIN ")
        .find(|block| block.lines().next().is_some_and(|line| line.contains("PRIVATE KEY")));
    let base64 = key.map_or(0, |block| {
        block.lines().skip(1).take_while(|line| !line.starts_with("-----")).map(str::len).sum()
    });
    match base64 {
        // ECDSA and Ed25519; RSA of 2,048, 3,072 and 4,096 bits.
        0..=800 => 3_000,
        801..=2_000 => 1_800,
        2_001..=2_800 => 470,
        _ => 230,
    }
}

/// Returns the members of `backends` whose names DNS resolves: no addresses, and no names of the hosts file.
fn named(backends: &[String], hosts: &str) -> Vec<String> {
    let is_in_file = |name: &str| {
        let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.flat_map(|line| line.split_ascii_whitespace().skip(1)).any(|known| known == name)
    };
    let is_named = |backend: &&String| {
        let host = backend.rsplit_once(':').map_or(backend.as_str(), |(host, _)| host);
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        !is_address && host != "localhost" && !is_in_file(host)
    };
    backends.iter().filter(is_named).cloned().collect()
}

/// Returns the places of a proxy's files in distributions, as far as they exist.
fn places(dialect: &Dialect, has_statistics: bool) -> Places {
    let has_user = |name: &&str| {
        let users = fs::read_to_string(PASSWD).unwrap_or_default();
        users.lines().any(|line| line.split(':').next() == Some(name))
    };
    let user = Some(dialect.user).filter(has_user).map(str::to_owned);
    let state = PathBuf::from(dialect.state);
    let chroot = dialect.chroot.map(PathBuf::from).filter(|path| user.is_some() && path.is_dir());
    let statistics = has_statistics.then(|| state.join(dialect.statistics));
    // Where nginx was never installed as a service there is no directory that only it may write to.
    let log = Path::new(dialect.log);
    let log = log.parent().is_some_and(Path::is_dir).then(|| log.to_owned());
    Places { user, chroot, statistics, log, state }
}

#[cfg(test)]
mod tests {
    use plimsoll_tune::proxy::HAPROXY;

    use super::*;
    use crate::flags::{Command, TuneCommand, parse_words};

    fn built(words: &[&str]) -> Result<TunedProxy> {
        let words = [&["tune", "haproxy", "--backend", "127.0.0.1:80"], words].concat();
        let Command::Tune(TuneCommand::Haproxy(flags)) = parse_words(&words)? else {
            panic!("{words:?}")
        };
        build(&HAPROXY, &flags, &Inputs::of_host(std::io::empty()))
    }

    #[test]
    fn what_cannot_be_is_one_line() {
        let scratch = tempfile::tempdir().unwrap();
        let cert = scratch.path().join("site.pem");
        let cert = cert.to_str().unwrap();
        let missing = built(&["-c", "100", "--cert", cert]).unwrap_err();
        fs::write(cert, "").unwrap();
        let dollar = scratch.path().join("a$b.pem");
        fs::write(&dollar, "").unwrap();
        let dollar = dollar.to_str().unwrap();
        let small = ["-c", "200k", "--cert", cert, "--memory", "1GB"];
        for (stop, code, words) in [
            (missing, 2, "is no file; name a PEM file"),
            (
                built(&["-c", "100", "--cert", dollar]).unwrap_err(),
                2,
                "a path with '$' cannot be written",
            ),
            (built(&small).unwrap_err(), 2, "--memory has 1.0 GB; use --connections 30,"),
            (
                built(&["-c", "100", "--cert", cert, "--backend", "a b:1"]).unwrap_err(),
                2,
                "HOST:PORT",
            ),
            (
                built(&["-c", "100", "--cert", cert, "--program", "/nonexistent"]).unwrap_err(),
                1,
                "/nonexistent is no program",
            ),
        ] {
            let text = stop.complaint().unwrap();
            assert_eq!(stop.code(), code, "{text}");
            assert!(text.contains(words) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn handshakes_follow_the_kind_of_key() {
        let pem = |label: &str, chars: usize| {
            let body: Vec<String> = vec!["A".repeat(64); chars / 64];
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
                "B".repeat(5_000),
                body.join("\n")
            )
        };
        for (label, chars, expected) in [
            ("EC PRIVATE KEY", 192, 3_000),
            ("PRIVATE KEY", 128, 3_000),
            ("PRIVATE KEY", 1_600, 1_800),
            ("RSA PRIVATE KEY", 1_600, 1_800),
            ("PRIVATE KEY", 3_200, 230),
        ] {
            assert_eq!(handshakes_per_cpu(&pem(label, chars)), expected, "{label} {chars}");
        }
        assert_eq!(handshakes_per_cpu(""), 3_000);
    }

    #[test]
    fn names_that_dns_resolves_are_told_from_others() {
        let backends =
            ["192.0.2.1:80", "[2001:db8::1]:80", "localhost:80", "web1:80", "app.example:80"];
        let backends = backends.map(str::to_owned);
        assert_eq!(
            named(&backends, "127.0.0.1 x\n10.0.0.1 a web1 # app.example\n"),
            ["app.example:80"]
        );
    }

    #[test]
    fn no_advice_to_use_no_connections() {
        let scratch = tempfile::tempdir().unwrap();
        let cert = scratch.path().join("site.pem");
        fs::write(&cert, "").unwrap();
        let small =
            ["-c", "50k", "--rate", "20k", "--memory", "16MiB", "--cert", cert.to_str().unwrap()];
        let complaint = built(&small).unwrap_err();
        let complaint = complaint.complaint().unwrap();
        assert!(complaint.ends_with("give more --memory, or a lower --rate"), "{complaint}");
    }

    #[test]
    fn idle_clients_make_new_connections() {
        let scratch = tempfile::tempdir().unwrap();
        let cert = scratch.path().join("site.pem");
        fs::write(&cert, "").unwrap();
        let goal = built(&["-c", "6k", "--cert", cert.to_str().unwrap()]).unwrap().goal;
        assert_eq!((goal.connections, goal.rate_per_s), (6_000, 100));
    }
}
