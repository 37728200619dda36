//! Output of a command that measures nothing: text for people, one JSON object, or both.

use std::io;
use std::io::Write;

use crate::exit::{Result, Stop};
use crate::flags::values::OutputFile;
use crate::output;

/// Writes `object` where `json` says, and `text` on standard output unless the object went there.
pub(super) fn print(json: Option<&OutputFile>, object: &str, text: &str) -> Result<()> {
    if let Some(place) = json {
        output::write("--json", place, |out| Ok(out.write_all(object.as_bytes())?))?;
    }
    if json == Some(&OutputFile::Stdout) { Ok(()) } else { say(text) }
}

/// Prints a text. A reader that has exited is no failure.
pub(super) fn say(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Stop::CannotRun(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
