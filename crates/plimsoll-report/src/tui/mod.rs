//! The screen of a command that goes on: what is known of it, how it is drawn, and what its keys do.
//!
//! Pure: events, readings and keys come in, a frame is drawn. When it is drawn, and where to, is for the caller.

mod ansi;
mod chart;
mod draw;
mod graphs;
mod look;
mod scene;
mod state;
mod watched;

pub use ansi::{Painter, SizeOf};
pub use look::{Look, Wish};
pub use scene::Scene;
pub use state::{Budget, Head, State, Tracker};
pub use watched::Watched;

#[cfg(test)]
mod tests;
