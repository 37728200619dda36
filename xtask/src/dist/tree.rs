//! Files as they are packed: sorted, with numeric owners and one common time.
//!
//! [`Tree`] is a map from paths to files and folders; its order is the order in every package. [`Tree::add`] also
//! adds the folders above a file. [`Tree::tar`] writes a POSIX ustar archive (paths of up to 100 bytes), [`gzip`]
//! compresses without a name or a time, and [`Tree::write_below`] writes the files to a folder. Equal trees give
//! equal bytes, which makes releases reproducible. Start with [`Tree`].

use std::collections::BTreeMap;
use std::fs;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};

/// The unit of a tar file.
const BLOCK: usize = 512;
/// The longest path that the first field of a header has room for.
const PATH_MAX: usize = 100;

/// One file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    /// The number of its user and of its group.
    owner: u32,
    /// `None` for a folder.
    content: Option<Vec<u8>>,
}

/// Files and folders by their paths, which begin without a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// Adds a file of root's, and the folders above it.
    pub(super) fn add(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.add_above(path);
        self.0.insert(path.to_owned(), Entry { mode, owner: 0, content: Some(content) });
    }

    pub(super) fn add_folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.add_above(path);
        self.0.insert(path.to_owned(), Entry { mode, owner, content: None });
    }

    fn add_above(&mut self, path: &str) {
        for (slash, _) in path.match_indices('/') {
            let folder = Entry { mode: 0o755, owner: 0, content: None };
            self.0.entry(path[..slash].to_owned()).or_insert(folder);
        }
    }

    /// Moves the files below `from` to below `to`. Both end in a slash.
    pub(super) fn renamed(&self, from: &str, to: &str) -> Self {
        let mut renamed = Self::default();
        for (path, entry) in &self.0 {
            // The folder that is left is made again where something else is in it.
            if format!("{path}/") == from {
                continue;
            }
            let path =
                path.strip_prefix(from).map_or_else(|| path.clone(), |rest| format!("{to}{rest}"));
            renamed.add_above(&path);
            renamed.0.insert(path, entry.clone());
        }
        renamed
    }

    /// Returns paths and contents of the files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| Some((path.as_str(), entry.content.as_deref()?)))
    }

    /// Writes all of it below a folder, with the time of each.
    pub(super) fn write_below(&self, root: &Path, time: SystemTime) -> Result<()> {
        for (path, entry) in &self.0 {
            let path = root.join(path);
            match &entry.content {
                None => fs::create_dir_all(&path),
                Some(content) => fs::write(&path, content),
            }
            .with_context(|| path.display().to_string())?;
            fs::set_permissions(&path, Permissions::from_mode(entry.mode))?;
        }
        // Afterwards: a new file changes the time of its folder.
        for path in self.0.keys() {
            File::open(root.join(path))?.set_modified(time)?;
        }
        Ok(())
    }

    /// Returns the tree as a tar file (POSIX ustar).
    pub(super) fn tar(&self, seconds: u64) -> Result<Vec<u8>> {
        let mut tar = Vec::new();
        for (path, entry) in &self.0 {
            tar.extend(header(path, entry, seconds)?);
            let content = entry.content.as_deref().unwrap_or_default();
            tar.extend(content);
            tar.resize(tar.len().next_multiple_of(BLOCK), 0);
        }
        tar.resize(tar.len() + 2 * BLOCK, 0);
        Ok(tar)
    }
}

fn header(path: &str, entry: &Entry, seconds: u64) -> Result<[u8; BLOCK]> {
    let slash = if entry.content.is_none() { "/" } else { "" };
    let name = format!("{path}{slash}");
    if name.len() > PATH_MAX {
        bail!("{name} is too long for a tar file");
    }
    let bytes = entry.content.as_ref().map_or(0, Vec::len);
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        header[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, &name);
    put(100, &format!("{:07o}", entry.mode));
    put(108, &format!("{:07o}", entry.owner));
    put(116, &format!("{:07o}", entry.owner));
    put(124, &format!("{bytes:011o}"));
    put(136, &format!("{seconds:011o}"));
    // The checksum is made over spaces in its own place.
    put(148, "        ");
    put(156, if entry.content.is_none() { "5" } else { "0" });
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// Compresses by gzip, without a name or a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.add("usr/share/b.txt", 0o644, vec![b'x'; 513]);
        tree.add("usr/bin/a", 0o755, b"program".to_vec());
        tree.add_folder("runs", 0o1777, 65_532);
        tree
    }

    #[test]
    fn tar_reads_what_was_packed() {
        let packed = gzip(&tree().tar(86_400).unwrap()).unwrap();
        let listed = |arguments: &[&str]| {
            let mut child = Command::new("tar")
                .args(arguments)
                .env("TZ", "UTC")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&packed).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        let lines = listed(&["-tvz", "--numeric-owner"]);
        let words: Vec<Vec<_>> =
            lines.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
        let day = "1970-01-02";
        assert_eq!(
            words,
            [
                ["drwxrwxrwt", "65532/65532", "0", day, "00:00", "runs/"],
                ["drwxr-xr-x", "0/0", "0", day, "00:00", "usr/"],
                ["drwxr-xr-x", "0/0", "0", day, "00:00", "usr/bin/"],
                ["-rwxr-xr-x", "0/0", "7", day, "00:00", "usr/bin/a"],
                ["drwxr-xr-x", "0/0", "0", day, "00:00", "usr/share/"],
                ["-rw-r--r--", "0/0", "513", day, "00:00", "usr/share/b.txt"],
            ]
        );
        assert_eq!(listed(&["-xzO", "usr/bin/a"]), "program");
    }

    #[test]
    fn renamed_files_keep_what_they_are() {
        let renamed = tree().renamed("usr/share/", "opt/x/");
        let paths: Vec<_> = renamed.0.keys().map(String::as_str).collect();
        assert_eq!(paths, ["opt", "opt/x", "opt/x/b.txt", "runs", "usr", "usr/bin", "usr/bin/a"]);
        assert_eq!(renamed.0["usr/bin/a"], tree().0["usr/bin/a"]);
        let long = tree().renamed("usr/", &format!("{}/", "x".repeat(99)));
        assert!(long.tar(0).is_err(), "a path that does not fit");
    }
}
