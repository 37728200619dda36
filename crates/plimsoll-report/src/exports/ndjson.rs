//! The seconds of a run as one JSON object a line.

use std::io::Write;

use serde_json::Value;

use super::exported_run::ExportedRun;
use super::seconds::{Cell, Table};
use crate::error::Result;

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let table = Table::of(run.archive)?;
    let names: Vec<_> = table.names.iter().map(|name| Value::from(name.as_str())).collect();
    for row in table {
        let fields = names.iter().zip(row?);
        let fields: Vec<_> = fields.map(|(name, cell)| format!("{name}:{}", value(cell))).collect();
        writeln!(out, "{{{}}}", fields.join(","))?;
    }
    Ok(())
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::Text(text) => Value::from(text),
        Cell::Count(count) => Value::from(count),
        Cell::Real(value) => Value::from(value),
        Cell::None => Value::Null,
    }
}
