//! A bar for each program of one benchmark.

use std::fmt::Write;

use serde_json::Value;

use super::{Palette, escaped};
use crate::browser::Theme;

const WIDTH: f64 = 720.0;
const ROW: f64 = 26.0;
/// Left edge of bars, and the room for the figure behind the longest.
const LEFT: f64 = 110.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 44.0;

/// Returns the programs of a row of a benchmark and their medians, the smallest first. `row` is one of `rows` in
/// `docs/benchmarks/PART.json`.
pub fn medians(row: &Value) -> Vec<(String, f64)> {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let first = |words: &str| words.split([' ', ',']).next().and_then(|word| word.parse().ok());
    let mut all: Vec<(String, f64)> =
        first(&text("ours")).map(|own| ("plimsoll".to_owned(), own)).into_iter().collect();
    for peer in text("peers").split("), ").flat_map(|part| part.split(", ")) {
        let mut words = peer.split(' ');
        let name = words.next().unwrap_or_default();
        if let Some(median) = words.next().and_then(|word| word.parse().ok()) {
            all.push((name.to_owned(), median));
        }
    }
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// Returns a bar for each, with `title` above and `about` below.
pub fn svg(bars: &[(String, f64)], unit: &str, title: &str, about: &str, theme: Theme) -> String {
    let palette = Palette::of(theme);
    let height = TOP + bars.len() as f64 * ROW + 30.0;
    let most = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif\" font-size=\"14\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{}\"/>\n\
         <text x=\"16\" y=\"26\" fill=\"{}\" font-weight=\"600\">{title}</text>\n",
        palette.background,
        palette.text,
        title = escaped(title),
    );
    for (index, (name, value)) in bars.iter().enumerate() {
        let top = TOP + index as f64 * ROW;
        let base = top + 16.0;
        let long = (value / most * (WIDTH - LEFT - RIGHT)).max(2.0);
        let own = name == "plimsoll";
        let (fill, weight) = if own { (palette.blue, "700") } else { (palette.quiet, "400") };
        let text = palette.text;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{base}\" text-anchor=\"end\" fill=\"{text}\" font-weight=\"{weight}\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{:.0}\" width=\"{long:.1}\" height=\"18\" rx=\"2\" fill=\"{fill}\"/>\n\
             <text x=\"{:.1}\" y=\"{base}\" fill=\"{text}\" font-weight=\"{weight}\">{value} {}</text>",
            LEFT - 8.0,
            escaped(name),
            top + 2.0,
            LEFT + long + 8.0,
            escaped(unit),
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.0}\" fill=\"{}\" font-size=\"11\">{}</text>\n</svg>",
        height - 10.0,
        palette.quiet,
        escaped(about)
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_read_with_and_without_ranges() {
        let row = serde_json::json!({
            "ours": "0.26 (0.25 - 0.32), 15000 connections",
            "peers": "oha 31.64 (31.53 - 31.70), h1load 34.63, hey 78.27",
        });
        let bars = medians(&row);
        let names: Vec<&str> = bars.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["plimsoll", "oha", "h1load", "hey"]);
        assert!((bars[3].1 - 78.27).abs() < 1e-9, "{bars:?}");
    }
}
