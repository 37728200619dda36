//! The report of one load: a verdict in words, then what it rests on.

use plimsoll_model::summary::Summary;

use super::layout::Page;
use super::{events, sections, timers};

/// Writes the report of `load`.
pub(super) fn render(page: &mut Page, summary: &Summary) {
    sections::latency(page, "Latency in ms", summary);
    page.blank();
    sections::operations(page, summary);
    events::entries(page, summary);
    sections::errors(page, summary);
    timers::cliffs_of_load(page, summary);
    sections::server_side(page, summary);
    sections::generator(page, summary);
    sections::settings(page, summary);
    timers::longest(page, summary);
    sections::checks(page, &summary.reasons);
    sections::passed(page, &summary.reasons)
}
