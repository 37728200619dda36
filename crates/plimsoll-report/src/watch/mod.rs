//! What a host is doing: a page that is drawn over again, a line for each interval, and JSON lines.

mod archived;
mod events;
mod history;
mod json;
mod line;
mod page;

pub use archived::render_watched;
pub(crate) use events::{Traffic, traffic};
pub use history::History;
pub use json::json_line;
pub use line::line;
pub use page::page;

#[cfg(test)]
mod tests;
