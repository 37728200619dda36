//! `--script` and `--echo` into what is said on each connection.

use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};

use plimsoll_model::target::{Body, Script};
use plimsoll_proto::script::{self, EXPECT_BYTES_MAX, Program, SEND_BYTES_MAX};

use super::Inputs;
use super::bodies::Bodies;
use super::inputs::read_bounded;
use crate::exit::{Result, Stop};
use crate::flags::script::ScriptFlags;
use crate::flags::values::InputFile;

/// Returns the script that the flags name, checked, and the large file that it sends; no script where they name none
/// and nothing needs to be said.
pub(super) fn script(
    flags: &ScriptFlags,
    only_connects: bool,
    bodies: &mut Bodies,
    inputs: &mut Inputs,
) -> Result<(Option<Script>, Body)> {
    let mut body = Body::default();
    let from = match (&flags.script, flags.echo) {
        (Some(from), _) => from,
        (None, Some(size)) => return Ok((Some(echo(size)?), body)),
        (None, None) if only_connects => return Ok((None, body)),
        (None, None) => {
            refuse!("a tcp:// or tls:// URL does not say what is sent";
                "give --script FILE, or --echo SIZE for a server that sends everything back");
        }
    };
    let text = inputs.read("--script", from)?;
    let folder = match from {
        InputFile::Stdin => Path::new(""),
        InputFile::File(path) => path.parent().unwrap_or_else(|| Path::new("")),
    };
    let script = script::parse(&text, &mut |path| {
        let path = file_below(folder, path)?;
        if std::fs::metadata(&path)?.len() <= SEND_BYTES_MAX as u64 {
            return read_bounded(&path).map(Some);
        }
        body = bodies.file(&path)?;
        Ok(None)
    });
    let checked = script.and_then(|script| Program::new(&script).map(|_| script));
    checked
        .map(|script| (Some(script), body))
        .map_err(|error| Stop::Usage(format!("--script {from}, {error}")))
}

/// Returns the file that a script names, which may be somebody else's: it lies in the script's folder or below, also
/// where links lead.
fn file_below(folder: &Path, name: &str) -> IoResult<PathBuf> {
    let folder = Path::new(".").join(folder).canonicalize()?;
    let path = folder.join(name).canonicalize()?;
    if path.starts_with(&folder) {
        return Ok(path);
    }
    Err(IoError::new(ErrorKind::PermissionDenied, "it is not below the script's folder"))
}

fn echo(size: u64) -> Result<Script> {
    match usize::try_from(size) {
        Ok(size @ 1..=EXPECT_BYTES_MAX) => Ok(Script::echo(vec![b'x'; size])),
        _ => refuse!("--echo sends 1 byte to 64 KiB"; "give such a size"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_names_files_below_its_folder_only() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("scripts");
        fs::create_dir_all(folder.join("data")).unwrap();
        for (name, text) in [("secret", "s"), ("scripts/a", "a"), ("scripts/data/b", "b")] {
            fs::write(place.path().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        for name in ["a", "./a", "data/b", "data/../a"] {
            assert!(file_below(&folder, name).is_ok(), "{name}");
        }
        let absolute = place.path().join("secret").display().to_string();
        for name in ["../secret", "data/../../secret", "link", &absolute, "/etc/passwd"] {
            let error = file_below(&folder, name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{name}");
        }
        assert_eq!(file_below(&folder, "missing").unwrap_err().kind(), ErrorKind::NotFound);
        // Beside a script that is read from standard input, or named without a folder.
        assert!(file_below(Path::new(""), "Cargo.toml").is_ok());
    }
}
