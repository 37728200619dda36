//! Tests: the parser accepts every command line in the README, the book and the examples.
//!
//! The tests collect lines from the fences of Markdown pages (`commands`) and from the scripts and word lists of YAML
//! files (`commands_of_yaml`), split them as a shell does (`words`), and parse them. Lines with an ellipsis or an
//! unquoted bracket are placeholders and are skipped. At least 60 lines must be found, so that a broken collector
//! fails. Start with `every_command_line_of_the_book_is_accepted`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{RunFlags, parse_words};
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
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() && !is_left_out {
            pages(&path, found);
        } else if matches!(extension, Some("md" | "yml" | "yaml")) {
            found.push(path);
        }
    }
}

/// Returns the command lines of plimsoll in fences, continued lines joined. In a fence of shell each line counts that
/// begins with the program, in others each that has a prompt.
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
            Some("sh" | "sh run") => line.strip_prefix("sudo ").unwrap_or(line),
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

/// Returns the command lines of plimsoll in YAML: in scripts, and in lists of words for containers.
fn commands_of_yaml(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let line = line.trim().trim_start_matches("- ");
        line.strip_prefix("run: ").unwrap_or(line)
    });
    let command = |line: &str| {
        if let Some(rest) = line.strip_prefix("plimsoll ") {
            return Some(rest.replace(" || code=$?", ""));
        }
        let list = ["args: [", "command: ["].into_iter().find_map(|key| line.strip_prefix(key))?;
        Some(list.strip_suffix(']')?.replace(", ", " "))
    };
    lines.filter_map(command).collect()
}

/// Returns the words of a line as a shell makes them, as far as these pages go: quotes, a comment, and `$(…)` and
/// `"$NAME"` that stand for a value.
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
                let end = closing.map_or_else(|| name.unwrap_or(rest.len()), |end| end + 1);
                let (name, behind) = rest.split_at(end);
                word.get_or_insert_default().push_str(stand_in(name));
                rest = behind;
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

/// Returns a value for what a shell expands.
fn stand_in(name: &str) -> &'static str {
    match name {
        "SLO" => "p99<50ms",
        "BUDGET" => "60s",
        _ => "4711",
    }
}

#[test]
fn every_command_line_of_the_book_is_accepted() {
    let mut files = vec![root().join("README.md"), root().join("action.yml")];
    pages(&root().join("docs"), &mut files);
    pages(&root().join("examples"), &mut files);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in &files {
        let is_prose = file.extension().is_some_and(|extension| extension == "md");
        let read = if is_prose { commands } else { commands_of_yaml };
        for line in read(&fs::read_to_string(file).unwrap()) {
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
fn the_run_file_of_the_examples_is_accepted() {
    let file = root().join("examples/run.toml");
    let args = RunFlags { file, more: Vec::new() }.line().unwrap().args;
    let words: Vec<_> = args.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
    parse_words(&words).unwrap();
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(words("a 'b c' \"$D\"  e # f"), ["a", "b c", "4711", "e"]);
    assert_eq!(words("--pid $(pidof -s haproxy) -x ''"), ["--pid", "4711", "-x", ""]);
    assert_eq!(
        commands(
            "```sh run\n# no\nplimsoll a \\\n  b\n```\nplimsoll c\n```text\n$ plimsoll d\n```"
        ),
        ["a    b", "d"]
    );
    assert_eq!(
        commands_of_yaml(
            "- run: plimsoll a\n  plimsoll b || code=$?\nargs: [c, \"d,e\"]\n# plimsoll"
        ),
        ["a", "b", "c \"d,e\""]
    );
}
