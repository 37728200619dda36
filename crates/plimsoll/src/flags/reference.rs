//! The reference of commands in the book, docs/reference/commands.md, made from the flags. As a test, so that
//! what writes it is not in the binary.
//!
//! `INSTA_UPDATE=always cargo test -q -p plimsoll --bin plimsoll` writes it, together with the snapshots of help texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, CommandFactory};
use plimsoll_sys::whole_file::WholeFile;

use super::Cli;
use super::help::in_one_line;

const PAGE: &str = "../../docs/reference/commands.md";

const OPENING: &str = "\
# Commands

Written from the program's own flags by `INSTA_UPDATE=always cargo test -q -p plimsoll --bin plimsoll`; a test
fails if this page is stale. A flag is described under the first command that has it; later commands name that
place. `plimsoll COMMAND --help` shows all flags of a command together.
";

/// Flags described so far: what the page says of one, and the command that it is described under.
type Described = BTreeMap<String, String>;

fn page() -> String {
    let mut parser = Cli::command();
    parser.build();
    let mut page = OPENING.to_owned();
    let mut described = Described::new();
    write_commands(&parser, "plimsoll", &mut described, &mut page);
    page
}

fn write_commands(
    parent: &clap::Command,
    above: &str,
    described: &mut Described,
    page: &mut String,
) {
    for command in parent.get_subcommands().filter(|one| !one.is_hide_set()) {
        let name = format!("{above} {}", command.get_name());
        write_command(command, &name, described, page);
        write_commands(command, &name, described, page);
    }
}

fn write_command(
    command: &clap::Command,
    name: &str,
    described: &mut Described,
    page: &mut String,
) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let about = escaped(&about.unwrap_or_default());
    let _ = write!(page, "\n## {name}\n\n{about}.\n\n```text\n{usage}\n```\n");

    let mut sections: Vec<(&str, Vec<String>)> = Vec::new();
    let mut elsewhere: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
        if matches!(flag.get_id().as_str(), "help" | "version") {
            continue;
        }
        let text = item(flag);
        if let Some(place) = described.get(&text) {
            elsewhere.entry(place.clone()).or_default().push(spelling(flag));
            continue;
        }
        described.insert(text.clone(), name.to_owned());
        let heading = flag.get_help_heading().unwrap_or("Other options");
        match sections.iter_mut().find(|(of, _)| *of == heading) {
            Some((_, items)) => items.push(text),
            None => sections.push((heading, vec![text])),
        }
    }
    for (heading, items) in sections {
        let _ = write!(page, "\n{heading}:\n\n");
        for text in items {
            let _ = writeln!(page, "- {text}");
        }
    }
    for (place, flags) in elsewhere {
        let anchor = place.replace(' ', "-");
        let _ = write!(page, "\nAs [{place}](#{anchor}): {}.\n", flags.join(", "));
    }
}

/// Returns the flag and its value, as it is typed.
fn spelling(flag: &Arg) -> String {
    let values = flag.get_value_names().unwrap_or_default();
    let values: String = values.iter().map(|value| format!(" {value}")).collect();
    let takes_value = flag.get_action().takes_values();
    let values = if takes_value { values.as_str() } else { "" };
    let long = flag.get_long().map(|long| format!("--{long}"));
    let short = flag.get_short().map(|short| format!("-{short}"));
    match (short, long) {
        (Some(short), Some(long)) => format!("`{short}`, `{long}{values}`"),
        (Some(one), None) | (None, Some(one)) => format!("`{one}{values}`"),
        (None, None) => format!("`{}`", values.trim()),
    }
}

/// Returns the page's item on a flag.
fn item(flag: &Arg) -> String {
    let help = flag.get_long_help().or_else(|| flag.get_help()).map(ToString::to_string);
    let words = in_one_line(&help.unwrap_or_default());
    let mut text = format!("{}: {}", spelling(flag), escaped(&words));
    let values = flag.get_possible_values();
    let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if flag.get_action().takes_values() && !values.is_empty() {
        let names: Vec<String> = values.iter().map(|it| format!("`{}`", it.get_name())).collect();
        let _ = write!(text, ". Values: {}", names.join(", "));
    }
    let defaults: Vec<_> =
        flag.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    if flag.get_action().takes_values() && !defaults.is_empty() && !flag.is_hide_default_value_set()
    {
        let _ = write!(text, ". Default: `{}`", defaults.join(" "));
    }
    text + "."
}

/// Letters that Markdown would take for its own.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for letter in text.chars() {
        is_code ^= letter == '`';
        if !is_code && matches!(letter, '<' | '*' | '[' | ']' | '_' | '|') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[test]
fn the_reference_of_commands_is_that_of_the_flags() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        WholeFile::write(&path, page.as_bytes()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/commands.md is stale; it says how to write it");
}

#[test]
fn flags_are_written_as_they_are_typed_and_read_as_text() {
    let flag = Arg::new("slo").long("slo").short('s').value_name("GOALS").help("As p99<50ms");
    assert_eq!(item(&flag.default_value("x")), "`-s`, `--slo GOALS`: As p99\\<50ms. Default: `x`.");
    let switch = Arg::new("up").long("up").action(clap::ArgAction::SetTrue);
    assert_eq!(spelling(&switch), "`--up`");
}
