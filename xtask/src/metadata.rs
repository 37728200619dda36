//! `cargo metadata`, as far as the checks need it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Cargo's metadata of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Directory of builds.
    pub(crate) target_directory: PathBuf,
    /// Our packages and, unless asked for without, all they depend on.
    pub(crate) packages: Vec<Package>,
    /// The dependencies of each package; present only if all packages were asked for.
    pub(crate) resolve: Option<Resolve>,
}

/// The graph of packages.
#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

/// The dependencies of one package.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// The ids of what it uses, for whatever purpose.
    pub(crate) dependencies: Vec<String>,
}

/// One package.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression, as the author wrote it.
    pub(crate) license: Option<String>,
    /// Origin of its download.
    pub(crate) source: Option<String>,
    /// Path of its Cargo.toml.
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

impl Package {
    /// Reports whether a package is a member of the workspace: path dependencies have no source, and all of ours are
    /// members.
    pub(crate) const fn is_ours(&self) -> bool {
        self.source.is_none()
    }
}

/// One line of a manifest's dependency tables.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` for tests, `build` for build scripts.
    pub(crate) kind: Option<String>,
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// One thing that Cargo builds from a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test`, `custom-build` and so on.
    pub(crate) kind: Vec<String>,
    /// Path of its root file.
    pub(crate) src_path: PathBuf,
}

/// The depth of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Our packages only; needs no lock file and no network.
    Ours,
    /// All dependencies too.
    All,
}

/// Asks Cargo about the workspace at `root`.
pub(crate) fn read(root: &Path, depth: Depth) -> Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["metadata", "--format-version", "1"]);
    if depth == Depth::Ours {
        command.arg("--no-deps");
    }
    let output = command.output().context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata wrote other JSON than expected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_can_be_read() {
        let metadata = read(&crate::root(), Depth::Ours).unwrap();
        let xtask = metadata.packages.iter().find(|package| package.name == "xtask").unwrap();
        assert!(xtask.is_ours() && xtask.license.is_some());
        assert!(xtask.dependencies.iter().any(|one| one.name == "serde_json" && !one.is_dev()));
        assert!(xtask.targets[0].src_path.ends_with("xtask/src/main.rs"));
    }
}
