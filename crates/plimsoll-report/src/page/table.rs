//! The tables behind the charts: headings, paths of the values in the document, and rows.
//!
//! [`Rows`] names a source in the JSON of the view and a path for each [`Column`]; the page's program reads the same
//! definitions. [`Table::of`] resolves the paths to cells that borrow from the document. [`Table::thinned`] leaves at
//! most 60 rows, in which each column shows the last, largest or smallest of the values, by its [`Thin`]. A missing
//! value is [`NOT_MEASURED`], never a zero. Start reading at [`Rows`] and [`Table::of_parts`].

use maud::{Markup, html};
use plimsoll_model::units::grouped;
use serde::Serialize;
use serde_json::Value;

use crate::terminal::layout::{bytes, ms, per_s, trimmed};

/// The most rows of the table behind a chart over time; the download has all.
const ROWS_MAX: usize = 60;

/// The rule that selects one of several values if a table is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thin {
    /// The last: of times and names.
    Last,
    /// The largest: of latencies and failures.
    Most,
    /// The smallest: of what was carried.
    Least,
}

/// The unit of a column, which decides how its figures are shown, here and by the page's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    /// Unchanged text.
    Text,
    /// `good`, `bad`, `invalid`.
    Verdict,
    Count,
    Ms,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "/s")]
    PerS,
    #[serde(rename = "B")]
    Bytes,
    #[serde(rename = "B/s")]
    BytesPerS,
    /// 0 to 1.
    Share,
    /// 0 to 1, of a distribution.
    Quantile,
}

impl Unit {
    /// Returns the text after a heading.
    pub(super) const fn after_heading(self) -> &'static str {
        match self {
            Self::Text | Self::Verdict | Self::Count | Self::Bytes | Self::BytesPerS => "",
            Self::Ms => ", ms",
            Self::Seconds => ", s",
            Self::PerS => "/s",
            Self::Share | Self::Quantile => ", %",
        }
    }

    pub(super) const fn is_words(self) -> bool {
        matches!(self, Self::Text | Self::Verdict)
    }

    fn number(self, value: f64) -> String {
        match self {
            Self::Text | Self::Verdict => value.to_string(),
            Self::Count if value.fract() == 0.0 && value >= 0.0 => grouped(value as u64),
            Self::Count => format!("{value:.2}"),
            Self::Ms => ms(Some(value)),
            Self::Seconds => format!("{value:.1}"),
            Self::PerS => per_s(value).trim_end_matches("/s").to_owned(),
            Self::Bytes => bytes(value.max(0.0) as u64),
            Self::BytesPerS => format!("{}/s", bytes(value.max(0.0) as u64)),
            Self::Share => trimmed(format!("{:.2}", value * 100.0)),
            Self::Quantile => trimmed(format!("{:.6}", value * 100.0)),
        }
    }
}

/// One column: its heading, and where its values stand, a path within the source of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) unit: Unit,
    pub(super) path: &'static str,
    #[serde(skip)]
    pub(super) thin: Thin,
}

/// The rows of a chart in the document: a list of objects (`trials`), an object of lists of equal length (`seconds`),
/// or one of them for each key of an object (`hosts.*`, whose key is the path `*`). A path that ends in `.*` is one
/// column for each key.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Rows {
    pub(super) source: &'static str,
    pub(super) columns: &'static [Column],
}

/// Declares [`Rows`]: the source, then for each column its heading, its unit, its path and, unless it is the last, the
/// rule that selects one of several values.
macro_rules! rows {
    ($source:literal: $($heading:literal $unit:ident $path:literal $($thin:ident)?),+) => {
        $crate::page::table::Rows {
            source: $source,
            columns: &[$($crate::page::table::Column {
                heading: $heading,
                unit: $crate::page::table::Unit::$unit,
                path: $path,
                thin: $crate::page::table::rows!(@thin $($thin)?),
            }),+],
        }
    };
    (@thin) => { $crate::page::table::Thin::Last };
    (@thin $thin:ident) => { $crate::page::table::Thin::$thin };
}
pub(super) use rows;

impl Rows {
    /// Returns the rows of one key alone, of a source that has several.
    pub(super) fn of_key<'a>(&self, view: &'a Value, key: &str) -> Table<'a> {
        let parts = parts(view, self.source);
        let own: Vec<_> = parts.into_iter().filter(|(name, _)| *name == key).collect();
        Table::of_parts(&own, self, None)
    }
}

/// The content of a cell.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Key(&'a str),
    Value(&'a Value),
    Missing,
}

impl Cell<'_> {
    fn number(self) -> Option<f64> {
        match self {
            Self::Value(value) => value.as_f64(),
            Self::Key(_) | Self::Missing => None,
        }
    }

    fn text(self, unit: Unit) -> String {
        match self {
            Self::Key(key) => key.to_owned(),
            Self::Value(Value::String(text)) if unit == Unit::Verdict => text.to_uppercase(),
            Self::Value(Value::String(text)) => text.clone(),
            Self::Value(Value::Bool(true)) => "yes".to_owned(),
            Self::Value(Value::Bool(false)) => "no".to_owned(),
            Self::Value(value) => match value.as_f64() {
                Some(number) => unit.number(number),
                None => NOT_MEASURED.to_owned(),
            },
            Self::Missing => NOT_MEASURED.to_owned(),
        }
    }
}

/// The mark for a missing value: never a zero.
pub(super) const NOT_MEASURED: &str = "–";

/// One column of a table, with its heading as it is shown.
struct Heading {
    text: String,
    unit: Unit,
    path: String,
    thin: Thin,
}

/// The rows behind a chart.
pub(super) struct Table<'a> {
    headings: Vec<Heading>,
    rows: Vec<Vec<Cell<'a>>>,
    /// Rows of the document per row.
    every: usize,
}

impl<'a> Table<'a> {
    /// Returns every row of `rows` in `view`.
    pub(super) fn of(view: &'a Value, rows: &Rows) -> Self {
        Self::of_parts(&parts(view, rows.source), rows, None)
    }

    /// Returns the rows of several documents, each with its name in front.
    pub(super) fn of_several(views: &[(&'a str, &'a Value)], rows: &Rows) -> Self {
        let each = views.iter().flat_map(|(name, view)| {
            parts(view, rows.source).into_iter().map(move |(_, part)| (*name, part))
        });
        Self::of_parts(&each.collect::<Vec<_>>(), rows, Some("run"))
    }

    /// Returns rows of `parts`; their keys are in the first column under the heading `key`, where one is given.
    fn of_parts(parts: &[(&'a str, &'a Value)], rows: &Rows, key: Option<&'static str>) -> Self {
        let mut headings = headings(parts, rows.columns);
        if let Some(text) = key {
            let (text, path) = (text.to_owned(), "*".to_owned());
            headings.insert(0, Heading { text, unit: Unit::Text, path, thin: Thin::Last });
        }
        let mut found = Vec::new();
        for (key, part) in parts {
            for index in 0..length(part) {
                let cell = |heading: &Heading| cell(key, part, &heading.path, index);
                found.push(headings.iter().map(cell).collect());
            }
        }
        Self { headings, rows: found, every: 1 }
    }

    /// Reduces the table to at most [`ROWS_MAX`] rows: each cell is selected from several by the rule of its column.
    pub(super) fn thinned(mut self) -> Self {
        self.every = self.rows.len().div_ceil(ROWS_MAX).max(1);
        if self.every > 1 {
            let groups = self.rows.chunks(self.every);
            let rows = groups.map(|group| {
                let column = |index: usize| {
                    thinned(group.iter().map(|row| row[index]), self.headings[index].thin)
                };
                (0..self.headings.len()).map(column).collect()
            });
            self.rows = rows.collect();
        }
        self
    }

    /// Reports whether anything but its first column is more than zero.
    pub(super) fn has_figures(&self) -> bool {
        let cells = self.rows.iter().flat_map(|row| row.iter().skip(1));
        cells.filter_map(|cell| cell.number()).any(|number| number > 0.0)
    }

    /// Returns the table with a caption.
    pub(super) fn markup(&self, caption: &str) -> Markup {
        html! {
            table {
                caption {
                    (caption)
                    @if self.every > 1 {
                        " Each row stands for " (self.every) ": the largest latency and number of failures among them, the \
                        least that was carried."
                    }
                }
                thead { tr { @for heading in &self.headings {
                    th scope="col" class=(class(heading.unit)) { (heading.text) }
                } } }
                tbody { @for row in &self.rows { tr {
                    @for (cell, heading) in row.iter().zip(&self.headings) {
                        td class=(class(heading.unit)) { (cell.text(heading.unit)) }
                    }
                } } }
            }
        }
    }

    /// Returns the table of trials: it can be sorted, verdicts have their shapes, and narrow screens show the first
    /// columns alone.
    pub(super) fn of_trials(&self, columns: &[Column], shape: impl Fn(&str) -> Markup) -> Markup {
        const NARROW: usize = 5;
        let class_of = |index: usize, unit| {
            let wide = if index < NARROW { "" } else { " wide" };
            format!("{}{wide}", class(unit))
        };
        html! {
            table.sortable id="trials-table" {
                caption { "Every trial, in the order in which they ended" }
                thead { tr { @for (index, (heading, column)) in self.headings.iter().zip(columns).enumerate() {
                    th scope="col" class=(class_of(index, heading.unit)) data-path=(column.path) data-unit=(serde_json::json!(column.unit).as_str().unwrap_or_default()) { (heading.text) }
                } } }
                tbody { @for row in &self.rows { tr {
                    @for (index, (cell, heading)) in row.iter().zip(&self.headings).enumerate() {
                        @let text = cell.text(heading.unit);
                        @if heading.unit == Unit::Verdict {
                            @let name = text.to_lowercase();
                            td class={ "verdict " (name) } { (shape(&name)) " " (text) }
                        } @else {
                            td class=(class_of(index, heading.unit)) data-sort=[cell.number()] { (text) }
                        }
                    }
                } } }
            }
        }
    }
}

const fn class(unit: Unit) -> &'static str {
    if unit.is_words() { "words" } else { "n" }
}

/// Selects one of several cells by a rule.
fn thinned<'a>(cells: impl Iterator<Item = Cell<'a>>, thin: Thin) -> Cell<'a> {
    let better = |a: Cell<'a>, b: Cell<'a>| match (a.number(), b.number()) {
        (Some(x), Some(y)) if thin == Thin::Most && x >= y => a,
        (Some(x), Some(y)) if thin == Thin::Least && x <= y => a,
        (Some(_), None) if thin != Thin::Last => a,
        _ => b,
    };
    cells.reduce(better).unwrap_or(Cell::Missing)
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Object(map) => map.get(key),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the parts of a source, each with its key where it has one.
fn parts<'a>(view: &'a Value, source: &str) -> Vec<(&'a str, &'a Value)> {
    let Some(base) = source.strip_suffix(".*") else {
        return at(view, source).map(|part| ("", part)).into_iter().collect();
    };
    match at(view, base) {
        Some(Value::Object(map)) => map.iter().map(|(key, part)| (key.as_str(), part)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the columns, those that stand for one of each key in full.
fn headings(parts: &[(&str, &Value)], columns: &[Column]) -> Vec<Heading> {
    let mut headings = Vec::new();
    for column in columns {
        let Column { unit, thin, .. } = *column;
        let Some(base) = column.path.strip_suffix(".*") else {
            let text = format!("{}{}", column.heading, unit.after_heading());
            headings.push(Heading { text, unit, path: column.path.to_owned(), thin });
            continue;
        };
        let mut keys: Vec<&String> = Vec::new();
        for map in parts.iter().filter_map(|(_, part)| at(part, base)?.as_object()) {
            keys.extend(map.keys().filter(|key| !keys.contains(key)).collect::<Vec<_>>());
        }
        for key in keys {
            headings.push(Heading { text: key.clone(), unit, path: format!("{base}.{key}"), thin });
        }
    }
    headings
}

fn length(part: &Value) -> usize {
    match part {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.values().find_map(Value::as_array).map_or(0, Vec::len),
        _ => 0,
    }
}

fn cell<'a>(key: &'a str, part: &'a Value, path: &str, index: usize) -> Cell<'a> {
    if path == "*" {
        return Cell::Key(key);
    }
    let found = match part {
        Value::Array(list) => list.get(index).and_then(|row| at(row, path)),
        _ => at(part, path).and_then(|list| list.get(index)),
    };
    found.filter(|value| !value.is_null()).map_or(Cell::Missing, Cell::Value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(table: &Table<'_>) -> Vec<Vec<String>> {
        let text = |(cell, heading): (&Cell<'_>, &Heading)| cell.text(heading.unit);
        table.rows.iter().map(|row| row.iter().zip(&table.headings).map(text).collect()).collect()
    }

    #[test]
    fn lists_columns_and_keys_are_rows() {
        let view = json!({
            "trials": [{"load": 1000.0, "q": {"p99": 2.5}, "verdict": "good"}, {"load": 2000.0}],
            "hosts": {"a": {"t": [1.0, 2.0], "busy": [0.5, null]}, "b": {"t": [1.0], "busy": [1.0]}},
        });
        const TRIALS: Rows = rows!("trials":
            "load" PerS "load", "p99" Ms "q.p99" Most, "verdict" Verdict "verdict");
        let table = Table::of(&view, &TRIALS);
        assert_eq!(texts(&table), [["1,000", "2.50", "GOOD"], ["2,000", "–", "–"]]);
        assert_eq!(table.headings[1].text, "p99, ms");
        const HOSTS: Rows = rows!("hosts.*":
            "host" Text "*", "busy" Share "busy" Most);
        assert_eq!(texts(&Table::of(&view, &HOSTS)), [["a", "50"], ["a", "–"], ["b", "100"]]);
    }

    #[test]
    fn a_column_of_each_key_and_no_row_that_is_better_than_what_it_stands_for() {
        let counts: Vec<u32> = (0..120).map(|second| second % 7).collect();
        let view = json!({"s": {"t": (1..=120).collect::<Vec<u32>>(), "errors": {"reset": counts, "late": [1]}}});
        const SECONDS: Rows = rows!("s":
            "time" Seconds "t", "" Count "errors.*" Most);
        let table = Table::of(&view, &SECONDS).thinned();
        assert_eq!((table.rows.len(), table.every), (60, 2));
        let headings: Vec<_> = table.headings.iter().map(|heading| &heading.text[..]).collect();
        assert_eq!(headings, ["time, s", "late", "reset"]);
        assert_eq!(texts(&table)[0], ["2.0", "1", "1"]);
        assert_eq!(texts(&table)[3], ["8.0", "–", "6"], "6 and 0");
        assert!(table.markup("Errors.").into_string().contains("Each row stands for 2"));
    }

    #[test]
    fn what_a_peer_named_is_text() {
        let view = json!({"rows": [{"name": "<script>alert(1)</script>"}]});
        const ROWS: Rows = rows!("rows": "name" Text "name");
        let text = Table::of(&view, &ROWS).markup("Names.").into_string();
        assert!(text.contains("&lt;script&gt;") && !text.contains("<script>"), "{text}");
    }
}
