//! The tables of docs/specifications: each requirement names a test, and each test that is named exists.

use std::collections::BTreeSet;
use std::path::Path;

/// Folder of the tables.
const FOLDER: &str = "docs/specifications";
/// Title of the column that names tests, the last one.
const COLUMN: &str = "test";

/// Returns the names of all functions in Rust source text.
pub(crate) fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.split("fn ").skip(1).map(identifier).filter(|name| !name.is_empty())
}

/// Checks the tables of one file; `functions` are those of all source files.
pub(crate) fn check(
    name: &Path,
    text: &str,
    functions: &BTreeSet<String>,
    offences: &mut Vec<String>,
) {
    if !name.starts_with(FOLDER) {
        return;
    }
    for (line, row) in (1..).zip(text.lines()) {
        let Some(cell) = last_cell(row) else { continue };
        let tests = tests(cell);
        if tests.is_empty() {
            offences.push(format!("{}:{line}: the requirement names no test", name.display()));
        }
        for test in tests.into_iter().filter(|test| !functions.contains(*test)) {
            offences.push(format!("{}:{line}: there is no test {test}", name.display()));
        }
    }
}

/// Returns the last cell of a row of a table; `None` for other lines, titles and rules.
fn last_cell(row: &str) -> Option<&str> {
    let inner = row.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cell = inner.rsplit('|').next()?.trim();
    (cell != COLUMN && !cell.starts_with("---")).then_some(cell)
}

/// Returns the functions that a cell names, as in `file.rs::one` or `file.rs::{one, two}`.
fn tests(cell: &str) -> Vec<&str> {
    let named = cell.split("::").skip(1).flat_map(|after| {
        let braced = after.strip_prefix('{').and_then(|list| list.split_once('}'));
        let names = braced.map_or(after, |(list, _)| list);
        let count = if braced.is_some() { usize::MAX } else { 1 };
        names.split(',').take(count).map(|name| identifier(name.trim()))
    });
    // What is between two `::` is a module.
    named.filter(|name| !name.is_empty() && *name != "tests").collect()
}

/// Returns the identifier at the start of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests_of_tables {
    use super::*;

    #[test]
    fn rows_without_a_test_and_tests_that_do_not_exist_are_named() {
        let known: BTreeSet<String> =
            functions("fn one() {}\npub fn two<T>() {}").map(str::to_owned).collect();
        assert_eq!(known.len(), 2);
        let table = "| section | kept | test |\n|---|---|---|\n| 1 | yes | `a.rs::one` and `a.rs::{one, two}` |\n\
                     | 2 | yes | |\n| 3 | yes | `a.rs::three` |\n";
        let mut offences = Vec::new();
        check(Path::new("docs/specifications/x.md"), table, &known, &mut offences);
        assert_eq!(
            offences,
            [
                "docs/specifications/x.md:4: the requirement names no test",
                "docs/specifications/x.md:5: there is no test three"
            ]
        );
        check(Path::new("docs/reference/json.md"), table, &known, &mut offences);
        assert_eq!(offences.len(), 2);
    }
}
