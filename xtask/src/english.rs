//! The countable part of the project's English: first words of doc comments, and private words in texts for users. A
//! floor, not the goal: whether a sentence can be understood is for review.

use std::path::Path;

/// First words of a doc comment that lack the noun which the reader looks for.
const OPENINGS: &[&str] = &[
    "What", "How", "The same", "Its", "That of", "Of", "So many", "Who", "Whose", "Where",
    "Whether",
];
/// Private words, each with the usual one.
const WORDS: &[(&str, &str)] = &[
    ("untold", "unclassified"),
    ("foretold", "predicted"),
    ("gives way", "saturates"),
    ("gave way", "saturated"),
    ("spoilt", "invalid"),
    ("by chance", "at random"),
    ("told by", "identified by"),
    ("told apart", "distinguished"),
    ("tells apart", "distinguishes"),
    ("can be told", "can be distinguished"),
    ("cannot be told", "cannot be distinguished"),
    ("is to be had", "is available"),
    ("in every case", "always"),
    ("in all cases", "always"),
    ("whoever", "a noun: any client, the user"),
    ("goes on", "continues"),
];
/// Folders whose texts no user reads, or that quote others.
const UNREAD: &[&str] = &["docs/journal", "e2e", "fuzz", "testkit", "xtask"];

/// Checks one file.
pub(crate) fn check(name: &Path, text: &str, offences: &mut Vec<String>) {
    let is_rust = name.extension().is_some_and(|extension| extension == "rs");
    let is_read = !UNREAD.iter().any(|folder| name.starts_with(folder));
    let is_help = name.starts_with("crates/plimsoll/src/flags");
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let tests = lines.iter().position(|line| line.starts_with("mod tests {"));
    for (index, line) in lines.iter().enumerate() {
        let mut offend = |what: String| {
            offences.push(format!("{}, line {}: {what}", name.display(), index + 1));
        };
        if is_rust && let Some(opening) = opening(&lines, index) {
            offend(format!(
                "a doc comment begins with `{opening}`; begin with the noun or the verb"
            ));
        }
        let is_shown = !is_rust || !line.starts_with("//") || is_help && line.starts_with("///");
        let is_program = !is_rust || tests.is_none_or(|tests| index < tests);
        let word = WORDS.iter().find(|(word, _)| is_shown && has_word(line, word));
        if let Some((word, usual)) = word.filter(|_| is_read && is_program) {
            offend(format!("`{word}` is a private word; write `{usual}`"));
        }
    }
}

/// Returns the forbidden first words of the doc comment that begins at a line.
fn opening(lines: &[&str], index: usize) -> Option<&'static str> {
    let text = comment(lines[index])?;
    let follows = index > 0 && comment(lines[index - 1]).is_some_and(|line| !line.is_empty());
    if follows {
        return None;
    }
    OPENINGS
        .iter()
        .copied()
        .find(|opening| text.strip_prefix(opening).is_some_and(|rest| rest.starts_with([' ', ','])))
}

/// Returns the text of a line of a doc comment.
fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.strip_prefix(' ')
}

/// Reports whether a line has `word` between ends of words.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(name: &str, text: &str) -> Vec<String> {
        let mut offences = Vec::new();
        check(Path::new(name), text, &mut offences);
        offences
    }

    #[test]
    fn openings_are_found() {
        for text in [
            "//! What it is.\n",
            "/// How many.\nconst A: u32 = 1;\n",
            "    /// Its name.\n    name: String,\n",
            "/// Whether it is.\nis: bool,\n",
            "/// A sentence.\n///\n/// What follows.\nfn a() {}\n",
        ] {
            assert_eq!(offences("crates/a/src/a.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn private_words_are_found_in_texts_for_users() {
        let shown = "let text = \"too many were spoilt\";\n";
        assert_eq!(offences("crates/a/src/a.rs", shown).len(), 1);
        assert_eq!(offences("docs/a.md", "Shown by chance.\n").len(), 1);
        assert_eq!(offences("crates/plimsoll/src/flags/a.rs", "/// Told, told by it\n").len(), 1);
    }

    #[test]
    fn plain_english_passes() {
        for (name, text) in [
            (
                "crates/a/src/a.rs",
                "/// Returns what it has.\n/// What follows a line.\nfn a() {}\n",
            ),
            (
                "crates/a/src/a.rs",
                "/// `true` if it is.\nis: bool,\n/// Often.\nconst B: u8 = 1;\n",
            ),
            ("crates/a/src/a.rs", "// spoilt\nmod tests {\n\"spoilt\"\n"),
            ("e2e/src/a.rs", "let text = \"spoilt\";\n"),
            ("docs/journal/a.md", "It gave way.\n"),
        ] {
            assert_eq!(offences(name, text), [""; 0], "{text}");
        }
    }
}
