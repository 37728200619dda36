//! The README and the book: what a reader can follow without building anything, and `cargo xtask docs`, which builds
//! the book with mdBook.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;

/// The most lines of the documents that people read to the end.
const LINES_MAX: [(&str, usize); 2] = [("README.md", 150), ("ARCHITECTURE.md", 250)];
const SUMMARY: &str = "docs/SUMMARY.md";
/// Folders of `docs` whose pages are no chapters: read by date, and by row.
const NO_CHAPTERS: [&str; 3] = ["docs/journal", "docs/specifications", "docs/benchmarks"];

/// Builds the book into `target/book`.
pub(crate) fn run() -> Result<()> {
    if packages::find("mdbook").is_none() {
        bail!("mdBook is not installed; run: cargo install --locked mdbook");
    }
    let status = Command::new("mdbook").arg("build").status().context("cannot run mdbook")?;
    if !status.success() {
        bail!("mdbook build failed");
    }
    Ok(())
}

/// Checks the lengths of [`LINES_MAX`], that each page is a chapter, and that links lead to files. `pages` are all
/// Markdown files by their path from the root, with their text; `exists` says which paths there are.
pub(crate) fn check(
    exists: &dyn Fn(&Path) -> bool,
    pages: &[(&Path, &str)],
    offences: &mut Vec<String>,
) {
    let mut chapters = BTreeSet::new();
    // Chapters within crates are links to those of the book.
    for (name, text) in pages.iter().filter(|(name, _)| !name.starts_with("crates")) {
        let folder = name.parent().unwrap_or_else(|| Path::new(""));
        let targets: Vec<PathBuf> = links(text).map(|link| resolved(folder, link)).collect();
        if *name == Path::new(SUMMARY) {
            chapters.extend(targets.clone());
        }
        for target in targets {
            if is_chapter(name) && !target.starts_with("docs") {
                let (name, target) = (name.display(), target.display());
                offences
                    .push(format!("{name}: {target} is not in the book; name it without a link"));
            } else if !exists(&target) {
                offences.push(format!("{}: no {} to link to", name.display(), target.display()));
            }
        }
        let lines = text.lines().count();
        let limit = LINES_MAX.iter().find(|(document, _)| *name == Path::new(document));
        if let Some((document, max)) = limit.filter(|(_, max)| lines > *max) {
            offences.push(format!("{document} has {lines} lines, more than {max}"));
        }
    }
    for (name, _) in pages {
        if is_chapter(name) && !chapters.contains(*name) {
            offences.push(format!("{} is not in {SUMMARY}", name.display()));
        }
    }
}

/// Reports whether a page must be a chapter of the book.
fn is_chapter(name: &Path) -> bool {
    let is_page = name.starts_with("docs") && name != Path::new(SUMMARY);
    is_page && !NO_CHAPTERS.iter().any(|folder| name.starts_with(folder))
}

/// Files that a text links to: neither addresses nor places of the same page, and nothing in fences.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    let prose = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    });
    prose
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|link| !link.is_empty() && !link.contains("://") && !link.contains(' '))
}

/// Returns a link of a page in `folder`, from the root.
fn resolved(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: Vec<(&Path, &str)> =
            pages.iter().map(|(name, text)| (Path::new(*name), *text)).collect();
        let mut offences = Vec::new();
        check(&|path| pages.iter().any(|(name, _)| *name == path), &pages, &mut offences);
        offences
    }

    #[test]
    fn links_lead_to_files_from_the_page_that_has_them() {
        let page = "[up](../README.md), [a place](#here), [an address](https://x.example/)\n```\n[no](link.md)\n```\n";
        let summary = "- [a](how-to/a.md)\n- [b](README.md)\n";
        let sound = [
            ("README.md", "[a](docs/how-to/a.md#place)"),
            (SUMMARY, summary),
            ("docs/how-to/a.md", page),
            ("docs/README.md", "[summary](SUMMARY.md)"),
        ];
        assert_eq!(offences(&sound), [""; 0]);
        assert_eq!(offences(&sound[..3]).len(), 2);
        let outside =
            [(SUMMARY, "[a](a.md)"), ("docs/a.md", "[b](../README.md)"), ("README.md", "")];
        let expected = "docs/a.md: README.md is not in the book; name it without a link";
        assert_eq!(offences(&outside), [expected]);
    }

    #[test]
    fn a_page_that_is_no_chapter_is_found() {
        let pages = [(SUMMARY, ""), ("docs/lost.md", ""), ("docs/journal/2026-01-01-x.md", "")];
        assert_eq!(offences(&pages), ["docs/lost.md is not in docs/SUMMARY.md"]);
    }

    #[test]
    fn a_document_above_its_limit_is_found() {
        for (document, max) in LINES_MAX {
            let at_the_limit = "line\n".repeat(max);
            assert_eq!(offences(&[(document, &at_the_limit)]), [""; 0], "{document}");
            let long = "line\n".repeat(max + 1);
            assert_eq!(offences(&[(document, &long)]).len(), 1, "{document}");
        }
    }
}
