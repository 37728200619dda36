//! Makes the pictures of README and the book, and the sample page: `cargo xtask pictures`. One search of a real HAProxy
//! in a terminal, about four minutes, on a machine that does nothing else.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::browser::content::grouped;
use e2e::browser::{Browser, Page, Screen, Theme};
use e2e::pictures::{bars, chart, screen};
use e2e::terminal::Terminal;
use e2e::{program, wait};
use serde_json::{Value, json};

const THEMES: [Theme; 2] = [Theme::Light, Theme::Dark];
/// The width of the page from which the chart is taken, CSS pixels: it becomes as wide as a README shows.
const CHART_WIDTH: u32 = 860;
/// The screenshot of the page, CSS pixels.
const PAGE: (u32, f64) = (1_280, 1_100.0);
const COLUMNS: u16 = 80;
/// Rows of the terminal: a report of 24 lines, the command and notes above it, and the prompt below.
const ROWS: u16 = 32;
/// Ends a search that does not end: its budget, what it may add, and the laboratory's start.
const SEARCH_PATIENCE: Duration = Duration::from_secs(400);

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [pictures, examples, memory] = arguments.as_slice() else {
        eprintln!("error: usage: pictures PICTURES EXAMPLES MEMORY_JSON");
        return ExitCode::FAILURE;
    };
    for folder in [pictures, examples] {
        fs::create_dir_all(folder).expect("the output folder is writable");
    }
    let run = Run::make(pictures);
    run.draw(pictures, examples);
    draw_memory(memory, pictures);
    ExitCode::SUCCESS
}

/// One search in a terminal.
struct Run {
    terminal: Terminal,
    summary: Value,
}

impl Run {
    /// Searches, and keeps what the terminal shows meanwhile and at the end.
    fn make(pictures: &Path) -> Self {
        let terminal = Terminal::start();
        terminal.resize(COLUMNS, ROWS);
        terminal.enter("plimsoll() { \"$PLIMSOLL\" \"$@\"; }; PS1='$ '; clear");
        terminal.enter("plimsoll lab --sut haproxy --out run");
        let shown = |text: &str| {
            let found =
                wait::within(SEARCH_PATIENCE, &mut || terminal.text().contains(text).then_some(()));
            assert!(found.is_some(), "{text:?} is not shown:\n{}", terminal.text());
        };
        shown("confirm");
        let meanwhile = terminal.coloured();
        shown("plimsoll report run");
        let at_end = wait::within(wait::PATIENCE, &mut || {
            terminal.text().trim_end().ends_with('$').then(|| terminal.coloured())
        });
        let at_end = at_end.expect("the shell's prompt after the report");
        let summary = fs::read_to_string(terminal.path("run/summary.json")).expect("a summary");
        let summary = serde_json::from_str(&summary).expect("a summary as JSON");
        let run = Self { terminal, summary };
        for (name, captured) in [("terminal-running", meanwhile), ("terminal-report", at_end)] {
            for theme in THEMES {
                let svg = screen::svg(&captured, usize::from(COLUMNS), theme, &run.about());
                write(&pictures.join(format!("{name}-{}.svg", theme.name())), svg.as_bytes());
            }
        }
        run
    }

    /// Describes the run: command, date and machine.
    fn about(&self) -> String {
        let started = self.summary["started_at"].as_str().unwrap_or_default();
        let day = started.get(..10).unwrap_or(started);
        format!("plimsoll lab --sut haproxy, {}, {day}, {}", haproxy(), machine())
    }

    /// Returns the answer in one line.
    fn title(&self) -> String {
        let find = &self.summary["find"];
        let rate = |key: &str| match find[key].as_f64() {
            Some(value) => grouped(value.round() as u64),
            None => "unknown".to_owned(),
        };
        format!(
            "HAProxy: tipping point between {} and {}/s, safe load {}/s (p99 below 50 ms)",
            rate("lower"),
            rate("upper"),
            rate("safe")
        )
    }

    /// The chart, the page, and the sample page.
    fn draw(&self, pictures: &Path, examples: &Path) {
        let page = self.terminal.path("report.html");
        let mut report = Command::new(program::plimsoll());
        report.arg("report").arg(self.terminal.path("run")).arg("--html").arg(&page);
        let output = report.output().expect("plimsoll runs");
        assert!(output.status.success(), "{output:?}");
        write(&examples.join("report.html"), &fs::read(&page).expect("the page"));
        let browser = Browser::start();
        for theme in THEMES {
            let shown = |width| {
                let shown = browser.page();
                shown.show_on(Screen { theme, width });
                shown.load_file(&page);
                shown.wait_until_drawn();
                shown
            };
            let svg = chart::svg(&shown(CHART_WIDTH), "tipping", &self.title(), &self.about());
            write(&pictures.join(format!("load-line-{}.svg", theme.name())), svg.as_bytes());
            let path = pictures.join(format!("report-page-{}.png", theme.name()));
            write(&path, &top_of(&shown(PAGE.0)));
        }
    }
}

/// Returns the top of a page as PNG.
fn top_of(page: &Page<'_>) -> Vec<u8> {
    let clip = json!({ "x": 0, "y": 0, "width": PAGE.0, "height": PAGE.1, "scale": 1 });
    let how = json!({ "captureBeyondViewport": true, "clip": clip });
    let image = page.call("Page.captureScreenshot", &how);
    let text = image["data"].as_str().expect("the protocol's text");
    STANDARD.decode(text).expect("the protocol's bytes")
}

/// Memory per held connection beside peers, as `cargo xtask bench --part memory` measured it.
fn draw_memory(measured: &Path, pictures: &Path) {
    let text = fs::read_to_string(measured).expect("what the benchmark wrote");
    let measured: Value = serde_json::from_str(&text).expect("JSON");
    let rows = measured["rows"].as_array().expect("rows of the benchmark");
    let row = rows.iter().find(|row| row["id"] == "client-memory").expect("a row of memory");
    let word = |key: &str| row[key].as_str().unwrap_or_default();
    let about = format!("{}; kB are 1,000 bytes; {}", word("command"), word("date"));
    let title = "Client memory per held, idle TLS 1.3 connection";
    for theme in THEMES {
        let svg = bars::svg(&bars::medians(row), "kB", title, &about, theme);
        write(&pictures.join(format!("memory-{}.svg", theme.name())), svg.as_bytes());
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("{} ({} bytes)", path.display(), bytes.len());
}

/// Returns `HAProxy 2.6.12`.
fn haproxy() -> String {
    let output = Command::new(program::installed("haproxy")).arg("-v").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let version = text.split_whitespace().nth(2).unwrap_or_default();
    format!("HAProxy {}", version.split(['-', '+']).next().unwrap_or_default())
}

/// Returns `2 x Intel(R) Xeon(R) Processor @ 2.50GHz`.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("model name\t: ")).collect();
    format!("{} x {}", models.len(), models.first().unwrap_or(&"CPU"))
}
