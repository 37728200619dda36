//! The screen of a running command: its state, its drawing and its keys.
//!
//! Pure: it handles events, readings and keys, and draws a frame. The caller decides when and where it is drawn.

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
