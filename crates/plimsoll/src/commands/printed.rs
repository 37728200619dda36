//! What a command that measures nothing writes: text for people, one JSON object, or both.

use std::fs::File;
use std::io;
use std::io::Write;

use crate::exit::Stop;
use crate::flags::values::OutputFile;

/// Writes `object` where `json` says, and `text` on standard output unless the object went there.
/// `what` is written, for the complaint when it cannot be.
pub(super) fn print(
    what: &str,
    json: Option<&OutputFile>,
    object: &str,
    text: &str,
) -> Result<(), Stop> {
    match json {
        Some(OutputFile::Stdout) => return say(object),
        Some(OutputFile::File(path)) => {
            let written = File::create(path).and_then(|mut file| file.write_all(object.as_bytes()));
            written.map_err(|error| {
                let fix = "name another place with --json";
                Stop::CannotRun(format!("cannot write {what}: {error}; {fix}"))
            })?;
        }
        None => {}
    }
    say(text)
}

/// A reader that has gone away is no failure.
pub(super) fn say(text: &str) -> Result<(), Stop> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Stop::CannotRun(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
