//! Results on their way out of a pod: one line that names the files and the hash of all, then their bytes. The stream
//! of kubectl may end early without an error, which the hash shows.

use std::fs;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};

use plimsoll_sys::output_file;
use plimsoll_sys::private_dir::ScratchDir;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The file with what the command wrote to its standard output.
pub const STDOUT: &str = "stdout";
/// The file that says that the results were fetched.
pub const FETCHED: &str = "fetched";
/// Most files, levels of folders, and bytes of a line that names them.
const FILES_MAX: usize = 10_000;
const LEVELS_MAX: usize = 4;
const HEADER_BYTES_MAX: u64 = 4 << 20;
/// Most bytes of all files: those of a day have about 4 GB.
const BYTES_MAX: u64 = 16 << 30;

/// The head of the results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// The command's exit code.
    pub exit_code: u8,
    files: Vec<ResultFile>,
    /// SHA-256 of the bytes of all files, in order.
    sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ResultFile {
    /// Below the folder of results.
    name: String,
    bytes: u64,
}

/// Writes the results in `dir` to `out`: its standard output and the archive `run`.
pub fn write_results(dir: &Path, exit_code: u8, mut out: impl Write) -> io::Result<()> {
    let mut paths = vec![PathBuf::from(STDOUT)];
    list(dir, Path::new("run"), 0, &mut paths)?;
    let mut hash = Sha256::new();
    let mut files = Vec::new();
    for path in &paths {
        let mut file = File::open(dir.join(path))?;
        let bytes = io::copy(&mut file, &mut hash)?;
        files.push(ResultFile { name: path.display().to_string(), bytes });
    }
    let results = Results { exit_code, files, sha256: hex(hash) };
    serde_json::to_writer(&mut out, &results)?;
    out.write_all(b"\n")?;
    for path in &paths {
        io::copy(&mut File::open(dir.join(path))?, &mut out)?;
    }
    out.flush()
}

/// Adds the files below `dir` at `at`; none if there is no such folder.
fn list(dir: &Path, at: &Path, level: usize, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(dir.join(at)) else { return Ok(()) };
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = at.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && level < LEVELS_MAX {
            list(dir, &path, level + 1, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

impl Results {
    /// Reads results from `stream` as the directory `out`, which appears when it is complete.
    pub(super) fn receive(stream: impl Read, out: &Path) -> io::Result<Self> {
        let part = ScratchDir::beside(out)?;
        let results = Self::read(stream, part.path())?;
        part.rename(out)?;
        Ok(results)
    }

    /// Reads results from `stream` into `dir`, which is new. Names that lead out of it, or that are no plain ones,
    /// are an error, as is a stream that ends early.
    fn read(stream: impl Read, dir: &Path) -> io::Result<Self> {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        stream.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut line)?;
        let results: Self = serde_json::from_slice(&line)?;
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if results.files.len() > FILES_MAX || results.files.iter().any(|file| !is_plain(&file.name))
        {
            return Err(wrong("the list of files is none of plimsoll's"));
        }
        let bytes = results.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
        if bytes > BYTES_MAX {
            return Err(wrong("the files have more than 16 GiB"));
        }
        let mut hash = Sha256::new();
        for file in &results.files {
            let path = dir.join(&file.name);
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            let mut to = output_file::create_new(&path)?;
            let mut part = stream.by_ref().take(file.bytes);
            let copied = io::copy(&mut part, &mut Both(&mut to, &mut hash))?;
            if copied < file.bytes {
                return Err(wrong("the stream of kubectl ended early"));
            }
        }
        if hex(hash) == results.sha256 {
            Ok(results)
        } else {
            Err(wrong("the bytes are not those that were sent"))
        }
    }
}

/// Reports whether a name is a plain name of a file or folder, and not hidden.
fn is_plain(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let plain = |part: Component<'_>| match part {
        Component::Normal(part) => {
            part.to_str().is_some_and(|part| !part.starts_with('.') && part.chars().all(letter))
        }
        _ => false,
    };
    let path = Path::new(name);
    !name.is_empty() && path.components().count() <= LEVELS_MAX + 2 && path.components().all(plain)
}

/// Writes the same bytes to two places.
struct Both<'a>(&'a mut File, &'a mut Sha256);

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn hex(hash: Sha256) -> String {
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn sent() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("run/search-1")).unwrap();
        fs::write(dir.path().join("run/search-1/trials.jsonl"), "{}\n".repeat(100_000)).unwrap();
        fs::write(dir.path().join(STDOUT), "table\n").unwrap();
        fs::write(dir.path().join("pid"), "7").unwrap();
        let mut bytes = Vec::new();
        write_results(dir.path(), 98, &mut bytes).unwrap();
        bytes
    }

    fn received(bytes: &[u8]) -> (io::Result<Results>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Results::read(bytes, dir.path()), dir)
    }

    #[test]
    fn results_come_back_as_they_were_and_a_cut_or_a_change_is_seen() {
        let bytes = sent();
        let (results, dir) = received(&bytes);
        assert_eq!(results.unwrap().exit_code, 98);
        assert_eq!(fs::read_to_string(dir.path().join(STDOUT)).unwrap(), "table\n");
        let trials = fs::metadata(dir.path().join("run/search-1/trials.jsonl")).unwrap();
        assert_eq!((trials.len(), trials.mode() & 0o777), (300_000, 0o600));
        assert!(!dir.path().join("pid").exists());
        for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
            assert!(received(&bytes[..cut]).0.is_err(), "{cut}");
        }
        let mut changed = bytes;
        *changed.last_mut().unwrap() ^= 1;
        assert!(received(&changed).0.is_err());
    }

    #[test]
    fn results_that_would_fill_the_disk_are_refused() {
        for sizes in [vec![BYTES_MAX + 1], vec![BYTES_MAX, 1], vec![u64::MAX, u64::MAX]] {
            let file = |(at, bytes)| ResultFile { name: format!("run/{at}"), bytes };
            let files = sizes.into_iter().enumerate().map(file).collect();
            let mut stream = serde_json::to_vec(&Results { files, ..Results::default() }).unwrap();
            stream.push(b'\n');
            let (results, dir) = received(&stream);
            assert!(results.unwrap_err().to_string().contains("16 GiB"));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn results_appear_complete_and_other_directories_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (out, other) = (folder.path().join("run.2"), folder.path().join("run.part"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("theirs"), "kept").unwrap();
        let bytes = sent();
        assert!(Results::receive(&bytes[..bytes.len() / 2], &out).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        Results::receive(&bytes[..], &out).unwrap();
        assert!(out.join("run/search-1/trials.jsonl").exists());
        assert_eq!(fs::read_to_string(other.join("theirs")).unwrap(), "kept");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["../x", "/etc/x", ".x", "a/.b", "a/../b", "", "a b", "a/b/c/d/e/f/g"] {
            assert!(!is_plain(name), "{name}");
        }
        assert!(is_plain("run/search-1/trials.jsonl"));
        let files = vec![ResultFile { name: "../planted".to_owned(), bytes: 1 }];
        let mut stream = serde_json::to_vec(&Results { files, ..Results::default() }).unwrap();
        stream.extend(b"\nx");
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("results");
        fs::create_dir(&dir).unwrap();
        let error = Results::read(&stream[..], &dir).unwrap_err().to_string();
        assert!(error.contains("none of plimsoll's"), "{error}");
        assert!(!folder.path().join("planted").exists());
    }
}
