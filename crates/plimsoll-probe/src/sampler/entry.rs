//! Single entries of a reading.

use std::path::Path;

use crate::file;
use plimsoll_model::host::{LimitId, Metric, Reading};

/// The entry of `/proc` that is in the calling thread's network namespace.
pub(super) const THIS_THREAD: &str = "thread-self";

/// Reads the text of a file below `root`; a file that cannot be read is noted as missing.
pub(super) fn text(root: &Path, path: &str, reading: &mut Reading) -> Option<String> {
    match file::text(root.join(path)) {
        Ok(text) => Some(text),
        Err(error) => {
            reading.miss(format!("/{path}"), error);
            None
        }
    }
}

/// Adds a limit and how much of it is in use, if both are known.
pub(super) fn add_limit(
    reading: &mut Reading,
    limit: &LimitId,
    used: Option<f64>,
    max: Option<f64>,
) {
    let (Some(used), Some(max)) = (used, max) else { return };
    reading.add(Metric::LimitUsed, &limit.labels(), used);
    reading.add(Metric::LimitMax, &limit.labels(), max);
}
