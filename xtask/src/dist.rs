//! `cargo xtask dist`: everything that is released, for each architecture, in `target/packages`: an archive, a .deb,
//! an .rpm, one image for all architectures, a list of what is in them, and checksums.
//!
//! Equal commits, Cargo.lock and toolchains give equal bytes: archives are sorted, times are those of
//! SOURCE_DATE_EPOCH, and no path of this machine is in a binary.

mod build;
mod check;
mod formats;
mod headers;
mod image;
mod inventory;
mod tree;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::metadata::Depth;
use crate::{metadata, packages};

/// Programs that making packages needs besides Rust, and Debian's package for each.
const PROGRAMS: &[(&str, &str)] = &[
    ("/etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
    ("/usr/share/doc/musl-dev/copyright", "musl-dev"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("apt-get", "apt"),
    ("bash", "bash"),
    ("dpkg-deb", "dpkg"),
    ("mandoc", "mandoc"),
    ("md5sum", "coreutils"),
    ("musl-gcc", "musl-tools"),
    ("rpmbuild", "rpm"),
];

/// An architecture that packages are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Returns the name that `uname -m` and rpm use.
    const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns the name that Debian and images use.
    const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns the target triple of rustc.
    const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// The files of a release, and the place where they are made.
struct Release {
    version: String,
    /// The commit, where this is a checkout.
    revision: Option<String>,
    /// The time that every file gets.
    time: SystemTime,
    /// Directory of the release.
    out: PathBuf,
    /// Directory in which it is made.
    scratch: PathBuf,
    /// Directory in which cargo builds.
    target: PathBuf,
}

impl Release {
    fn of_this_tree() -> Result<Self> {
        let metadata = metadata::read(&crate::root(), Depth::Ours)?;
        let package = metadata.packages.iter().find(|package| package.name == "plimsoll");
        let target = metadata.target_directory;
        Ok(Self {
            version: package.context("there is no package plimsoll")?.version.clone(),
            revision: git(&["rev-parse", "HEAD"]),
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(source_date_epoch()?),
            out: target.join("packages"),
            scratch: target.join("dist-scratch"),
            target,
        })
    }

    /// Returns seconds since 1970, as tools and formats want them.
    fn seconds(&self) -> u64 {
        let since = self.time.duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }

    /// Formats the time by RFC 3339.
    fn timestamp(&self) -> String {
        humantime::format_rfc3339_seconds(self.time).to_string()
    }

    /// Returns the file of this ending.
    fn file(&self, ending: &str) -> PathBuf {
        self.out.join(format!("plimsoll-{}{ending}", self.version))
    }

    /// Returns an empty folder for one step.
    fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.scratch.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// Makes the packages, and with `--check` installs and runs them.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let is_checked = match flags {
        [] => false,
        ["--check"] => true,
        other => bail!("dist has one flag, --check; not {}", other.join(" ")),
    };
    packages::require(PROGRAMS)?;
    if is_checked {
        check::require()?;
    }
    let release = Release::of_this_tree()?;
    make(&release)?;
    if is_checked { check::run(&release) } else { Ok(()) }
}

fn make(release: &Release) -> Result<()> {
    fs::create_dir_all(&release.scratch)?;
    let inventory = inventory::read()?;
    let documents = build::documents(release)?;
    // What an earlier run made under another version would be in the list of checksums.
    if release.out.exists() {
        fs::remove_dir_all(&release.out)?;
    }
    fs::create_dir_all(&release.out)?;
    fs::write(release.file(".cdx.json"), inventory.bill_of_materials(release)?)?;
    let programs = build::programs(release)?;
    for (arch, program) in &programs {
        let files = formats::installed(program, &documents, &inventory)?;
        formats::archive(release, *arch, &files)?;
        formats::deb(release, *arch, &files)?;
        formats::rpm(release, *arch, &files)?;
    }
    image::write(release, &programs, &inventory)?;
    let sums = checksums(release)?;
    fs::write(release.out.join("SHA256SUMS"), &sums)?;
    for line in sums.lines() {
        let (_, name) = line.split_once("  ").unwrap_or_default();
        let bytes = fs::metadata(release.out.join(name))?.len();
        println!("{bytes:>10}  {}", release.out.join(name).display());
    }
    Ok(())
}

/// Returns the checksums in the format of `sha256sum`.
fn checksums(release: &Release) -> Result<String> {
    let entries = fs::read_dir(&release.out)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
    names.sort();
    let line = |name: &std::ffi::OsString| -> Result<String> {
        let hash = sha256(&fs::read(release.out.join(name))?);
        Ok(format!("{hash}  {}\n", name.to_string_lossy()))
    };
    names.iter().map(line).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the time of what is made: the environment's, else the commit's.
fn source_date_epoch() -> Result<u64> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let seconds = given.or_else(|| git(&["log", "-1", "--pretty=%ct"]));
    let seconds = seconds.context("this is no git checkout: set SOURCE_DATE_EPOCH")?;
    seconds
        .parse()
        .with_context(|| format!("SOURCE_DATE_EPOCH is {seconds}, not a number of seconds"))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Runs a program and returns what it wrote; an error holds what it complained of.
fn output(command: &mut Command) -> Result<String> {
    let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
    let shown = words.join(OsStr::new(" ")).to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {shown}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{shown}: {}\n{text}{complaint}", output.status);
    }
    Ok(text)
}
