//! Drawing of the state of a watched host.
//!
//! The [`Scene`] of [`Watched`] draws the title, one or two of [`PANELS`], and below them processes, warnings and
//! keys. The panel of graphs has a [`Graph`] for connections, packets, bytes and memory, and a row for each CPU; the
//! newest interval is at the right edge. Every graph starts at 0. [`Graph::top`] is the limit if the use reaches a
//! quarter of it, else the highest value. Start reading at [`graphs`].

use plimsoll_model::Nanos;
use plimsoll_model::host::{LimitKind, LimitUse};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::bar::{NINE_LEVELS, Set};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};

use super::look::Look;
use super::scene::{
    Scene, around, beside, bold, dim, draw_help, draw_small, headed, is_small, listed, titled,
};
use super::watched::{Now, Point, Watched, count, per_s, percent, size};
use crate::terminal::layout::{Tone, cpu_percent};
use crate::view::Panel;
use crate::watch::{Cpu, limit_amount, limit_tone};

/// Graphs need two rows each, and their panel a title.
const PANEL_ROWS_MIN: u16 = 11;
/// Rows of a graph; the CPUs get what is left.
const GRAPH_ROWS: [u16; 2] = [2, 6];
/// Columns of the text beside a graph.
const TEXT_COLUMNS: u16 = 36;
/// Columns of the bar of a limit.
const BAR_COLUMNS: usize = 10;
/// Processes that are shown below the panels.
const PROCESSES_SHOWN: usize = 3;
/// A limit is the top of its graph where the graph would fill this part of it.
const LIMIT_SHOWN_FROM: f64 = 0.25;

/// Heights of a column for consoles that lack the others.
const ASCII: Set<'static> = Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "*",
    five_eighths: "+",
    half: "=",
    three_eighths: "-",
    one_quarter: ":",
    one_eighth: ".",
    empty: " ",
};

/// Words for the keys.
const HELP: &[&str] = &[
    "q, Ctrl-C   end; once more ends at once",
    "Q           end at once",
    "Tab, arrows next panel: graphs, limits, processes, events",
    "?           this list; any key ends it",
    "",
    "graphs      an interval each column, the latest at the right, from 0 to what is named",
    "in, out     of all interfaces: in is the upper graph, out the lower one",
    "waits       a thread is ready to run, but no CPU takes it",
];

/// The panels of the middle of the screen.
const PANELS: [fn(&Watched, &Look, &mut Frame<'_>, Rect); 4] = [graphs, limits, processes, events];
/// The place of one of them.
const PROCESSES: usize = 2;
/// Sources that cannot be read that are listed below the panels.
const SOURCES_SHOWN: usize = 3;

impl Scene for Watched {
    fn draw(&self, look: &Look, elapsed: Nanos, frame: &mut Frame<'_>) {
        let area = frame.area();
        let title = title(self, elapsed, area.width);
        if is_small(area) {
            return draw_small(vec![title, short(self)], frame);
        }
        let middle = around(vec![title], bottom(self, look), PANEL_ROWS_MIN, frame);
        if look.help {
            return draw_help(HELP, frame);
        }
        for (step, area) in beside(middle).into_iter().enumerate() {
            PANELS[look.panel.wrapping_add(step) % PANELS.len()](self, look, frame, area);
        }
    }
}

/// Returns `32 s, each 1.00 s`; with an end `32 s of 600 s, each 1.00 s`.
fn title(state: &Watched, elapsed: Nanos, width: u16) -> Line<'static> {
    let planned = state.planned.map(|planned| format!(" of {planned}")).unwrap_or_default();
    let place = format!("{} s{planned}, each {}", elapsed.as_secs_f64().floor(), state.interval);
    titled(&format!("plimsoll watch  {}", state.host), &place, width)
}

/// Returns all figures in one line.
fn short(state: &Watched) -> Line<'static> {
    let Some(point) = state.points.back() else { return waiting() };
    let mean = point.cpus.iter().map(|busy| f64::from(*busy) / 100.0).sum::<f64>()
        / point.cpus.len().max(1) as f64;
    let established = count(point.row.figures.established);
    let text = format!("established {established}  CPU {} %", cpu_percent(mean));
    Line::from(format!("{text}  memory {}", size(point.row.figures.memory_bytes)))
}

fn waiting() -> Line<'static> {
    Line::from("Waiting for the second reading.")
}

/// Returns the lines below the panels, the most important last.
fn bottom(state: &Watched, look: &Look) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(now) = &state.now {
        // Their own panel says more.
        if look.panel % PANELS.len() != PROCESSES {
            lines.extend(process_lines(now, PROCESSES_SHOWN));
            lines.extend(now.servers.iter().map(|server| Line::from(server.clone())));
        }
        let down = now.sources_down.iter();
        lines.extend(down.take(SOURCES_SHOWN).map(|source| Line::from(format!("! {source}"))));
        lines.extend(now.near_limits().take(2).map(|limit| Line::from(format!("! {limit}"))));
        if !now.events.is_empty() {
            lines.push(Line::from(format!("! {}", now.events.join("; "))));
        }
    }
    lines.extend(state.notes.back().map(|note| Line::from(format!("! {note}"))));
    lines.push(Line::from(dim("q end  Tab panel  ? keys")));
    lines
}

/// Draws the five graphs.
fn graphs(state: &Watched, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let Some(now) = &state.now else { return frame.render_widget(waiting(), area) };
    let title = format!("the last intervals of {}, the latest at the right", state.interval);
    let area = headed(&title, frame, area);
    let [least, most] = GRAPH_ROWS;
    let rows = Constraint::Length((area.height / 5).clamp(least, most));
    let places = Layout::vertical([rows, rows, rows, rows, Constraint::Fill(1)]).areas::<5>(area);
    for (graph, area) in [established, packets, bytes, memory].into_iter().zip(places) {
        draw_graph(&graph(state, now), state, look, frame, area);
    }
    draw_cpus(state, now, look, frame, places[4]);
}

/// A figure of a graph.
type Figure = fn(&Point) -> Option<f64>;

const ESTABLISHED: &[Figure] = &[|point| point.row.figures.established];
const PACKETS: &[Figure] = &[|point| point.row.packets_in, |point| point.row.packets_out];
const BYTES: &[Figure] = &[|point| point.row.bytes_in, |point| point.row.bytes_out];
const MEMORY: &[Figure] = &[|point| point.row.figures.memory_bytes];

/// A graph and the text beside it, the most important line first.
struct Graph {
    lines: Vec<Line<'static>>,
    /// One or two, each in its own graph.
    series: &'static [Figure],
    /// The top of the graph.
    top: f64,
}

impl Graph {
    /// Returns the top of the graph: `limit`, if its use can be seen then, else the highest value.
    fn top(state: &Watched, series: &[Figure], limit: Option<f64>) -> f64 {
        let points = state.points.iter();
        let values = points.flat_map(|point| series.iter().filter_map(move |of| of(point)));
        let most = values.fold(0.0, f64::max);
        limit.filter(|limit| most >= *limit * LIMIT_SHOWN_FROM).unwrap_or(most)
    }
}

/// Returns `35 % of 20,000 open files of haproxy`.
fn limit_line(limit: &LimitUse) -> Line<'static> {
    let text = format!(
        " {} % of {} {}",
        cpu_percent(limit.fraction()),
        limit_amount(limit, limit.max).replace('\u{a0}', " "),
        limit.id
    );
    // Marks in the lines below say the same without a colour.
    match limit_tone(limit) {
        Tone::Warn | Tone::Bad => Line::styled(text, Style::new().fg(Color::Yellow)),
        _ => Line::from(text),
    }
}

fn named(name: &str, value: &str) -> Line<'static> {
    Line::from(vec![bold(name.to_owned()), format!("  {value}").into()])
}

fn established(state: &Watched, now: &Now) -> Graph {
    let limit = now.limit(Panel::Established);
    let top = Graph::top(state, ESTABLISHED, limit.map(|limit| limit.max));
    let current = state.points.back().and_then(|point| point.row.figures.established);
    let mut lines = vec![named("TCP established", &count(current))];
    lines.extend(limit.map(limit_line));
    lines.push(Line::from(format!(
        " {} new, graph to {}",
        per_s(now.opened_per_s),
        count(Some(top))
    )));
    Graph { lines, series: ESTABLISHED, top }
}

fn packets(state: &Watched, now: &Now) -> Graph {
    let top = Graph::top(state, PACKETS, None);
    let current = state.points.back().map(|point| point.row).unwrap_or_default();
    let [packets_in, packets_out] = [current.packets_in, current.packets_out].map(per_s);
    let both = format!("in {packets_in} out {packets_out}");
    let mut lines = vec![named("packets", &both)];
    lines.push(Line::from(format!(" graph to {}", per_s(Some(top)))));
    if !now.loopback.is_none() {
        let of_it = per_s(Some(now.loopback.packets_in));
        lines.push(Line::from(format!(" loopback {of_it} of each")));
    }
    Graph { lines, series: PACKETS, top }
}

fn bytes(state: &Watched, now: &Now) -> Graph {
    let top = Graph::top(state, BYTES, None);
    let current = state.points.back().map(|point| point.row).unwrap_or_default();
    let [bytes_in, bytes_out] = [current.bytes_in, current.bytes_out].map(size);
    let mut lines = vec![named("bytes", &format!("in {bytes_in}/s out {bytes_out}/s"))];
    let [link_in, link_out] = now.link;
    if link_in.or(link_out).is_some() {
        let shares = format!(" link used: in {}, out {}", percent(link_in), percent(link_out));
        lines.push(Line::from(shares));
    }
    lines.push(Line::from(format!(" graph to {}/s", size(Some(top)))));
    if !now.loopback.is_none() {
        let of_it = size(Some(now.loopback.bytes_in));
        lines.push(Line::from(format!(" loopback {of_it}/s of each")));
    }
    Graph { lines, series: BYTES, top }
}

fn memory(state: &Watched, now: &Now) -> Graph {
    let used = state.points.back().and_then(|point| point.row.figures.memory_bytes);
    let top = now.memory_total.unwrap_or_else(|| Graph::top(state, MEMORY, None));
    let mut lines = vec![named("memory", &format!("{} used", size(used)))];
    let (left, total) = (size(now.memory_available), size(now.memory_total));
    lines.push(Line::from(format!(" {left} left of {total}")));
    // The host's own is above.
    let limit = now.limit(Panel::Memory).filter(|limit| limit.id.kind != LimitKind::Memory);
    lines.extend(limit.map(limit_line));
    lines.push(Line::from(format!(" {} slab", size(now.memory_slab))));
    Graph { lines, series: MEMORY, top }
}

/// Returns the text beside a graph, and the place of the graph.
fn halves(area: Rect) -> [Rect; 2] {
    let text = TEXT_COLUMNS.min(area.width / 2);
    Layout::horizontal([Constraint::Length(text), Constraint::Fill(1)]).areas(area)
}

/// Divides an area into `count` places of almost the same height; the solver of layouts handles no hundred of them.
fn stacked(area: Rect, count: usize) -> impl Iterator<Item = Rect> {
    let top = move |place: usize| (usize::from(area.height) * place / count) as u16;
    (0..count).map(move |place| Rect {
        y: area.y + top(place),
        height: top(place + 1) - top(place),
        ..area
    })
}

fn draw_graph(graph: &Graph, state: &Watched, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let [text, chart] = halves(area);
    frame.render_widget(Paragraph::new(graph.lines.clone()), text);
    for (of, area) in graph.series.iter().zip(stacked(chart, graph.series.len())) {
        let values = state.points.iter().map(of).map(|value| value.map(|value| value.max(0.0)));
        draw_bars(values, graph.top, look, frame, area);
    }
}

/// Draws a column for each value, the last one at the right edge, from 0 to `top`.
fn draw_bars(
    values: impl DoubleEndedIterator<Item = Option<f64>>,
    top: f64,
    look: &Look,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    // The least that is drawn is far below an eighth of a row.
    let parts = |value: f64| if top > 0.0 { (value / top * 10_000.0).ceil() as u64 } else { 0 };
    let latest = values.rev().take(usize::from(area.width)).map(|value| value.map(parts));
    let bars = Sparkline::default()
        .data(latest)
        .direction(RenderDirection::RightToLeft)
        .max(10_000)
        .style(Style::new().fg(Color::Cyan))
        .bar_set(if look.ascii { ASCII } else { NINE_LEVELS });
    frame.render_widget(bars, area);
}

/// Draws a graph for each CPU; if there are too many, for the CPUs that were busiest lately.
fn draw_cpus(state: &Watched, now: &Now, look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let rows = usize::from(area.height);
    let all = now.cpus.len();
    let shown = if all > rows { rows.saturating_sub(1) } else { all };
    let busy = |at: &usize| -> u64 {
        state.points.iter().filter_map(|point| point.cpus.get(*at)).map(|b| u64::from(*b)).sum()
    };
    let mut chosen: Vec<usize> = (0..all).collect();
    chosen.sort_by_cached_key(|at| std::cmp::Reverse(busy(at)));
    chosen.truncate(shown);
    chosen.sort_unstable();
    let last = u16::from(all > shown);
    let [cpus, more] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(last)]).areas(area);
    for (at, area) in chosen.iter().zip(stacked(cpus, shown)) {
        let [text, chart] = halves(area);
        frame.render_widget(cpu_line(&now.cpus[*at], now.cpu_quota), text);
        let values = state.points.iter().map(|point| point.cpus.get(*at).map(|b| f64::from(*b)));
        draw_bars(values, 100.0, look, frame, chart);
    }
    let text = format!(" {} more CPUs were less busy", all - shown);
    frame.render_widget(Line::from(dim(text)), more);
}

fn cpu_line(cpu: &Cpu, quota: Option<f64>) -> Line<'static> {
    let mut text = percent(Some(cpu.busy));
    for (name, part) in [("softirq", cpu.softirq), ("steal", cpu.steal)] {
        if part >= 0.01 {
            text.push_str(&format!(", {name} {}", percent(Some(part))));
        }
    }
    if let Some(speed) = cpu.speed {
        text.push_str(&format!(", speed {}", percent(Some(speed))));
    }
    if let Some(quota) = quota {
        text.push_str(&format!(", quota {quota:.2} CPUs"));
    }
    named(&format!("CPU {}", cpu.number), &text)
}

fn limits(state: &Watched, _look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let Some(now) = &state.now else { return frame.render_widget(waiting(), area) };
    let line = |(limit, text): &(LimitUse, String)| {
        let full = (limit.fraction().clamp(0.0, 1.0) * BAR_COLUMNS as f64).ceil() as usize;
        Line::from(format!("[{:BAR_COLUMNS$}] {text}", "#".repeat(full)))
    };
    listed("limits, the fullest first", now.limits.iter().map(line).collect(), frame, area);
}

fn processes(state: &Watched, _look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let Some(now) = &state.now else { return frame.render_widget(waiting(), area) };
    let mut lines = process_lines(now, usize::from(area.height));
    if lines.is_empty() {
        lines.push(Line::from("none is watched: --pid N, --haproxy SOCKET"));
    }
    let thread = now.busiest_thread.iter();
    lines.extend(thread.map(|thread| Line::from(format!("busiest: {thread}"))));
    lines.extend(now.servers.iter().map(|server| Line::from(server.clone())));
    listed("processes and servers, last interval", lines, frame, area);
}

/// Returns a line for each process, and one that names the figures.
fn process_lines(now: &Now, most: usize) -> Vec<Line<'static>> {
    if now.processes.is_empty() {
        return Vec::new();
    }
    let row = |name: &str, cells: [String; 4], files: &str| {
        let [cpu, waits, threads, memory] = cells;
        format!("{name:16.16}{cpu:>8}{waits:>8}{threads:>9}{memory:>10}   {files}")
    };
    let head = ["CPU", "waits", "threads", "memory"].map(str::to_owned);
    let mut lines = vec![Line::from(bold(row("process", head, "open files")))];
    lines.extend(now.processes.iter().take(most).map(|process| {
        let cells = [
            percent(process.cpu),
            percent(process.waited),
            count(process.threads),
            size(process.resident),
        ];
        let files = process.files.map_or_else(
            || "-".to_owned(),
            |(open, max)| format!("{} of {}", count(Some(open)), count(Some(max))),
        );
        Line::from(row(&process.name, cells, &files))
    }));
    lines
}

fn events(state: &Watched, _look: &Look, frame: &mut Frame<'_>, area: Rect) {
    let mut lines: Vec<Line<'_>> =
        state.events.iter().rev().map(|event| Line::from(event.clone())).collect();
    if lines.is_empty() {
        lines.push(Line::from("Nothing has happened that should not."));
    }
    let rows = usize::from(area.height).saturating_sub(1);
    let remarks = state.now.iter().flat_map(|now| now.remarks.iter());
    let below: Vec<Line<'_>> =
        state.notes.iter().chain(remarks).map(|text| Line::from(dim(text.clone()))).collect();
    lines.truncate(rows.saturating_sub(below.len()).max(rows / 2));
    lines.extend(below);
    listed("events since the beginning, newest first", lines, frame, area);
}
