//! `--script` and `--echo` into what is said on each connection.

use std::path::PathBuf;

use plimsoll_model::target::{Body, Script};
use plimsoll_proto::script::{self, EXPECT_BYTES_MAX, Program, SEND_BYTES_MAX};

use super::Inputs;
use super::bodies::Bodies;
use super::inputs::read_bounded;
use crate::exit::Stop;
use crate::flags::script::ScriptFlags;
use crate::flags::values::InputFile;

/// The script that the flags name, checked, and the large file that it sends; no script where they name none and
/// nothing needs to be said.
pub(super) fn script(
    flags: &ScriptFlags,
    only_connects: bool,
    bodies: &mut Bodies,
    inputs: &mut Inputs<'_>,
) -> Result<(Option<Script>, Body), Stop> {
    let mut body = Body::default();
    let from = match (&flags.script, flags.echo) {
        (Some(from), _) => from,
        (None, Some(size)) => return Ok((Some(echo(size)?), body)),
        (None, None) if only_connects => return Ok((None, body)),
        (None, None) => {
            return Err(Stop::usage(
                "a tcp:// or tls:// URL does not say what is sent",
                "give --script FILE, or --echo SIZE for a server that sends everything back",
            ));
        }
    };
    let text = inputs.read("--script", from)?;
    let folder = match from {
        InputFile::Stdin => PathBuf::new(),
        // Files that a script names lie beside it.
        InputFile::File(path) => path.parent().map(PathBuf::from).unwrap_or_default(),
    };
    let script = script::parse(&text, &mut |path| {
        let path = folder.join(path);
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

fn echo(size: u64) -> Result<Script, Stop> {
    match usize::try_from(size) {
        Ok(size @ 1..=EXPECT_BYTES_MAX) => Ok(Script::echo(vec![b'x'; size])),
        _ => Err(Stop::usage("--echo sends 1 byte to 64 KiB", "give such a size")),
    }
}
