//! Tests whose verdict depends on how fast something is. `cargo xtask ci` runs them after the waiting tests, several at a time,
//! beside what takes only CPU time that nobody else wants; and those of `alone` at the end, with nothing beside them.

mod alone;
mod lab;
mod path;
mod rfc9411;
mod screen;
