//! The screen of a run: title and figures above, one panel or two in the middle, hosts, notes and keys below.
//!
//! The [`Scene`] of [`State`] draws one frame from the state and the [`Look`], and changes neither. [`top`] and
//! [`bottom`] make lines by importance, and [`around`] drops those next to the panels if rows are short. [`panels`]
//! decides which panels this run has and in which order, and [`panel`] draws one. A terminal that is too small for
//! panels gets title and figures only. Start reading at [`panels`].

use plimsoll_model::spans::{Span as Measured, Spans};
use plimsoll_model::summary::FullQuantiles;
use plimsoll_model::trial::{TrialBounds, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::chart;
use super::look::{Look, Panel};
use super::scene::{
    Scene, around, beside, bold, dim, draw_help, draw_small, headed, is_small, listed, titled,
};
use super::state::State;
use super::watched::{count, percent, size};
use crate::state::{Host, HostRow, Second};
use crate::terminal::layout::{bars, clean, ms, wrap};

/// Columns from which the last second and the whole load are shown side by side.
const WIDE_TABLE_FROM: u16 = 76;
/// Rows from which on every kind of latency is in the table, even if they agree.
const WHOLE_TABLE_FROM: u16 = 24;
/// Rows of the panel at least, its title included.
const PANEL_ROWS_MIN: u16 = 4;

/// Rows of the answer so far, at most.
const ANSWER_ROWS_MAX: usize = 3;

/// Time for which the answer to a key is shown in the place of the keys.
const SAID_FOR: Nanos = Nanos::from_secs(4);

/// Words for the keys.
const HELP: &[&str] = &[
    "q, s, Ctrl-C stop sending, wait for open answers, report; once more ends at once",
    "Q           end at once, without a report",
    "p           hold: pause the opening of connections; p again resumes it",
    "Tab, arrows next panel: connections, trials, latency, errors, hosts, notes",
    "u           corrected or uncorrected latency in the chart",
    "l           logarithmic or linear axis of latency",
    "?           this list; any key ends it",
    "",
    "corrected   from when an operation was due",
    "uncorrected from when it was sent",
    "wire        from when it was sent until the kernel had its answer",
    "marks       o GOOD   x BAD   ? INVALID   | bounds   - deadline",
];

impl Scene for State {
    fn draw(&self, look: &Look, elapsed: Nanos, frame: &mut Frame<'_>) {
        let area = frame.area();
        if is_small(area) {
            return draw_small(vec![title(self, elapsed, area.width), figures(self)], frame);
        }
        let (top, bottom) = (top(self, look, elapsed, area), bottom(self, look, elapsed, area));
        let middle = around(top, bottom, PANEL_ROWS_MIN, frame);
        if look.help {
            return draw_help(HELP, frame);
        }
        let panels = panels(self);
        for (step, area) in beside(middle).into_iter().enumerate() {
            panel(panels[look.panel.wrapping_add(step) % panels.len()], self, look, frame, area);
        }
    }
}

/// Returns the panels that this run has, in their order.
fn panels(state: &State) -> Vec<Panel> {
    let mut panels = vec![Panel::Latency, Panel::Errors, Panel::Hosts, Panel::Notes];
    if state.run.block.is_some() {
        // What each round of a comparison gave is noted.
        panels.rotate_right(1);
    }
    if state.run.is_search || !state.lines.is_empty() {
        panels.insert(0, Panel::Trials);
    }
    // A hold begins without requests.
    let at = if state.run.holding.is_some() { 0 } else { panels.len() - 1 };
    panels.insert(at, Panel::Connections);
    panels
}

/// Returns a line with command and target, and the progress of the run at the right edge.
fn title(state: &State, elapsed: Nanos, width: u16) -> Line<'static> {
    let slo = state.head.slo.as_ref().map(|slo| format!("  SLO {slo}")).unwrap_or_default();
    let what = format!("plimsoll {}  {}{slo}", state.head.command, state.head.target);
    titled(&what, &place(state, elapsed), width)
}

/// Returns `12 s of 60 s`, `trial 7 narrow, 3 s of 5 s`, `waiting for 12 answers`.
fn place(state: &State, elapsed: Nanos) -> String {
    let mut parts = Vec::new();
    if let Some(block) = state.run.block_text() {
        parts.push(block);
    } else if let Some(trial) = &state.run.trial {
        parts.push(format!("trial {} {}", trial.number, trial.phase.name()));
    }
    let into = |from: Nanos| elapsed.since(from).as_secs_f64().floor();
    parts.push(match (state.run.draining, state.run.started_at, state.run.planned) {
        (Some(left), _, _) if left > 0 => format!("waiting for {} answers", grouped(left)),
        (_, None, _) if !state.trials.is_empty() => "between trials".to_owned(),
        (_, None, _) => format!("opening connections, {} s", into(Nanos::ZERO)),
        (_, Some(from), Some(planned)) => {
            let planned = planned.as_secs_f64().ceil();
            match into(from) {
                seconds if seconds > planned => "waiting for answers".to_owned(),
                seconds => format!("{seconds} s of {planned} s"),
            }
        }
        (_, Some(from), None) => format!("{} s", into(from)),
    });
    parts.join(", ")
}

fn rate(count: u64) -> String {
    Rate::per_second(count as f64).unwrap_or_default().to_string()
}

/// Returns a line with the rates of the last second and the counts so far.
fn figures(state: &State) -> Line<'static> {
    let load = &state.run.load;
    let (offered, ended) = state.seconds.back().map_or((0, 0), |last| (last.offered, last.ended));
    Line::from(format!(
        "offered {}  achieved {}  errors {}  late {}  unsent {}  ok {}",
        rate(offered),
        rate(ended),
        grouped(load.errors_total()),
        grouped(load.late),
        grouped(load.unsent),
        grouped(load.ok),
    ))
}

/// Returns the lines above the panel, the most important first.
fn top(state: &State, look: &Look, elapsed: Nanos, area: Rect) -> Vec<Line<'static>> {
    let mut lines = vec![title(state, elapsed, area.width)];
    lines.extend(state.run.hold_line(elapsed).map(Line::from));
    if let Some(answer) = state.run.answer_line() {
        let answer = wrap(&answer, area.width.into()).into_iter().take(ANSWER_ROWS_MAX);
        lines.extend(answer.map(|line| Line::from(bold(line))));
        let now = now(state);
        let rest: Vec<String> = now.into_iter().chain(left(state, elapsed)).collect();
        lines.push(Line::from(rest.join("  ")));
    } else if state.run.is_search {
        lines.push(search(state, elapsed, area.width));
    } else {
        lines.extend(left(state, elapsed).map(Line::from));
    }
    lines.push(figures(state));
    if area.height >= 20 {
        lines.push(per_second("rate", |second| second.ended, state, look, area.width));
    }
    lines.extend(table(state, area));
    lines
}

/// Returns `at most 170 s left`.
fn left(state: &State, elapsed: Nanos) -> Option<String> {
    let seconds = state.left(elapsed)?.as_secs_f64().ceil();
    let of = if state.run.is_search && state.run.holding.is_none() { " of trials" } else { "" };
    Some(format!("at most {seconds} s{of} left"))
}

/// Returns `now at 34,500/s`.
fn now(state: &State) -> Option<String> {
    state.run.trial.map(|trial| format!("now at {}", state.run.load_text(trial.rate)))
}

/// Returns `good at 33,779/s, bad at 35,377/s (4.7 % apart)`, what runs now, and the time that is left.
fn search(state: &State, elapsed: Nanos, width: u16) -> Line<'static> {
    let bounds = state.run.bounds_text().unwrap_or_else(|| "no bounds yet".to_owned());
    let (TrialBounds { good_max, bad_min }, _) = state.run.known();
    let ends = good_max.zip(bad_min);
    let width_of = |(good, bad): (Rate, Rate)| (bad.get() / good.get() - 1.0) * 100.0;
    let apart = ends.map(width_of).filter(|width| *width > 0.0);
    let mut apart = apart.map_or_else(String::new, |width| format!(" ({width:.1} % apart)"));
    let now = now(state).map(|now| format!("  {now}"));
    let rest = now.into_iter().chain(left(state, elapsed).map(|left| format!("  {left}")));
    let rest: String = rest.collect();
    if bounds.len() + apart.len() + rest.len() > usize::from(width) {
        apart.clear();
    }
    Line::from(vec![bold(bounds), Span::raw(apart), Span::raw(rest)])
}

/// Returns a column for each of the last seconds.
fn per_second(
    name: &str,
    of: impl Fn(&Second) -> u64,
    state: &State,
    look: &Look,
    width: u16,
) -> Line<'static> {
    let columns = usize::from(width).saturating_sub(32).min(120);
    let counts: Vec<f64> = state.seconds.iter().map(|second| of(second) as f64).collect();
    let shown = &counts[counts.len().saturating_sub(columns)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bars = bars(shown, columns, look.ascii);
    Line::from(format!("{name:9}{bars}  most {} in {} s", rate(most as u64), shown.len()))
}

/// Returns latency by quantile: of the last second, and of the load so far.
fn table(state: &State, area: Rect) -> Vec<Line<'static>> {
    let whole =
        if state.run.is_search && state.run.holding.is_none() { "this trial" } else { "so far" };
    let none = Spans::default();
    let last = state.run.second.as_ref().map_or(&none, |second| &second.tally.spans);
    let so_far = &state.run.load.spans;
    let rows = [Measured::Corrected, Measured::Uncorrected, Measured::Wire].map(|span| {
        let of = |spans: &Spans| FullQuantiles::from(spans.of(span));
        (span.name(), of(last), of(so_far))
    });
    let names = ["p50", "p90", "p99", "p99.9", "max"];
    let cells = |cells: [String; 5]| cells.map(|cell| format!("{cell:>6}")).concat();
    let (head, values) = (cells(names.map(str::to_owned)), |of: FullQuantiles| {
        cells(of.from_median().map(short_ms))
    });
    if area.width >= WIDE_TABLE_FROM {
        let above = format!("{:14}{:33}{whole}", "latency, ms", "last second");
        let mut lines =
            vec![Line::from(bold(above)), Line::from(bold(format!("{:12}{head}   {head}", "")))];
        lines.extend(rows.map(|(name, last, so_far)| {
            Line::from(format!("{name:12}{}   {}", values(last), values(so_far)))
        }));
        return lines;
    }
    let mut lines = vec![Line::from(bold(format!("{:24}{head}", "latency, ms")))];
    let most = if area.height >= WHOLE_TABLE_FROM { rows.len() } else { 1 };
    for (name, last, so_far) in rows.into_iter().take(most) {
        for (of, quantiles) in [("last second", last), (whole, so_far)] {
            let name = format!("{name}, {of}");
            lines.push(Line::from(format!("{name:24}{}", values(quantiles))));
        }
    }
    lines
}

/// Milliseconds in at most five columns: from ten seconds on, seconds.
fn short_ms(value: Option<f64>) -> String {
    match value {
        Some(value) if value >= 9_999.5 => format!("{:.0}s", value / 1e3),
        value => ms(value),
    }
}

/// Returns the lines below the panel, the most important last.
fn bottom(state: &State, look: &Look, elapsed: Nanos, area: Rect) -> Vec<Line<'static>> {
    let (load, connections) = (&state.run.load, &state.run.load.connections);
    let last = state.run.second.as_ref();
    let send_lag = last.and_then(|second| second.tally.spans.send_lag.quantile(0.99));
    let mut lines = vec![Line::from(format!(
        "connections  held {}  opened {}  failed {}  lost {}   send lag p99 {} ms",
        grouped(connections.held_end),
        grouped(connections.opened),
        grouped(connections.failed),
        grouped(load.lost()),
        ms(send_lag.map(Nanos::as_millis_f64)),
    ))];
    let errors = state.errors();
    if !errors.is_empty() {
        let classes =
            errors.iter().map(|(class, count)| format!("{} {}", class.name(), grouped(*count)));
        lines.push(Line::from(format!("errors       {}", classes.collect::<Vec<_>>().join(", "))));
    }
    let hosts_max = if area.height >= 36 { 6 } else { 3 };
    lines.extend(hosts(state, hosts_max));
    let panels = panels(state);
    // Their panel shows the same.
    let is_shown = panels[look.panel % panels.len()] == Panel::Notes;
    let notes_max = if is_shown { 0 } else { usize::from(area.height / 12).min(4) };
    lines.extend(
        state.notes.iter().rev().take(notes_max).map(|note| Line::from(format!("! {note}"))),
    );
    // Cut off, it would lead nowhere: it has its own line.
    lines.extend(state.head.page.as_ref().map(|page| Line::from(format!("page {}", clean(page)))));
    lines.push(keys(state, elapsed));
    lines
}

fn keys(state: &State, elapsed: Nanos) -> Line<'static> {
    if let Some((said, at)) = &state.said
        && elapsed.since(*at) < SAID_FOR
    {
        return Line::from(bold(said.clone()));
    }
    if state.stopping {
        return Line::from(bold("stopping: open operations end first; q again ends at once"));
    }
    if state.run.is_search && state.run.holding.is_none() {
        return Line::from(dim(
            "s stop with the answer so far  Q end now  Tab panel  u/l chart  ? keys",
        ));
    }
    Line::from(dim("q stop and report  Q end now  Tab panel  u/l chart  ? keys"))
}

/// Returns a line for each host, and one that names the figures.
fn hosts(state: &State, most: usize) -> Vec<Line<'static>> {
    let read = |(name, host): (&String, &Host)| Some(host_line(name, host.row.as_ref()?));
    let lines: Vec<_> = state.run.hosts.iter().filter_map(read).take(most).collect();
    if lines.is_empty() {
        return lines;
    }
    let head = format!(
        "{:12}{:>9}{:>6}{:>11}{:>10}{:>11}{:>10}{:>10}",
        "host", "busiest", "all", "TCP est.", "mem free", "packets/s", "in/s", "out/s"
    );
    [Line::from(bold(head))].into_iter().chain(lines).collect()
}

fn host_line(name: &str, host: &HostRow) -> Line<'static> {
    let name: String = clean(name).chars().take(11).collect();
    let figures = &host.figures;
    Line::from(format!(
        "{name:12}{:>9}{:>6}{:>11}{:>10}{:>11}{:>10}{:>10}",
        percent(figures.busiest_cpu),
        percent(figures.cpu),
        count(figures.established),
        size(host.memory_available),
        count(figures.packets_per_s),
        size(host.bytes_in),
        size(host.bytes_out),
    ))
}

/// Draws one panel with its title.
fn panel(what: Panel, state: &State, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let rows = usize::from(area.height).saturating_sub(1);
    match what {
        Panel::Trials => trials(state, look, frame, area),
        Panel::Latency => {
            let kind = if look.uncorrected { "uncorrected" } else { "corrected" };
            let title = format!(
                "{kind} latency over time, ms ({}): p50, p99, max from below; - deadline",
                look.scale()
            );
            let body = headed(&title, frame, area);
            chart::latency(state, look, frame, body);
        }
        Panel::Connections => {
            let body = headed("connections over time: held; - asked for", frame, area);
            connections(state, look, frame, body);
        }
        Panel::Errors => listed("errors by class", errors(state, rows), frame, area),
        Panel::Hosts => listed("hosts, last second", hosts(state, rows), frame, area),
        Panel::Notes => {
            let notes = state.notes.iter().rev().take(rows).map(|note| Line::from(note.as_str()));
            listed("notes, newest first", notes.collect(), frame, area);
        }
    }
}

/// Draws the chart of held connections, and below it the connections opened and lost in each second.
fn connections(state: &State, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let [chart, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(2)]).areas(area);
    chart::held(state, look, frame, chart);
    let rows = vec![
        per_second("opened", |second| second.opened, state, look, area.width),
        per_second("lost", |second| second.lost, state, look, area.width),
    ];
    frame.render_widget(Paragraph::new(rows), below);
}

fn errors(state: &State, rows: usize) -> Vec<Line<'static>> {
    let errors = state.errors();
    if errors.is_empty() {
        return vec![Line::from("none")];
    }
    let lines = errors.into_iter().take(rows);
    lines.map(|(class, n)| Line::from(format!("{:>12}  {}", grouped(n), class.name()))).collect()
}

/// Draws the chart of trials, and below it the last ones in words.
fn trials(state: &State, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    // Levels of a plain hold have no verdict to be drawn.
    let listed = if state.trials.is_empty() { area.height } else { (area.height / 3).min(8) };
    let [head, chart, list] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(listed.min(state.lines.len() as u16)),
    ])
    .areas(area);
    let unit = if state.run.holding.is_some() { "connections" } else { "per second" };
    let mut title = vec![dim(format!("load, {unit}, against p99, ms ({})  ", look.scale()))];
    for verdict in [Verdict::Good, Verdict::Bad, Verdict::Invalid] {
        let count = state.trials.iter().filter(|trial| trial.verdict == verdict).count();
        let word = format!("{} {} {count}  ", chart::mark(verdict), verdict.name().to_uppercase());
        title.push(Span::styled(word, Style::new().fg(chart::colour(verdict))));
    }
    frame.render_widget(Line::from(title), head);
    if !state.trials.is_empty() {
        chart::trials(state, look, frame, chart);
    }
    let lines = state.lines.iter().rev().take(usize::from(list.height)).rev();
    let lines: Vec<Line<'_>> = lines.map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines), list);
}
