//! Where results go, checked before a long run rather than after it.

use std::path::Path;

use crate::exit::Stop;
use crate::flags::shared::OutputFlags;
use crate::flags::values::OutputFile;

/// Refuses outputs that could not be written for a reason that is visible now.
pub(super) fn check(flags: &OutputFlags) -> Result<(), Stop> {
    if let Some(OutputFile::File(path)) = &flags.json {
        if path.is_dir() {
            return Err(Stop::usage(
                format_args!("--json {path:?} is a directory"),
                "name a file, or - for standard output",
            ));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if !folder.is_none_or(Path::is_dir) {
            return Err(Stop::usage(
                format_args!("--json {path:?} lies in no directory that exists"),
                "create it first",
            ));
        }
    }
    match &flags.out {
        Some(path) if path.exists() && !path.is_dir() => Err(Stop::usage(
            format_args!("--out {path:?} is not a directory"),
            "name a directory; it is made when it does not exist",
        )),
        _ => Ok(()),
    }
}
