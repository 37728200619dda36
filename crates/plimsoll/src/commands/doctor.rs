//! `plimsoll doctor`: which limits of this host stop a number of connections.

use std::fs::File;
use std::io;
use std::io::Write;

use crate::exit::Stop;
use crate::flags::DoctorFlags;
use crate::flags::values::OutputFile;
use crate::plan::host_goal::needs;

pub(crate) fn run(flags: &DoctorFlags) -> Result<(), Stop> {
    let needs = needs(&flags.goal)?;
    let report = || -> io::Result<()> {
        let text = needs.json();
        match &flags.json {
            Some(OutputFile::Stdout) => return io::stdout().write_all(text.as_bytes()),
            Some(OutputFile::File(path)) => File::create(path)?.write_all(text.as_bytes())?,
            None => {}
        }
        io::stdout().write_all(needs.render().as_bytes())
    };
    match report() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let stop = format!("cannot write the result: {error}; name another place with --json");
            Err(Stop::CannotRun(stop))
        }
        _ if needs.are_met() => Ok(()),
        _ => Err(Stop::HostTooSmall),
    }
}
