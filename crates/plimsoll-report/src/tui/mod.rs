//! The screen of a run that goes on: what is known of it, how it is drawn, and what its keys do.
//!
//! Pure: events, readings and keys come in, a frame is drawn. When it is drawn, and where to, is for the caller.

mod ansi;
mod chart;
mod draw;
mod look;
mod state;

pub use ansi::{Painter, SizeOf};
pub use draw::draw;
pub use look::{Look, Wish};
pub use state::{Head, State, Tracker};

#[cfg(test)]
mod tests;
