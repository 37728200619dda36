//! Tests that use all of a CPU, or look at single milliseconds.

mod closed_loop;
mod generator_limits;
