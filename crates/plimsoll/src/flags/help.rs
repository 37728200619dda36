//! Help texts: `-h` on one screen, with examples and the flags that most runs need, and `--help` with every flag.
//!
//! clap renders both. This module decides which flags a text shows and in which order: examples first, then flags, with
//! the sections of single protocols last, then remarks and exit codes.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// The detail of a help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// `-h`: at most 40 lines.
    Short,
    /// `--help`: everything.
    Full,
}

const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";
const ROOT_TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Commands by what they are for, as the root's help lists them.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["lab", "find", "load", "hold", "compare", "run", "serve"]),
    ("Host", &["doctor", "tune", "watch", "agent", "k8s"]),
    ("Results", &["report", "explain", "schema"]),
];

const WHICH: &str = "\
Which command?
  How much does a proxy carry, on this machine?  plimsoll lab
  How much does my own server carry?             plimsoll find rate URL
  How does it answer at 5,000 requests/s?        plimsoll load URL --rate 5k
  Can it hold 100,000 connections?               plimsoll hold URL --connections 100k
  Is B better than A?                            plimsoll compare A B
  What on this host stops 1M connections?        plimsoll doctor --connections 1M
  What does this warning or exit code mean?      plimsoll explain ID";

/// Sections of single protocols, in the order in which they end a help text.
const PROTOCOLS: [&str; 3] = ["WebSocket", "MQTT", "Raw TCP and TLS"];

/// Sections that say nothing to a command: it refuses their flags.
const UNFIT: &[(&str, &[&str])] = &[
    ("find deliveries", &["WebSocket", "Raw TCP and TLS"]),
    ("find rfc9411", &PROTOCOLS),
    ("lab rfc9411", &PROTOCOLS),
];

/// Groups of flags that several commands show.
const SEARCH: &str = "slo mode budget max confirm_cause";
const LEVELS: &str = "slo mode max rate soak push";
const HOLD: &str = "connections rate span heartbeat up_to cycles event";
const STORM: &str = "connections recover cut reconnect slo mode";
const SESSIONS: &str = "resume tls";
const TEST_CASE: &str = "case target sustain object_size";
const LABORATORY: &str = "sut backends isolate";
const CONFIGURATION: &str = "connections rate cert backend listen cores memory out is_tried";
const OUTPUT: &str = "out json";

/// Flags that `-h` shows, in this order; a command that is not listed has few flags, and shows all.
pub(super) const CORE: &[(&str, &[&str])] = &[
    (
        "load",
        &["url rate duration requests connections slo method headers data insecure http", OUTPUT],
    ),
    ("hold", &["url", HOLD, "watch insecure hosts", OUTPUT]),
    ("find rate", &["url", SEARCH, "watch connections insecure hosts", OUTPUT]),
    (
        "find deliveries",
        &["url topic subscribe qos slo mode budget max connections users watch", OUTPUT],
    ),
    ("find handshakes", &["url", SEARCH, "watch connections insecure", SESSIONS, OUTPUT]),
    ("find connections", &["url", LEVELS, "watch insecure source hosts", OUTPUT]),
    ("find storm", &["url", STORM, "watch insecure yes_storm_remote", OUTPUT]),
    ("find rfc9411", &["url", TEST_CASE, "connections watch insecure hosts", OUTPUT]),
    ("lab rate", &["sut", SEARCH, "backends isolate protocol connections headers", OUTPUT]),
    ("lab handshakes", &["sut", SEARCH, "isolate connections", SESSIONS, OUTPUT]),
    ("lab connections", &["sut", LEVELS, "isolate", OUTPUT]),
    ("lab storm", &["sut", STORM, "isolate", OUTPUT]),
    ("lab hold", &[HOLD, LABORATORY, OUTPUT]),
    ("lab rfc9411", &[TEST_CASE, LABORATORY, OUTPUT]),
    ("lab sweep", &["vary rounds budget seed", OUTPUT]),
    ("compare", &["a b both metric rounds budget in_turn threshold", OUTPUT]),
    ("serve", &["http https mqtt mqtts tcp tcp_tls cert key processes connections"]),
    (
        "report",
        &["runs details html json csv markdown junit vegeta_json hgrm baseline fail_if merge out"],
    ),
    ("watch", &["interval duration pid haproxy nginx prometheus json out"]),
    ("k8s run", &["command image agents cpus memory namespace at_most out dry_run"]),
    ("tune haproxy", &[CONFIGURATION]),
    ("tune nginx", &[CONFIGURATION]),
];

/// Returns the help that `args` ask for, in the given number of columns, or as wide as the terminal.
pub(super) fn text(parser: &Command, args: &[OsString], columns: Option<usize>) -> StyledStr {
    let mut parser = parser.clone();
    parser.build();
    let (path, command) = typed(&parser, args);
    let is_full = |arg: &OsString| arg == "--help" || arg == "help";
    let detail = if args.iter().any(is_full) { Detail::Full } else { Detail::Short };
    let mut shown = shown(command, &path, detail);
    if let Some(columns) = columns {
        shown = shown.term_width(columns);
    }
    shown.render_help()
}

/// Returns the command that was typed, and its words without the program's name.
fn typed<'a>(parser: &'a Command, args: &[OsString]) -> (String, &'a Command) {
    let (mut path, mut command) = (Vec::new(), parser);
    for word in args.iter().skip(1).filter_map(|arg| arg.to_str()) {
        if let Some(inner) = command.find_subcommand(word).filter(|_| word != "help") {
            path.push(inner.get_name());
            command = inner;
        }
    }
    (path.join(" "), command)
}

/// Returns a command as its help shows it; only to be rendered, never to parse with.
fn shown(command: &Command, path: &str, detail: Detail) -> Command {
    let core = core(path).filter(|_| detail == Detail::Short);
    let mut shown = copy_without_args(command).args(arranged(command, path, core.as_deref()));
    let (before, after) = if path.is_empty() {
        (groups(command), format!("{WHICH}\n{}", rest(path, detail)))
    } else {
        let (examples, remarks) = texts(command, detail);
        (examples, remarks + &rest(path, detail))
    };
    let template = if path.is_empty() { ROOT_TEMPLATE } else { TEMPLATE };
    if !before.is_empty() {
        shown = shown.before_help(before);
    }
    shown.after_help(after).help_template(template)
}

fn entry<'a>(table: &[(&str, &'a [&'a str])], path: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|(name, _)| *name == path).map(|(_, entries)| *entries)
}

/// Identifiers of the flags that `-h` of a command shows.
fn core(path: &str) -> Option<Vec<&'static str>> {
    Some(entry(CORE, path)?.iter().flat_map(|group| group.split(' ')).collect())
}

/// Returns the place of what is not shown.
fn rest(path: &str, detail: Detail) -> String {
    let explain = "Exit codes, checks, causes and words: plimsoll explain ID";
    match (path, detail) {
        ("", _) => "Examples: plimsoll COMMAND -h. Every flag: plimsoll COMMAND --help.".to_owned(),
        (_, Detail::Full) => explain.to_owned(),
        (path, Detail::Short) => format!("Every flag: plimsoll {path} --help\n{explain}"),
    }
}

/// Commands in groups, each with what it does.
fn groups(root: &Command) -> String {
    let group = |(title, names): &(&str, &[&str])| {
        let line = |name: &&str| {
            let about = root.find_subcommand(name).and_then(Command::get_about);
            format!("  {name:8} {}", about.map(ToString::to_string).unwrap_or_default())
        };
        let lines: Vec<_> = names.iter().map(line).collect();
        format!("{title}:\n{}\n", lines.join("\n"))
    };
    GROUPS.iter().map(group).collect::<Vec<_>>().join("\n")
}

/// Returns the examples of a command, which stand above its flags, and the remarks below them.
fn texts(command: &Command, detail: Detail) -> (String, String) {
    let all = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let paragraphs = all.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let (examples, remarks): (Vec<_>, Vec<_>) =
        paragraphs.partition(|paragraph| paragraph.starts_with("Example"));
    let remarks = remarks.into_iter().filter(|_| detail == Detail::Full);
    (examples.concat(), remarks.map(|paragraph| format!("{}\n\n", filled(paragraph))).collect())
}

/// Returns one line, which the terminal's width breaks.
fn filled(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a copy of a command without its flags.
fn copy_without_args(command: &Command) -> Command {
    let mut copy = Command::new(kept(command.get_name()))
        .version(env!("CARGO_PKG_VERSION"))
        .styles(command.get_styles().clone())
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .max_term_width(super::HELP_COLUMNS_MAX)
        .override_usage(usage(command))
        .subcommands(command.get_subcommands().filter(|inner| inner.get_name() != "help").cloned())
        .groups(command.get_groups().cloned());
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(heading) = command.get_subcommand_help_heading() {
        copy = copy.subcommand_help_heading(kept(heading));
    }
    copy
}

/// Returns a name for a command, which clap takes only if it lives as long as the process: that ends with its help.
fn kept(name: &str) -> &'static str {
    name.to_owned().leak()
}

fn usage(command: &Command) -> StyledStr {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage: ").to_owned().into()
}

/// Returns the flags in the order in which they are shown: those of `core`, or all, with the sections of protocols
/// last. The others are hidden, since flags name each other.
fn arranged(command: &Command, path: &str, core: Option<&[&str]>) -> Vec<Arg> {
    let unfit = entry(UNFIT, path).unwrap_or_default();
    let fits = |arg: &Arg| arg.get_help_heading().is_none_or(|heading| !unfit.contains(&heading));
    let arranged = |arg: Arg| match core.map(|core| core.iter().position(|id| arg.get_id() == *id))
    {
        Some(Some(at)) => arg.help_heading(None::<&str>).display_order(at),
        None if fits(&arg) => in_full(arg),
        Some(None) | None => arg.hide(true),
    };
    let mut args: Vec<Arg> = command.get_arguments().cloned().map(arranged).collect();
    let rank = |arg: &Arg| {
        let section = PROTOCOLS.iter().position(|name| arg.get_help_heading() == Some(name));
        section.map_or(0, |at| at + 1)
    };
    args.sort_by_key(rank);
    args
}

/// Shows the whole text of a flag beside it.
fn in_full(arg: Arg) -> Arg {
    let Some(long) = arg.get_long_help().map(ToString::to_string) else { return arg };
    arg.help(in_one_line(&long))
}

/// Paragraphs of a flag's text as sentences of one line.
pub(super) fn in_one_line(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|one| filled(one).trim_end_matches('.').to_owned());
    paragraphs.collect::<Vec<_>>().join(". ")
}
