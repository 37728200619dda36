//! `plimsoll doctor`: which limits of this host stop a number of connections.

use super::printed::print;
use crate::exit::{CANNOT_RUN, Result, Stop};
use crate::flags::DoctorFlags;
use crate::plan::host_goal::needs;

pub(crate) fn run(flags: &DoctorFlags) -> Result<()> {
    let needs = needs(&flags.goal)?;
    print(flags.json.as_ref(), &needs.json(), &needs.render())?;
    if needs.are_met() { Ok(()) } else { Err(Stop::Reported(CANNOT_RUN)) }
}
