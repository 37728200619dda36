//! `plimsoll schema`: prints the JSON Schema of a document.

use plimsoll_report::schema;

use super::printed::say;
use crate::exit::Result;
use crate::flags::SchemaFlags;

pub(crate) fn run(flags: &SchemaFlags) -> Result<()> {
    let found = schema::ALL.iter().find(|one| one.name == flags.name);
    say(found.map_or("", |one| one.text))
}
