//! A terminal's screen as SVG, from a capture by tmux.
//!
//! [`svg`] reads the captured lines with their SGR sequences and draws one text element per run of cells in one
//! style. `spans` splits a line and carries the style over to the next line. The colours of SGR become the few
//! colours of the palette. Each cell has a fixed size in pixels, and `textLength` holds the columns in place with any
//! font. Start with [`svg`].

use std::fmt::Write;

use super::{Palette, escaped};
use crate::browser::Theme;

/// Pixels of one cell; of the fonts named below a letter is 0.6 of the size wide.
const CELL: (f64, f64) = (8.4, 18.0);
const FONT_PX: f64 = 14.0;
const MARGIN: f64 = 12.0;
const FONTS: &str =
    "ui-monospace, 'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace";

/// The style that SGR sequences have set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    /// As in SGR, 30 to 37 and 90 to 97.
    colour: Option<u8>,
    is_bold: bool,
    is_dim: bool,
    is_reversed: bool,
}

impl Style {
    fn set(&mut self, code: u8) {
        match code {
            0 => *self = Self::default(),
            1 => self.is_bold = true,
            2 => self.is_dim = true,
            7 => self.is_reversed = true,
            22 => (self.is_bold, self.is_dim) = (false, false),
            27 => self.is_reversed = false,
            30..=37 | 90..=97 => self.colour = Some(code),
            39 => self.colour = None,
            _ => {}
        }
    }

    fn fill(self, palette: &Palette) -> &'static str {
        match self.colour {
            Some(34 | 94) => palette.blue,
            Some(31 | 33 | 91 | 93) => palette.yellow,
            Some(32 | 36 | 92 | 96) => palette.cyan,
            Some(90) => palette.quiet,
            _ if self.is_dim => palette.quiet,
            _ => palette.text,
        }
    }
}

/// Text of one style, and the column where it begins.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    column: usize,
    text: String,
    style: Style,
}

/// Returns the spans of a line with SGR sequences; `style` goes on to the next line.
fn spans(line: &str, style: &mut Style) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut column = 0;
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\u{1b}[") {
            let end = sequence.find('m').unwrap_or(sequence.len());
            let codes = sequence.get(..end).unwrap_or_default();
            for code in codes.split(';') {
                style.set(code.parse().unwrap_or(0));
            }
            rest = sequence.get(end + 1..).unwrap_or_default();
            continue;
        }
        match spans.last_mut() {
            Some(last) if last.style == *style => last.text.push(first),
            _ => spans.push(Span { column, text: first.to_string(), style: *style }),
        }
        column += 1;
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    spans
}

/// Returns the screen as SVG, `columns` wide, with `about` below it.
pub fn svg(captured: &str, columns: usize, theme: Theme, about: &str) -> String {
    let palette = Palette::of(theme);
    let lines: Vec<&str> = captured.trim_end().lines().collect();
    let width = columns as f64 * CELL.0 + 2.0 * MARGIN;
    let height = (lines.len() + 2) as f64 * CELL.1 + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" font-family=\"{FONTS}\" font-size=\"{FONT_PX}\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{}\"/>\n",
        escaped(about),
        palette.background
    );
    let mut style = Style::default();
    for (row, line) in lines.iter().enumerate() {
        let top = MARGIN + row as f64 * CELL.1;
        for span in spans(line, &mut style) {
            draw(&mut svg, &span, top, &palette);
        }
    }
    let below = height - MARGIN;
    let quiet = palette.quiet;
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{below:.1}\" fill=\"{quiet}\" font-size=\"11\">{}</text>",
        escaped(about)
    );
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, span: &Span, top: f64, palette: &Palette) {
    let Span { column, text, style } = span;
    let left = MARGIN + *column as f64 * CELL.0;
    let long = text.chars().count() as f64 * CELL.0;
    let mut fill = style.fill(palette);
    if style.is_reversed {
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{long:.1}\" height=\"{}\" fill=\"{fill}\"/>",
            CELL.1
        );
        fill = palette.background;
    }
    if text.trim().is_empty() {
        return;
    }
    let weight = if style.is_bold { " font-weight=\"700\"" } else { "" };
    // The length keeps columns where they are, whatever font the reader has; other spaces would be collapsed.
    let _ = writeln!(
        svg,
        "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{long:.1}\" fill=\"{fill}\"{weight}>{}</text>",
        top + 0.75 * CELL.1,
        escaped(text).replace(' ', "\u{a0}")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_its_style_changes() {
        let mut style = Style::default();
        let found = spans("a\u{1b}[1;34mbc\u{1b}[0m d", &mut style);
        let blue = Style { colour: Some(34), is_bold: true, ..Style::default() };
        let span = |column, text: &str, style| Span { column, text: text.to_owned(), style };
        let plain = Style::default();
        assert_eq!(found, [span(0, "a", plain), span(1, "bc", blue), span(3, " d", plain)]);
    }

    #[test]
    fn what_is_a_tag_to_xml_is_escaped() {
        let drawn = svg("p99<50ms & more", 80, Theme::Dark, "a run");
        assert!(drawn.contains("p99&lt;50ms\u{a0}&amp;\u{a0}more</text>"), "{drawn}");
    }
}
