//! `cargo xtask pictures`: the pictures of README and the book and the sample page, from a real run of the released
//! build.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;

/// Programs that the pictures need.
const PROGRAMS: [(&str, &str); 4] = [
    ("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "fonts-liberation"),
    ("chromium-headless-shell|chromium", "chromium-headless-shell"),
    ("haproxy", "haproxy"),
    ("tmux", "tmux"),
];
/// Files that are written, and the source of the bars.
const PLACES: [&str; 3] = ["docs/pictures", "examples", "docs/benchmarks/memory.json"];

/// Builds plimsoll as it is released, and makes them.
pub(crate) fn run() -> Result<()> {
    packages::require(&PROGRAMS)?;
    let build = ["build", "--release", "-p", "plimsoll"];
    let draw = ["run", "--quiet", "-p", "e2e", "--bin", "pictures", "--"];
    for words in [build.to_vec(), [&draw[..], &PLACES].concat()] {
        let status = Command::new("cargo").args(&words).status().context("cannot run cargo")?;
        if !status.success() {
            bail!("cargo {} failed", words.join(" "));
        }
    }
    Ok(())
}
