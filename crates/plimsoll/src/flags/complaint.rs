//! Turns an error of the flag parser into one line: what is wrong, and what to do.

use std::error::Error;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use plimsoll_model::units::ParseError;

/// Commands that the design names and this version does not have.
const LATER: &[&str] = &["watch", "doctor", "tune"];

/// Flags of other load generators, and what does their job here.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &["--timeout"],
        "--deadline marks late answers, --linger ends the wait, --connect-timeout that for a \
         connection",
    ),
    (&["--qps", "-q"], "write --rate"),
    (&["-z"], "write --duration"),
    (
        &["--concurrency", "--vus", "-u", "--workers", "--max-workers", "--max-connections", "-w"],
        "write --connections",
    ),
    (&["--disable-keepalive"], "write --no-keepalive"),
    (&["--keepalive", "--keep-alive"], "connections are kept alive unless --no-keepalive is given"),
    (&["--latency", "--latency-correction"], "drop it: the report always shows corrected latency"),
    (&["--root-certs", "--cert-file", "--ca"], "write --cacert"),
    (&["--output", "-o"], "write --json FILE, or --out DIR for an archive"),
    (&["--request", "-m"], "write --method"),
    (&["-T", "--content-type"], "write --header 'Content-Type: …'"),
    (&["--http2", "--h2c", "--http3"], "this version speaks HTTP/1.1 only"),
];

/// Flags of other commands that people write for `hold`.
const FOREIGN_TO_HOLD: &[(&[&str], &str)] = &[
    (&["--duration", "-d", "--hold", "--hold-for"], "write --for"),
    (&["--ramp", "--ramp-rate", "--cps"], "write --rate, in new connections per second"),
    (&["--ping", "--interval"], "write --heartbeat"),
    (&["--arrivals", "--stages"], "connections are opened evenly at --rate"),
    (&["--requests", "-n"], "each connection gets one request per --heartbeat"),
    (&["--slo"], "the goal is that every connection is held and answers; see --deadline"),
];

/// The line for `error`; `command` is the first argument as typed.
pub(super) fn one_line(error: &clap::Error, command: Option<&OsString>) -> String {
    let command = command.and_then(|text| text.to_str()).filter(|text| !text.starts_with('-'));
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "no command given; try plimsoll lab, or plimsoll --help".to_owned()
        }
        ErrorKind::InvalidSubcommand => unknown_command(error),
        ErrorKind::UnknownArgument => unknown_argument(error, command),
        ErrorKind::InvalidValue => bad_value(error),
        ErrorKind::ValueValidation => refused_value(error),
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::MissingRequiredArgument => match command {
            Some("report") => "report needs the directory of a run; for example: \
                               plimsoll report my-run"
                .to_owned(),
            _ => format!("{} is missing; {}", argument(error), see_help(command)),
        },
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8; write it in UTF-8".to_owned(),
        _ => format!("{}; {}", first_line(error), see_help(command)),
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        // Suggestions come in ascending order of likeness.
        ContextValue::Strings(texts) => texts.last().cloned(),
        _ => None,
    }
}

/// The flag an error is about, without its value: `--rate`.
fn argument(error: &clap::Error) -> String {
    flag_only(&text(error, ContextKind::InvalidArg).unwrap_or_default())
}

fn flag_only(shown: &str) -> String {
    shown.split([' ', '=']).next().unwrap_or_default().to_owned()
}

fn see_help(command: Option<&str>) -> String {
    match command {
        Some(command) => format!("see plimsoll {command} --help"),
        None => "see plimsoll --help".to_owned(),
    }
}

fn unknown_command(error: &clap::Error) -> String {
    let typed = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    if LATER.contains(&typed.as_str()) {
        return format!(
            "plimsoll {typed} is not available yet; this version has lab, find, load, hold, \
             compare, serve and report"
        );
    }
    if typed.starts_with("http://") || typed.starts_with("https://") {
        return format!("{typed:?} is not a command; write plimsoll load {typed}");
    }
    let fix = text(error, ContextKind::SuggestedSubcommand)
        .map_or_else(|| see_help(None), |near| format!("did you mean {near}?"));
    format!("unknown command {typed:?}; {fix}")
}

fn unknown_argument(error: &clap::Error, command: Option<&str>) -> String {
    let typed = text(error, ContextKind::InvalidArg).unwrap_or_default();
    if !typed.starts_with('-') {
        return format!("unexpected argument {typed:?}; {}", see_help(command));
    }
    let foreign = FOREIGN.iter().find(|(flags, _)| flags.contains(&typed.as_str()));
    if let (Some((_, fix)), Some("load" | "find" | "lab" | "hold" | "compare")) = (foreign, command)
    {
        return format!("unknown flag {typed}; {fix}");
    }
    let of_hold = FOREIGN_TO_HOLD.iter().find(|(flags, _)| flags.contains(&typed.as_str()));
    if let (Some((_, fix)), Some("hold" | "lab")) = (of_hold, command) {
        return format!("unknown flag {typed}; {fix}");
    }
    let fix = text(error, ContextKind::SuggestedArg)
        .map_or_else(|| see_help(command), |near| format!("did you mean {}?", flag_only(&near)));
    format!("unknown flag {typed}; {fix}")
}

/// A value outside a fixed set, or none at all.
fn bad_value(error: &clap::Error) -> String {
    let flag = argument(error);
    let typed = text(error, ContextKind::InvalidValue).unwrap_or_default();
    let choices = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(choices)) => choices.join(", "),
        _ => String::new(),
    };
    match (typed.is_empty(), choices.is_empty()) {
        (true, true) => {
            let shown = text(error, ContextKind::InvalidArg).unwrap_or_default();
            format!("{flag} needs a value; write {shown}")
        }
        (true, false) => format!("{flag} needs a value; write one of {choices}"),
        (false, _) => format!("{flag} {typed:?} is not accepted; write one of {choices}"),
    }
}

/// A value that one of our own parsers refused.
fn refused_value(error: &clap::Error) -> String {
    let flag = argument(error);
    let source = error.source();
    match source.and_then(|source| source.downcast_ref::<ParseError>()) {
        Some(refused) => {
            format!("{flag} {:?} is not accepted; write {}", refused.text, refused.expected)
        }
        None => {
            let typed = text(error, ContextKind::InvalidValue).unwrap_or_default();
            let why = source.map(ToString::to_string).unwrap_or_default();
            format!("{flag} {typed:?} is not accepted; {why}")
        }
    }
}

fn conflict(error: &clap::Error) -> String {
    let flag = argument(error);
    match text(error, ContextKind::PriorArg).map(|other| flag_only(&other)) {
        Some(other) if other != flag => {
            format!("{flag} and {other} cannot be used together; drop one of them")
        }
        _ => format!("{flag} was given more than once; give it once"),
    }
}

fn first_line(error: &clap::Error) -> String {
    let shown = error.to_string();
    let line = shown.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
