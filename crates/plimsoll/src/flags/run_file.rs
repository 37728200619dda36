//! `plimsoll run FILE`: a command line as a TOML file, with flags by their long names.
//!
//! [`RunFlags::line`] reads the file and returns the words of a command line, which the normal parser then parses. A
//! TOML file becomes one word per key and value (`words`). An archive's manifest has the words already (`archived`),
//! except for redacted values: an output place without its value is dropped with a note, any other one is an error.
//! Flags behind the file's name replace those of the file. A larger file than 64 MiB is refused. Start with [`RunFlags::line`].

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Args, CommandFactory};
use plimsoll_model::target::REDACTED;
use plimsoll_report::archive::{Manifest, SCHEMA};
use plimsoll_sys::input_file;
use toml::{Table, Value};

use super::Cli;
use crate::exit::{Result, Stop};

/// Largest file that is read; the manifest of a run with many targets is large.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The file of an archive that has the command line.
const MANIFEST: &str = "manifest.json";
/// Flags that name where results go. A run can be repeated without them.
const PLACES: [&str; 2] = ["out", "json"];
/// The key that names the command.
const COMMAND: &str = "command";
/// Keys of what has no flag: one URL, or several arguments.
const ARGUMENTS: [&str; 2] = ["url", "arguments"];

const EXAMPLES: &str = "\
The file has the key `command`, such as \"find rate\", the key `url` (or `arguments`, a list), and a key for each flag, by its
long name: a string, a number, true, or a list for a flag that is repeated. Names of files in it are relative to the
working directory.

An archive repeats its run. It does not contain headers, texts, file names and host names, so give flags with such values
again.

Examples:
  plimsoll run bench.toml
  plimsoll run bench.toml --rate 5k --out tuesday
  plimsoll run plimsoll-runs/20261126T120000Z-find-4711

Exit codes: those of the command; 2 if the file is not a run file, or the archive lacks a value that the run needs";

/// `plimsoll run`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunFlags {
    /// Run file in TOML, or an archive or its manifest.json, whose run is repeated
    #[arg(value_name = "FILE|RUN")]
    pub(crate) file: PathBuf,

    /// Flags that replace those of the file, by their long names, or add to them
    #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) more: Vec<OsString>,
}

impl RunFlags {
    /// Returns the command line that the file contains, program name first.
    pub(super) fn line(&self) -> Result<Line> {
        let file = match self.file.is_dir() {
            true => self.file.join(MANIFEST),
            false => self.file.clone(),
        };
        let text = input_file::read_text(&file, FILE_BYTES_MAX)
            .map_err(|error| usage!("cannot read {file:?}: {error}"; "name a readable run file"))?;
        let line = match text.trim_start().starts_with('{') {
            true => archived(&text, &self.more),
            false => words(&text, &self.more).map(|args| Line { args, note: None }),
        };
        let mut line =
            line.map_err(|what| Stop::Usage(format!("{}: {what}", self.file.display())))?;
        line.args.extend(self.more.iter().cloned());
        Ok(line)
    }
}

/// A command line from a run file.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    /// Words of the command line, program name first.
    pub(super) args: Vec<OsString>,
    /// The part of an archived line that is not repeated.
    pub(super) note: Option<String>,
}

/// Returns the words of a run file, without the flags that `more` has, too.
fn words(text: &str, more: &[OsString]) -> Result<Vec<OsString>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
        format!("line {line}: {}; write it in TOML", error.message())
    })?;
    let command = match table.get(COMMAND) {
        Some(Value::String(command)) if command.split_whitespace().next() == Some("run") => {
            return Err("a run file cannot name another; write the command itself".to_owned());
        }
        Some(Value::String(command)) => command,
        _ => return Err("no command; write it like command = \"find rate\"".to_owned()),
    };
    let mut args = vec![OsString::from("plimsoll")];
    args.extend(command.split_whitespace().map(OsString::from));
    for (key, value) in table.iter().filter(|(key, _)| *key != COMMAND) {
        let given = format!("--{key}");
        let is_replaced = |word: &OsString| {
            word.to_str().is_some_and(|word| word.split('=').next() == Some(given.as_str()))
        };
        if more.iter().any(is_replaced) {
            continue;
        }
        let values = match value {
            Value::Array(values) => &values[..],
            value => std::slice::from_ref(value),
        };
        for value in values {
            let value = match value {
                Value::Boolean(false) => continue,
                Value::Boolean(true) => None,
                Value::String(text) => Some(text.clone()),
                Value::Integer(number) => Some(number.to_string()),
                Value::Float(number) => Some(number.to_string()),
                Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
                    let fix = "write a string, a number, true, or a list of them";
                    return Err(format!("the value of {key} is no value of a flag; {fix}"));
                }
            };
            args.push(match value {
                Some(value) if ARGUMENTS.contains(&key.as_str()) => value.into(),
                Some(value) => format!("{given}={value}").into(),
                None => given.clone().into(),
            });
        }
    }
    Ok(args)
}

/// An argument of an archived line: the long name of its flag, if it is one, and its words.
type Given = (Option<String>, Vec<String>);

/// Returns the words of an archived run, without the arguments that `more` has, too.
fn archived(text: &str, more: &[OsString]) -> Result<Line, String> {
    let manifest: Manifest = serde_json::from_str(text)
        .ok()
        .filter(|manifest: &Manifest| manifest.schema == SCHEMA)
        .ok_or_else(|| format!("not the manifest of an archive; name a run file or {MANIFEST}"))?;
    if !manifest.merged_from.is_empty() {
        return Err("this run was merged from others; repeat each of them".to_owned());
    }
    let (mut args, given) = arguments(&manifest.command_line);
    let more: Vec<_> = more.iter().map(|word| word.to_string_lossy()).collect();
    let is_replaced = |name: &Option<String>| match name {
        Some(name) => more.iter().any(|word| word.split('=').next() == Some(name.as_str())),
        None => more.first().is_some_and(|word| !word.starts_with('-')),
    };
    let (mut unknown, mut places) = (Vec::new(), Vec::new());
    for (name, words) in given.into_iter().filter(|(name, _)| !is_replaced(name)) {
        if !words.iter().any(|word| word.contains(REDACTED)) {
            args.extend(words.into_iter().map(OsString::from));
            continue;
        }
        let is_place = name.as_ref().is_some_and(|name| PLACES.contains(&&name[2..]));
        let list = if is_place { &mut places } else { &mut unknown };
        let name = name.unwrap_or_else(|| "the URL or argument".to_owned());
        if !list.contains(&name) {
            list.push(name);
        }
    }
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        return Err(format!(
            "an archive does not contain the value of {names}; give it again behind the archive's name"
        ));
    }
    let note = (!places.is_empty()).then(|| {
        let names = places.join(" and ");
        format!("the archive does not contain the value of {names}: this run goes without")
    });
    Ok(Line { args, note })
}

/// Splits an archived line into the program's name and its command, and the arguments.
fn arguments(line: &[String]) -> (Vec<OsString>, Vec<Given>) {
    let parser = Cli::command();
    let mut command = &parser;
    let mut words = line.iter().cloned().peekable();
    let mut args: Vec<OsString> = words.next().into_iter().map(OsString::from).collect();
    while let Some(inner) = words.peek().and_then(|word| command.find_subcommand(word)) {
        args.extend(words.next().map(OsString::from));
        command = inner;
    }
    let has_value = |name: &str| {
        let takes = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
        command.get_arguments().any(|arg| arg.get_long() == Some(name) && takes(arg))
    };
    let mut given = Vec::new();
    while let Some(word) = words.next() {
        given.push(match word.strip_prefix("--") {
            Some("") => (None, std::iter::once(word).chain(words.by_ref()).collect()),
            Some(name) if has_value(name) => {
                (Some(word.clone()), std::iter::once(word.clone()).chain(words.next()).collect())
            }
            Some(_) => (word.split('=').next().map(str::to_owned), vec![word.clone()]),
            None => (None, vec![word]),
        });
    }
    (args, given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{archived as shown, parse_words};

    fn line(text: &str, more: &[&str]) -> Result<String, String> {
        let more: Vec<_> = more.iter().map(OsString::from).collect();
        let words = words(text, &more)?;
        Ok(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_file_is_the_command_line_that_its_keys_spell() {
        let text = "command = \"load\"\nurl = \"http://127.0.0.1/\"\nrate = \"2k\"\nconnections = 8\n\
                    no-keepalive = true\ninsecure = false\nheader = [\"a: b\", \"c: d\"]\n";
        let expected = "plimsoll load --connections=8 --header=a: b --header=c: d --no-keepalive --rate=2k \
                        http://127.0.0.1/";
        assert_eq!(line(text, &[]).as_deref(), Ok(expected));
        let flags =
            ["--connections=8", "--header=a: b", "--header=c: d", "--no-keepalive", "--rate=2k"];
        let typed = [&["load", "http://127.0.0.1/"][..], &flags].concat();
        let words: Vec<_> = words(text, &[]).unwrap();
        let read: Vec<_> = words.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
        assert_eq!(parse_words(&read), parse_words(&typed));
        // What is typed behind the file replaces what is in it.
        let replaced = line(text, &["--rate", "9", "--header=e: f"]).unwrap();
        assert!(!replaced.contains("2k") && !replaced.contains("a: b"), "{replaced}");
    }

    #[test]
    fn other_files_are_refused_with_what_to_write() {
        for (text, part) in [
            ("rate = 5", "no command; write it like command"),
            ("command = 5", "no command"),
            ("command = \"run a.toml\"", "cannot name another"),
            ("command = \"load\"\nrate = [[1]]", "the value of rate is no value of a flag"),
            ("command = \"load\"\nrate = 1979-05-27", "the value of rate is no value of a flag"),
            ("command = \"load\"\nrate = ", "line 2: "),
            ("command: load", "write it in TOML"),
        ] {
            let said = line(text, &[]).unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_and_not_cut_off() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(FILE_BYTES_MAX + 1).unwrap();
        let flags = RunFlags { file: file.path().to_owned(), more: Vec::new() };
        let said = flags.line().unwrap_err().complaint().unwrap();
        assert!(said.contains("it has more than 64 MiB; name a readable run file"), "{said}");
    }

    /// Returns the manifest of a run of this line.
    fn manifest(line: &str) -> String {
        let words = shell_words::split(line).unwrap().into_iter().map(OsString::from);
        let command_line = shown::line(words, &[]);
        let job = crate::plan::tests::hold_job(&["http://127.0.0.1:1/", "-c", "1"]);
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            plimsoll_version: "0".to_owned(),
            command: "load".to_owned(),
            kind: plimsoll_model::result::RunKind::Load,
            command_line,
            target: String::new(),
            started_at: String::new(),
            clock: plimsoll_report::archive::ClockPair {
                monotonic: plimsoll_model::Nanos::ZERO,
                unix_ns: 0,
            },
            host: plimsoll_report::archive::ArchivedHost::default(),
            seed: job.load.plan.seed,
            settings: plimsoll_model::settings::Settings::default(),
            search: None,
            plan: plimsoll_report::archive::ArchivedPlan::of(&job.load.plan),
            merged_from: Vec::new(),
        };
        serde_json::to_string_pretty(&manifest).unwrap()
    }

    fn repeated(run: &str, more: &[&str]) -> Result<(String, Option<String>), String> {
        let more: Vec<_> = more.iter().map(OsString::from).collect();
        let Line { args, note } = archived(&manifest(run), &more)?;
        let words: Vec<_> = args.iter().map(|word| word.to_str().unwrap()).collect();
        Ok((shell_words::join(words), note))
    }

    #[test]
    fn the_manifest_of_a_run_repeats_it() {
        for line in [
            "plimsoll load http://127.0.0.1:1/ --rate 2k --insecure --slo 'p99<5ms'",
            "plimsoll lab rate --sut haproxy --connections 9 --live=8080",
            "plimsoll lab sweep --vary 'tls=on,off' -- rate --sut haproxy",
        ] {
            let (again, note) = repeated(line, &[]).unwrap();
            assert_eq!(
                (shell_words::split(&again), note),
                (shell_words::split(line), None),
                "{line}"
            );
        }
    }

    #[test]
    fn a_value_that_an_archive_lacks_is_asked_for_once_and_a_place_is_left_out() {
        let run =
            "plimsoll load http://a/ -H 'a: b' -H 'c: d' --rate 5 --cacert ca.pem --out x --json -";
        let why = repeated(run, &[]).unwrap_err();
        let expected = "does not contain the value of --header, --cacert; give it again";
        assert!(why.contains(expected), "{why}");
        let given = ["--header", "e: f", "--cacert=ca.pem", "--rate", "7"];
        let (line, note) = repeated(run, &given).unwrap();
        assert_eq!(line, "plimsoll load http://a/");
        assert!(note.unwrap().contains("the value of --out and --json"), "{line}");
        // A query may be a credential; a URL behind the file replaces the archived one.
        let run = "plimsoll load 'http://a/?k=v' --insecure --rate 5";
        let why = repeated(run, &[]).unwrap_err();
        assert!(why.contains("the value of the URL or argument;"), "{why}");
        let (line, _) = repeated(run, &["http://b/?k=v"]).unwrap();
        assert_eq!(line, "plimsoll load --insecure --rate 5");
        let run = "plimsoll lab sweep --vary tls=on,off -- --sut haproxy -H 'x: y'";
        assert!(repeated(run, &[]).unwrap_err().contains("the URL or argument"));
    }

    #[test]
    fn other_json_is_refused() {
        let other = manifest("plimsoll load http://a/").replace(SCHEMA, "plimsoll.summary/1");
        for text in ["{}", "{", &other] {
            assert!(archived(text, &[]).unwrap_err().starts_with("not the manifest"), "{text}");
        }
    }
}
