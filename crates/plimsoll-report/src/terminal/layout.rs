//! Words, numbers and lines of a terminal page: wrapping, aligned labels, colours on request.
//!
//! A [`Page`] collects headings, table rows as they are, and labelled entries wrapped to 60 to 100 columns.
//! [`Page::entries`] runs the same writers but returns [`Entry`] values, which the HTML page and Markdown lay out
//! themselves. The free functions format numbers with units; a no-break space holds both together until [`wrap`]
//! replaces it. [`clean`] must be applied to every text of a peer, a host or a file. Start reading at
//! [`Page::entry`].

use plimsoll_model::trial::{Level, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use super::job_log::JobLog;

/// Width of the labels at the left edge: `Connections` and two spaces.
const LABEL_WIDTH: usize = 13;
/// Below this, wrapped text would be a column of single words.
const WIDTH_MIN: usize = 60;
/// Above this, lines are too long to read.
const WIDTH_MAX: usize = 100;
/// Heights of a column, eighths.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Bars for consoles that lack the others.
const ASCII_BARS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// The style of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// `true` if colours are used; the caller checks the terminal and `NO_COLOR`.
    pub color: bool,
    /// Columns of the terminal. Tables need 80; running text uses 60 to 100.
    pub width: u16,
    /// The log of a CI job, if the report is written to one.
    pub log: Option<JobLog>,
    /// The whole report, and not what fits on one screen.
    pub details: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 80, log: None, details: true }
    }
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// A heading.
    Strong,
    /// A good result.
    Good,
    /// Worth a look.
    Warn,
    /// Missed.
    Bad,
    /// Explanations, for the second reading.
    Quiet,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Strong => "\x1b[1m",
            Self::Good => "\x1b[1;32m",
            Self::Warn => "\x1b[1;33m",
            Self::Bad => "\x1b[1;31m",
            Self::Quiet => "\x1b[2m",
        }
    }
}

impl From<Verdict> for Tone {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::Bad => Self::Bad,
            Verdict::Invalid => Self::Warn,
        }
    }
}

impl From<Level> for Tone {
    fn from(level: Level) -> Self {
        match level {
            Level::Pass => Self::Good,
            Level::Warn => Self::Warn,
            Level::Fail => Self::Bad,
        }
    }
}

/// A fact of a report: its label and what is said of it, in one line or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) label: String,
    pub(crate) lines: Vec<String>,
    /// Lines of it in the report on one screen; 0 if it is not there.
    pub(crate) most: usize,
}

/// A page being written.
pub(crate) struct Page {
    text: String,
    /// In place of the text, the entries alone: tables and headings are drawn elsewhere.
    entries: Option<Vec<Entry>>,
    /// [`Entry::most`] of the entries that are written.
    most: usize,
    style: Style,
}

impl Page {
    pub(crate) const fn new(style: Style) -> Self {
        Self { text: String::new(), entries: None, most: 0, style }
    }

    /// Returns the text that `write` writes.
    pub(crate) fn text(style: Style, write: impl FnOnce(&mut Self)) -> String {
        let mut page = Self::new(style);
        write(&mut page);
        page.text
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Returns the entries that `write` writes.
    pub(crate) fn entries(write: impl FnOnce(&mut Self)) -> Vec<Entry> {
        let mut page = Self { entries: Some(Vec::new()), ..Self::new(Style::default()) };
        write(&mut page);
        page.entries.unwrap_or_default()
    }

    fn write(&mut self, line: &str) {
        if self.entries.is_none() {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    pub(super) fn width(&self) -> usize {
        usize::from(self.style.width).clamp(WIDTH_MIN, WIDTH_MAX)
    }

    /// Returns `text` in the colour of `tone`, if colours are on.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if self.style.color && !text.is_empty() {
            format!("{}{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn blank(&mut self) {
        self.write("")
    }

    /// Folds what `write` writes under `title`, where the log can.
    pub(crate) fn folded(&mut self, title: &str, write: impl FnOnce(&mut Self)) {
        let Some(log) = self.style.log else { return write(self) };
        self.write(&log.begin(title));
        write(self);
        self.write(&log.end(title))
    }

    /// Writes one line unchanged; the caller has painted and measured it.
    pub(crate) fn line(&mut self, text: &str) {
        self.write(text.trim_end())
    }

    /// Writes a heading on its own line.
    pub(crate) fn heading(&mut self, text: &str) {
        let text = self.paint(Tone::Strong, text);
        self.line(&text)
    }

    /// Writes `lead`, then `text` wrapped and hanging beside it.
    pub(crate) fn hanging(&mut self, tone: Tone, lead: &str, text: &str) {
        self.hanging_within(tone, lead, text, usize::MAX)
    }

    /// Writes like [`Self::hanging`] at most `most` lines; a text that is cut ends in `…`.
    pub(crate) fn hanging_within(&mut self, tone: Tone, lead: &str, text: &str, most: usize) {
        let gap = if lead.ends_with(':') { " " } else { "  " };
        let indent = lead.chars().count() + gap.len();
        let width = self.width().saturating_sub(indent).max(1);
        for (index, line) in cut(wrap(text, width), width, most).iter().enumerate() {
            if index == 0 {
                let lead = self.paint(tone, lead);
                self.write(format!("{lead}{gap}{line}").trim_end());
            } else {
                self.write(&format!("{:indent$}{line}", ""));
            }
        }
    }

    /// Writes a label at the left edge and `text` wrapped beside it.
    pub(crate) fn entry(&mut self, label: &str, text: &str) {
        if let Some(entries) = &mut self.entries {
            match entries.last_mut() {
                Some(last) if label.is_empty() => last.lines.push(text.to_owned()),
                _ => {
                    let (label, lines) = (label.to_owned(), vec![text.to_owned()]);
                    entries.push(Entry { label, lines, most: self.most });
                }
            }
            return;
        }
        self.entry_within(label, text, usize::MAX)
    }

    /// Marks the entries that `write` writes for the report of one screen, each in at most `most` lines.
    pub(crate) fn key(&mut self, most: usize, write: impl FnOnce(&mut Self)) {
        self.most = most;
        write(self);
        self.most = 0
    }

    /// Writes like [`Self::entry`] at most `most` lines of text.
    pub(crate) fn entry_within(&mut self, label: &str, text: &str, most: usize) {
        let lead = format!("{label:width$}", width = LABEL_WIDTH - 2);
        self.hanging_within(Tone::Strong, &lead, text, most)
    }

    /// Writes like [`Self::entry`] items, which are not torn if that can be avoided; without items it writes nothing.
    pub(crate) fn entry_items(&mut self, label: &str, items: &[String]) {
        self.entry_packed(label, items, ",")
    }

    /// Writes like [`Self::entry_items`] numbers, which contain commas.
    pub(crate) fn entry_counts(&mut self, label: &str, items: &[String]) {
        self.entry_packed(label, items, ";")
    }

    fn entry_packed(&mut self, label: &str, items: &[String], end: &str) {
        if items.is_empty() {
            return;
        }
        if self.entries.is_some() {
            return self.entry(label, &items.join(&format!("{end} ")));
        }
        self.entry_lines(label, pack(items, end, self.width() - LABEL_WIDTH));
    }

    /// Writes like [`Self::entry`] several texts, with the label at the first.
    pub(crate) fn entry_lines(&mut self, label: &str, texts: impl IntoIterator<Item = String>) {
        for (index, text) in texts.into_iter().enumerate() {
            self.entry(if index == 0 { label } else { "" }, &text);
        }
    }

    /// Writes wrapped text in the quiet colour, indented by `indent` columns.
    pub(crate) fn quiet(&mut self, indent: usize, text: &str) {
        for line in wrap(text, self.width() - indent) {
            let line = self.paint(Tone::Quiet, &line);
            self.write(&format!("{:indent$}{line}", ""));
        }
    }
}

/// Returns lines of at most `width` characters, broken at spaces; a longer word stays whole, so that an
/// address can be copied.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        // A no-break space holds a number and its unit together; on the page it is a space.
        line.extend(word.chars().map(|c| if c == NO_BREAK { ' ' } else { c }));
        used += len;
    }
    lines.push(line);
    lines
}

/// Returns at most `most` of the lines; if lines are left out, `…` marks the place, and no line is wider than `width`.
fn cut(mut lines: Vec<String>, width: usize, most: usize) -> Vec<String> {
    if most == usize::MAX {
        return lines;
    }
    let is_cut = lines.len() > most;
    lines.truncate(most);
    let last = lines.len().saturating_sub(1);
    for (index, line) in lines.iter_mut().enumerate() {
        let has_more = is_cut && index == last;
        let fits = line.chars().count() + 2 * usize::from(has_more) <= width;
        if fits && has_more {
            line.push_str(" …");
        } else if !fits {
            *line = line.chars().take(width - 1).collect::<String>() + "…";
        }
    }
    lines
}

/// Holds a number and its unit on one line.
const NO_BREAK: char = '\u{a0}';

/// Returns `text` that [`wrap`] will not tear.
pub(crate) fn whole(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// Items that end with `end`, joined into lines of at most `width`; only an item that is longer
/// than a line will be torn.
fn pack(items: &[String], end: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let item = if index + 1 < items.len() { format!("{item}{end}") } else { item.clone() };
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + item.chars().count() <= width => {
                line.push(' ');
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines
}

/// Returns `text` without control characters and without commands to a job of GitHub Actions: bytes of a peer, a host
/// or a file must control neither the terminal nor the job whose log it is in.
pub fn clean(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
    without_commands(&shown.replace("##[", "## ["))
}

/// Breaks up `::name::`, which GitHub Actions takes for a command at the beginning of a line; wrapped lines may begin
/// there, too.
fn without_commands(text: &str) -> String {
    const MARK: &str = "::";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, after) = (&rest[..at], &rest[at + MARK.len()..]);
        out.push_str(before);
        let begins = out.chars().next_back().is_none_or(char::is_whitespace);
        let name_ends = after.find(|c: char| !c.is_ascii_alphabetic() && c != '-');
        let is_name = name_ends.is_some_and(|end| {
            end > 0 && (after[end..].starts_with(MARK) || after[end..].starts_with(' '))
        });
        let is_command = begins && is_name && after.contains(MARK);
        out.push_str(if is_command { ": :" } else { MARK });
        rest = after;
    }
    out + rest
}

/// Milliseconds with three significant digits, at most microseconds: `0.052`, `3.21`, `1,240`.
pub(crate) fn ms(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        // The bounds are where rounding would add a digit.
        Some(ms) if ms < 0.9995 => format!("{ms:.3}"),
        Some(ms) if ms < 9.995 => format!("{ms:.2}"),
        Some(ms) if ms < 99.95 => format!("{ms:.1}"),
        Some(ms) => grouped(ms.round() as u64),
    }
}

/// Returns [`ms`] with its unit, in one piece.
pub(crate) fn ms_text(value: Option<f64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| whole(&format!("{} ms", ms(Some(value)))))
}

/// Returns `part` of `total` in percent without the sign; never rounds a remainder away.
pub(crate) fn percent(part: u64, total: u64) -> String {
    if total == 0 {
        return "-".to_owned();
    }
    match part as f64 / total as f64 * 100.0 {
        _ if part == total => "100".to_owned(),
        _ if part == 0 => "0".to_owned(),
        percent if percent < 0.01 => "<0.01".to_owned(),
        percent if percent > 99.99 => ">99.99".to_owned(),
        percent => format!("{percent:.2}"),
    }
}

/// Returns a number without the zeros at the end of its fraction.
pub(crate) fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number,
    }
}

/// Returns a share between 0 and 1 in percent, without the sign.
pub(crate) fn ratio_percent(ratio: f64) -> String {
    // Ten digits resolve every count that a run can reach well enough for two decimals.
    percent((ratio.clamp(0.0, 1.0) * 1e10).round() as u64, 10_000_000_000)
}

/// Returns a share between 0 and 1 in whole percent, without the sign: for CPU, which is no more exact.
pub(crate) fn cpu_percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        "?".to_owned()
    } else if ratio > 0.0 && ratio < 0.01 {
        "<1".to_owned()
    } else {
        format!("{:.0}", ratio * 100.0)
    }
}

/// Returns a rate from a raw number; not finite or negative shows as nothing per second.
pub(crate) fn per_s(value: f64) -> String {
    Rate::per_second(value).unwrap_or_default().to_string()
}

/// Returns a span of seconds with the unit that fits, in one piece.
pub(crate) fn span(seconds: f64) -> String {
    whole(&Nanos::from_secs_f64(seconds).to_string())
}

/// Returns bytes in decimal units with three digits, in one piece.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count}\u{a0}B");
    }
    let mut value = count as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}\u{a0}{}", UNITS[unit])
}

/// Returns a column for each of the last `columns` values, from 0 to the largest of them.
pub(crate) fn bars(values: &[f64], columns: usize, ascii: bool) -> String {
    let shown = &values[values.len().saturating_sub(columns)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let heights = if ascii { ASCII_BARS } else { BARS };
    let bar = |value: &f64| {
        let eighths = if most > 0.0 { (value / most * 8.0).ceil() as usize } else { 0 };
        heights[eighths.clamp(1, 8) - 1]
    };
    shown.iter().map(bar).collect()
}

/// Returns `3 failed`, `1,240 late` for each count that is not 0.
pub(crate) fn occurred<const N: usize>(counts: [(u64, &str); N]) -> impl Iterator<Item = String> {
    let occurred = counts.into_iter().filter(|(count, _)| *count > 0);
    occurred.map(|(count, what)| format!("{} {what}", grouped(count)))
}

/// Returns `1 thread`, `2 threads`, `2 processes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = match count {
        1 => "",
        _ if noun.ends_with('s') || noun.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_have_their_plural() {
        for (count, noun, text) in [
            (1, "process", "1 process"),
            (2, "process", "2 processes"),
            (0, "publish", "0 publishes"),
            (1_240, "thread", "1,240 threads"),
        ] {
            assert_eq!(counted(count, noun), text);
        }
    }

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0.000"),
            (0.0521, "0.052"),
            (0.9996, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1_240.4, "1,240"),
        ] {
            assert_eq!(ms(Some(value)), text);
        }
        assert_eq!(ms(None), "-");
        for (count, text) in
            [(999, "999 B"), (1_000, "1.00 kB"), (999_600, "1.00 MB"), (52_300_000, "52.3 MB")]
        {
            assert_eq!(bytes(count).replace(NO_BREAK, " "), text);
        }
    }

    #[test]
    fn percent_never_hides_a_remainder() {
        for (part, total, text) in [
            (0, 10, "0"),
            (10, 10, "100"),
            (1, 1_000_000, "<0.01"),
            (999_999, 1_000_000, ">99.99"),
            (1, 3, "33.33"),
            (0, 0, "-"),
        ] {
            assert_eq!(percent(part, total), text);
        }
        assert_eq!(ratio_percent(0.0231), "2.31");
        assert_eq!(ratio_percent(f64::NAN), "0");
    }

    #[test]
    fn wrapping_breaks_at_spaces_only() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("https://long.example/ x", 5), ["https://long.example/", "x"]);
        assert_eq!(wrap(&format!("took {}", whole("10 s")), 7), ["took", "10 s"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc"), "a?[31mb?c");
        for (text, shown) in [
            ("::error title=a::b", ": :error title=a::b"),
            (" ::add-mask::x and ::stop-commands::y", " : :add-mask::x and : :stop-commands::y"),
            ("x ##[error]y", "x ## [error]y"),
            // Addresses are none.
            ("::1, ::ffff:10.0.0.1, [fe80::1]:80", "::1, ::ffff:10.0.0.1, [fe80::1]:80"),
            ("a::b::c :: d::", "a::b::c :: d::"),
        ] {
            assert_eq!(clean(text), shown);
        }
    }
}
