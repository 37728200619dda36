//! The programs that the end-to-end tests drive: found, or installed with apt-get.
//!
//! `PROGRAMS` is the table: a program (or alternatives, separated by `|`), or an absolute path of a file, with the
//! Debian package that has it. [`run`] looks for each in PATH and the folders of daemons, and installs the packages
//! of the missing ones as root or by sudo without a password; otherwise it fails with the command to type.
//! [`require`] only reports. Other tasks use [`find`]. Start with [`run`].

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Requirements, and Debian's package for each: a program, one of several that will do, or a file.
const PROGRAMS: &[(&str, &str)] = &[
    // Without a font, every letter of a page is an empty box.
    ("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "fonts-liberation"),
    // It reads what --junit writes.
    ("/usr/lib/python3/dist-packages/junitparser/__init__.py", "python3-junitparser"),
    ("/usr/lib/python3/dist-packages/paho/mqtt/client.py", "python3-paho-mqtt"),
    // It reads examples and workflows.
    ("/usr/lib/python3/dist-packages/yaml/__init__.py", "python3-yaml"),
    ("ab", "apache2-utils"),
    ("caddy", "caddy"),
    // The one without a window is 40 MB less to fetch, and starts in half the time.
    ("chromium-headless-shell|chromium", "chromium-headless-shell"),
    ("curl", "curl"),
    ("go", "golang-go"),
    ("h2load", "nghttp2-client"),
    ("haproxy", "haproxy"),
    ("mosquitto", "mosquitto"),
    ("mosquitto_pub", "mosquitto-clients"),
    ("nghttpd", "nghttp2-server"),
    ("nginx", "nginx-light"),
    ("openssl", "openssl"),
    ("pdftotext", "poppler-utils"),
    ("promtool", "prometheus"),
    ("redis-server", "redis-server"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("tmux", "tmux"),
    ("wrk", "wrk"),
];

/// Installs missing packages, or prints the command.
pub(crate) fn run() -> Result<()> {
    let missing = missing(PROGRAMS);
    if missing.is_empty() {
        return Ok(());
    }
    let advice = advice(&missing);
    if find("apt-get").is_none() {
        bail!("{advice} (or this system's own command; apt-get is not here)");
    }
    let Some(prefix) = privilege() else {
        bail!("{advice} (as root; sudo would ask for a password)");
    };
    println!("installing {}", missing.join(" "));
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(&missing);
    // The lists may be fresh already; fetching them is slow.
    if apt_get(prefix, &arguments).is_err() {
        apt_get(prefix, &["update"]).context(advice.clone())?;
        apt_get(prefix, &arguments).context(advice)?;
    }
    let still = self::missing(PROGRAMS);
    if !still.is_empty() {
        bail!("apt-get succeeded, yet these are not found: {}", still.join(" "));
    }
    Ok(())
}

/// Fails with the command that installs what is missing of these programs, each with its package.
pub(crate) fn require(programs: &[(&str, &str)]) -> Result<()> {
    let missing = missing(programs);
    if missing.is_empty() { Ok(()) } else { bail!(advice(&missing)) }
}

fn advice(missing: &[&str]) -> String {
    let names = missing.join(" ");
    format!(
        "missing: {names}; run: apt-get update && apt-get install --no-install-recommends {names}"
    )
}

/// Packages of the programs that are not found.
fn missing<'a>(programs: &[(&str, &'a str)]) -> Vec<&'a str> {
    let absent = programs.iter().filter(|(any, _)| !any.split('|').any(|one| find(one).is_some()));
    absent.map(|(_, package)| *package).collect()
}

/// Returns the program's path, from PATH or the folders where daemons live.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut folders = env::split_paths(&path).chain(daemons);
    folders.find_map(|folder| Some(folder.join(program)).filter(|path| path.is_file()))
}

/// Returns the words before a command that needs root; `None` if nothing works without a password.
fn privilege() -> Option<&'static [&'static str]> {
    let is_root = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| is_root(&status));
    if is_root {
        return Some(&[]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).output();
    sudo.is_ok_and(|output| output.status.success()).then_some(&["sudo", "-n"])
}

/// Reports whether the text of /proc/self/status names user 0 as the effective one.
fn is_root(status: &str) -> bool {
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_ascii_whitespace().nth(1)) == Some("0")
}

fn apt_get(prefix: &[&str], arguments: &[&str]) -> Result<()> {
    let mut words = prefix.to_vec();
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    words.extend(arguments);
    let status = Command::new(Path::new(words[0]))
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {}", words[0]))?;
    if !status.success() {
        bail!("{} failed: {status}", words.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_the_effective_user() {
        assert!(is_root("Name:\tx\nUid:\t1000\t0\t0\t0\n"));
        assert!(!is_root("Uid:\t0\t1000\t0\t0\n"));
        assert!(!is_root(""));
    }

    #[test]
    fn what_is_missing_is_named_by_its_package() {
        let programs = [("sh", "dash"), ("no-such-program|nor-this", "package-of-it")];
        let error = require(&programs).expect_err("one is missing").to_string();
        assert!(error.starts_with("missing: package-of-it; run: "), "{error}");
        assert!(require(&programs[..1]).is_ok());
    }

    #[test]
    fn programs_are_found_by_name() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("a-program-that-nobody-has"), None);
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
    }
}
