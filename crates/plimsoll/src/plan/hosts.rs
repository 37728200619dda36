//! `--hosts`, `--slurm` and `--agents` into the hosts of a load, and the flags of a laboratory into its hosts.
//!
//! [`hosts`] returns the list of hosts and the launcher that reaches them: ssh, a command of the user, Slurm, or a
//! listener to which agents connect. `None` means that this host makes the load. A list is text with ranges
//! (`client[01-04]`), or `@FILE` with one list per line and an optional `threads=N`; `of_file` names the line of an
//! error. [`of_laboratory`] does this for the server and the backends of a laboratory. Start with [`hosts`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_fleet::hosts::{HostName, Launcher, LoadHost, LoadHosts, fold, parse};
use plimsoll_fleet::joined::{Listen, read_coordinator};
use plimsoll_model::lines::{Line, lines};

use super::{Inputs, slurm};
use crate::exit::{Result, Stop};
use crate::flags::hosts::{LabHostFlags, LoadHostFlags};
use crate::flags::shared::ClientFlags;
use crate::flags::values::{InputFile, Processes};

/// Time for agents to dial in: somebody may have to start a machine first.
const JOIN_WITHIN: Duration = Duration::from_secs(300);
/// Most threads of one host.
const THREADS_MAX: u32 = 1_024;
/// Word in a file's line before the threads of its hosts.
const THREADS: &str = "threads=";

/// Checks and reads the flags, of which `named` has the list; `None` if this host makes the load.
pub(super) fn hosts(
    flags: &LoadHostFlags,
    named: &str,
    client: &ClientFlags,
    inputs: &mut Inputs,
) -> Result<Option<LoadHosts>> {
    let flag = if flags.hosts.is_some() { Some(named) } else { flag(flags) };
    let Some(flag) = flag else { return Ok(None) };
    refuse_if!(!client.source.is_empty();
        "--source names addresses of this host, and {flag} sends from others"; "drop one of them");
    refuse_if!(client.processes != Processes::Auto;
        "--processes is about this host, and each host of {flag} has one process";
        "drop it; --threads sets the threads on each host");
    if let (Some(agents), Some(address), Some(keys)) = (flags.agents, flags.listen, &flags.keys) {
        return joined(flags, agents, address, keys).map(Some);
    }
    let (hosts, launcher) = match &flags.hosts {
        None => slurm::hosts(client.threads, inputs)?,
        Some(list) => {
            let hosts = match list.strip_prefix('@') {
                Some(path) => {
                    let text = inputs.read(named, &InputFile::File(PathBuf::from(path)))?;
                    of_file(&text).map_err(|why| Stop::Usage(format!("{named} @{path}{why}")))?
                }
                None => of_list(list, None)
                    .map_err(|why| Stop::usage(format_args!("{named} {list:?}: {why}"), EXAMPLE))?,
            };
            let launcher = launcher(flags.launch.as_ref(), &flags.ssh_option, &hosts)?;
            (hosts, launcher)
        }
    };
    check_path(flags.remote_path.as_ref())?;
    let named_in = flags.hosts.as_ref().and_then(|list| list.strip_prefix('@'));
    let (path, file) = (flags.remote_path.clone(), named_in.map(PathBuf::from));
    Ok(Some(LoadHosts { hosts, launcher, path, file }))
}

fn check_path(path: Option<&String>) -> Result<()> {
    if let Some(path) = path.filter(|path| !path.starts_with('/')) {
        refuse!("--remote-path {path:?} is not absolute"; "begin it with /");
    }
    Ok(())
}

/// Returns the flag that names other hosts.
fn flag(flags: &LoadHostFlags) -> Option<&'static str> {
    match (&flags.hosts, flags.slurm, flags.agents) {
        (Some(_), ..) => Some("--hosts"),
        (None, true, _) => Some("--slurm"),
        (None, false, Some(_)) => Some("--agents"),
        (None, false, None) => None,
    }
}

/// Returns agents that connect by themselves.
fn joined(
    flags: &LoadHostFlags,
    agents: u32,
    address: SocketAddr,
    keys: &Path,
) -> Result<LoadHosts> {
    let (identity, roots_pem) = read_coordinator(keys).map_err(|error| usage!(
        "--keys cannot be read: {error}";
        "make them with plimsoll agent --write-keys DIR --count N; this end's are in DIR/coordinator"))?;
    let within = flags.agents_within.map_or(JOIN_WITHIN, Duration::from);
    let name = |index| HostName { user: None, host: format!("agent-{index}"), port: None };
    Ok(LoadHosts {
        hosts: (0..agents).map(|index| LoadHost { name: name(index), threads: None }).collect(),
        launcher: Launcher::Joined(Box::new(Listen { address, identity, roots_pem, within })),
        path: None,
        file: None,
    })
}

/// Returns the hosts of a laboratory: the server's first, then those of the backends.
pub(super) fn of_laboratory(flags: &LabHostFlags, sut: &str) -> Result<LoadHosts> {
    let of = |flag: &str, list: &str| {
        of_list(list, None)
            .map_err(|why| Stop::usage(format_args!("{flag} {list:?}: {why}"), LAB_EXAMPLE))
    };
    let mut hosts = of("--sut-host", sut)?;
    refuse_if!(hosts.len() > 1;
        "--sut-host names {} hosts, and one server is tested", hosts.len(); "{}", LAB_EXAMPLE);
    if let Some(list) = &flags.backends_on {
        let backends = of("--backends-on", list)?;
        if let Some(host) = backends.iter().find(|host| hosts.contains(host)) {
            refuse!("--backends-on names {}, which is --sut-host", host.name;
                "without --backends-on the backends are beside the server");
        }
        hosts.extend(backends);
    }
    let launcher = launcher(flags.launch.as_ref(), &flags.ssh_option, &hosts)?;
    check_path(flags.remote_path.as_ref())?;
    Ok(LoadHosts { hosts, launcher, path: flags.remote_path.clone(), file: None })
}

const LAB_EXAMPLE: &str = "for example --sut-host proxy1 --backends-on 'b[1-2]'";

fn launcher(
    command: Option<&String>,
    ssh_options: &[String],
    hosts: &[LoadHost],
) -> Result<Launcher> {
    let Some(command) = command else { return Ok(Launcher::Ssh(ssh_options.to_vec())) };
    let words = shell_words::split(command)
        .map_err(|_| usage!("--launch {command:?} has a quote that is not closed"; "close it"))?;
    let launcher = Launcher::Other(words);
    let names: Vec<_> = hosts.iter().map(|host| host.name.clone()).collect();
    launcher
        .check(&names)
        .map_err(|why| usage!("--launch cannot be used: {why}"; "for example --launch 'ssh %h'"))?;
    Ok(launcher)
}

/// Refuses other hosts where they are not possible.
pub(super) fn check_none(flags: &LoadHostFlags, command: &str) -> Result<()> {
    if let Some(flag) = flag(flags) {
        refuse!(
            "{flag} is for load, hold, and find rate, handshakes, connections and storm, not for {command}";
            "drop it");
    }
    Ok(())
}

const EXAMPLE: &str = "for example --hosts 'client[01-04],me@10.0.0.7:2222'";

fn of_list(list: &str, threads: Option<u32>) -> Result<Vec<LoadHost>, String> {
    let hosts = parse(list).map_err(|error| error.to_string())?;
    Ok(hosts.into_iter().map(|name| LoadHost { name, threads }).collect())
}

/// Returns the hosts of a file's text: a list in each line, perhaps with `threads=N` behind it; # begins a comment. An
/// error follows the file's name.
pub(crate) fn of_file(text: &[u8]) -> Result<Vec<LoadHost>, String> {
    let mut hosts: Vec<LoadHost> = Vec::new();
    for Line { number, text } in lines(text).map_err(|error| format!(", {error}"))? {
        let words: Vec<_> = text.split('#').next().unwrap_or("").split_whitespace().collect();
        let of_line = match words[..] {
            [] => continue,
            [list] => of_list(list, None),
            [list, option] => threads(option).and_then(|threads| of_list(list, Some(threads))),
            _ => Err("a line is a list and threads=N".to_owned()),
        };
        for host in of_line.map_err(|why| format!(", line {number}: {why}; {EXAMPLE}"))? {
            if hosts.iter().any(|other| other.name.is_same_place(&host.name)) {
                let name = host.name;
                return Err(format!(", line {number}: {name} is named twice; remove one of them"));
            }
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        return Err(format!(" names no host; {EXAMPLE}"));
    }
    Ok(hosts)
}

fn threads(option: &str) -> Result<u32, String> {
    let number = option.strip_prefix(THREADS).and_then(|number| number.parse().ok());
    number
        .filter(|threads| (1..=THREADS_MAX).contains(threads))
        .ok_or_else(|| format!("{option:?} is not threads=N with N from 1 to {THREADS_MAX}"))
}

/// Returns their name in a report.
pub(super) fn name(hosts: &LoadHosts) -> String {
    let names: Vec<HostName> = hosts.hosts.iter().map(|host| host.name.clone()).collect();
    fold(&names)
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::{load_job, refused, try_hosts};

    use super::*;

    const URL: &str = "http://192.0.2.1/";

    #[test]
    fn a_list_becomes_hosts() {
        let job = load_job(&[URL, "--hosts", "client[01-02],me@b:2222", "--ssh-option", "A=b"]);
        let hosts = job.hosts.expect("three");
        assert_eq!(name(&hosts), "b:2222,client[01-02]");
        assert_eq!(hosts.launcher, Launcher::Ssh(vec!["A=b".to_owned()]));
        assert_eq!(job.settings.hosts.as_deref(), Some("b:2222,client[01-02]"));
        assert!(!job.both_ends_here);
        assert_eq!(load_job(&[URL]).hosts, None);
    }

    #[test]
    fn a_file_names_threads() {
        let file = tempfile::NamedTempFile::new().expect("a temporary directory");
        std::fs::write(file.path(), "# clients\nbig[1-2] threads=8\n\nsmall # one CPU\n")
            .expect("writable");
        let path = format!("@{}", file.path().display());
        let hosts = load_job(&[URL, "--hosts", &path]).hosts.expect("three");
        let threads: Vec<_> =
            hosts.hosts.iter().map(|host| (host.name.to_string(), host.threads)).collect();
        let expected =
            [("big1", Some(8)), ("big2", Some(8)), ("small", None)].map(|(n, t)| (n.to_owned(), t));
        assert_eq!(threads, expected);
        for (text, said) in [
            (&b"a weight=3"[..], ", line 1: "),
            (b"\xEF\xBB\xBFa\r\nb[", ", line 2: "),
            (b"a\na", ", line 2: a is named twice"),
            (b"a\r\xFF", ", line 2: not UTF-8"),
            (b"\xFF\xFEa\0", ", line 1: the text is UTF-16"),
            (b"# none", " names no host"),
        ] {
            std::fs::write(file.path(), text).expect("writable");
            let (line, code) = refused(&["load", URL, "--hosts", &path], b"");
            let said = format!("--hosts {path}{said}");
            assert!(code == 2 && line.contains(&said), "{line}");
        }
    }

    #[test]
    fn a_laboratory_has_hosts_for_each_role() {
        let far = |flags: &[&str]| {
            let words = [&["lab", "rate", "--sut", "haproxy"], flags].concat();
            try_hosts(&words).map(|hosts| hosts.far)
        };
        let made = far(&["--sut-host", "me@192.0.2.7:2222", "--backends-on", "b[1-2]"]);
        let made = made.unwrap().expect("three machines");
        assert_eq!(made.listen, "192.0.2.7:8443".parse().unwrap());
        assert_eq!(made.name(), "server 192.0.2.7:2222, backends b[1-2]");
        let beside = far(&["--sut-host", "192.0.2.7", "--sut-address", "192.0.2.8:9"]).unwrap();
        let beside = beside.expect("one machine");
        assert_eq!(beside.listen, "192.0.2.8:9".parse().unwrap());
        assert_eq!(beside.name(), "server and backends 192.0.2.7");
        assert_eq!(far(&[]).unwrap(), None);
        const SUT: [&str; 2] = ["--sut-host", "192.0.2.7"];
        for (flags, said) in [
            (vec!["--clients", "c[1-4]"], "--sut-host"),
            (vec!["--sut-host", "a[1-2]"], "names 2 hosts, and one server"),
            (vec!["--sut-host", "a,,b"], "an item of the list is empty"),
            (vec!["--sut-host", "unknown.invalid"], "give --sut-address"),
            ([&SUT[..], &["--backends-on", "b,192.0.2.7"]].concat(), "which is --sut-host"),
            ([&SUT[..], &["--sut-address", "proxy1:x"]].concat(), "such as 10.0.0.5:8443"),
            ([&SUT[..], &["--isolate", "netns"]].concat(), "--isolate makes hosts of this one"),
            ([&SUT[..], &["--launch", "env"]].concat(), ""),
            ([&SUT[..], &["--backends-on", "b", "--launch", "env"]].concat(), "without %h or %n"),
        ] {
            let made = far(&flags);
            if said.is_empty() {
                assert!(made.is_ok(), "{flags:?}");
                continue;
            }
            let stop = made.expect_err("refused");
            let line = stop.complaint().unwrap();
            assert!(stop.code() == 2 && line.contains(said), "{line}");
        }
        let words = ["compare", "lab rate --sut-host 192.0.2.7", "lab rate"];
        let (line, code) = refused(&words, b"");
        assert!(code == 2 && line.contains("--sut-host is for lab rate"), "{line}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (flags, said) in [
            (vec!["--hosts", "a,,b"], "an item of the list is empty"),
            (vec!["--hosts", "a", "--source", "10.0.0.1"], "--source names addresses"),
            (vec!["--hosts", "a", "--processes", "2"], "--processes is about this host"),
            (vec!["--hosts", "a,b", "--launch", "env"], "without %h or %n"),
            (vec!["--hosts", "a", "--launch", "'"], "a quote that is not closed"),
            (vec!["--hosts", "a", "--remote-path", "x"], "is not absolute"),
            (vec!["--hosts", "c[1-9]", "-c", "8"], "9 hosts share 8 connections"),
            (vec!["--launch", "ssh %h"], "--hosts"),
            (vec!["--slurm", "--source", "10.0.0.1"], "--slurm sends from others"),
            (vec!["--slurm", "--hosts", "a"], "--hosts"),
            (vec!["--slurm", "--ssh-option", "A=b"], "--ssh-option"),
            (vec!["--slurm", "--launch", "ssh %h"], "--launch"),
            (vec!["--slurm"], "SLURM_JOB_ID is not set"),
            (vec!["--agents", "2"], "is missing"),
            (vec!["--agents", "0", "--listen", "127.0.0.1:1", "--keys", "k"], "1..=1000"),
            (vec!["--agents", "2", "--listen", "127.0.0.1:1", "--keys", "none"], "--write-keys"),
        ] {
            let (line, code) = refused(&[&["load", URL], &flags[..]].concat(), b"");
            assert!(code == 2 && line.contains(said), "{line}");
        }
        for words in [
            vec!["find", "rfc9411", URL, "--case", "7.1", "--hosts", "a"],
            vec!["compare", "find rate http://192.0.2.1/ --hosts a", "find rate http://192.0.2.2/"],
        ] {
            let (line, code) = refused(&words, b"");
            assert!(code == 2 && line.contains("--hosts is for load, hold"), "{line}");
        }
        let (line, _) = refused(&["load", "http://127.0.0.1/", "--hosts", "a"], b"");
        assert!(line.contains("each of these hosts itself"), "{line}");
    }
}
