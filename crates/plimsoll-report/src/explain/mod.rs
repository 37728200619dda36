//! Explanations of every exit code, check, outcome, cause, error class, reason and word of a report.
//!
//! The texts are chapters of the book, `docs/explain/*.md`, embedded at compile time. A chapter begins with an
//! introduction, then has one section for each id: `## send-lag`, its meaning, and a list of labelled parts. Labels
//! that a section lacks are taken from the list of the introduction. The folder of this module links to the chapters,
//! so that a packaged crate contains them.

use plimsoll_model::trial::CheckId;

use crate::Style;
use crate::terminal::layout::{Page, Tone, wrap};

/// Parts of a section beside its meaning, in the order in which they are printed.
const LABELS: [&str; 4] = ["Measured", "Usual causes", "What to do", "See it"];
/// Columns of the labels.
const LABEL_COLUMNS: usize = 12;
/// Columns of a page: it is read in terminals of every width, and copied into mails and tickets.
const COLUMNS: u16 = 80;
/// Ids that are offered in place of an unknown one.
const NEAREST_MAX: usize = 4;

/// The explanations of one kind of id: the noun for such an id, a title, and the chapter of the book.
type Chapter = (&'static str, &'static str, &'static str);

const CHAPTERS: [Chapter; 7] = [
    ("exit code", "Exit codes", include_str!("exit-codes.md")),
    ("check", "Checks", include_str!("checks.md")),
    ("outcome of a search", "Outcomes of a search, and their reasons", include_str!("outcomes.md")),
    ("cause", "Causes", include_str!("causes.md")),
    ("error class", "Error classes", include_str!("error-classes.md")),
    ("reason of a failure", "Reasons of failures", include_str!("reasons.md")),
    ("word", "Words", include_str!("words.md")),
];

/// Returns the sections of a chapter, which stand behind its introduction.
fn sections(&(noun, _, chapter): &'static Chapter) -> impl Iterator<Item = Section> {
    let mut parts = chapter.split("\n## ");
    let introduction = parts.next().unwrap_or_default();
    parts.filter_map(move |part| {
        let (id, text) = part.split_once('\n')?;
        Some(Section { noun, id: id.trim(), text, introduction })
    })
}

/// The explanation of one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The kind of thing that the id names.
    noun: &'static str,
    /// The id, as reports and JSON write it.
    pub id: &'static str,
    text: &'static str,
    introduction: &'static str,
}

impl Section {
    /// Paragraphs before the labelled parts.
    fn meaning(&self) -> Vec<String> {
        let end = self.text.find("\n- **").unwrap_or(self.text.len());
        let paragraphs = self.text[..end].split("\n\n").map(filled);
        paragraphs.filter(|paragraph| !paragraph.is_empty()).collect()
    }

    /// Returns the first sentence of the meaning.
    fn summary(&self) -> String {
        let meaning = self.meaning().into_iter().next().unwrap_or_default();
        match meaning.split_once(". ") {
            Some((first, _)) => format!("{first}."),
            None => meaning,
        }
    }

    /// Returns the labelled part, of this section or else of its chapter.
    fn part(&self, label: &str) -> Option<String> {
        let marker = format!("\n- **{label}**:");
        [self.text, self.introduction].into_iter().find_map(|text| {
            let (_, after) = text.split_once(&marker)?;
            let end = ["\n- ", "\n\n"].iter().filter_map(|end| after.find(end)).min();
            Some(filled(&after[..end.unwrap_or(after.len())]))
        })
    }

    /// Returns the section as text of at most 80 columns.
    pub fn text(&self, style: Style) -> String {
        let style = narrow(style);
        Page::text(style, |page| {
            page.heading(&format!("{} ({})", self.id, self.noun));
            for paragraph in self.meaning() {
                page.blank();
                for line in wrap(&paragraph, usize::from(style.width)) {
                    page.line(&line);
                }
            }
            let parts = LABELS.into_iter().filter_map(|label| Some((label, self.part(label)?)));
            for (label, text) in parts {
                page.blank();
                page.hanging(Tone::Strong, &format!("{label:LABEL_COLUMNS$}"), &text);
            }
        })
    }
}

/// Joins the lines of a paragraph, without links.
fn filled(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some((start, middle)) =
        line.find("](").and_then(|at| Some((line[..at].rfind('[')?, at)))
    {
        let Some(end) = line[middle..].find(')') else { break };
        let text = line[start + 1..middle].to_owned();
        line.replace_range(start..=middle + end, &text);
    }
    line
}

fn narrow(style: Style) -> Style {
    Style { width: style.width.min(COLUMNS), ..style }
}

/// Returns all sections, chapter by chapter.
pub fn all() -> impl Iterator<Item = Section> {
    CHAPTERS.iter().flat_map(sections)
}

/// Returns the sections with this id; of several families where it has several meanings. Spaces and underscores count
/// as hyphens, and a goal such as `p99<50ms` is explained as a goal.
pub fn find(id: &str) -> Vec<Section> {
    let id = id.trim().to_lowercase().replace([' ', '_'], "-");
    let id = match CheckId::from(id.clone()) {
        CheckId::Goal(_) => "goal".to_owned(),
        CheckId::Criterion(_) => "criterion".to_owned(),
        _ => id,
    };
    all().filter(|section| section.id == id).collect()
}

/// Ids that are spelled nearly like `id` or contain it, the nearest first.
pub fn nearest(id: &str) -> Vec<&'static str> {
    let id = id.trim().to_lowercase();
    let mut near: Vec<(usize, &str)> = Vec::new();
    for section in all() {
        let distance = strsim::damerau_levenshtein(&id, section.id);
        let is_part = id.len() >= 3 && (section.id.contains(&id) || id.contains(section.id));
        let is_near =
            distance <= id.len().max(section.id.len()) / 3 || (is_part && section.id.len() > 2);
        if is_near && near.iter().all(|(_, other)| *other != section.id) {
            near.push((distance, section.id));
        }
    }
    near.sort();
    near.into_iter().take(NEAREST_MAX).map(|(_, id)| id).collect()
}

/// Returns a line for every id, with the first sentence of its meaning.
pub fn list(style: Style) -> String {
    let list = |chapter: &'static Chapter| {
        Page::text(narrow(style), |page| {
            page.heading(chapter.1);
            let columns = sections(chapter).map(|section| section.id.len()).max().unwrap_or(0);
            for section in sections(chapter) {
                let lead = format!("  {:columns$}", section.id);
                page.hanging(Tone::Quiet, &lead, &section.summary());
            }
        })
    };
    CHAPTERS.each_ref().map(list).join("\n")
}

#[cfg(test)]
mod tests;
