//! Files of `/proc` and `/sys`, which do not say how long they are.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Nearly all are shorter, so that two calls read one. `std::fs::read_to_string` begins with 32 bytes and doubles them:
/// four calls in the mean.
const USUAL_BYTES: usize = 8 << 10;
/// More is not read.
const BYTES_MAX: u64 = 16 << 20;

/// The text of a file.
pub(crate) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL_BYTES);
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
