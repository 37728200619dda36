//! The seconds of a run as one JSON object a line.

use std::io::Write;

use serde_json::Value;

use super::run::ExportedRun;
use super::seconds::Table;
use crate::error::Result;

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let table = Table::of(run.archive)?;
    let names: Vec<_> = table.names.iter().map(|name| Value::from(name.as_str())).collect();
    for row in table {
        let fields = names.iter().zip(row?);
        let fields: Vec<_> = fields.map(|(name, value)| format!("{name}:{value}")).collect();
        writeln!(out, "{{{}}}", fields.join(","))?;
    }
    Ok(())
}
