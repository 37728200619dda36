//! The binary as it is released.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Builds it by [profile.dist] of Cargo.toml.
pub(crate) fn run() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--locked", "--profile", "dist", "--package", "plimsoll"])
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the build failed: {status}");
    }
    println!("target/dist/plimsoll");
    Ok(())
}
