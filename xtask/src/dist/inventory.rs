//! Inventory of the binaries: a bill of materials (CycloneDX), and the licences of others.
//!
//! [`read`] collects a [`Component`] for each crate that is linked on any architecture, as `cargo tree` lists them
//! without build scripts and macros. Rust's libraries, musl and the vendored programs of report pages follow.
//! Checksums come from Cargo.lock, and licence texts from the sources. [`Inventory::bill_of_materials`] and
//! [`Inventory::licences`] write the two documents; equal sources give equal bytes. Start with [`read`].

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Arch, Release, output};
use crate::metadata::{Depth, Metadata};
use crate::{licences, metadata};

/// Debian's copy of musl's licence.
const LICENCE_OF_MUSL: &str = "/usr/share/doc/musl-dev/copyright";

/// One program or library of others.
struct Component {
    name: String,
    version: String,
    /// SPDX expression.
    licence: String,
    /// Origin, as a package URL.
    url: String,
    /// The algorithm and the hash of its package.
    hash: Option<(&'static str, String)>,
    /// The package URLs of what it uses.
    uses: Vec<String>,
    /// The files of its licence, as (name, text).
    texts: Vec<(String, String)>,
}

/// All that is in the binaries of every architecture, ours left out.
pub(super) struct Inventory {
    components: Vec<Component>,
    /// Packages that plimsoll itself uses, by package URL.
    direct: Vec<String>,
}

/// A crate's name and version.
type Key = (String, String);

/// Reads Cargo's graph, Cargo.lock and the sources that were downloaded.
pub(super) fn read() -> Result<Inventory> {
    let metadata = metadata::read(&crate::root(), Depth::All)?;
    let mut linked = BTreeSet::new();
    for arch in Arch::ALL {
        linked.extend(crates_of(arch)?);
    }
    let lock = fs::read_to_string(crate::root().join("Cargo.lock"))?;
    let checksums = checksums(&lock);
    let mut components = Vec::new();
    let mut direct = BTreeSet::new();
    for package in &metadata.packages {
        let key = (package.name.clone(), package.version.clone());
        if !linked.contains(&key) {
            continue;
        }
        let uses = uses(&metadata, &package.id, &linked);
        if package.is_ours() {
            direct.extend(uses);
            continue;
        }
        components.push(Component {
            url: crate_url(&key),
            licence: package.license.clone().unwrap_or_default().replace('/', " OR "),
            hash: checksums.get(&key).map(|hash| ("SHA-256", hash.clone())),
            uses,
            texts: texts_in(package.manifest_path.parent().unwrap_or_else(|| Path::new(".")))?,
            name: key.0,
            version: key.1,
        });
    }
    components.extend(libraries_of_rust()?);
    components.extend(vendored()?);
    components.sort_by(|one, other| one.url.cmp(&other.url));
    Ok(Inventory { components, direct: direct.into_iter().collect() })
}

/// Returns the crates that are linked into a binary: no build script, no macro, no test.
fn crates_of(arch: Arch) -> Result<Vec<Key>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(["tree", "--locked", "--package", "plimsoll", "--target", arch.triple()]);
    command.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]);
    Ok(output(&mut command)?.lines().filter_map(crate_in).collect())
}

/// Returns `serde v1.0.228 (*)`, `plimsoll v0.1.0 (PATH)`.
fn crate_in(line: &str) -> Option<Key> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?);
    Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
}

fn crate_url((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// Returns the other packages that a package uses, of the linked ones.
fn uses(metadata: &Metadata, id: &str, linked: &BTreeSet<Key>) -> Vec<String> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let ids: BTreeSet<_> =
        nodes.filter(|node| node.id == id).flat_map(|node| &node.dependencies).collect();
    let packages = metadata.packages.iter();
    let used = packages.filter(|package| ids.contains(&package.id) && !package.is_ours());
    let keys = used.map(|package| (package.name.clone(), package.version.clone()));
    keys.filter(|key| linked.contains(key)).map(|key| crate_url(&key)).collect()
}

/// Returns the hashes of Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<Key, String> {
    let value = |block: &str, key: &str| -> Option<String> {
        let mut lines = block.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(value.trim_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]\n");
    let hashes = blocks.filter_map(|block| {
        Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
    });
    hashes.collect()
}

/// Returns the files that hold a licence, beside a manifest.
fn texts_in(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let upper = name.to_ascii_uppercase();
        let words = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if path.is_file() && words.iter().any(|word| upper.starts_with(word)) {
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            texts.push((name, String::from_utf8_lossy(&text).replace("\r\n", "\n")));
        }
    }
    texts.sort();
    Ok(texts)
}

/// Returns Rust's standard library, and musl, which is linked with it.
fn libraries_of_rust() -> Result<Vec<Component>> {
    let rustc = |argument: &[&str]| output(Command::new("rustc").args(argument));
    let version = rustc(&["--version"])?;
    let version = version.split(' ').nth(1).context("rustc states no version")?.to_owned();
    let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?.trim());
    let licences = sysroot.join("share/doc/rust/licenses");
    let licence = |name: &str| -> Result<(String, String)> {
        let path = licences.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok((name.to_owned(), text))
    };
    let of_musl = fs::read_to_string(LICENCE_OF_MUSL).context(LICENCE_OF_MUSL)?;
    let part = |name: &str, licence: &str, texts| Component {
        name: name.to_owned(),
        version: version.clone(),
        licence: licence.to_owned(),
        url: format!("pkg:generic/{name}@{version}"),
        hash: None,
        uses: Vec::new(),
        texts,
    };
    let of_rust = vec![licence("Apache-2.0.txt")?, licence("MIT.txt")?];
    let of_llvm = vec![licence("Apache-2.0.txt")?, licence("LLVM-exception.txt")?];
    Ok(vec![
        part("rust-std", "MIT OR Apache-2.0", of_rust),
        part("musl-of-rust", "MIT", vec![("copyright".to_owned(), of_musl)]),
        part("libunwind-of-rust", "Apache-2.0 WITH LLVM-exception", of_llvm),
    ])
}

/// Returns the programs that report pages carry.
fn vendored() -> Result<Vec<Component>> {
    let list = crate::root().join(licences::VENDORED);
    let text = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let folder = list.parent().unwrap_or_else(|| Path::new("."));
    let values = |key: &'static str| licences::values(&text, key);
    let named = values("name").zip(values("version")).zip(values("licence"));
    let rest = values("package_sha512").zip(values("licence_file"));
    let components = named.zip(rest).map(|(((name, version), licence), (hash, file))| {
        let path = folder.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Component {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.to_owned(),
            url: format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
            hash: Some(("SHA-512", hash.to_owned())),
            uses: Vec::new(),
            texts: vec![("LICENSE".to_owned(), text)],
        })
    });
    components.collect()
}

impl Inventory {
    /// Returns CycloneDX 1.6 as JSON. It has no serial number: the same sources give the same bytes.
    pub(super) fn bill_of_materials(&self, release: &Release) -> Result<String> {
        let url = crate_url(&("plimsoll".to_owned(), release.version.clone()));
        let components: Vec<_> = self.components.iter().map(Component::entry).collect();
        let edge = |url: &str, uses: &[String]| json!({ "ref": url, "dependsOn": uses });
        let edges = self.components.iter().map(|one| edge(&one.url, &one.uses));
        let edges: Vec<_> = [edge(&url, &self.direct)].into_iter().chain(edges).collect();
        let bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": release.timestamp(),
                "component": {
                    "type": "application",
                    "bom-ref": url,
                    "name": "plimsoll",
                    "version": release.version,
                    "purl": url,
                    "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                },
            },
            "components": components,
            "dependencies": edges,
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&bill)?))
    }

    /// Returns each licence once, below the list of its components.
    pub(super) fn licences(&self) -> String {
        let mut text =
            "The programs and libraries of others that are in plimsoll, with their licences.\n"
                .to_owned();
        let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for component in &self.components {
            let Component { name, version, licence, .. } = component;
            text.push_str(&format!("\n{name} {version}: {licence}"));
            if component.texts.is_empty() {
                text.push_str(" (its package has no file with the text)");
            }
            for (file, licence) in &component.texts {
                named.entry(licence.trim()).or_default().push(format!("{name} {version}, {file}"));
            }
        }
        text.push('\n');
        let mut texts: Vec<_> = named.into_iter().collect();
        texts.sort_by(|one, other| one.1.cmp(&other.1));
        for (licence, files) in texts {
            let rule = "-".repeat(80);
            text.push_str(&format!("\n{rule}\n{}\n\n{licence}\n", files.join("\n")));
        }
        text
    }
}

impl Component {
    fn entry(&self) -> Value {
        let mut entry = json!({
            "type": "library",
            "bom-ref": self.url,
            "name": self.name,
            "version": self.version,
            "purl": self.url,
            "licenses": [{ "expression": self.licence }],
        });
        if let Some((algorithm, hash)) = &self.hash {
            entry["hashes"] = json!([{ "alg": algorithm, "content": hash }]);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_crates() {
        let key = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(crate_in("serde v1.0.228"), key("serde", "1.0.228"));
        assert_eq!(crate_in("zerocopy v0.8.1 (*)"), key("zerocopy", "0.8.1"));
        assert_eq!(crate_in(""), None);
    }

    #[test]
    fn hashes_are_those_of_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let hashes = checksums(lock);
        let expected = (("a".to_owned(), "1.0.0".to_owned()), "00ff".to_owned());
        assert_eq!(hashes.into_iter().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn a_licence_is_printed_once() {
        let component = |name: &str| Component {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: "MIT".to_owned(),
            url: format!("pkg:cargo/{name}@1.0.0"),
            hash: Some(("SHA-256", "00".to_owned())),
            uses: Vec::new(),
            texts: vec![("LICENSE".to_owned(), "Permission is granted\n".to_owned())],
        };
        let components = vec![component("a"), component("b")];
        let inventory = Inventory { components, direct: vec!["pkg:cargo/a@1.0.0".to_owned()] };
        let text = inventory.licences();
        assert_eq!(text.matches("Permission").count(), 1);
        assert!(text.contains("\na 1.0.0, LICENSE\nb 1.0.0, LICENSE\n\nPermission"), "{text}");
        assert_eq!(inventory.components[0].entry()["hashes"][0]["content"], "00");
    }
}
