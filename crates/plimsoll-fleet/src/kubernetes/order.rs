//! The command of a run and the files that it names, on their way into the coordinator's pod: in its Secret, since
//! everybody who may look at pods reads the arguments of their containers, where the cluster would also expand `$(X)`.

use std::fmt;
use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path};

use plimsoll_model::units::grouped;
use plimsoll_sys::{input_file, output_file};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most bytes of a command and its files: a Secret has at most 1 MiB, of which keys and names need a part.
pub const ORDER_BYTES_MAX: usize = (1 << 20) - (32 << 10);
/// Most files.
const FILES_MAX: usize = 1_000;
/// The entry of the Secret with the words, and how those with files begin; their number follows.
const COMMAND: &str = "command";
const FILE: &str = "file-";

/// A command with its files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The words behind `plimsoll`.
    pub words: Vec<String>,
    /// The files that they name.
    pub files: Vec<OrderFile>,
}

/// A file of a command.
#[derive(Clone, PartialEq, Eq)]
pub struct OrderFile {
    /// Below the folder in which the command runs.
    pub path: String,
    /// Content of the file.
    pub content: Vec<u8>,
}

/// Why a command does not travel.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the command and its files have {} bytes, and a Secret takes {}", grouped(*.0), grouped(ORDER_BYTES_MAX as u64))]
pub struct OrderTooLarge(u64);

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({} words, {} files)", self.words.len(), self.files.len())
    }
}

/// The words and the paths, as an entry of a Secret.
#[derive(Serialize, Deserialize)]
struct Listed {
    words: Vec<String>,
    files: Vec<String>,
}

impl Order {
    /// Checks that it fits into a Secret.
    pub fn check(&self) -> Result<(), OrderTooLarge> {
        let entries = self.entries(&self.words);
        let bytes: usize = entries.iter().map(|(name, text)| name.len() + text.len()).sum();
        let fits = bytes <= ORDER_BYTES_MAX && self.files.len() <= FILES_MAX;
        if fits { Ok(()) } else { Err(OrderTooLarge(bytes as u64)) }
    }

    /// Returns the entries of a Secret, with `words` in place of its own.
    pub(super) fn entries(&self, words: &[String]) -> Vec<(String, Vec<u8>)> {
        let files = self.files.iter().map(|file| file.path.clone()).collect();
        let listed = Listed { words: words.to_vec(), files };
        // Words and paths are text, which JSON can hold.
        let command = serde_json::to_vec(&listed).unwrap_or_default();
        let contents = self.files.iter().map(|file| file.content.clone());
        let named = (0..).map(|number: usize| format!("{FILE}{number}")).zip(contents);
        [(COMMAND.to_owned(), command)].into_iter().chain(named).collect()
    }

    /// Reads it where a Secret is mounted.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let listed: Listed = serde_json::from_slice(&read_bounded(&dir.join(COMMAND))?)?;
        if listed.files.len() > FILES_MAX || !listed.files.iter().all(|path| is_below(path)) {
            let what = "the files of the command are none of plimsoll's";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let file = |(number, path): (usize, String)| {
            let content = read_bounded(&dir.join(format!("{FILE}{number}")))?;
            Ok(OrderFile { path, content })
        };
        let files = listed.files.into_iter().enumerate().map(file).collect::<io::Result<_>>()?;
        Ok(Self { words: listed.words, files })
    }

    /// Writes its files below `dir`, which is new.
    pub fn place(&self, dir: &Path) -> io::Result<()> {
        let mut folders = DirBuilder::new();
        folders.mode(0o700).create(dir)?;
        folders.recursive(true);
        for file in &self.files {
            let path = dir.join(&file.path);
            folders.create(path.parent().unwrap_or(dir))?;
            output_file::create_new(&path)?.write_all(&file.content)?;
        }
        Ok(())
    }
}

/// Reports whether a path is one of a file below a folder, without ways out of it.
pub fn is_below(path: &str) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    !path.is_empty() && Path::new(path).components().all(is_plain)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    input_file::read_regular(path, ORDER_BYTES_MAX as u64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn order() -> Order {
        let file = |path: &str, content: &[u8]| OrderFile {
            path: path.to_owned(),
            content: content.to_vec(),
        };
        Order {
            words: ["load", "$(HOME) $$ $(X", "", "a b\n", "'\"\\é"].map(str::to_owned).to_vec(),
            files: vec![file("targets", b"GET http://a/"), file("bodies/one", &[0, 255, b'\n'])],
        }
    }

    #[test]
    fn words_and_files_arrive_as_they_were() {
        let secret = tempfile::tempdir().unwrap();
        let order = order();
        for (name, content) in order.entries(&order.words) {
            fs::write(secret.path().join(name), content).unwrap();
        }
        let arrived = Order::read(secret.path()).unwrap();
        assert!(arrived == order);
        let dir = secret.path().join("in");
        arrived.place(&dir).unwrap();
        assert_eq!(fs::read(dir.join("bodies/one")).unwrap(), [0, 255, b'\n']);
        assert_eq!(fs::read(dir.join("targets")).unwrap(), b"GET http://a/");
        assert!(arrived.place(&dir).is_err(), "it is no new folder");
        assert!(!format!("{order:?}").contains("HOME"));
    }

    #[test]
    fn what_leads_out_of_the_folder_or_is_too_large_is_refused() {
        for path in ["/etc/x", "../x", "a/../../x", "./x", ""] {
            assert!(!is_below(path), "{path}");
        }
        let secret = tempfile::tempdir().unwrap();
        let forged = r#"{"words":[],"files":["../x"]}"#;
        fs::write(secret.path().join(COMMAND), forged).unwrap();
        fs::write(secret.path().join(format!("{FILE}0")), "x").unwrap();
        let error = Order::read(secret.path()).unwrap_err().to_string();
        assert!(error.contains("none of plimsoll's"), "{error}");
        let mut large = order();
        assert_eq!(large.check(), Ok(()));
        large.files[0].content = vec![0; ORDER_BYTES_MAX];
        assert!(large.check().unwrap_err().to_string().contains("and a Secret takes 1,015,808"));
    }
}
