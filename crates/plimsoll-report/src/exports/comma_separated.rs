//! The seconds of a run as comma-separated values, RFC 4180.

use std::io::Write;

use serde_json::Value;

use super::run::ExportedRun;
use super::seconds::Table;
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

fn cell(value: &Value) -> String {
    match value {
        Value::String(value) => text(value),
        // JSON has `1.0` for a whole number.
        Value::Number(value) if value.is_f64() => value.as_f64().unwrap_or_default().to_string(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

/// Returns a field. A spreadsheet takes text that begins like a formula for one, and a host or a directory may
/// have such a name.
pub(super) fn text(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}
