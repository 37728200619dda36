//! Single operations as vegeta writes them: `vegeta report`, `plot` and `encode` read them.
//!
//! Vegeta's plot never draws rows after a missing number, and fails on a time that goes back. So the rows
//! are sorted by their times and numbered afresh.

use std::io::Write;

use plimsoll_model::Nanos;
use plimsoll_model::row::{Row, RowEnd};
use plimsoll_model::target::Target;
use serde::Serialize;
use serde_json::Value;

use super::comma_separated::text;
use super::seconds::{run_name, start_unix_ns};
use crate::archive::Archive;
use crate::error::{ReportError, Result};
use crate::time_text;

/// vegeta's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Twelve fields, no header.
    Csv,
    /// An object a line.
    Json,
}

/// The start of a row's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowLatency {
    /// From the intended start.
    #[default]
    Corrected,
    /// From the actual send.
    Uncorrected,
}

/// A request that rows name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTarget {
    /// Method, as it may be shown.
    pub method: String,
    /// URL, as it may be shown.
    pub url: String,
    /// Bytes of its body.
    pub body_bytes: u64,
}

impl RowTarget {
    /// Creates a request of a plan.
    pub fn of(target: &Target) -> Self {
        Self {
            method: target.method_shown().to_owned(),
            url: target.url.to_string(),
            body_bytes: target.body.len() as u64,
        }
    }

    /// Creates a request of an archive.
    fn archived(target: &Value) -> Self {
        let text = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
        let body_bytes = target["body"]["bytes"].as_u64().unwrap_or(0);
        Self { method: text("method"), url: text("url"), body_bytes }
    }
}

/// The common part of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowHead {
    /// The name of the run.
    pub name: String,
    /// One of `every` operations has a row.
    pub every: u32,
    /// Time at which the first operation was due, in ns since 1970, UTC.
    pub epoch_unix_ns: u64,
    /// The requests, by their numbers in the rows.
    pub targets: Vec<RowTarget>,
    /// The start of latencies.
    pub latency: RowLatency,
}

impl RowHead {
    /// Returns the value of vegeta's field `attack`: the name, and the sampling of the rows.
    fn attack(&self) -> String {
        match self.every {
            0 | 1 => self.name.clone(),
            every => format!("{} (1 in {every})", self.name),
        }
    }

    /// Returns the start of the row's time, since the epoch.
    fn begin(&self, row: &Row) -> Nanos {
        match (self.latency, row.sent) {
            (RowLatency::Uncorrected, Some(sent)) => sent,
            _ => row.intended,
        }
    }
}

/// The fields of a row, in vegeta's order of its JSON.
#[derive(Serialize)]
struct Line<'a> {
    attack: &'a str,
    seq: u64,
    code: u16,
    timestamp: String,
    latency: u64,
    bytes_out: u64,
    bytes_in: u64,
    error: String,
    body: &'static str,
    method: &'a str,
    url: &'a str,
    headers: Value,
    /// vegeta skips what it does not know.
    #[serde(skip_serializing_if = "is_all")]
    sampled: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_all(every: &u32) -> bool {
    *every <= 1
}

/// Writes `rows`, which may come in any order.
pub fn write_rows(
    head: &RowHead,
    format: RowFormat,
    mut rows: Vec<Row>,
    out: &mut dyn Write,
) -> Result<()> {
    rows.sort_by_key(|row| (head.begin(row), row.ended, row.target));
    let attack = head.attack();
    let nowhere = RowTarget::default();
    for (seq, row) in (0..).zip(&rows) {
        let target = head.targets.get(row.target as usize).unwrap_or(&nowhere);
        let begin = head.begin(row);
        let unix_ns = head.epoch_unix_ns + begin.0;
        let is_sent = row.sent.is_some();
        let mut line = Line {
            attack: &attack,
            seq,
            code: row.status,
            timestamp: String::new(),
            latency: row.ended.since(begin).0,
            bytes_out: if is_sent { target.body_bytes } else { 0 },
            bytes_in: row.body_bytes,
            error: error(row),
            body: "",
            method: &target.method,
            url: &target.url,
            headers: Value::Null,
            sampled: head.every,
        };
        match format {
            RowFormat::Csv => writeln!(out, "{}", fields(&line, unix_ns).join(","))?,
            RowFormat::Json => {
                line.timestamp = time_text::rfc3339_ns(unix_ns);
                serde_json::to_writer(&mut *out, &line)?;
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

/// Returns the twelve fields of a row.
fn fields(line: &Line<'_>, unix_ns: u64) -> [String; 12] {
    [
        unix_ns.to_string(),
        line.code.to_string(),
        line.latency.to_string(),
        line.bytes_out.to_string(),
        line.bytes_in.to_string(),
        text(&line.error),
        String::new(),
        text(line.attack),
        line.seq.to_string(),
        text(line.method),
        text(line.url),
        String::new(),
    ]
}

/// Returns the error text: empty for success, the status as in a status line if there is one, otherwise our class.
fn error(row: &Row) -> String {
    match (row.end, row.status) {
        (RowEnd::Ok, _) => String::new(),
        (end, 0) => end.name().to_owned(),
        (_, status) => format!("{status} {}", reason(status)).trim_end().to_owned(),
    }
}

/// Returns the usual words of a status.
const fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Request Entity Too Large",
        414 => "Request URI Too Long",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

/// Writes the rows that an archive holds.
pub(super) fn write(
    archive: &Archive,
    format: RowFormat,
    latency: RowLatency,
    out: &mut dyn Write,
) -> Result<()> {
    let Some(batches) = archive.rows()? else {
        return Err(ReportError::NoRows { dir: archive.dir.clone() });
    };
    let mut rows = Vec::new();
    for batch in batches {
        rows.append(&mut batch?.rows);
    }
    write_rows(&head(archive, latency), format, rows, out)
}

/// Returns the common part of the rows of an archive; its plan is written for people, but these parts of it are there.
fn head(archive: &Archive, latency: RowLatency) -> RowHead {
    let plan = &archive.manifest.plan;
    let every = plan["rows"]["every"].as_u64().and_then(|every| u32::try_from(every).ok());
    let targets = plan["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    RowHead {
        name: run_name(archive),
        every: every.unwrap_or(1),
        epoch_unix_ns: start_unix_ns(archive),
        targets: targets.iter().map(RowTarget::archived).collect(),
        latency,
    }
}
