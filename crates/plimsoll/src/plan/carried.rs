//! A command that runs elsewhere, with its files: they are read here, and its words name their copies.
//!
//! [`order`] walks the words of a command. The types of clap's arguments show which flags name files; `carry`
//! reads such a file, adds its content to the [`Order`] and replaces the word by the path of the copy. Files that
//! `--targets` and `--script` name inside are added as well and must be below their folder, without `..`. The
//! [`Order`] checks the total size at the end. Start with [`order`].

use std::any::TypeId;
use std::path::{Path, PathBuf};

use plimsoll_fleet::kubernetes::{Order, OrderFile, is_below};
use plimsoll_model::target::{Body, vegeta};
use plimsoll_proto::script;

use super::Inputs;
use super::inputs::read_bounded;
use crate::exit::{Result, Stop};
use crate::flags;
use crate::flags::values::{InputFile, input_file};

/// The flags whose files name further ones.
const TARGETS: &str = "--targets";
const SCRIPT: &str = "--script";

/// Returns the command `words` with its files. A file below this folder has the same path there; others, and standard
/// input, get one.
pub(crate) fn order(words: &[String], inputs: &mut Inputs) -> Result<Order> {
    let flags = flags::long_names(words, &[TypeId::of::<InputFile>(), TypeId::of::<PathBuf>()]);
    let mut order = Order::default();
    let mut named = None;
    for word in words {
        let typed = word.split_once('=').filter(|(flag, _)| flags.iter().any(|one| one == flag));
        let carried = match (named.take(), typed) {
            (Some(flag), _) => carry(flag, word, &mut order, inputs)?,
            (None, Some((flag, value))) => {
                format!("{flag}={}", carry(flag, value, &mut order, inputs)?)
            }
            (None, None) => {
                named = flags.iter().find(|flag| *flag == word).map(String::as_str);
                word.clone()
            }
        };
        order.words.push(carried);
    }
    order.check().map_err(|error| Stop::usage(error, "name smaller files"))?;
    Ok(order)
}

/// Adds the file that `flag` names, and those that this one names; returns its path there.
fn carry(flag: &str, value: &str, order: &mut Order, inputs: &mut Inputs) -> Result<String> {
    let from = input_file(value).map_err(|error| Stop::Usage(error.to_string()))?;
    let content = inputs.read(flag, &from)?;
    let path = match &from {
        InputFile::File(path) if is_below(value) => path.display().to_string(),
        InputFile::File(path) => {
            let name =
                path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy());
            format!("named-{}/{name}", order.files.len())
        }
        InputFile::Stdin => format!("named-{}/stdin", order.files.len()),
    };
    match flag {
        TARGETS => bodies(&from, &content, order)?,
        SCRIPT => texts(&from, &content, &path, order)?,
        _ => {}
    }
    add(order, &path, content);
    Ok(path)
}

fn add(order: &mut Order, path: &str, content: Vec<u8>) {
    if !order.files.iter().any(|file| file.path == path) {
        order.files.push(OrderFile { path: path.to_owned(), content });
    }
}

/// Adds the files of the bodies that targets name, which lie below this folder.
fn bodies(from: &InputFile, text: &[u8], order: &mut Order) -> Result<()> {
    let mut paths = Vec::new();
    let mut note = |path: &str| {
        paths.push(path.to_owned());
        Ok(Body::default())
    };
    let name = format!("{TARGETS} {from}");
    vegeta::parse(vegeta::detect(text), &name, text, &[], &mut note)
        .map_err(|error| Stop::Usage(error.to_string()))?;
    for path in paths {
        let content = beside(&name, &path, Path::new(""))?;
        add(order, &path, content);
    }
    Ok(())
}

/// Adds the files that a script names, which lie beside it.
fn texts(from: &InputFile, text: &[u8], there: &str, order: &mut Order) -> Result<()> {
    let folder = |path: &Path| path.parent().map(PathBuf::from).unwrap_or_default();
    let here = match from {
        InputFile::Stdin => PathBuf::new(),
        InputFile::File(path) => folder(path),
    };
    let mut paths = Vec::new();
    let mut note = |path: &str| {
        paths.push(path.to_owned());
        read_bounded(&here.join(path)).map(Some)
    };
    let name = format!("{SCRIPT} {from}");
    script::parse(text, &mut note).map_err(|error| Stop::Usage(format!("{name}, {error}")))?;
    for path in paths {
        let content = beside(&name, &path, &here)?;
        let there = folder(Path::new(there)).join(&path);
        add(order, &there.display().to_string(), content);
    }
    Ok(())
}

/// Reads a file that another one names, below `folder`.
fn beside(name: &str, path: &str, folder: &Path) -> Result<Vec<u8>> {
    refuse_if!(!is_below(path);
        "{name} names {path:?}, which has no place in a pod";
        "give it a path below its folder, without ..");
    read_bounded(&folder.join(path))
        .map_err(|error| usage!("{name} names {path:?}: {error}"; "name a readable file"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn ordered(words: &[&str], stdin: &'static [u8]) -> Result<Order> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        order(&words, &mut Inputs::of_host(stdin))
    }

    fn paths(order: &Order) -> Vec<&str> {
        order.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn files_travel_with_their_words() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (users, ids) = (place("users", "ann:hunter2\n"), place("ids", "a\n"));
        let client_ids = format!("--client-ids={ids}");
        let words =
            ["load", "mqtt://a", "--users", &users, &client_ids, "--body", "-", "--topic", "-"];
        let order = ordered(&words, b"from stdin").unwrap();
        let expected = [
            "load",
            "mqtt://a",
            "--users",
            "named-0/users",
            "--client-ids=named-1/ids",
            "--body",
            "named-2/stdin",
            "--topic",
            "-",
        ];
        assert_eq!(order.words, expected);
        assert_eq!(paths(&order), ["named-0/users", "named-1/ids", "named-2/stdin"]);
        assert_eq!(order.files[0].content, b"ann:hunter2\n");
        assert_eq!(order.files[2].content, b"from stdin");
    }

    #[test]
    fn files_that_files_name_travel_too() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data.bin"), "data").unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "loop\nsend @data.bin\nexpect 1\nend\n").unwrap();
        let script = script.display().to_string();
        let order = ordered(&["load", "tcp://a:1", "--script", &script], b"").unwrap();
        assert_eq!(paths(&order), ["named-0/data.bin", "named-0/script"]);
        let targets = b"POST http://a/\n@/etc/hostname\n";
        let refused = ordered(&["load", "--targets", "-"], targets).unwrap_err();
        let said = refused.complaint().unwrap();
        assert!(said.contains("which has no place in a pod; give it a path below"), "{said}");
    }

    #[test]
    fn other_words_stay_and_missing_files_are_one_line() {
        let words = ["find", "rate", "http://a/?$(X)", "-H", "a: --users", "--data=$$ --body x"];
        let order = ordered(&words, b"").unwrap();
        assert_eq!((order.words, order.files.len()), (words.map(str::to_owned).to_vec(), 0));
        let refused = ordered(&["hold", "https://a", "--cacert", "/no/such"], b"").unwrap_err();
        assert!(refused.complaint().unwrap().contains("--cacert cannot read \"/no/such\""));
        let large = vec![b'x'; 2 << 20].leak();
        let refused = ordered(&["load", "http://a", "--body", "-"], large).unwrap_err();
        assert!(refused.complaint().unwrap().contains("a Secret takes 1,015,808; name smaller"));
    }
}
