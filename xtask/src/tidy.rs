//! Mechanical slips in the source text that no compiler finds. Anything
//! that needs taste belongs in review; a check with false alarms is to be removed, not tuned.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::metadata::Depth;
use crate::{book, english, metadata, specifications};

/// Names that attract everything, for modules and types.
const BANNED_NAMES: &[&str] =
    &["common", "core", "data", "helper", "helpers", "info", "manager", "misc", "util", "utils"];

/// Marks of work in progress; pieced together, or this file would name itself.
const LEFTOVERS: &[&str] = &[
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/Use", "rs/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Calls that open a file for writing. Outside of `plimsoll-sys` an output goes through its `output_file` or
/// `whole_file`, which follow no link and leave modes as they are.
const WRITERS: &[&str] =
    &["fs::write(", "File::create", "File::options(", "OpenOptions", "fs::copy(", "fs::rename("];
/// Folders that write files by other means: the mechanism itself, and parts that are not in the program.
const FREE_WRITERS: &[&str] = &["crates/plimsoll-sys", "e2e", "fuzz", "testkit", "xtask"];

/// The most lines of a file.
const LINES_MAX: usize = 800;
/// Fields of a struct that a reader can still keep apart.
const FIELDS_MAX: usize = 25;

/// Folders that hold no source of ours.
const SKIPPED_FOLDERS: &[&str] = &["artifacts", "corpus", "plimsoll-runs", "snapshots"];
/// File that cargo puts into each of its output folders; `src/target` is source.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// Checks every source file of the tree.
pub(crate) fn run() -> Result<()> {
    let root = crate::root();
    let mut files = Vec::new();
    collect_files(&root, &mut files)?;
    files.sort();
    let (mut offences, mut functions, mut tables) = (Vec::new(), BTreeSet::new(), Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(&root).unwrap_or(file);
        check_file(name, &text, &mut offences);
        english::check(name, &text, &mut offences);
        match name.extension().is_some_and(|extension| extension == "rs") {
            true => functions.extend(specifications::functions(&text).map(str::to_owned)),
            false => tables.push((name, text)),
        }
    }
    for (name, text) in &tables {
        specifications::check(name, text, &functions, &mut offences);
    }
    let pages = tables.iter().filter(|(name, _)| name.extension().is_some_and(|it| it == "md"));
    let pages: Vec<(&Path, &str)> = pages.map(|(name, text)| (*name, text.as_str())).collect();
    book::check(&|path| root.join(path).exists(), &pages, &mut offences);
    check_reach(&root, &files, &mut offences)?;
    crate::verdict("untidy places", &offences)
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            let is_hidden =
                name.starts_with('.') && ![".cargo", ".ci", ".github"].contains(&&*name);
            let is_output = path.join(CACHE_TAG).exists();
            if !is_hidden && !is_output && !SKIPPED_FOLDERS.contains(&&*name) {
                collect_files(&path, files)?;
            }
        } else if is_source(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("rs" | "md" | "toml" | "sh" | "yml" | "yaml"))
        || path.ends_with(".ci/run")
}

fn check_file(name: &Path, text: &str, offences: &mut Vec<String>) {
    let is_rust = name.extension().is_some_and(|extension| extension == "rs");
    let shown = name.display();
    if is_rust {
        if !text.starts_with("//!") {
            offences.push(format!("{shown} does not begin with `//!` and what it is for"));
        }
        // The last part is the file, which counts without its extension.
        let stem = name.with_extension("");
        let mut parts = stem.components().filter_map(|part| part.as_os_str().to_str());
        if let Some(part) = parts.find(|part| is_banned(part)) {
            offences.push(format!("{shown} has a name that attracts everything: {part}"));
        }
    }
    if is_rust {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            offences.push(format!("{shown} has {lines} lines; split it, at most {LINES_MAX}"));
        }
        offences.extend(large_structs(text).map(|(line, fields)| {
            format!("{shown}, line {line}: a struct of {fields} fields; group them, at most {FIELDS_MAX}")
        }));
    }
    let written = if is_rust { program_lines(name, text) } else { 0 };
    for (index, line) in text.lines().enumerate() {
        let mut offend = |what: &str| offences.push(format!("{shown}, line {}: {what}", index + 1));
        if let Some(path) = MACHINE_PATHS.iter().find(|path| line.contains(**path)) {
            offend(&format!("a path of one machine, {path}"));
        }
        // In code, a file and a line are a string that some program wrote; in prose, an address.
        let is_prose = !is_rust || line.trim_start().starts_with("//");
        if is_prose && has_line_reference(line) {
            offend("a reference to a line number, which rots; name the function");
        }
        if !is_rust {
            continue;
        }
        if let Some(writer) = WRITERS.iter().find(|writer| has_call(line, writer))
            && index < written
        {
            offend(&format!(
                "{writer} opens an output; use plimsoll_sys::output_file or whole_file"
            ));
        }
        if let Some(leftover) = LEFTOVERS.iter().find(|leftover| line.contains(**leftover)) {
            offend(&format!("left over: {leftover}"));
        }
        if let Some(name) = declared_name(line).filter(|name| is_banned(name)) {
            offend(&format!("a name that attracts everything: {name}"));
        }
    }
}

/// Returns lines at which structs of too many fields begin, and the fields of each.
fn large_structs(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let begins = text.lines().enumerate().filter(|(_, line)| {
        without_visibility(line.trim_start()).starts_with("struct ") && line.ends_with('{')
    });
    let sized = begins.map(|(index, line)| {
        let margin = line.len() - line.trim_start().len();
        let inside = text.lines().skip(index + 1).take_while(move |line| {
            line.is_empty() || line.len() - line.trim_start().len() > margin
        });
        let is_field = move |line: &&str| {
            let at = line.len() - line.trim_start().len();
            let name = without_visibility(line.trim_start()).split(':').next().unwrap_or_default();
            at == margin + 4
                && line.contains(": ")
                && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        (index + 1, inside.filter(is_field).count())
    });
    sized.filter(|(_, fields)| *fields > FIELDS_MAX)
}

/// Returns the number of lines, from the first, that must write files through `plimsoll-sys`: those before the tests.
fn program_lines(name: &Path, text: &str) -> usize {
    let is_test = |part: &Path| {
        let stem = part.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        ["tests", "examples", "fixture", "fixtures"].contains(&stem)
    };
    let is_free = FREE_WRITERS.iter().any(|free| name.starts_with(free));
    if is_free || name.iter().any(|part| is_test(Path::new(part))) {
        return 0;
    }
    let lines: Vec<_> = text.lines().collect();
    let opens_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && without_visibility(pair[1]).starts_with("mod tests {")
    };
    lines.windows(2).position(opens_tests).unwrap_or(usize::MAX)
}

/// Reports whether the line calls `path`, which is not the end of a longer name.
fn has_call(line: &str, path: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_of_word))
}

fn is_banned(name: &str) -> bool {
    BANNED_NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// Reports whether the text holds `.rs:` and a digit.
fn has_line_reference(text: &str) -> bool {
    text.split(".rs:").skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns the module or type that a line declares.
fn declared_name(line: &str) -> Option<&str> {
    let line = without_visibility(line.trim_start());
    let (keyword, rest) = line.split_once(' ')?;
    if !["enum", "mod", "struct", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    rest.split(|at: char| !at.is_alphanumeric() && at != '_').next()
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(") ").map_or(line, |(_, rest)| rest),
        None => rest.strip_prefix(' ').unwrap_or(line),
    }
}

/// Checks that every Rust file is reached from a root that Cargo builds. The fuzz crate, which is not of
/// the workspace, is left out.
fn check_reach(root: &Path, files: &[PathBuf], offences: &mut Vec<String>) -> Result<()> {
    let metadata = metadata::read(root, Depth::Ours)?;
    let mut reached = BTreeSet::new();
    for target in metadata.packages.iter().flat_map(|package| &package.targets) {
        reach(&target.src_path, true, &mut reached, &str::to_owned);
    }
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(file);
        let is_rust = name.extension().is_some_and(|extension| extension == "rs");
        if is_rust && !name.starts_with("fuzz") && !reached.contains(file) {
            offences.push(format!("{} is part of no module: delete or include it", name.display()));
        }
    }
    Ok(())
}

/// Adds `file` and all modules below it that are declared in what `part` returns of a file's text.
pub(crate) fn reach(
    file: &Path,
    is_root: bool,
    reached: &mut BTreeSet<PathBuf>,
    part: &dyn Fn(&str) -> String,
) {
    let Ok(text) = fs::read_to_string(file) else { return };
    if !reached.insert(file.to_owned()) {
        return;
    }
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let stem = file.file_stem().unwrap_or_default();
    let below = if is_root || stem == "mod" { folder.to_owned() } else { folder.join(stem) };
    for module in module_files(&part(&text)) {
        match module {
            ModuleFile::Named(name) => {
                reach(&below.join(format!("{name}.rs")), false, reached, part);
                reach(&below.join(name).join("mod.rs"), false, reached, part);
            }
            ModuleFile::At(path) => reach(&folder.join(path), true, reached, part),
        }
    }
}

/// The file of a `mod x;`.
#[derive(Debug, PartialEq, Eq)]
enum ModuleFile<'a> {
    /// In `x.rs` or `x/mod.rs`.
    Named(&'a str),
    /// The path in a `#[path]` above it.
    At(&'a str),
}

fn module_files(text: &str) -> Vec<ModuleFile<'_>> {
    let mut modules = Vec::new();
    let mut path = None;
    for line in text.lines().map(str::trim) {
        let module = without_visibility(line).strip_prefix("mod ");
        if let Some(name) = module.and_then(|module| module.strip_suffix(';')) {
            modules.push(path.take().map_or(ModuleFile::Named(name), ModuleFile::At));
        } else if let Some(quoted) = line.strip_prefix("#[path = \"") {
            path = quoted.strip_suffix("\"]");
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(name: &str, text: &str) -> Vec<String> {
        let mut offences = Vec::new();
        check_file(Path::new(name), text, &mut offences);
        offences
    }

    #[test]
    fn structs_of_many_fields_are_found() {
        let of = |fields: usize| {
            let fields: String =
                (0..fields).map(|n| format!("        /// A.\n        pub f{n}: u32,\n")).collect();
            let text = format!(
                "//! A.\n    pub struct A {{\n{fields}    }}\n    struct B {{\n        b: u32,\n    }}\n"
            );
            offences("a.rs", &text).len()
        };
        assert_eq!((of(FIELDS_MAX), of(FIELDS_MAX + 1)), (0, 1));
    }

    #[test]
    fn files_of_many_lines_are_found() {
        let of = |lines: usize| offences("a.rs", &"//! A.\n".repeat(lines)).len();
        assert_eq!((of(LINES_MAX), of(LINES_MAX + 1)), (0, 1));
    }

    #[test]
    fn each_slip_is_found_once() {
        for (name, text, what) in [
            ("a.rs", "use x;\n", "does not begin with"),
            ("x/util/a.rs", "//! A.\n", "attracts everything: util"),
            ("x/helpers.rs", "//! A.\n", "attracts everything: helpers"),
            ("a.rs", "//! A.\npub(crate) struct Info {\n", "line 2: a name that attracts"),
            ("a.rs", "//! A.\nmod core;\n", "line 2: a name that attracts"),
            ("a.rs", concat!("//! A.\n// FIX", "ME later\n"), "line 2: left over"),
            ("a.rs", concat!("//! A.\n    to", "do!()\n"), "line 2: left over"),
            ("a.rs", "//! A.\n// see wheel.rs:12\n", "line 2: a reference"),
            ("a.md", "see `wheel.rs:12`\n", "line 1: a reference"),
            ("a.rs", "//! A.\nlet file = File::create_new(path);\n", "line 2: File::create opens"),
            (
                "crates/a/src/a.rs",
                "//! A.\n#[cfg(test)]\nconst A: u32 = 1;\nstd::fs::write(a, b)\n",
                "line 4: fs::write( opens",
            ),
            ("a.toml", concat!("x = \"/ho", "me/me/x\"\n"), "line 1: a path of one machine"),
        ] {
            let found = offences(name, text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(what), "{found:?}");
        }
    }

    #[test]
    fn clean_text_passes() {
        for (name, text) in [
            ("a.rs", "//! A.\nstruct DataPlane;\nlet info = 1;\nuse std::core;\n"),
            ("a.rs", "//! A.\nlet seen = \"wheel.rs:12\"; // a string, not an address\n"),
            ("a.rs", "//! A.\nLineFile::create(a);\n#[cfg(test)]\nmod tests { fs::write(a, b) }\n"),
            ("crates/plimsoll-sys/src/a.rs", "//! A.\nOpenOptions::new()\n"),
            ("crates/a/tests/a.rs", "//! A.\nfs::write(a, b)\n"),
            ("a.md", "wheel.rs: the timers. Common data, info and core.\n"),
        ] {
            assert_eq!(offences(name, text), [""; 0]);
        }
    }

    #[test]
    fn modules_are_followed() {
        let text =
            "pub mod a;\n#[cfg(test)]\nmod b;\nmod c {}\n#[path = \"x/d.rs\"]\npub(crate) mod d;\n";
        let expected = [ModuleFile::Named("a"), ModuleFile::Named("b"), ModuleFile::At("x/d.rs")];
        assert_eq!(module_files(text), expected);
    }

    #[test]
    fn every_module_of_xtask_is_reached() {
        let mut reached = BTreeSet::new();
        let root = crate::root().join("xtask/src");
        reach(&root.join("main.rs"), true, &mut reached, &str::to_owned);
        assert!(reached.contains(&root.join("tidy.rs")), "{reached:?}");
        assert!(!reached.contains(&root.join("none.rs")));
    }
}
