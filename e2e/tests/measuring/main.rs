//! Tests whose verdict depends on how fast something is. `cargo xtask ci` runs them with nothing of ours beside them, but
//! three at a time if each leaves most of both CPUs idle.

mod closed_loop;
mod find;
mod generator_limits;
mod lab;
mod rfc9411;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// For a test that uses all of a CPU, or looks at single milliseconds.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that leaves most of both CPUs idle.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}
