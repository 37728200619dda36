//! `plimsoll report RUN…`: draws archived runs again, writes one in other formats, and shows what
//! `plimsoll watch` has archived.

use std::io::Write;

use plimsoll_model::summary::Summary;
use plimsoll_report::archive::has_readings;
use plimsoll_report::exports::{Export, ExportedRun, write_export};
use plimsoll_report::terminal::{Style, render_gate};
use plimsoll_report::view::View;
use plimsoll_report::watch::render_watched;
use plimsoll_report::{Archive, ReportError, page, redraw};

mod gate;
mod merge;

use crate::exit::{Result, Stop};
use crate::flags::ReportFlags;
use crate::flags::report::{FileFormat, WantedFile};
use crate::flags::values::OutputFile;
use crate::screen::Stream;
use crate::{causes, output, run};

pub(crate) fn run(flags: &ReportFlags) -> Result<()> {
    if let (true, Some(out)) = (flags.merge, &flags.out) {
        let runs = vec![merge::merge(&flags.runs, out)?];
        return run(&ReportFlags { runs, merge: false, ..flags.clone() });
    }
    let wanted = flags.files.wanted();
    check(flags, &wanted)?;
    let stream = output::report_stream(wanted.iter().map(|file| file.place));
    let wanted_page = wanted.iter().find(|file| file.format == FileFormat::Html);
    let mut views = Vec::new();
    let mut gated = None;
    for (index, dir) in flags.runs.iter().enumerate() {
        if index > 0 {
            output::show(stream, b"\n")?;
        }
        match Archive::open(dir) {
            Ok(archive) => {
                let (summary, stop) = report_run(&archive, flags, &wanted, stream)?;
                gated = stop;
                if wanted_page.is_some() {
                    let view = View::of_archive(&archive, &summary);
                    views.push(view.map_err(|error| stopped(&error))?);
                }
            }
            Err(ReportError::NotAnArchive { .. })
                if wanted.is_empty() && flags.baseline.is_none() =>
            {
                let text = render_watched(dir, stream.style());
                let text = text.map_err(|error| Stop::Usage(error.to_string()))?;
                output::show(stream, text.as_bytes())?;
            }
            Err(ReportError::NotAnArchive { dir }) if has_readings(&dir) => {
                refuse!("{} is what `watch` has archived", dir.display();
                    "it is drawn as text: name no file and no baseline");
            }
            Err(error) => return Err(Stop::Usage(error.to_string())),
        }
    }
    wanted_page.map_or(Ok(()), |file| write_page(file, &views))?;
    gated.map_or(Ok(()), Err)
}

/// Maps an error to its exit: a usage error if an archive cannot be read, otherwise an output that cannot be written.
fn stopped(error: &ReportError) -> Stop {
    let text = error.to_string();
    if error.is_unread() { Stop::Usage(text) } else { Stop::CannotRun(text) }
}

/// Writes the page of one run, or of several over each other.
fn write_page(file: &WantedFile<'_>, views: &[View]) -> Result<()> {
    let text = match views {
        [only] => page::render(only),
        several => page::render_overlay(several),
    };
    output::write(file.flag, file.place, |out| Ok(out.write_all(text.as_bytes())?))
}

/// Checks the files: only a page can be made from several runs, and only one file can go to standard output.
fn check(flags: &ReportFlags, wanted: &[WantedFile<'_>]) -> Result<()> {
    let of_one = wanted.iter().find(|file| file.format != FileFormat::Html);
    if let (Some(file), true) = (of_one, flags.runs.len() > 1) {
        refuse!("{} writes one run", file.flag; "name one archive");
    }
    refuse_if!(flags.baseline.is_some() && flags.runs.len() > 1;
        "--baseline is compared with one run"; "name one archive");
    let mut to_stdout = wanted.iter().filter(|file| *file.place == OutputFile::Stdout);
    if let (Some(first), Some(second)) = (to_stdout.next(), to_stdout.next()) {
        refuse!("{} and {} both write to standard output", first.flag, second.flag;
            "name a file for one of them");
    }
    Ok(())
}

/// Draws a run, then writes the files; one that cannot be written does not stop the others. Returns the command's end
/// once everything is written, too, if the gates are not passed.
fn report_run(
    archive: &Archive,
    flags: &ReportFlags,
    wanted: &[WantedFile<'_>],
    stream: Stream,
) -> Result<(Summary, Option<Stop>)> {
    let diagnose = |summary: &Summary| {
        let find = summary.result.find()?;
        causes::of(&causes::readings(&archive.dir), find, &archive.trials)
    };
    let style = Style { details: flags.details, ..stream.style() };
    let (mut text, summary) = redraw(archive, &diagnose, style).map_err(|error| stopped(&error))?;
    let (gate, stop) = match &flags.baseline {
        Some(dir) => {
            let (report, stop) = gate::gate(&flags.fail_if, dir, archive, &summary)?;
            (Some(report), stop)
        }
        None => (None, None),
    };
    text.extend(gate.iter().map(|gate| render_gate(gate, stream.style())));
    let shown = output::show(stream, text.as_bytes());
    let write = |file: &WantedFile<'_>| match file.format {
        FileFormat::Json => run::write_json(file.place, &summary),
        // When every run has been read.
        FileFormat::Html => Ok(()),
        FileFormat::Export(export) => {
            let run = ExportedRun { archive, summary: &summary, gate: gate.as_ref() };
            let fill = |out: &mut dyn Write| write_export(export, &run, out);
            match export {
                Export::Markdown => output::append(file.flag, file.place, fill),
                _ => output::write(file.flag, file.place, fill),
            }
        }
    };
    wanted.iter().map(write).fold(shown, Result::and)?;
    Ok((summary, stop))
}
