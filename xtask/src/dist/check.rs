//! Installs each package where nothing else is, and runs what is in it: the .deb in a new Debian, the .rpm in an empty
//! root, the images by runc, the binaries for aarch64 by QEMU. Each serves, and loads itself.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Arch, Release, output, sha256};
use crate::packages;

/// Programs that checking needs, and Debian's package for each.
const PROGRAMS: &[(&str, &str)] = &[
    ("chroot", "coreutils"),
    ("mmdebstrap", "mmdebstrap"),
    ("qemu-aarch64-static", "qemu-user-static"),
    ("rpm", "rpm"),
    ("runc", "runc"),
    ("skopeo", "skopeo"),
    ("systemd-analyze", "systemd"),
    ("umoci", "umoci"),
    ("unshare", "util-linux"),
];

/// The release of Debian that the .deb is installed in.
const DEBIAN: &str = "bookworm";

/// Mounts /proc in the new root, for this command alone, and runs the rest there.
const IN_ROOT: &str =
    r#"root=$1; shift; mount -t proc proc "$root/proc" && exec chroot "$root" "$@""#;

/// Lets the kernel run binaries for aarch64, in a user namespace of this command's own.
const WITH_QEMU: &str = r#"mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
    printf '%s' ':aarch64:M::\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F' \
        > /proc/sys/fs/binfmt_misc/register && exec "$@""#;

/// Reports whether this host can check.
pub(super) fn require() -> Result<()> {
    packages::require(PROGRAMS)?;
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!("dist --check makes roots and mounts: run it as root");
    }
    Ok(())
}

/// Says what was seen.
type Check = fn(&Release) -> Result<String>;

/// Runs all checks, and fails with what all of them complain of.
pub(super) fn run(release: &Release) -> Result<()> {
    let checks: [(&str, Check); 6] = [
        ("checksums", checksums),
        ("archives", archives),
        ("deb", deb),
        ("rpm", rpm),
        ("aarch64", aarch64),
        ("image", image),
    ];
    let mut offences = Vec::new();
    for (name, check) in checks {
        match check(release) {
            Ok(seen) => println!("{name}: {seen}"),
            Err(error) => offences.push(format!("{name}: {error:#}")),
        }
    }
    crate::verdict("packages that do not work", &offences)
}

fn checksums(release: &Release) -> Result<String> {
    let mut command = Command::new("sha256sum");
    let lines = output(command.current_dir(&release.out).args(["--check", "SHA256SUMS"]))?;
    Ok(format!("{} files", lines.lines().count()))
}

/// Checks that every package of an architecture has the same binary, which needs no library.
fn archives(release: &Release) -> Result<String> {
    for arch in Arch::ALL {
        let folder = release.fresh(&format!("check-archive-{}", arch.name()))?;
        let name = format!("plimsoll-{}-{}-linux", release.version, arch.name());
        let packed = release.out.join(format!("{name}.tar.gz"));
        output(Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(&folder))?;
        let program = folder.join(name).join("bin/plimsoll");
        let bytes = fs::read(&program)?;
        let hash = sha256(&bytes);
        if !is_static(&bytes) {
            bail!("{} is not static", program.display());
        }
        // A symbol of musl's malloc; which of two the linker takes is decided by their order.
        if bytes.windows(18).any(|window| window == b"__libc_malloc_impl") {
            bail!("{} has musl's allocator, not mimalloc", program.display());
        }
        let query = ["-qp", "--qf", "[%{FILENAMES} %{FILEDIGESTS}\n]"];
        let listed = output(Command::new("rpm").args(query).arg(rpm_of(release, arch)))?;
        if !listed.contains(&format!("/usr/bin/plimsoll {hash}\n")) {
            bail!("{} has another binary", rpm_of(release, arch).display());
        }
        let root = unpacked_deb(release, arch)?;
        if sha256(&fs::read(root.join("usr/bin/plimsoll"))?) != hash {
            bail!("{} has another binary", deb_of(release, arch).display());
        }
        verify_units(&root)?;
    }
    Ok("one static binary for each architecture".to_owned())
}

/// Reports whether no segment of an ELF file names an interpreter.
fn is_static(program: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        let field = program.get(at..at + bytes)?.iter().rev();
        Some(field.fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let (Some(table), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        return false;
    };
    // PT_INTERP
    program.starts_with(b"\x7fELF")
        && (0..count).all(|index| number(table + index * size, 4) != Some(3))
}

/// Reports whether systemd understands the units of an unpacked package, and finds little that they may do.
fn verify_units(root: &Path) -> Result<()> {
    let folder = root.join("usr/lib/systemd/system");
    // The highest exposure, in tenths, of a service that listens.
    let security = ["security", "--offline=true", "--threshold=25", "--no-pager"];
    for unit in ["plimsoll-watch.service", "plimsoll-serve@.service"] {
        output(Command::new("systemd-analyze").args(security).arg(folder.join(unit)))?;
    }
    // What they are ordered after, as on a system where systemd is.
    let targets = r#"cp -a /usr/lib/systemd/system/*.target "$1"/usr/lib/systemd/system
        systemd-analyze verify --man=no --root="$1" plimsoll-watch.service plimsoll-serve@8080-8089.service 2>&1"#;
    let complaint = output(Command::new("sh").args(["-c", targets, "sh"]).arg(root))?;
    if !complaint.is_empty() {
        bail!("systemd-analyze verify: {complaint}");
    }
    Ok(())
}

fn deb_of(release: &Release, arch: Arch) -> PathBuf {
    release.out.join(format!("plimsoll_{}_{}.deb", release.version, arch.debian()))
}

fn rpm_of(release: &Release, arch: Arch) -> PathBuf {
    release.out.join(format!("plimsoll-{}-1.{}.rpm", release.version, arch.name()))
}

fn unpacked_deb(release: &Release, arch: Arch) -> Result<PathBuf> {
    let root = release.fresh(&format!("check-deb-{}", arch.debian()))?;
    output(Command::new("dpkg-deb").arg("-x").arg(deb_of(release, arch)).arg(&root))?;
    Ok(root)
}

/// Installs the .deb by dpkg in a minimal Debian, verifies and runs it, and checks that its removal leaves no trace.
fn deb(release: &Release) -> Result<String> {
    let root = release.fresh("check-debian")?;
    let mut command = Command::new("mmdebstrap");
    output(command.args(["--quiet", "--variant=essential", DEBIAN]).arg(&root))?;
    let package = deb_of(release, Arch::X86_64);
    fs::copy(&package, root.join("plimsoll.deb"))?;
    let within = |words: &[&str]| output(in_root(&root).args(words));
    within(&["dpkg", "--install", "/plimsoll.deb"])?;
    let differences = within(&["dpkg", "--verify", "plimsoll"])?;
    if !differences.is_empty() {
        bail!("dpkg --verify: {differences}");
    }
    let seen = exercise(|| with(in_root(&root), "plimsoll"))?;
    let hold =
        ["lab", "hold", "--sut", "embedded", "--connections", "200", "--for", "1s", "--no-ui"];
    output(in_root(&root).arg("plimsoll").args(hold))?;
    within(&["dpkg", "--purge", "plimsoll"])?;
    let left = [
        "usr/bin/plimsoll",
        "usr/share/doc/plimsoll",
        "usr/lib/systemd/system/plimsoll-watch.service",
    ];
    if let Some(left) = left.iter().find(|path| root.join(path).exists()) {
        bail!("dpkg --purge leaves {left}");
    }
    fs::remove_dir_all(&root)?;
    Ok(format!("in Debian {DEBIAN}: {seen}"))
}

/// Installs the .rpm in an empty root, verifies, runs and removes it.
fn rpm(release: &Release) -> Result<String> {
    let root = release.fresh("check-rpm")?;
    fs::create_dir(root.join("proc"))?;
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        // Debian's rpm keeps its database elsewhere, and would have packages converted.
        command.arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--force-debian"]);
        output(command.args(words))
    };
    let package = rpm_of(release, Arch::X86_64);
    rpm(&["--install", &package.to_string_lossy()])?;
    let named = rpm(&["--query", "--qf", "%{NAME} %{VERSION} %{ARCH}", "plimsoll"])?;
    if named != format!("plimsoll {} x86_64", release.version) {
        bail!("it calls itself {named}");
    }
    rpm(&["--verify", "plimsoll"])?;
    let seen = exercise(|| with(in_root(&root), "/usr/bin/plimsoll"))?;
    rpm(&["--erase", "plimsoll"])?;
    if root.join("usr/bin/plimsoll").exists() {
        bail!("rpm --erase leaves the binary");
    }
    Ok(format!("in an empty root: {seen}"))
}

/// Checks the binary of the .deb for arm64 under emulation; returns the finding.
fn aarch64(release: &Release) -> Result<String> {
    let program = unpacked_deb(release, Arch::Aarch64)?.join("usr/bin/plimsoll");
    let seen = exercise(|| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", WITH_QEMU, "sh"]);
        with(command, &program)
    })?;
    Ok(format!("under QEMU: {seen}"))
}

/// Checks the image of this architecture without privileges, without a writable file, and with its own network.
fn image(release: &Release) -> Result<String> {
    let folder = release.fresh("check-image")?;
    let archive = format!("oci-archive:{}", release.file("-oci.tar").display());
    for arch in Arch::ALL {
        let choice = ["--override-os", "linux", "--override-arch", arch.debian()];
        let seen = output(Command::new("skopeo").args(choice).args(["inspect", &archive]))?;
        let seen: Value = serde_json::from_str(&seen)?;
        if seen["Architecture"] != arch.debian() {
            bail!("skopeo inspect finds {} for {}", seen["Architecture"], arch.debian());
        }
    }
    let layout = folder.join("layout");
    let copy = ["--override-arch", "amd64", "copy", "--quiet", &archive];
    output(Command::new("skopeo").args(copy).arg(format!("oci:{}:check", layout.display())))?;
    let bundle = folder.join("bundle");
    let image = format!("{}:check", layout.display());
    output(Command::new("umoci").args(["unpack", "--image", &image]).arg(&bundle))?;
    let path = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
    if config["process"]["user"]["uid"] != 65_532 {
        bail!("the image runs as user {}", config["process"]["user"]["uid"]);
    }
    config["process"]["terminal"] = json!(false);
    config["process"]["noNewPrivileges"] = json!(true);
    config["process"]["capabilities"] = json!({});
    config["root"]["readonly"] = json!(true);
    config["process"]["args"] = json!(["/plimsoll", "serve", "--http", "127.0.0.1:0", "--no-ui"]);
    fs::write(&path, serde_json::to_vec(&config)?)?;
    let name = format!("plimsoll-dist-{}", std::process::id());
    let state = folder.join("state");
    let runc = |words: &[&str]| {
        let mut command = Command::new("runc");
        command.arg("--root").arg(&state).args(words);
        command
    };
    let serve = Server::start(runc(&["run", "--bundle"]).arg(&bundle).arg(&name));
    let seen = serve.and_then(|serve| {
        let seen = load(runc(&["exec", &name, "/plimsoll"]), &serve.url);
        output(&mut runc(&["kill", &name, "INT"]))?;
        serve.end()?;
        seen
    });
    // A container that has ended is gone already.
    let _ = output(&mut runc(&["delete", "--force", &name]));
    Ok(format!("by runc, read-only, as another user: {}", seen?))
}

/// Runs what follows in a root, as its only system.
fn in_root(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", IN_ROOT, "sh"]).arg(root);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    command
}

fn with(mut command: Command, program: impl Into<OsString>) -> Command {
    command.arg(program.into());
    command
}

/// Serves, makes a load on that, and ends the server. `plimsoll` begins a command line of the program.
fn exercise(plimsoll: impl Fn() -> Command) -> Result<String> {
    let version = output(plimsoll().arg("--version"))?;
    let serve = Server::start(plimsoll().args(["serve", "--http", "127.0.0.1:0", "--no-ui"]))?;
    let seen = load(plimsoll(), &serve.url)?;
    serve.interrupt()?;
    serve.end()?;
    Ok(format!("{}, {seen}", version.trim()))
}

/// Checks that every request of a short load is answered. Emulation is slow, so latency does not matter.
fn load(mut plimsoll: Command, url: &str) -> Result<String> {
    plimsoll.args(["load", url, "--rate", "200", "--duration", "2s", "--connections", "8"]);
    plimsoll.args(["--no-ui", "--json", "-"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let finished = plimsoll.output().context("cannot run the load")?;
    let complaint = String::from_utf8_lossy(&finished.stderr);
    // 98: this host was the limit.
    if !matches!(finished.status.code(), Some(0 | 98)) {
        bail!("the load ended with {}: {complaint}", finished.status);
    }
    let summary: Value = serde_json::from_slice(&finished.stdout)
        .with_context(|| format!("the load wrote no summary: {complaint}"))?;
    let (scheduled, ok) = (&summary["scheduled"], &summary["ok"]);
    if scheduled.as_u64() != Some(400) || scheduled != ok {
        bail!("of {scheduled} requests {ok} were answered: {complaint}");
    }
    Ok(format!("{ok} of {scheduled} requests answered"))
}

/// A running `plimsoll serve`, whatever it runs in.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start the server")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("the pipe was asked for")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        let mut server = Self { child, url };
        if server.url.is_empty() {
            bail!("the server wrote {line:?}, {}", server.complaint());
        }
        Ok(server)
    }

    fn interrupt(&self) -> Result<()> {
        output(Command::new("kill").args(["-INT", &self.child.id().to_string()])).map(drop)
    }

    fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the server ended with {status}: {}", self.complaint());
        }
        Ok(())
    }

    /// Returns its standard error, once it has ended: a few lines, for which a pipe has room.
    fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failed check; one that has ended is not found.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_an_interpreter_is_not_static() {
        let segment = |kind: u8| {
            let mut program = vec![0; 64 + 56];
            program[..4].copy_from_slice(b"\x7fELF");
            (program[32], program[54], program[56], program[64]) = (64, 56, 1, kind);
            program
        };
        assert!(is_static(&segment(1)) && !is_static(&segment(3)));
        assert!(!is_static(b"#!/bin/sh\n") && !is_static(&[0; 200]));
        let own = fs::read("/proc/self/exe").unwrap();
        assert!(!is_static(&own), "tests are linked with a C library that is loaded");
    }
}
