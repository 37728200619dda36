//! Output files of results, checked before a run begins.

use std::fs;
use std::path::Path;

use plimsoll_sys::output_file;

use crate::exit::{Result, Stop};
use crate::flags::shared::OutputFlags;
use crate::flags::values::OutputFile;

/// Refuses outputs that cannot be written.
pub(super) fn check(flags: &OutputFlags) -> Result<()> {
    check_json(flags.json.as_ref())?;
    match &flags.out {
        Some(path) if path.exists() && !path.is_dir() => refuse!(
            "--out {path:?} is not a directory";
            "name a directory; it is made when it does not exist"),
        Some(path) if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) => {
            refuse!("--out {path:?} is not empty, and an archive never overwrites";
                "name another directory")
        }
        _ => Ok(()),
    }
}

/// Refuses a file of JSON that cannot be written.
pub(super) fn check_json(place: Option<&OutputFile>) -> Result<()> {
    match place {
        Some(OutputFile::File(path)) => check_file("--json", path),
        Some(OutputFile::Stdout) | None => Ok(()),
    }
}

/// Refuses a file of rows that cannot be written, or that would be mixed with the summary.
pub(super) fn check_rows(place: &OutputFile, flags: &OutputFlags) -> Result<()> {
    match place {
        OutputFile::File(path) => check_file("--rows", path),
        OutputFile::Stdout if flags.json == Some(OutputFile::Stdout) => refuse!(
            "--json and --rows both write to standard output";
            "name a file for one of them"),
        OutputFile::Stdout => Ok(()),
    }
}

fn check_file(flag: &str, path: &Path) -> Result<()> {
    refuse_if!(path.is_dir();
        "{flag} {path:?} is a directory"; "name a file, or - for standard output");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    refuse_if!(!folder.is_none_or(Path::is_dir);
        "{flag} {path:?} lies in no directory that exists"; "create it first");
    check_writable(flag, path)
}

/// Tests by opening; existing content stays.
fn check_writable(flag: &str, path: &Path) -> Result<()> {
    output_file::check(path)
        .map_err(|error| Stop::CannotRun(format!("cannot write {flag} {path:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "kept").unwrap();
        assert_eq!(check_writable("--json", &old), Ok(()));
        assert_eq!(check_writable("--json", &new), Ok(()));
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&old, &link).unwrap();
        assert_eq!(check_writable("--json", &link).unwrap_err().code(), 1);
        let missing = check_writable("--json", &folder.path().join("no/such")).unwrap_err();
        assert_eq!(missing.code(), 1);
    }
}
