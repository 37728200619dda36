//! Tests whose verdict depends on how fast something is. `cargo xtask ci` runs them with nothing of ours beside them,
//! but several at a time if each leaves most of both CPUs idle.

mod closed_loop;
mod generator_limits;
mod lab;
mod rfc9411;
mod screen;
