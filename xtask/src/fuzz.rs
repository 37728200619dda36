//! The fuzz targets, which live outside the workspace because only a nightly compiler runs
//! them; the stable one checks them.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// The fuzz crate's manifest, from the workspace's root.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Runs one target for `seconds` seconds; a crash is a failure, and its input stays in
/// `fuzz/artifacts`.
pub(crate) fn run(target: &str, seconds: u32) -> Result<()> {
    // `+nightly` is understood by rustup's cargo only, so not by the one in $CARGO.
    let status = Command::new("cargo")
        .args(["+nightly", "fuzz", "run", target, "--", &format!("-max_total_time={seconds}")])
        .env_remove("RUSTUP_TOOLCHAIN")
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!(
            "fuzzing {target} failed: {status}; if cargo-fuzz is missing: \
             rustup toolchain install nightly && cargo install cargo-fuzz"
        );
    }
    Ok(())
}
