//! Every command line in the README, the book and the examples is one that the parser takes.

use std::fs;
use std::path::{Path, PathBuf};

use super::parse_words;
use crate::exit::Stop;

/// Pages whose command lines are of their time.
const LEFT_OUT: [&str; 2] = ["docs/journal", "docs/specifications"];
/// Fewer are a fault of this test.
const LINES_MIN: usize = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_left_out = LEFT_OUT.iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_left_out {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Command lines of plimsoll in fences, continued lines joined. In a fence of shell each line counts that begins with the program, in others each
/// that has a prompt.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let mut commands = Vec::new();
    let mut fence: Option<&str> = None;
    for line in joined.lines() {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            fence = fence.is_none().then_some(language);
            continue;
        }
        let typed = match fence {
            Some("sh") => line.strip_prefix("sudo ").unwrap_or(line),
            Some(_) => line.strip_prefix("$ ").unwrap_or_default(),
            None => "",
        };
        let typed = typed.strip_prefix("target/release/").unwrap_or(typed);
        let typed = typed.replace("cargo run --release -- ", "plimsoll ");
        if let Some(rest) = typed.strip_prefix("plimsoll ") {
            commands.push(rest.to_owned());
        }
    }
    commands
}

/// The words of a line as a shell makes them, as far as these pages go: quotes, a comment, and `$(…)` and `"$NAME"` that stand for a number.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        match (letter, quote) {
            ('$', None | Some('"')) => {
                let closing = if rest.starts_with('(') { rest.find(')') } else { None };
                let name = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                let end = closing.map_or(name.unwrap_or(rest.len()), |end| end + 1);
                word.get_or_insert_default().push_str("4711");
                rest = rest.get(end..).unwrap_or_default();
            }
            (letter, Some(open)) if letter == open => quote = None,
            (letter, Some(_)) => word.get_or_insert_default().push(letter),
            ('\'' | '"', None) => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            ('#' | '>' | '|' | '&', None) if word.is_none() => break,
            (' ', None) => words.extend(word.take()),
            (letter, None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_line_of_the_book_is_taken() {
    let mut files = vec![root().join("README.md"), root().join("examples/README.md")];
    pages(&root().join("docs"), &mut files);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in &files {
        for line in commands(&fs::read_to_string(file).unwrap()) {
            // A place to fill, or what a shell expands, is no command line.
            if line.contains('…') || line.contains('[') && !line.contains('\'') {
                continue;
            }
            seen += 1;
            let words = words(&line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Err(Stop::Usage(why)) = parse_words(&words) {
                wrong.push(format!("{}: plimsoll {line}\n  {why}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= LINES_MIN, "{seen} command lines");
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(words("a 'b c' \"$D\"  e # f"), ["a", "b c", "4711", "e"]);
    assert_eq!(words("--pid $(pidof -s haproxy) -x ''"), ["--pid", "4711", "-x", ""]);
    assert_eq!(
        commands("```sh\n# no\nplimsoll a \\\n  b\n```\nplimsoll c\n```text\n$ plimsoll d\n```"),
        ["a    b", "d"]
    );
}
