//! The seconds of a run as comma-separated values, RFC 4180.

use std::io::Write;

use super::exported_run::ExportedRun;
use super::seconds::{Cell, Table};
use crate::error::Result;

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let table = Table::of(run.archive)?;
    let names: Vec<_> = table.names.iter().map(|name| text(name)).collect();
    write!(out, "{}\r\n", names.join(","))?;
    for row in table {
        let fields: Vec<_> = row?.iter().map(cell).collect();
        write!(out, "{}\r\n", fields.join(","))?;
    }
    Ok(())
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(value) => text(value),
        Cell::Count(value) => value.to_string(),
        Cell::Real(value) => value.to_string(),
        Cell::None => String::new(),
    }
}

/// A field. A spreadsheet takes text that begins like a formula for one, and a host or a directory may
/// have such a name.
pub(super) fn text(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}
