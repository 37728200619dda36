//! The headers of musl for aarch64. Debian has a compiler for that architecture, with the headers of glibc; those of
//! musl are in musl-dev of that architecture, which is fetched beside the system's own packages and not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::output;

/// Folder of the headers in Debian's package.
const FOLDER: &str = "usr/include/aarch64-linux-musl";

/// Returns the folder of the headers, fetched if they are not there.
pub(super) fn find(scratch: &Path) -> Result<PathBuf> {
    let unpacked = scratch.join("musl-dev-arm64");
    for root in [Path::new("/"), &unpacked] {
        let folder = root.join(FOLDER);
        if folder.join("stdlib.h").is_file() {
            return Ok(folder);
        }
    }
    println!("fetching the headers of musl for arm64");
    let package = fetch(&scratch.join("apt-arm64"))
        .context("cannot fetch Debian's package musl-dev for arm64, whose headers the build for aarch64 needs")?;
    output(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
    Ok(unpacked.join(FOLDER))
}

/// Downloads the package with the system's sources and keys, in a state of apt's of its own.
fn fetch(folder: &Path) -> Result<PathBuf> {
    for part in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::write(folder.join("status"), "")?;
    let folder = folder.canonicalize()?;
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(&folder).args(["-o", "APT::Architecture=arm64"]);
        command.args(["-o", "APT::Architectures=arm64", "-o", "APT::Sandbox::User=root"]);
        for (option, path) in
            [("Dir::State", "state"), ("Dir::State::status", "status"), ("Dir::Cache", "cache")]
        {
            command.arg("-o").arg(format!("{option}={}", folder.join(path).display()));
        }
        output(command.args(arguments))
    };
    // A source of somebody else may lack the architecture; whether Debian's was read is seen by the download.
    let updated = apt_get(&["update"]);
    let downloaded = apt_get(&["download", "musl-dev"]);
    if let (Err(error), Err(_)) = (updated, &downloaded) {
        return Err(error);
    }
    downloaded?;
    let mut names = fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    names
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")
}
