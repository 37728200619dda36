//! Pages in a browser: reports, the live view, and the checks that both are judged by.
//!
//! The tests that take longest are here, and a name early in the alphabet has them begin early.

mod checks;
mod live_page;
mod page;
