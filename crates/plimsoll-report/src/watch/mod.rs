//! What a host is doing: a page that is drawn over again, a line for each interval, JSON lines, and
//! the text format of Prometheus.

mod archived;
mod events;
mod history;
mod json;
mod line;
mod page;
mod prometheus;

pub use archived::render_watched;
pub use history::History;
pub use json::json_line;
pub use line::line;
pub use page::page;
pub use prometheus::{CONTENT_TYPE, exposition};

#[cfg(test)]
mod tests;
