//! Charts in the cells of a terminal.
//!
//! [`latency`] and [`held`] draw over time through [`over_time`]: x is the age in seconds, negative, over at least 60
//! s. [`trials`] draws load against p99 with a mark for each verdict, and the bounds as upright lines. [`Scale`] is
//! the axis of milliseconds: linear from 0, or logarithmic between whole powers of ten from 0.001 ms. A second
//! without a latency leaves a gap. Start reading at [`latency`].

use plimsoll_model::summary::FullQuantiles;
use plimsoll_model::trial::Verdict;
use plimsoll_model::units::grouped;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::look::Look;
use super::state::State;
use crate::terminal::layout::ms;

/// The least time that a chart shows, s.
const SECONDS_MIN: usize = 60;
/// Less is drawn as this on a logarithmic axis, ms.
const LEAST_MS: f64 = 0.001;
/// Columns of an axis and its labels.
const AXIS_COLUMNS: u16 = 8;

/// Returns the colour of a verdict; its mark says the same.
pub(super) fn colour(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Good => Color::Blue,
        Verdict::Bad => Color::Yellow,
        Verdict::Invalid => Color::DarkGray,
    }
}

/// Returns the mark of a verdict: one cell wide in every terminal.
pub(super) const fn mark(verdict: Verdict) -> char {
    match verdict {
        Verdict::Good => 'o',
        Verdict::Bad => 'x',
        Verdict::Invalid => '?',
    }
}

/// Draws latency over the last seconds: from below p50, p99 and the largest, and the deadline.
pub(super) fn latency(state: &State, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let count = seconds_shown(state, area);
    let seconds = state.seconds.iter().rev().take(count);
    let deadline = state.head.deadline.map(|limit| limit.as_millis_f64());
    let of = |index: usize| -> Vec<Option<f64>> {
        let pick = |quantiles: FullQuantiles| quantiles.from_median()[index];
        let latencies = seconds
            .clone()
            .map(|one| if look.uncorrected { one.uncorrected } else { one.corrected });
        latencies.map(pick).collect()
    };
    let series = [of(0), of(2), of(4)];
    let values = series.iter().flatten().flatten().copied().chain(deadline);
    let scale = Scale::new(look.linear, values);
    let colours = [Color::Reset, Color::Cyan, Color::DarkGray];
    let mut lines: Vec<(Vec<(f64, f64)>, Color)> = Vec::new();
    for (latencies, colour) in series.iter().zip(colours) {
        // Nothing is drawn across a gap.
        let mut run = Vec::new();
        for (age, latency) in latencies.iter().enumerate() {
            match latency {
                Some(latency) => run.push((-(age as f64), scale.at(*latency))),
                None => lines.push((std::mem::take(&mut run), colour)),
            }
        }
        lines.push((run, colour));
    }
    lines.retain(|(line, _)| !line.is_empty());
    let y = Axis::default().bounds(scale.bounds).labels(scale.labels(area.height));
    over_time(count, deadline.map(|deadline| scale.at(deadline)), &lines, y, look, frame, area);
}

/// Returns the number of seconds that a chart over time shows.
fn seconds_shown(state: &State, area: Rect) -> usize {
    let columns = usize::from(area.width.saturating_sub(AXIS_COLUMNS)) * 2;
    state.seconds.len().clamp(SECONDS_MIN, columns.max(SECONDS_MIN))
}

/// Draws lines over the last `count` seconds, with dashes at `mark`.
fn over_time(
    count: usize,
    mark: Option<f64>,
    lines: &[(Vec<(f64, f64)>, Color)],
    y: Axis<'_>,
    look: &Look,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let dash = |mark: f64| (0..count).step_by(4).map(move |age| (-(age as f64), mark));
    let dashes: Vec<(f64, f64)> = mark.into_iter().flat_map(dash).collect();
    let marker = if look.ascii { Marker::Custom('*') } else { Marker::Braille };
    let mut sets = vec![
        Dataset::default().marker(Marker::Custom('-')).graph_type(GraphType::Scatter).data(&dashes),
    ];
    sets.extend(lines.iter().map(|(line, colour)| {
        let set = Dataset::default().marker(marker).graph_type(GraphType::Line);
        set.style(Style::new().fg(*colour)).data(line)
    }));
    let x = Axis::default()
        .bounds([-((count - 1) as f64), 0.0])
        .labels([format!("{count} s ago"), "now".to_owned()]);
    frame.render_widget(Chart::new(sets).x_axis(x).y_axis(y).legend_position(None), area);
}

/// Draws the connections held at the end of each of the last seconds, and the number that the steps were to reach so
/// far.
pub(super) fn held(state: &State, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let count = seconds_shown(state, area);
    let seconds = state.seconds.iter().rev().take(count).enumerate();
    let held: Vec<(f64, f64)> =
        seconds.map(|(age, second)| (-(age as f64), second.held as f64)).collect();
    let asked = state.run.asked.map(|asked| asked as f64);
    let most = held.iter().map(|(_, held)| *held).chain(asked).fold(1.0, f64::max);
    let y = Axis::default()
        .bounds([0.0, most])
        .labels([0.0, most].map(|held| grouped(held.round() as u64)));
    over_time(count, asked, &[(held, Color::Cyan)], y, look, frame, area);
}

/// Draws the trials, load against p99, and the bounds.
pub(super) fn trials(state: &State, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let deadline = state.head.deadline.map(|limit| limit.as_millis_f64());
    let latencies = state.trials.iter().filter_map(|trial| trial.p99_ms).chain(deadline);
    let scale = Scale::new(look.linear, latencies);
    let running = state.run.trial.map(|trial| trial.rate.get());
    let loads = state.trials.iter().map(|trial| trial.per_s).chain(running);
    let most = loads.fold(1.0, f64::max) * 1.05;
    let [bottom, top] = scale.bounds;
    let rows = usize::from(area.height.max(2));
    let upright = |load: Option<f64>| -> Vec<(f64, f64)> {
        let at = |row: usize| bottom + (top - bottom) * row as f64 / rows as f64;
        load.map(|load| (0..=rows).map(|row| (load, at(row))).collect()).unwrap_or_default()
    };
    let (bounds, _) = state.run.known();
    let lower = upright(bounds.good_max.map(|rate| rate.get()));
    let upper = upright(bounds.bad_min.map(|rate| rate.get()));
    let dashes: Vec<(f64, f64)> = deadline
        .map(|deadline| {
            (0..=30).map(|part| (most * f64::from(part) / 30.0, scale.at(deadline))).collect()
        })
        .unwrap_or_default();
    let of = |verdict| -> Vec<(f64, f64)> {
        let trials = state.trials.iter().filter(|trial| trial.verdict == verdict);
        // A trial without answers is drawn at the top.
        trials.map(|trial| (trial.per_s, trial.p99_ms.map_or(top, |p99| scale.at(p99)))).collect()
    };
    let verdicts = [Verdict::Invalid, Verdict::Bad, Verdict::Good];
    let marks = verdicts.map(of);
    let scatter = |points, sign: char, style: Style| {
        let set = Dataset::default().marker(Marker::Custom(sign)).graph_type(GraphType::Scatter);
        set.style(style).data(points)
    };
    let bound = |verdict| Style::new().fg(colour(verdict)).add_modifier(Modifier::DIM);
    let mut sets = vec![
        scatter(&dashes, '-', Style::new().fg(Color::DarkGray)),
        scatter(&lower, '|', bound(Verdict::Good)),
        scatter(&upper, '|', bound(Verdict::Bad)),
    ];
    for (points, verdict) in marks.iter().zip(verdicts) {
        let style = Style::new().fg(colour(verdict)).add_modifier(Modifier::BOLD);
        sets.push(scatter(points, mark(verdict), style));
    }
    let x = Axis::default()
        .bounds([0.0, most])
        .labels([0.0, most / 2.0, most].map(|load| grouped(load.round() as u64)));
    let y = Axis::default().bounds([bottom, top]).labels(scale.labels(area.height));
    frame.render_widget(Chart::new(sets).x_axis(x).y_axis(y).legend_position(None), area);
}

/// An axis of milliseconds.
struct Scale {
    linear: bool,
    bounds: [f64; 2],
}

impl Scale {
    /// Creates a scale that shows all of `values`.
    fn new(linear: bool, values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .map(|value| value.max(LEAST_MS))
            .fold((f64::MAX, LEAST_MS), |(least, most), value| (least.min(value), most.max(value)));
        let bounds = if linear {
            [0.0, most]
        } else {
            // Whole powers of ten, so that the labels are round.
            let top = most.log10().ceil();
            [least.min(most).log10().floor().min(top - 1.0), top]
        };
        Self { linear, bounds }
    }

    fn at(&self, ms: f64) -> f64 {
        if self.linear { ms } else { ms.max(LEAST_MS).log10() }
    }

    /// Returns evenly spaced labels, as many as there is room for.
    fn labels(&self, rows: u16) -> Vec<String> {
        let [bottom, top] = self.bounds;
        let steps = if self.linear { 2.0 } else { top - bottom };
        // Not every power of ten, if they would stand on one row.
        let steps = if steps + 1.0 > f64::from(rows.saturating_sub(2)) { 1.0 } else { steps };
        let value = |step: i32| bottom + (top - bottom) * f64::from(step) / steps;
        let text = |at: f64| ms(Some(if self.linear { at } else { 10_f64.powf(at) }));
        (0..=steps as i32).map(value).map(text).collect()
    }
}
