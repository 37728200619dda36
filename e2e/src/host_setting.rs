//! Settings of the whole host that a test changes for a while.

use std::fs;

/// A setting of the whole host; it has its old value again when this is dropped.
#[derive(Debug)]
pub struct HostSetting {
    path: String,
    before: String,
}

impl HostSetting {
    /// Writes `value` to the file at `path`.
    pub fn set(path: &str, value: &str) -> Result<Self, String> {
        let failed = |error| format!("{path}: {error}");
        let before = fs::read_to_string(path).map_err(failed)?;
        fs::write(path, value).map_err(failed)?;
        Ok(Self { path: path.to_owned(), before })
    }
}

impl Drop for HostSetting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.before) {
            eprintln!("{} is not {} again: {error}", self.path, self.before.trim());
        }
    }
}
