//! Caddy, 2.6 and later: the configuration of a TLS-terminating proxy, and how to check and start an installed one.
//!
//! Caddy needs no privileges and writes only below the plan's scratch directory. It asks no authority for certificates,
//! and its administration interface is off, or a socket there if it is to reload. It reports no counters without that
//! interface, so a cause is named by the CPU of its process.

use std::path::Path;

use plimsoll_fleet::message::{Readiness, SupervisedProgram};
use plimsoll_model::cliff::Awaits;
use plimsoll_model::units::grouped;
use plimsoll_tune::proxy;
use serde_json::{Value, json};

use super::{Description, Prepared, Proxy, check_descriptors, write};
use crate::controls::Reload;
use crate::error::Result;
use crate::plan::LabPlan;
use crate::program;
use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;

/// Files that Caddy has open besides connections, an upper bound.
const OWN_DESCRIPTORS: u64 = 128;

/// The file of its configuration, in the scratch directory.
const CONFIG: &str = "caddy.json";

pub(super) static DESCRIPTION: Description =
    Description { proxy: Some(&Caddy), reload: Some(reload), ..Description::PROXY };

/// Caddy.
struct Caddy;

impl Proxy for Caddy {
    fn package(&self) -> &'static str {
        "caddy"
    }

    /// Returns the version. Debian's Caddy prints `2.6.2`, upstream builds print `v2.6.2 h1:...`.
    fn version(&self, program: &Path) -> Result<String, CheckError> {
        let word = program::version(program, "version", "")?;
        let version = word.strip_prefix('v').unwrap_or(&word);
        match proxy::version(version) {
            Some(_) => Ok(version.to_owned()),
            None => Err(CheckError::NoVersion { program: program.to_owned(), output: word }),
        }
    }

    fn has_statistics(&self, _program: &Path) -> bool {
        false
    }

    /// Returns the words of `caddy validate`, which loads the certificate, too.
    fn check_argv(&self, program: &Path, config: &Path) -> Vec<String> {
        argv(program, "validate", config, &[])
    }

    fn alert(&self, stderr: &[u8]) -> String {
        program::alert(stderr, "Error: ")
    }

    /// Prepares one process with the number of running threads in the plan.
    fn prepare(&self, program: &Path, _lab: &LabPlan, plan: ProxyPlan) -> Result<Prepared> {
        let version = self.version(program)?;
        check_descriptors("caddy", descriptors_needed(&plan))?;
        let config = plan.scratch.join(CONFIG);
        write(&config, &render(&plan))?;
        self.check(program, &config)?;
        let name = format!("caddy {version}");
        let threads = format!("GOMAXPROCS={}", plan.threads.max(1));
        let child = SupervisedProgram {
            name: name.clone(),
            argv: argv(program, "run", &config, &[&threads]),
            cpus: plan.cpus.clone(),
            ready: Readiness::Accepts(plan.listen),
        };
        let off = if plan.settings.reloads { "" } else { ", its administration interface" };
        let notes = vec![format!(
            "Caddy keeps up to {} idle connections to each backend; automatic HTTPS{off} and its access log are off",
            grouped(plan.connections_max.max(1))
        )];
        let timers = plan.timers("Caddy", TIMERS);
        Ok(Prepared {
            name,
            children: vec![child],
            notes,
            timers,
            statistics: None,
            sockets: Vec::new(),
        })
    }
}

/// Returns the command that reloads Caddy within its process: the new configuration takes the listeners over, and idle
/// connections of the old one are closed.
fn reload(program: &Path, scratch: &Path) -> Reload {
    let mut argv = argv(program, "reload", &scratch.join(CONFIG), &[]);
    // It may be the same configuration.
    argv.extend(["--force", "--address"].map(str::to_owned));
    argv.push(admin(scratch));
    Reload::Command(argv)
}

/// Returns the number of file descriptors that a process with this plan needs, an upper bound.
fn descriptors_needed(plan: &ProxyPlan) -> u64 {
    plan.connections_max.saturating_mul(2).saturating_add(OWN_DESCRIPTORS)
}

/// Returns the words that run a command of Caddy in the foreground, with `environment`. Its own files lie beside
/// `config`.
fn argv(caddy: &Path, command: &str, config: &Path, environment: &[&str]) -> Vec<String> {
    let folder = config.parent().unwrap_or(config).display();
    let mut argv = vec!["env".to_owned()];
    argv.extend(["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|key| format!("{key}={folder}")));
    argv.extend(environment.iter().map(|&setting| setting.to_owned()));
    argv.extend([
        caddy.to_string_lossy().into_owned(),
        command.to_owned(),
        "--config".to_owned(),
        config.to_string_lossy().into_owned(),
    ]);
    argv
}

/// Returns the whole configuration file, in JSON: a Caddyfile of 2.6 cannot prevent that Caddy saves a copy of its
/// configuration.
fn render(plan: &ProxyPlan) -> String {
    let mut logs = json!({ "default": { "level": "WARN", "exclude": ["http.log.access"] } });
    if plan.settings.logs {
        logs["access"] = json!({
            "include": ["http.log.access"],
            "writer": { "output": "file", "filename": plan.log(), "roll": false },
        });
    }
    let mut apps = json!({ "http": { "grace_period": "1s", "servers": { "lab": server(plan) } } });
    if plan.tls {
        apps["tls"] = tls(plan);
    }
    let mut configuration = json!({
        "admin": { "config": { "persist": false } },
        "logging": { "logs": logs },
        "storage": { "module": "file_system", "root": plan.scratch.join("storage") },
        "apps": apps,
    });
    match plan.settings.reloads {
        true => configuration["admin"]["listen"] = admin(&plan.scratch).into(),
        false => configuration["admin"]["disabled"] = true.into(),
    }
    format!("{configuration:#}\n")
}

/// Returns the address of its administration interface in the scratch directory, where only its user reaches it.
fn admin(scratch: &Path) -> String {
    format!("unix/{}", scratch.join("admin.sock").display())
}

/// Returns the certificate, which Caddy neither renews nor asks its issuer about.
fn tls(plan: &ProxyPlan) -> Value {
    let pem = &plan.certificate_pem_path;
    json!({
        "certificates": { "load_files": [{ "certificate": pem, "key": pem }] },
        "disable_ocsp_stapling": true,
        "session_tickets": { "disabled": !plan.resumes },
    })
}

/// Returns the side of the clients. Each time limit is longer than plimsoll waits, so that none of these ends a
/// connection during a measurement.
fn server(plan: &ProxyPlan) -> Value {
    let timeout = timeout(plan);
    let mut server = json!({
        "listen": [plan.listen.to_string()],
        "protocols": ["h1", "h2"],
        "automatic_https": { "disable": true },
        "idle_timeout": timeout,
        "read_header_timeout": timeout,
        "routes": [{ "handle": [backends(plan)] }],
    });
    if plan.tls {
        server["tls_connection_policies"] = json!([{}]);
    }
    if plan.settings.logs {
        server["logs"] = json!({});
    }
    server
}

/// Returns the side of the servers behind it: HTTP/1.1 without TLS. By default Caddy keeps 32 idle connections to each.
fn backends(plan: &ProxyPlan) -> Value {
    let dials: Vec<Value> =
        plan.backends.iter().map(|backend| json!({ "dial": backend.to_string() })).collect();
    let timeout = timeout(plan);
    json!({
        "handler": "reverse_proxy",
        "load_balancing": { "selection_policy": { "policy": "round_robin" } },
        "upstreams": dials,
        "transport": {
            "protocol": "http",
            "versions": ["1.1"],
            "compression": false,
            "dial_timeout": timeout,
            "keep_alive": {
                "idle_timeout": timeout,
                "max_idle_conns_per_host": plan.connections_max.clamp(1, i32::MAX as u64),
            },
        },
    })
}

fn timeout(plan: &ProxyPlan) -> String {
    format!("{}ms", plan.timeout_ms())
}

/// Time limits of the configuration that a client can meet.
const TIMERS: [(&str, Awaits); 3] = [
    ("dial_timeout", Awaits::Answer),
    ("read_header_timeout", Awaits::Request),
    ("idle_timeout", Awaits::NextRequest),
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use insta::assert_snapshot;

    use super::*;
    use crate::program::tests::{installed, write_certificate};

    fn written(plan: &ProxyPlan) -> Value {
        serde_json::from_str(&render(plan)).unwrap()
    }

    #[test]
    fn the_whole_configuration() {
        assert_snapshot!(render(&ProxyPlan::sample(Path::new("/scratch"))));
    }

    #[test]
    fn fields_that_depend_on_the_plan() {
        let mut plan = ProxyPlan::sample(Path::new("/it's \"here\""));
        (plan.tls, plan.resumes, plan.connections_max) = (false, false, u64::MAX);
        plan.settings.logs = true;
        let plain = written(&plan);
        assert_eq!(plain.pointer("/apps/tls"), None);
        assert_eq!(plain.pointer("/apps/http/servers/lab/tls_connection_policies"), None);
        let file = plain.pointer("/logging/logs/access/writer/filename").unwrap();
        assert_eq!(file, "/it's \"here\"/access.log");
        assert!(plain.to_string().contains("\"max_idle_conns_per_host\":2147483647"), "{plain}");
        assert_eq!(descriptors_needed(&plan), u64::MAX);
        plan.tls = true;
        let secure = written(&plan);
        assert_eq!(secure.pointer("/apps/tls/session_tickets/disabled").unwrap(), true);
    }

    #[test]
    fn caddy_accepts_what_we_render() {
        let caddy = installed("caddy", "caddy");
        let scratch = tempfile::Builder::new().prefix("plimsoll lab's \"").tempdir().unwrap();
        let mut plan = ProxyPlan::sample(scratch.path());
        write_certificate(&plan.certificate_pem_path);
        let config = scratch.path().join("caddy.json");
        for (listen, tls, logs) in [
            ("127.0.0.1:8443", true, false),
            ("[::1]:8443", true, true),
            ("0.0.0.0:8443", false, true),
        ] {
            plan.listen = listen.parse().unwrap();
            (plan.tls, plan.settings.logs, plan.settings.reloads) = (tls, logs, logs);
            fs::write(&config, render(&plan)).unwrap();
            Caddy.check(&caddy, &config).unwrap();
        }
    }

    #[test]
    fn a_rejection_names_the_reason() {
        let caddy = installed("caddy", "caddy");
        let scratch = tempfile::tempdir().unwrap();
        let config = scratch.path().join("caddy.json");
        let plan = ProxyPlan::sample(scratch.path());
        let text = render(&plan);
        // The certificate is missing: Caddy loads its apps in random order, and two need it.
        fs::write(&config, &text).unwrap();
        let refused = Caddy.check(&caddy, &config).unwrap_err().to_string();
        assert!(refused.contains("caddy.json: loading "), "{refused}");
        assert!(refused.ends_with("lab.pem: no such file or directory"), "{refused}");
        write_certificate(&plan.certificate_pem_path);
        fs::write(&config, text.replace("\"idle_timeout\"", "\"idle_timeoutt\"")).unwrap();
        let refused = Caddy.check(&caddy, &config).unwrap_err().to_string();
        assert!(refused.contains("caddy.json: loading http app module"), "{refused}");
        assert!(refused.ends_with("unknown field \"idle_timeoutt\""), "{refused}");
    }

    #[test]
    fn versions_of_debian_and_of_the_makers_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let says = |words: &str| {
            let path = scratch.path().join("caddy");
            let _ = fs::remove_file(&path);
            fs::write(&path, format!("#!/bin/sh\necho '{words}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Caddy.version(&path).map_err(|error| error.to_string())
        };
        assert_eq!(says("2.6.2"), Ok("2.6.2".to_owned()));
        assert_eq!(says("v2.8.4 h1:q3pe="), Ok("2.8.4".to_owned()));
        assert!(says("(devel)").unwrap_err().contains("reports no version"));
        let version = Caddy.version(&installed("caddy", "caddy")).unwrap();
        assert!(proxy::version(&version) >= Some((2, 6)), "{version}");
    }

    #[test]
    fn its_own_files_lie_in_the_scratch_directory() {
        let argv = argv(Path::new("/b/caddy"), "run", Path::new("/s/c.json"), &["GOMAXPROCS=2"]);
        let expected = "env HOME=/s XDG_CONFIG_HOME=/s XDG_DATA_HOME=/s GOMAXPROCS=2 /b/caddy run --config /s/c.json";
        assert_eq!(argv.join(" "), expected);
    }
}
