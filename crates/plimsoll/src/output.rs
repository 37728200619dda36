//! Output of results: a file that is there whole or not at all, or standard output.

use std::io;
use std::io::{BufWriter, Write};

use plimsoll_report::ReportError;
use plimsoll_sys::output_file;
use plimsoll_sys::whole_file::WholeFile;

use crate::exit::{Result, Stop};
use crate::flags::values::OutputFile;
use crate::screen::Stream;

/// Writes what `write` gives to `place`, the value of `flag`.
pub(crate) fn write(
    flag: &str,
    place: &OutputFile,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<()> {
    let (written, name) = match place {
        OutputFile::Stdout => {
            let mut out = BufWriter::new(io::stdout().lock());
            let written = write(&mut out).and_then(|()| Ok(out.flush()?));
            (written, "to standard output".to_owned())
        }
        OutputFile::File(path) => {
            let written =
                WholeFile::create(path).map_err(ReportError::from).and_then(|mut file| {
                    write(&mut file)?;
                    Ok(file.finish()?)
                });
            (written, path.display().to_string())
        }
    };
    complain(flag, &name, written)
}

/// Appends to a file, which keeps its content alone if that fails.
pub(crate) fn append(
    flag: &str,
    place: &OutputFile,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<()> {
    let OutputFile::File(path) = place else { return write(flag, place, fill) };
    let mut text = Vec::new();
    let written = fill(&mut text).and_then(|()| {
        let mut file = output_file::append(path)?;
        let before = file.metadata()?.len();
        let appended = file.write_all(&text);
        if appended.is_err() {
            // The part that fitted is of no use; the error that ended it is the news.
            let _ = file.set_len(before);
        }
        Ok(appended?)
    });
    complain(flag, &path.display().to_string(), written)
}

/// Maps the result of writing: a reader that has exited is no failure, any other error is lost output.
fn complain(flag: &str, name: &str, written: Result<(), ReportError>) -> Result<()> {
    let why = match written {
        Ok(()) => return Ok(()),
        Err(ReportError::Output(error)) => match ignore_closed_pipe(Err(error)) {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Err(unread) if unread.is_unread() => return Err(Stop::Usage(unread.to_string())),
        Err(other) => other.to_string(),
    };
    Err(Stop::CannotRun(format!("cannot write {flag} {name}: {why}")))
}

/// Returns the stream of a report: not the one of a result.
pub(crate) fn report_stream<'a>(places: impl IntoIterator<Item = &'a OutputFile>) -> Stream {
    let is_taken = places.into_iter().any(|place| *place == OutputFile::Stdout);
    if is_taken { Stream::Err } else { Stream::Out }
}

/// Writes a report.
pub(crate) fn show(stream: Stream, text: &[u8]) -> Result<()> {
    let (written, name) = match stream {
        Stream::Out => (write_whole(&mut io::stdout(), text), "standard output"),
        Stream::Err => (write_whole(&mut io::stderr(), text), "standard error"),
    };
    ignore_closed_pipe(written)
        .map_err(|error| Stop::CannotRun(format!("cannot write the report to {name}: {error}")))
}

fn write_whole(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    out.write_all(text)?;
    out.flush()
}

/// Ignores a closed pipe; any other error is lost output.
fn ignore_closed_pipe(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
