//! The frame of every screen: lines above and below, panels between them.

use plimsoll_model::Nanos;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::look::Look;
use crate::terminal::layout::clean;

/// Smaller terminals get the first lines only.
const COLUMNS_MIN: u16 = 60;
const ROWS_MIN: u16 = 15;
/// Columns from which two panels are side by side.
const TWO_PANELS_FROM: u16 = 110;

/// The state of a command that can be drawn again and again.
pub trait Scene: Clone + Send + 'static {
    /// Draws it, `elapsed` after the command began.
    fn draw(&self, look: &Look, elapsed: Nanos, frame: &mut Frame<'_>);
}

/// Reports whether there is no room for panels.
pub(super) const fn is_small(area: Rect) -> bool {
    area.width < COLUMNS_MIN || area.height < ROWS_MIN
}

/// Draws what fits into a small terminal.
pub(super) fn draw_small(mut lines: Vec<Line<'_>>, frame: &mut Frame<'_>) {
    let area = frame.area();
    let size = format!("terminal too small for more ({} x {})", area.width, area.height);
    lines.push(Line::from(size));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws the lines above and below, and returns what is left for panels: at least `rows_min`. Where there is less
/// room, those lines go that are next to the panels.
pub(super) fn around(
    mut top: Vec<Line<'_>>,
    mut bottom: Vec<Line<'_>>,
    rows_min: u16,
    frame: &mut Frame<'_>,
) -> Rect {
    let area = frame.area();
    let most = usize::from(area.height - rows_min);
    bottom.drain(
        ..bottom.len().min((top.len() + bottom.len()).saturating_sub(most)).min(bottom.len() - 1),
    );
    top.truncate(most.saturating_sub(bottom.len()));
    let [above, middle, below] = Layout::vertical([
        Constraint::Length(top.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(bottom.len() as u16),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(top), above);
    frame.render_widget(Paragraph::new(bottom), below);
    middle
}

/// Draws the title of a panel, and returns the place below it.
pub(super) fn headed(title: &str, frame: &mut Frame<'_>, area: Rect) -> Rect {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::from(dim(title)), head);
    body
}

/// Draws a panel of lines.
pub(super) fn listed(title: &str, lines: Vec<Line<'_>>, frame: &mut Frame<'_>, area: Rect) {
    let body = headed(title, frame, area);
    frame.render_widget(Paragraph::new(lines), body);
}

/// Returns the places of panels: one, or two side by side.
pub(super) fn beside(middle: Rect) -> Vec<Rect> {
    if middle.width < TWO_PANELS_FROM {
        return vec![middle];
    }
    let halves =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(1), Constraint::Fill(1)]);
    let [left, _, right] = halves.areas(middle);
    vec![left, right]
}

/// Draws what the keys do over the panels.
pub(super) fn draw_help(lines: &[&'static str], frame: &mut Frame<'_>) {
    let area = frame.area();
    let whole = Rect { y: 1, height: area.height - 2, ..area };
    let lines: Vec<Line<'_>> = lines.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Clear, whole);
    frame.render_widget(Paragraph::new(lines), whole);
}

/// Returns a line with `what` at its left and `place` at its right edge.
pub(super) fn titled(what: &str, place: &str, width: u16) -> Line<'static> {
    let room = usize::from(width).saturating_sub(place.chars().count() + 2);
    let text: String = clean(what).chars().take(room).collect();
    let pad = room - text.chars().count() + 2;
    Line::from(vec![bold(text), Span::raw(" ".repeat(pad)), Span::raw(place.to_owned())])
}

pub(super) fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

pub(super) fn dim(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::DIM))
}
