//! Completions for shells and manual pages, made from the flags for `cargo xtask dist`. As a test, so
//! that what writes them is not in the binary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use plimsoll_sys::whole_file::WholeFile;

use super::Cli;

/// Variable for their directory, which `cargo xtask dist` sets.
const WRITE_TO: &str = "PLIMSOLL_DOCUMENTS";
/// The day that manual pages show, as 2026-11-23.
const DATE: &str = "PLIMSOLL_DOCUMENTS_DATE";

/// The folders below share/ where shells and `man` look, and the file's name there.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "plimsoll"),
    (Shell::Zsh, "zsh/site-functions", "_plimsoll"),
    (Shell::Fish, "fish/vendor_completions.d", "plimsoll.fish"),
];

/// Returns the parser without its hidden commands: completions would offer them.
fn shown(parser: &clap::Command) -> clap::Command {
    let mut visible = clap::Command::new("plimsoll")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(parser.get_subcommands().filter(|one| !one.is_hide_set()).cloned());
    if let Some(about) = parser.get_about() {
        visible = visible.about(about.clone());
    }
    let mut visible = visible.subcommand_required(true).disable_help_subcommand(true);
    visible.build();
    visible
}

fn write(share: &Path, date: &str) -> io::Result<()> {
    let parser = shown(&Cli::command());
    for (shell, folder, name) in SHELLS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let mut script = Vec::new();
        generate(shell, &mut parser.clone(), "plimsoll", &mut script);
        write_shared(&folder.join(name), &script)?;
    }
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    write_pages(&parser, &pages, date)
}

/// Writes the page of a command, and the pages of the commands below it.
fn write_pages(command: &clap::Command, pages: &Path, date: &str) -> io::Result<()> {
    let source = concat!("plimsoll ", env!("CARGO_PKG_VERSION"));
    let title = command.get_display_name().unwrap_or("plimsoll").to_uppercase();
    let man = Man::new(command.clone()).title(title).date(date).source(source);
    let man = man.manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let paragraphs = after.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let sections: Vec<_> = paragraphs.map(section).collect();
    let headed = sections.iter().position(|(heading, _)| heading.is_some());
    let (remarks, rest) = sections.split_at(headed.unwrap_or(sections.len()));
    write_sections(&mut page, remarks)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    write_sections(&mut page, rest)?;
    write_shared(&pages.join(man.get_filename()), &page)?;
    command.get_subcommands().try_for_each(|below| write_pages(below, pages, date))
}

/// Writes a file that every user can read, because it is installed for all users of a host.
fn write_shared(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create_shared(path)?;
    file.write_all(text)?;
    file.finish()
}

/// Returns the heading that a paragraph below the flags gets on a page, and its text.
fn section(paragraph: &str) -> (Option<&'static str>, &str) {
    let headings =
        [("Examples:\n", "EXAMPLES"), ("Example:\n", "EXAMPLES"), ("Exit codes: ", "EXIT STATUS")];
    let mut headings = headings.into_iter();
    headings
        .find_map(|(words, heading)| Some((Some(heading), paragraph.strip_prefix(words)?)))
        .unwrap_or((None, paragraph))
}

/// Writes sections: prose is filled, indented text stays unchanged.
fn write_sections(page: &mut Vec<u8>, sections: &[(Option<&str>, &str)]) -> io::Result<()> {
    let mut roff = Roff::new();
    for (heading, text) in sections {
        match heading {
            Some(heading) => roff.control("SH", [*heading]),
            None => roff.control("PP", []),
        };
        let is_filled = !text.starts_with(' ');
        if !is_filled {
            roff.control("nf", []);
        }
        for line in text.lines() {
            roff.text([roman(line.trim_start())]);
        }
        if !is_filled {
            roff.control("fi", []);
        }
    }
    if sections.is_empty() { Ok(()) } else { roff.to_writer(page) }
}

/// Returns bash's completions of the last of these words.
fn offered(share: &Path, words: &[&str]) -> Vec<String> {
    let script = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _plimsoll plimsoll "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let output = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .arg(share.join("bash-completion/completions/plimsoll"))
        .args(words)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn completions_and_manual_pages_are_those_of_the_flags() {
    let temporary = tempfile::tempdir().unwrap();
    let asked = std::env::var_os(WRITE_TO).map(PathBuf::from);
    let share = asked.as_deref().unwrap_or_else(|| temporary.path());
    let date = std::env::var_os(DATE).and_then(|date| date.into_string().ok());
    write(share, date.as_deref().unwrap_or("1970-01-01")).unwrap();

    assert_eq!(offered(share, &["plimsoll", "do"]), ["doctor"]);
    assert_eq!(offered(share, &["plimsoll", "find", "ra"]), ["rate"]);
    assert_eq!(offered(share, &["plimsoll", "find", "rate", "--confid"]), ["--confidence"]);
    assert_eq!(offered(share, &["plimsoll", "serve", "--tls-state", "c"]), ["compact"]);
    assert!(offered(share, &["plimsoll", "po"]).concat().is_empty(), "a hidden command is offered");

    let page = |name: &str| fs::read_to_string(share.join("man/man1").join(name)).unwrap();
    for command in shown(&Cli::command()).get_subcommands() {
        assert!(page(&format!("plimsoll-{}.1", command.get_name())).contains(".SH NAME"));
    }
    assert!(page("plimsoll-find-rate.1").contains(r"\-\-confidence"));
    assert!(!page("plimsoll.1").contains(r"plimsoll\-pod"));
    assert!(page("plimsoll-serve.1").contains("\n.SH EXAMPLES\n.nf\nplimsoll serve\n"));
    assert!(page("plimsoll-load.1").contains("\n.SH \"EXIT STATUS\"\n0 done"));
}
