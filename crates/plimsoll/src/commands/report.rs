//! `plimsoll report RUN…`: draws archived runs again, and what `plimsoll watch` has archived.

use plimsoll_model::summary::Summary;
use plimsoll_report::watch::render_watched;
use plimsoll_report::{Archive, ReportError, redraw};

use crate::causes;
use crate::exit::Stop;
use crate::flags::ReportFlags;
use crate::run;

pub(crate) fn run(flags: &ReportFlags) -> Result<(), Stop> {
    if flags.json.is_some() && flags.runs.len() > 1 {
        return Err(Stop::usage("--json writes one run", "name one archive"));
    }
    let stream = run::report_stream(flags.json.as_ref());
    for (index, dir) in flags.runs.iter().enumerate() {
        let mut text = Vec::new();
        if index > 0 {
            text.push(b'\n');
        }
        let archive = match Archive::open(dir) {
            Ok(archive) => archive,
            Err(ReportError::NotAnArchive { .. }) if flags.json.is_none() => {
                render_watched(dir, stream.style(), &mut text)
                    .map_err(|error| Stop::Usage(error.to_string()))?;
                run::show(stream, &text)?;
                continue;
            }
            Err(error) => return Err(Stop::Usage(error.to_string())),
        };
        let diagnose = |summary: &Summary| {
            let find = summary.find.as_ref()?;
            causes::of(&causes::readings(archive.dir()), find, archive.trials())
        };
        let redrawn = redraw(&archive, &diagnose, stream.style(), &mut text)
            .map_err(|error| Stop::CannotRun(error.to_string()))?;
        let shown = run::show(stream, &text);
        if let Some(place) = &flags.json {
            run::write_json(place, &redrawn.summary)?;
        }
        shown?;
    }
    Ok(())
}
