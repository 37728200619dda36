//! `plimsoll run FILE`: a command line as a TOML file, with flags by their long names.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll_sys::input_file;
use toml::{Table, Value};

use crate::exit::Stop;

/// Largest run file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The key that names the command.
const COMMAND: &str = "command";
/// Keys of what has no flag: one URL, or several arguments.
const ARGUMENTS: [&str; 2] = ["url", "arguments"];

const EXAMPLES: &str = "\
The file has the key `command`, such as \"find rate\", the key `url` (or `arguments`, a list), and a key for each flag, by its
long name: a string, a number, true, or a list for a flag that is repeated. Names of files in it are relative to the
working directory.

Examples:
  plimsoll run bench.toml
  plimsoll run bench.toml --rate 5k --out tuesday

Exit codes: those of the command; 2 if the file is not a run file";

/// `plimsoll run`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunFlags {
    /// Run file, TOML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Flags that replace those of the file, by their long names, or add to them
    #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) more: Vec<OsString>,
}

impl RunFlags {
    /// The command line that the file stands for, program name first.
    pub(super) fn args(&self) -> Result<Vec<OsString>, Stop> {
        let text = read(&self.file).map_err(|error| {
            Stop::usage(
                format_args!("cannot read {:?}: {error}", self.file),
                "name a readable run file",
            )
        })?;
        let refuse = |what: String| Stop::Usage(format!("{}: {what}", self.file.display()));
        let mut args = words(&text, &self.more).map_err(refuse)?;
        args.extend(self.more.iter().cloned());
        Ok(args)
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    input_file::open_regular(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The words of a run file, without the flags that `more` has, too.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse_words;

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
}
