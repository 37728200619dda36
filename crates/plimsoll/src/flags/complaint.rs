//! Turns an error of the flag parser into one line: the fault, and the fix.
//!
//! [`one_line`] receives the error of clap and the words that were typed. [`TypedCommand`] finds the command and the
//! experiment in these words. Each kind of error has one function. An unknown flag is looked up in `OF_OTHERS` (flags
//! of other plimsoll commands), in `foreign` (flags of other tools) and in the sibling experiments, in this order.
//! Values are shown without the credentials of a URL. Start with [`one_line`].

use std::error::Error;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use plimsoll_model::target::shown_url;
use plimsoll_model::units::ParseError;

use super::foreign::{self, has_word};

/// The reason why a search has no rate or duration.
const SET_BY_SEARCH: &str = "a search sets the rate and length of every trial itself; use --min, \
                             --max and --mode, or plimsoll load";
/// Why a hold has no pool.
const NO_POOL: &str = "held connections stay open; drop it, or use plimsoll load";
const RAISED: &str = "the search raises the number of connections itself; limit it with --max";
const BY_CASE: &str = "the case sets the transactions per connection";

/// Flags of other commands that people write for a command or experiment, and their equivalents there.
const OF_OTHERS: &[(&str, &str, &str)] = &[
    ("hold", "--duration -d --hold --hold-for --sustain", "write --for"),
    ("load watch", "--for --sustain", "write --duration"),
    ("connections", "--sustain --hold", "write --for"),
    ("rate", "--handshake-only", "write find handshakes or lab handshakes"),
    (
        "handshakes",
        "--handshake-only --no-keepalive",
        "drop it: each handshake is a new connection",
    ),
    (
        "rate handshakes connections hold rfc9411",
        "--find",
        "name the experiment: plimsoll lab EXPERIMENT",
    ),
    ("load hold rate deliveries handshakes connections", "--mqtt", "write --mqtt-version"),
    ("serve", "--tls", "write --tcp-tls for an echo over TLS, or --https"),
    ("tune haproxy nginx", "--haproxy --nginx", "write --program"),
    ("hold", "--ramp --ramp-rate --cps", "write --rate, in new connections per second"),
    ("hold", "--ping --interval", "write --heartbeat"),
    ("hold", "--arrivals --stages", "connections are opened evenly at --rate"),
    ("hold", "--requests -n", "each connection sends one request per --heartbeat"),
    ("hold", "--slo", "the goal is that every connection is held and answers; see --deadline"),
    ("hold connections", "--no-keepalive --requests-per-connection --handshake-only", NO_POOL),
    ("rate handshakes", "--rate -r", SET_BY_SEARCH),
    ("rate handshakes connections", "--stages --duration -d --requests -n", SET_BY_SEARCH),
    ("connections", "--connections -c", RAISED),
    ("connections", "--arrivals", "connections are opened evenly at --rate"),
    ("rfc9411", "--slo --deadline", "the RFC's own criteria apply"),
    ("rfc9411", "--mode", "the RFC's own procedure applies"),
    ("rfc9411", "--min", "step 1 begins at a tenth of --target"),
    ("rfc9411", "--max --push", "step 3 ends at --target"),
    ("rfc9411", "--rate -r --stages", "the load follows from --target"),
    ("rfc9411", "--for --duration -d --requests -n", "write --sustain"),
    ("rfc9411", "--no-keepalive --handshake-only", BY_CASE),
    ("rfc9411", "--resume", "every handshake must be a full one"),
];

/// The command that was typed: `find` and, where it has experiments, one of them.
struct TypedCommand<'a> {
    command: Option<&'a clap::Command>,
    experiment: Option<&'a clap::Command>,
    args: &'a [OsString],
}

impl<'a> TypedCommand<'a> {
    fn new(args: &'a [OsString], parser: &'a clap::Command) -> Self {
        let at = |index: usize| args.get(index).and_then(|word| word.to_str());
        let command = at(1).and_then(|name| parser.find_subcommand(name));
        let experiment = command.and_then(|command| command.find_subcommand(at(2)?));
        Self { command, experiment, args }
    }

    fn name(&self) -> Option<&'a str> {
        self.command.map(clap::Command::get_name)
    }

    /// Returns the last word of it: what its flags depend on.
    fn last(&self) -> Option<&'a str> {
        self.experiment.or(self.command).map(clap::Command::get_name)
    }

    fn words(&self) -> String {
        let both = [self.command, self.experiment];
        both.into_iter().flatten().map(clap::Command::get_name).collect::<Vec<_>>().join(" ")
    }

    fn see_help(&self) -> String {
        match self.command {
            Some(_) => format!("see plimsoll {} --help", self.words()),
            None => "see plimsoll --help".to_owned(),
        }
    }

    /// Returns `rate, handshakes or connections`.
    fn experiments(&self) -> String {
        let names = self.command.into_iter().flat_map(clap::Command::get_subcommands);
        listed(names.map(|one| one.get_name().to_owned()).collect())
    }

    /// Reports whether the command makes load, so that flags of other load generators may be meant.
    fn is_client(&self) -> bool {
        matches!(self.name(), Some("load" | "find" | "lab" | "hold" | "compare"))
    }

    /// Reports whether `word` follows `flag` immediately.
    fn follows(&self, word: &str, flag: &str) -> bool {
        self.args.windows(2).any(|pair| pair[0] == flag && pair[1] == word)
    }

    /// Returns the first argument with one dash that spells a long flag, as Go's flag package reads them, and that
    /// flag.
    fn single_dashed(&self) -> Option<(String, String)> {
        let command = self.experiment.or(self.command)?;
        self.args.iter().filter_map(|arg| arg.to_str()).find_map(|arg| {
            let name = arg.strip_prefix('-').filter(|name| !name.starts_with('-'))?;
            let name = name.split('=').next().filter(|name| name.len() > 2)?;
            let is_own = command.get_arguments().any(|arg| arg.get_long() == Some(name));
            let long = format!("--{name}");
            let fix = match foreign::fix(&long).filter(|_| !is_own && self.is_client()) {
                Some(fix) => fix.to_owned(),
                None if is_own => format!("write {long}"),
                None => return None,
            };
            Some((format!("-{name}"), fix))
        })
    }

    /// Returns the name of an experiment that comes after flags.
    fn later_experiment(&self) -> Option<&'a str> {
        let words = self.args.iter().skip(2).filter_map(|word| word.to_str());
        words.into_iter().find_map(|word| Some(self.command?.find_subcommand(word)?.get_name()))
    }

    /// Returns the first URL without its secrets.
    fn url(&self) -> Option<String> {
        let words = self.args.iter().filter_map(|word| word.to_str());
        words.into_iter().find(|word| word.contains("://")).map(shown_url)
    }

    /// Returns the other experiments that have `flag`.
    fn siblings_with(&self, flag: &str) -> Option<String> {
        let command = self.command?;
        let is_flag = |arg: &clap::Arg| {
            arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long))
                || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
        };
        let having = command.get_subcommands().filter(|one| one.get_arguments().any(is_flag));
        let names: Vec<_> =
            having.map(|one| format!("{} {}", command.get_name(), one.get_name())).collect();
        let verb = if names.len() == 1 { "has" } else { "have" };
        (!names.is_empty()).then(|| format!("{} {verb} it", listed(names).replace(" or ", " and ")))
    }
}

/// Returns `a, b or c`.
pub(super) fn listed(mut names: Vec<String>) -> String {
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}

/// Returns the line for `error`, which `parser` gave on `args`.
pub(super) fn one_line(error: &clap::Error, args: &[OsString], parser: &clap::Command) -> String {
    let typed = TypedCommand::new(args, parser);
    let has_experiments = typed.command.is_some_and(clap::Command::has_subcommands);
    if has_experiments && typed.experiment.is_none() {
        return no_experiment(error, &typed);
    }
    let is_about_a_flag = matches!(
        error.kind(),
        ErrorKind::UnknownArgument | ErrorKind::InvalidValue | ErrorKind::ValueValidation
    );
    if let Some((flag, fix)) = typed.single_dashed().filter(|_| is_about_a_flag) {
        return format!("unknown flag {flag}; {fix}");
    }
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "no command given; try plimsoll lab, or plimsoll --help".to_owned()
        }
        ErrorKind::InvalidSubcommand => unknown_command(error),
        ErrorKind::UnknownArgument => unknown_argument(error, &typed),
        ErrorKind::InvalidValue => bad_value(error),
        ErrorKind::ValueValidation => refused_value(error, &typed),
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::MissingRequiredArgument => match typed.last() {
            Some("report") if argument(error).contains("RUN>...") => {
                "report needs the directory of a run; for example: plimsoll report my-run"
                    .to_owned()
            }
            Some("rfc9411") => {
                "rfc9411 runs one test case; name it with --case 7.1 to --case 7.9".to_owned()
            }
            _ => format!("{} is missing; {}", argument(error), typed.see_help()),
        },
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8; write it in UTF-8".to_owned(),
        _ => format!("{}; {}", first_line(error), typed.see_help()),
    }
}

/// Returns the complaint about `find` or `lab` without a known experiment.
fn no_experiment(error: &clap::Error, typed: &TypedCommand<'_>) -> String {
    const EXAMPLE: &str = "for example: plimsoll find rate http://127.0.0.1:8080/";
    let unknown = text(error, ContextKind::InvalidSubcommand);
    match (typed.name(), typed.url(), unknown, typed.later_experiment()) {
        (Some("lab"), Some(url), ..) => format!(
            "unexpected argument {url:?}; the laboratory starts its own server; to test another, \
             use plimsoll find rate {url}"
        ),
        (_, _, Some(name), _) if !name.contains("://") => {
            format!("unknown experiment {name:?}; use {}", typed.experiments())
        }
        (Some(command), .., Some(name)) => format!(
            "the experiment comes first; write plimsoll {command} {name} and its flags behind it"
        ),
        (_, Some(url), ..) => {
            format!("the experiment is missing before the URL; write plimsoll find rate {url}")
        }
        _ => format!("no experiment and no URL given; {EXAMPLE}"),
    }
}

/// Returns a part of an error. Typed text is shown without the credentials of a URL.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(without_credentials(text)),
        // Suggestions come in ascending order of likeness.
        ContextValue::Strings(texts) => texts.last().cloned(),
        _ => None,
    }
}

fn without_credentials(text: &str) -> String {
    let has_user = text.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    if has_user || text.contains("://") { shown_url(text) } else { text.to_owned() }
}

/// Returns the flag that an error is about, without its value: `--rate`.
fn argument(error: &clap::Error) -> String {
    flag_only(&text(error, ContextKind::InvalidArg).unwrap_or_default())
}

fn flag_only(shown: &str) -> String {
    shown.split([' ', '=', '[']).next().unwrap_or_default().to_owned()
}

fn unknown_command(error: &clap::Error) -> String {
    let typed = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
    if typed.starts_with("http://") || typed.starts_with("https://") {
        return format!("{typed:?} is not a command; write plimsoll load {typed}");
    }
    let fix = text(error, ContextKind::SuggestedSubcommand)
        .map_or_else(|| "see plimsoll --help".to_owned(), |near| format!("did you mean {near}?"));
    format!("unknown command {typed:?}; {fix}")
}

fn unknown_argument(error: &clap::Error, typed: &TypedCommand<'_>) -> String {
    let flag = text(error, ContextKind::InvalidArg).unwrap_or_default();
    if !flag.starts_with('-') {
        if typed.follows(&flag, "-q") {
            return format!(
                "unexpected argument {flag:?}; -q is --no-ui here; for a rate write --rate {flag}"
            );
        }
        let fix = match typed.command.and_then(|command| command.find_subcommand(&flag)) {
            Some(_) => format!("write plimsoll {} {flag} first", typed.name().unwrap_or_default()),
            None if typed.name() == Some("lab") && flag.contains("://") => format!(
                "the laboratory starts its own server; to test another, use plimsoll find {} {flag}",
                typed.last().unwrap_or_default()
            ),
            None => typed.see_help(),
        };
        return format!("unexpected argument {flag:?}; {fix}");
    }
    let here = |(last, flags, _): &&(&str, &str, &str)| {
        typed.last().is_some_and(|name| has_word(last, name)) && has_word(flags, &flag)
    };
    let known = OF_OTHERS.iter().find(here).map(|(.., fix)| *fix);
    if let Some(fix) = known.or_else(|| foreign::fix(&flag).filter(|_| typed.is_client())) {
        return format!("unknown flag {flag}; {fix}");
    }
    if let Some(having) = typed.siblings_with(&flag) {
        return format!("unknown flag {flag} of {}; {having}", typed.words());
    }
    let fix = text(error, ContextKind::SuggestedArg)
        .map_or_else(|| typed.see_help(), |near| format!("did you mean {}?", flag_only(&near)));
    format!("unknown flag {flag}; {fix}")
}

/// Returns the complaint about a value outside a fixed set, or about a missing one.
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

/// Returns the complaint about a value that one of our own parsers refused.
fn refused_value(error: &clap::Error, typed: &TypedCommand<'_>) -> String {
    let flag = argument(error);
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    if let Some(fix) = foreign::meaning(&flag, &value).filter(|_| typed.is_client()) {
        return format!("{flag} {value:?} is not accepted; {fix}");
    }
    let source = error.source();
    match source.and_then(|source| source.downcast_ref::<ParseError>()) {
        Some(refused) => {
            let typed = without_credentials(&refused.text);
            format!("{flag} {typed:?} is not accepted; write {}", refused.expected)
        }
        None => {
            let why = source.map(ToString::to_string).unwrap_or_default();
            format!("{flag} {value:?} is not accepted; {why}")
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
    without_credentials(line.trim_start_matches("error: "))
}
