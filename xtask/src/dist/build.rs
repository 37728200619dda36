//! Builds of the static binaries, and of the documents that are made from the flags.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::tree::{Tree, gzip};
use super::{Arch, Release, headers, output};

/// The profile of Cargo.toml that is released.
const PROFILE: &str = "dist";

/// Returns the static binaries, all by one cargo, so that none waits for another.
pub(super) fn programs(release: &Release) -> Result<Vec<(Arch, Vec<u8>)>> {
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", PROFILE, "--package", "plimsoll"]);
    for arch in Arch::ALL {
        let triple = arch.triple();
        require_target(triple)?;
        println!("building for {triple}");
        let variable = |name: &str| format!("{name}_{}", triple.replace('-', "_"));
        let flags = match arch {
            Arch::X86_64 => String::new(),
            Arch::Aarch64 => with_headers_of_musl(&headers::find(&release.scratch)?)?,
        };
        command.args(["--target", triple]);
        command.env(variable("CC"), compiler(arch)).env(variable("CFLAGS"), flags);
    }
    // Separated so, because a path may hold a space.
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags()?.join("\x1f"));
    command.env("CC_SHELL_ESCAPED_FLAGS", "1");
    command.env("SOURCE_DATE_EPOCH", release.seconds().to_string());
    if let Some(commit) = release.revision.as_deref().and_then(|revision| revision.get(..12)) {
        command.env("PLIMSOLL_COMMIT", commit);
    }
    let status = command.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("plimsoll does not build: {status}");
    }
    let program = |arch: Arch| {
        let path = release.target.join(arch.triple()).join(PROFILE).join("plimsoll");
        Ok((arch, fs::read(&path).with_context(|| path.display().to_string())?))
    };
    Arch::ALL.into_iter().map(program).collect()
}

/// Returns the C compiler, for AWS-LC and mimalloc.
const fn compiler(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "musl-gcc",
        Arch::Aarch64 => "aarch64-linux-gnu-gcc",
    }
}

/// The compiler keeps its own headers; those of the C library are others.
fn with_headers_of_musl(musl: &Path) -> Result<String> {
    let own = output(Command::new(compiler(Arch::Aarch64)).arg("-print-file-name=include"))?;
    let folders = [musl, Path::new(own.trim())].map(|folder| folder.to_string_lossy().into_owned());
    let mut words = vec!["-nostdinc"];
    for folder in &folders {
        words.extend(["-isystem", folder]);
    }
    // Its functions are in libgcc, which asks glibc what the CPU can do.
    words.push("-mno-outline-atomics");
    Ok(shell_words::join(words))
}

/// Returns the linker that comes with Rust, so that no other decides what is in the binary; a hash of the program, by
/// which other hosts know it; and names instead of this machine's paths.
fn rust_flags() -> Result<Vec<String>> {
    let mut flags = vec!["-Clinker=rust-lld".to_owned(), "-Clink-arg=--build-id=sha1".to_owned()];
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo_home = cargo_home.or_else(home).context("neither CARGO_HOME nor HOME is set")?;
    let sources = cargo_home.join("registry/src");
    let registries = fs::read_dir(&sources).with_context(|| sources.display().to_string())?;
    let registries = registries.filter_map(|entry| Some((entry.ok()?.path(), "registry")));
    for (path, name) in [(crate::root(), "plimsoll")].into_iter().chain(registries) {
        flags.push(format!("--remap-path-prefix={}={name}", path.display()));
    }
    Ok(flags)
}

/// Reports whether Rust's own libraries are there for a target.
fn require_target(triple: &str) -> Result<()> {
    let folder =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    if !Path::new(folder.trim()).is_dir() {
        bail!("Rust's libraries for {triple} are missing; run: rustup target add {triple}");
    }
    Ok(())
}

/// Completions and compressed manual pages, below usr/share.
pub(super) fn documents(release: &Release) -> Result<Tree> {
    println!("making completions and manual pages");
    let share = release.fresh("documents")?;
    let mut command = cargo();
    command.args(["test", "--locked", "--quiet", "--package", "plimsoll", "flags::documents"]);
    let date = release.timestamp();
    let (date, _) = date.split_once('T').unwrap_or_default();
    command.env("PLIMSOLL_DOCUMENTS", &share).env("PLIMSOLL_DOCUMENTS_DATE", date);
    output(&mut command)?;
    let mut tree = Tree::default();
    for folder in [
        "bash-completion/completions",
        "fish/vendor_completions.d",
        "man/man1",
        "zsh/site-functions",
    ] {
        for entry in fs::read_dir(share.join(folder)).context("no documents were written")? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let content = fs::read(&path)?;
            if folder == "man/man1" {
                lint(&path)?;
                tree.add(&format!("usr/share/{folder}/{name}.gz"), 0o644, gzip(&content)?);
            } else {
                tree.add(&format!("usr/share/{folder}/{name}"), 0o644, content);
            }
        }
    }
    Ok(tree)
}

/// A page that mandoc warns of is shown wrongly by some program.
fn lint(page: &Path) -> Result<()> {
    output(Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(page)).map(drop)
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}
