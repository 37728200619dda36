//! The table that comparisons, sweeps and repeated searches share: a row for each pair, value or search.

use std::iter::once;

use super::layout::{Page, wrap};

/// Text that needs more than the rest of a line is wrapped there from this width on, and below the figures otherwise.
const TEXT_WIDTH_MIN: usize = 24;

impl Page {
    /// Writes a table of figures, each row with a text behind them. Columns are as wide as their widest cell, and their
    /// cells at the right edge, below a heading that begins with `<` at the left. `heads` ends with that of the text.
    pub(super) fn table(
        &mut self,
        heads: &[&str],
        rows: impl Iterator<Item = (Vec<String>, String)>,
    ) {
        let (text, heads) = heads.split_last().unwrap_or((&"", heads));
        let names = heads.iter().map(|head| head.trim_start_matches('<').to_owned()).collect();
        let rows: Vec<_> = once((names, (*text).to_owned())).chain(rows).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|(figures, _)| figures.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..heads.len()).map(width).collect();
        let indent = widths.iter().map(|width| width + 2).sum::<usize>();
        let room = self.width().saturating_sub(indent);
        for (index, (figures, text)) in rows.iter().enumerate() {
            let cells = figures.iter().zip(heads).zip(&widths);
            let cells = cells.map(|((cell, head), width)| match head.starts_with('<') {
                true => format!("{cell:width$}  "),
                false => format!("{cell:>width$}  "),
            });
            let (figures, is_long) = (cells.collect::<String>(), text.chars().count() > room);
            match index {
                0 => self.heading(&format!("{figures}{text}")),
                _ if is_long && room < TEXT_WIDTH_MIN => {
                    self.line(&figures);
                    self.line(&format!("  {text}"))
                }
                _ => {
                    let text = wrap(text, room).join(&format!("\n{:indent$}", ""));
                    self.line(&format!("{figures}{text}"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Style;

    use super::*;

    #[test]
    fn text_is_beside_its_figures_where_there_is_room() {
        const TEXT: &str = "a text of more than forty columns, which is wrapped";
        let drawn = |columns: usize| {
            let rows = [("9", "short"), ("12,345", TEXT)].map(|(figure, text)| {
                (vec!["é".repeat(columns), figure.to_owned()], text.to_owned())
            });
            let style = Style { width: 60, ..Style::default() };
            Page::text(style, |page| page.table(&["<name", "B", "note"], rows.into_iter()))
        };
        let lines = [
            "name           B  note",
            "éééééééé       9  short",
            "éééééééé  12,345  a text of more than forty columns, which",
            "                  is wrapped",
        ];
        assert_eq!(drawn(8).lines().collect::<Vec<_>>(), lines);
        let below = format!("{}  12,345\n  {TEXT}\n", "é".repeat(27));
        assert!(drawn(27).ends_with(&below), "{}", drawn(27));
    }
}
