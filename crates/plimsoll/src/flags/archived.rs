//! The command line as archives and reports have it: what was given, without what may be a credential.
//!
//! Flags are named, and of their values those are written that cannot hold a secret: numbers, durations, rates,
//! addresses, and words of a fixed set, by the type that the parser made of them. Of a URL, what may be shown
//! ([`plimsoll_model::target::shown_url`]) is written. Everything else, such as the values of headers, texts, names of
//! hosts and paths of files, is not.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};
use plimsoll_model::compare::Metric;
use plimsoll_model::plan::{Group, TlsVersion};
use plimsoll_model::rfc9411::{Case, Object};
use plimsoll_model::slo::Slo;
use plimsoll_model::target::{MqttVersion, Qos, REDACTED, TargetUrl, shown_url};
use plimsoll_model::{Nanos, Rate};
use plimsoll_report::live::Collector;

use super::rfc9411::TargetLoad;
use super::values::{Cidr, ListenAt, Processes, RampTo, Watch, listen_at};
use super::{Cli, spelling};
use crate::plan::sizing::vary_shown;

/// The name of the program; its path is not written.
const PROGRAM: &str = "plimsoll";
/// The flags of a laboratory that stand behind the `--` of `lab sweep`.
const OF_SWEEP: &str = "all";
/// Settings of a server and their values: the rows of a sizing table.
const VARY: &str = "vary";
/// The URL of a server.
const URL: &str = "url";

/// Words that stand for an argument, by its identifier.
pub(crate) type Replaced<'a> = (&'a str, &'a [String]);

/// Returns the command line of this process.
pub(crate) fn own_line(replaced: &[Replaced<'_>]) -> Vec<String> {
    line(super::own_args(), replaced)
}

/// Returns the words of `args`, program name first, in the order in which they were given and with the long names of
/// flags. What `replaced` names is replaced.
pub(crate) fn line(
    args: impl IntoIterator<Item = OsString>,
    replaced: &[Replaced<'_>],
) -> Vec<String> {
    let args = spelling::completed(args.into_iter().collect());
    let parser = Cli::command();
    let mut words = vec![PROGRAM.to_owned()];
    // It was accepted before; where it is not, nothing of it is known.
    let Ok(matches) = parser.clone().try_get_matches_from(args) else { return words };
    let (mut command, mut matches) = (&parser, &matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        words.push(name.to_owned());
        (command, matches) = (found, inner);
    }
    let of = |arg| occurrences(arg, matches, replaced);
    let mut given: Vec<_> = command.get_arguments().flat_map(of).collect();
    given.sort_by_key(|(place, _)| *place);
    words.extend(given.into_iter().flat_map(|(_, words)| words));
    words
}

/// Returns every occurrence of `arg`: its place in the line, and its words.
fn occurrences(
    arg: &Arg,
    matches: &ArgMatches,
    replaced: &[Replaced<'_>],
) -> Vec<(usize, Vec<String>)> {
    let id = arg.get_id().as_str();
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return Vec::new();
    }
    let places: Vec<_> = matches.indices_of(id).into_iter().flatten().collect();
    let place = |at: usize| places.get(at).copied().unwrap_or(usize::MAX);
    let name = arg.get_long().map(|long| format!("--{long}"));
    if !arg.get_action().takes_values() {
        return vec![(place(0), name.into_iter().collect())];
    }
    if let Some((_, words)) = replaced.iter().find(|(replaced, _)| *replaced == id) {
        return vec![(place(0), words.to_vec())];
    }
    let mut given = Vec::new();
    let mut values_before = 0;
    for values in matches.get_raw_occurrences(id).into_iter().flatten() {
        let values: Vec<&OsStr> = values.collect();
        given.push((place(values_before), words(arg, name.as_deref(), &values)));
        values_before += values.len();
    }
    given
}

/// Returns the words of one occurrence of an argument.
fn words(arg: &Arg, name: Option<&str>, values: &[&OsStr]) -> Vec<String> {
    if arg.get_id() == OF_SWEEP {
        let lab = [PROGRAM, "lab"].map(OsString::from);
        let all = line(lab.into_iter().chain(values.iter().map(OsString::from)), &[]);
        return std::iter::once("--".to_owned()).chain(all.into_iter().skip(2)).collect();
    }
    let shown: Vec<String> = values
        .iter()
        .map(|value| {
            let shown = value.to_str().and_then(|value| value_shown(arg, value));
            shown.unwrap_or_else(|| REDACTED.to_owned())
        })
        .collect();
    match name {
        Some(name) if arg.is_require_equals_set() => vec![format!("{name}={}", shown.join(","))],
        Some(name) => vec![name.to_owned(), shown.join(",")],
        None => shown,
    }
}

/// Returns a value as it may be shown; `None` if it may not.
fn value_shown(arg: &Arg, value: &str) -> Option<String> {
    let parser = arg.get_value_parser();
    let kind = parser.type_id();
    let is = |types: &[TypeId]| types.iter().any(|one| kind == *one);
    let is_word = parser.possible_values().is_some();
    if is_word || is(&plain()) {
        return Some(value.to_owned());
    }
    if arg.get_id() == VARY {
        return vary_shown(value);
    }
    if arg.get_id() == URL || is(&[TypeId::of::<TargetUrl>(), TypeId::of::<Collector>()]) {
        return url_shown(value);
    }
    if is(&[TypeId::of::<ListenAt>()]) {
        let host = listen_at(value).ok()?.host;
        let is_address = host == "localhost" || host.parse::<IpAddr>().is_ok();
        return is_address.then(|| value.to_owned());
    }
    if is(&[TypeId::of::<Watch>()]) {
        let (what, of) = value.split_once(':')?;
        let is_process = of.bytes().all(|byte| byte.is_ascii_digit());
        return Some(format!("{what}:{}", if is_process { of } else { REDACTED }));
    }
    None
}

/// Returns the types whose every value may be shown, whatever it was made of.
fn plain() -> [TypeId; 21] {
    [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<f64>(),
        TypeId::of::<NonZeroU16>(),
        TypeId::of::<NonZeroU32>(),
        TypeId::of::<Nanos>(),
        TypeId::of::<Rate>(),
        TypeId::of::<RampTo>(),
        TypeId::of::<TargetLoad>(),
        TypeId::of::<Object>(),
        TypeId::of::<Processes>(),
        TypeId::of::<Slo>(),
        TypeId::of::<Case>(),
        TypeId::of::<Metric>(),
        TypeId::of::<TlsVersion>(),
        TypeId::of::<Group>(),
        TypeId::of::<Qos>(),
        TypeId::of::<MqttVersion>(),
        TypeId::of::<Cidr>(),
        TypeId::of::<SocketAddr>(),
    ]
}

fn url_shown(text: &str) -> Option<String> {
    let url = text.parse::<TargetUrl>().ok()?;
    // As it was typed, unless a @ of its path could be taken for the end of a password.
    Some(if text.contains('@') { url.to_string() } else { shown_url(text) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::flags::parse_words;

    const SECRET: &str = "hunter2-sesame";

    fn shown(text: &str) -> String {
        let words = shell_words::split(text).unwrap();
        parse_words(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let args = std::iter::once("/opt/p/plimsoll".to_owned()).chain(words);
        shell_words::join(line(args.map(OsString::from), &[]))
    }

    #[test]
    fn figures_words_and_servers_stay_and_all_else_is_hidden() {
        for (typed, expected) in [
            (
                "load 'http://a:81/b?k=v' -r 2k -d10s -kc 9 --slo 'p99<50ms,errors<1%' --no-ui",
                "plimsoll load 'http://a:81/b?<redacted>' --rate 2k --duration 10s --insecure --connections 9 \
                 --slo 'p99<50ms,errors<1%' --no-ui",
            ),
            (
                "load --stages 1s:5,2s:9 --groups x25519,p256 http://a/@u --out run -H 'sleep: 20' -H a:b",
                "plimsoll load --stages 1s:5,2s:9 --groups x25519,p256 http://a/@u --out '<redacted>' \
                 --header '<redacted>' --header '<redacted>'",
            ),
            (
                "find rfc9411 'http://10.0.0.1/{size}' --case 7.2 --target 20k --live 8080",
                "plimsoll find rfc9411 'http://10.0.0.1/{size}' --case 7.2 --target 20k '--live=8080'",
            ),
            (
                "find rate http://a --watch pid:7 --watch nginx:http://b/s --otlp http://c/?t=1 --mode quick",
                "plimsoll find rate http://a --watch pid:7 --watch 'nginx:<redacted>' --otlp 'http://c/?<redacted>' \
                 --mode quick",
            ),
            ("lab handshakes -k", "plimsoll lab handshakes --insecure"),
            (
                "lab sweep --vary tls=on,off -- --sut haproxy -H 'x: y'",
                "plimsoll lab sweep --vary 'tls=on,off' -- rate --sut haproxy --header '<redacted>'",
            ),
            (
                "hold mqtt://a -c 2 --users users.txt --keep-alive 9 --live=name:80",
                "plimsoll hold mqtt://a --connections 2 --users '<redacted>' --keep-alive 9 '--live=<redacted>'",
            ),
        ] {
            let expected = shell_words::split(expected);
            assert_eq!(shell_words::split(&shown(typed)), expected, "{typed}");
        }
    }

    /// Flags that need others beside them.
    const COMPANIONS: [&[&str]; 10] = [
        &[],
        &["--grpc", "a.B/C"],
        &["--subscribe", "a"],
        &["--will-topic", "a"],
        &["--proxy-protocol", "v2"],
        &["--hosts", "h"],
        &["--agents", "2", "--listen", "127.0.0.1:1"],
        &["--agents", "2", "--listen", "127.0.0.1:1", "--keys", "k"],
        &["--sut-host", "h"],
        &["--case", "7.1"],
    ];

    /// Spellings of a value that carries a secret, for flags that do not take any text.
    const CARRIERS: [&str; 9] = [
        SECRET,
        "x: hunter2-sesame",
        "nginx:http://a/hunter2-sesame",
        "haproxy:/hunter2-sesame",
        "http://a/?hunter2-sesame",
        "hunter2-sesame:80",
        "hunter2-sesame@a",
        "tls=on,hunter2-sesame",
        "hunter2-sesame=on,off",
    ];

    #[test]
    fn no_flag_that_takes_a_value_shows_a_secret() {
        let root = Cli::command();
        let archiving = ["load", "find", "lab", "hold", "compare", "watch"];
        let (mut seen, mut hidden) = (HashSet::new(), Vec::new());
        for command in root.get_subcommands().filter(|one| archiving.contains(&one.get_name())) {
            let inner = command.get_subcommands().map(|one| (vec![one.get_name()], one));
            let all: Vec<_> = match command.has_subcommands() {
                true => inner.collect(),
                false => vec![(Vec::new(), command)],
            };
            for (experiment, command_of) in all {
                let start = [vec![command.get_name()], experiment].concat();
                for arg in command_of.get_arguments() {
                    // Groups of flags are shared by commands.
                    let id = arg.get_id().as_str();
                    let is_new = seen.insert((id, arg.get_value_parser().type_id()));
                    if is_new && hides(&start, command_of, arg) {
                        hidden.push(id);
                    }
                }
            }
        }
        // Texts, headers, names and paths; fewer would mean that the lines above are not accepted.
        assert!(hidden.len() > 40, "{hidden:?}");
    }

    /// Gives `arg` a secret in every spelling; `true` if a line was accepted, and showed nothing of it.
    fn hides(start: &[&str], command: &clap::Command, arg: &Arg) -> bool {
        if !arg.get_action().takes_values() {
            return false;
        }
        let name = arg.get_long().map(|long| format!("--{long}"));
        let mut is_accepted = false;
        let is_plain = plain().iter().any(|kind| arg.get_value_parser().type_id() == *kind);
        let carriers = if is_plain { &CARRIERS[..1] } else { &CARRIERS[..] };
        for carrier in carriers {
            let given = name.as_ref().map(|name| format!("{name}={carrier}"));
            let given = given.unwrap_or_else(|| (*carrier).to_owned());
            let with = |companions: &&[&str]| {
                let words = [start, companions, &[given.as_str()]].concat();
                words.into_iter().map(str::to_owned).collect::<Vec<_>>()
            };
            // By its own command: to make all of them for each word takes ten times as long.
            let is_read = |words: &Vec<String>| {
                command.clone().try_get_matches_from(&words[start.len() - 1..]).is_ok()
            };
            let Some(words) = COMPANIONS.iter().map(with).find(is_read) else { continue };
            let args = std::iter::once(PROGRAM.to_owned()).chain(words).map(OsString::from);
            let line = line(args, &[]).join(" ");
            assert!(!line.contains(SECRET) && line.contains(REDACTED), "{line}");
            is_accepted = true;
        }
        is_accepted
    }
}
