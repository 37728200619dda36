//! Displays of a host: a page of its last readings, a line for each interval, and JSON lines.

mod archived;
mod events;
mod history;
mod json;
mod line;
mod page;
mod sources;

pub use archived::render_watched;
pub(crate) use events::{Cpu, Traffic, busiest_thread, cpus, cpus_now, events, rate_text, traffic};
pub use history::History;
pub use json::json_line;
pub use line::line;
pub use page::page;
pub(crate) use page::{cost, limit_amount, limit_text, limit_tone, missing, servers};
pub(crate) use sources::{source_lost, sources_down, sources_lost};

#[cfg(test)]
mod tests;
