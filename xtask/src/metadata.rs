//! `cargo metadata`, as far as the checks need it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// What Cargo knows about the workspace.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Where builds go.
    pub(crate) target_folder: PathBuf,
    /// Our packages and, unless asked for without, all they depend on.
    pub(crate) packages: Vec<Package>,
}

/// One package.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression, as the author wrote it.
    pub(crate) licence: Option<String>,
    /// A member of the workspace, not a dependency.
    pub(crate) is_ours: bool,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// One line of a manifest's dependency tables.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Only for tests, examples and benches.
    pub(crate) is_dev: bool,
}

/// One thing that Cargo builds from a package.
#[derive(Debug)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test`, `custom-build` and so on.
    pub(crate) kinds: Vec<String>,
    /// Its root file.
    pub(crate) root: PathBuf,
}

/// How far to look.
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
    parse(&serde_json::from_slice(&output.stdout).context("cargo metadata wrote no JSON")?)
}

fn parse(json: &Value) -> Result<Metadata> {
    let packages = json["packages"].as_array().context("cargo metadata names no packages")?;
    Ok(Metadata {
        target_folder: text(&json["target_directory"]).into(),
        packages: packages.iter().map(parse_package).collect(),
    })
}

fn parse_package(json: &Value) -> Package {
    let dependencies = items(&json["dependencies"]).map(|dependency| Dependency {
        name: text(&dependency["name"]),
        is_dev: dependency["kind"] == "dev",
    });
    let targets = items(&json["targets"]).map(|target| Target {
        kinds: items(&target["kind"]).map(text).collect(),
        root: text(&target["src_path"]).into(),
    });
    Package {
        name: text(&json["name"]),
        version: text(&json["version"]),
        licence: json["license"].as_str().map(str::to_owned),
        // Path dependencies have no source, and all of ours are members.
        is_ours: json["source"].is_null(),
        dependencies: dependencies.collect(),
        targets: targets.collect(),
    }
}

fn items(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read() {
        let json = serde_json::json!({
            "target_directory": "/t",
            "packages": [
                {
                    "name": "ours", "version": "0.1.0", "source": null, "license": "MIT",
                    "dependencies": [
                        {"name": "libc", "kind": null},
                        {"name": "proptest", "kind": "dev"},
                    ],
                    "targets": [{"kind": ["lib"], "src_path": "/w/ours/src/lib.rs"}],
                },
                {"name": "libc", "version": "0.2.0", "source": "registry", "license": null},
            ],
        });
        let metadata = parse(&json).unwrap();
        assert_eq!(metadata.target_folder, Path::new("/t"));
        let [ours, libc] = metadata.packages.as_slice() else { panic!("{metadata:?}") };
        assert!(ours.is_ours && !libc.is_ours);
        assert_eq!(libc.licence, None);
        let flags: Vec<_> = ours.dependencies.iter().map(|d| (d.name.as_str(), d.is_dev)).collect();
        assert_eq!(flags, [("libc", false), ("proptest", true)]);
        assert_eq!(ours.targets[0].root, Path::new("/w/ours/src/lib.rs"));
    }

    #[test]
    fn this_workspace_can_be_read() {
        let metadata = read(&crate::root(), Depth::Ours).unwrap();
        assert!(metadata.packages.iter().any(|package| package.name == "xtask"));
    }
}
