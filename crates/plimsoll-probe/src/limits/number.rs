//! Numbers in the small files of `/proc/sys` and of control groups.

use std::fs;
use std::path::Path;

pub(crate) fn first_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

pub(super) fn last_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_ascii_whitespace().last()?.parse().ok()
}
