//! Hidden timers in a summary: what a load found by its endings, and the rows of the timeout probe.

use std::net::SocketAddr;

use serde_json::Value;

use crate::haproxy::Haproxy;
use crate::summary::Summary;

/// Relative error within which a timer is found.
const EXACT: f64 = 0.02;

/// Returns all that a load found.
pub fn cliffs(summary: &Summary) -> &[Value] {
    summary.at("cliffs").as_array().expect("a list")
}

/// Returns the one cliff that ended in `closer`, and checks where it is and whose.
pub fn assert_cliff<'a>(summary: &'a Summary, closer: &str, at_s: f64, owner: &str) -> &'a Value {
    let mut found = cliffs(summary).iter().filter(|cliff| cliff["closer"] == closer);
    let Some(cliff) = found.next() else { panic!("no {closer} in {:?}", cliffs(summary)) };
    let off = cliff["at_ms"].as_f64().expect("a number") / (at_s * 1e3) - 1.0;
    assert!(off.abs() <= EXACT, "{cliff}");
    assert_eq!(cliff["owner"], owner, "{cliff}");
    assert!(found.next().is_none(), "{:?}", cliffs(summary));
    cliff
}

/// A HAProxy whose backend is `address`, with more lines for its frontend and its backend.
pub fn proxy(address: SocketAddr, front: &str, back: &str) -> Haproxy {
    let sections = format!("backend b\n    server s {address}\n{back}");
    Haproxy::start("", &format!("    default_backend b\n{front}"), &sections)
}

/// Checks when the probe's connection of one kind was closed, and by whom.
pub fn assert_row(summary: &Summary, kind: &str, after_s: f64, owner: &str) {
    let row = row(summary, kind);
    let off = row["after_ms"].as_f64().unwrap_or_default() / (after_s * 1e3) - 1.0;
    // The shortest, of 1 s, allows 50 ms on a busy machine.
    assert!(off.abs() <= if after_s <= 3.0 { 0.05 } else { EXACT }, "{row}");
    assert_eq!(row["owner"], owner, "{row}");
}

/// Returns the row of the timeout probe for one kind of connection.
pub fn row<'a>(summary: &'a Summary, kind: &str) -> &'a Value {
    let rows = summary.at("timers").as_array().expect("a list");
    let row = rows.iter().find(|row| row["kind"] == kind);
    row.unwrap_or_else(|| panic!("no {kind} in {rows:?}"))
}
