//! Tests whose verdict depends on how fast something is. `cargo xtask ci` runs them one at a time,
//! with nothing of ours beside them.

mod closed_loop;
mod find;
mod generator_limits;
mod lab;
mod rfc9411;
mod storms;
