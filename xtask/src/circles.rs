//! Circles of imports between the files of a crate: files that can only be read together.
//!
//! The files of a crate are read once, without tests. A `use` is followed through re-exports to the file that declares
//! what it names; a `pub use` is no import of its own. Paths inside expressions do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::lines::of_program;
use crate::tidy;

/// Files that may import one another.
const CIRCLE_MAX: usize = 3;

/// The text of each file by the path of its module: `[]` for the root, `["a", "b"]` for `a/b.rs`.
type Modules = BTreeMap<Vec<String>, String>;

/// The imports of all files of a crate.
struct Imports<'a> {
    files: &'a Modules,
    /// Every name that a `use` brings into a module, with its path from the root of the crate.
    names: BTreeMap<(&'a [String], String), Vec<String>>,
    /// The paths of all `use` that are not re-exports, by importing module.
    paths: Vec<(&'a [String], Vec<String>)>,
}

/// The modules that each module imports.
type Edges<'a> = BTreeMap<&'a [String], BTreeSet<&'a [String]>>;

/// Adds an offence for each circle of more than three files in the crate with this root file.
pub(crate) fn check(name: &str, root: &Path, offences: &mut Vec<String>) -> Result<()> {
    let mut files = BTreeSet::new();
    tidy::reach(root, true, &mut files, &of_program);
    let folder = root.parent().unwrap_or(root);
    let mut modules = Modules::new();
    for file in &files {
        let stem = file.strip_prefix(folder).unwrap_or(file).with_extension("");
        let mut path: Vec<_> =
            stem.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if file == root || stem.ends_with("mod") {
            path.pop();
        }
        modules.insert(path, of_program(&fs::read_to_string(file)?));
    }
    for circle in circles(&modules) {
        let (files, names) = (circle.len(), circle.join(", "));
        offences.push(format!(
            "{name}: {files} files import one another, of at most {CIRCLE_MAX}: {names}"
        ));
    }
    Ok(())
}

/// Returns the modules of each circle of more than three files.
fn circles(files: &Modules) -> Vec<Vec<String>> {
    let imports = Imports::of(files);
    let mut edges = Edges::new();
    for (module, path) in &imports.paths {
        edges.entry(*module).or_default().insert(imports.file_of(path));
    }
    let reached: Edges<'_> = edges.keys().map(|file| (*file, reach(&edges, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, reaches) in &reached {
        let imports_back =
            |it: &&&[String]| reached.get(*it).is_some_and(|back| back.contains(file));
        circles.insert(reaches.iter().filter(imports_back).collect::<Vec<_>>());
    }
    let large = circles.iter().filter(|circle| circle.len() > CIRCLE_MAX);
    large.map(|circle| circle.iter().map(|module| module.join("::")).collect()).collect()
}

/// Returns the modules that `from` imports, and those that they import, and so on.
fn reach<'a>(edges: &Edges<'a>, from: &[String]) -> BTreeSet<&'a [String]> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for import in edges.get(module).into_iter().flatten() {
            if found.insert(*import) {
                open.push(import);
            }
        }
    }
    found
}

impl<'a> Imports<'a> {
    fn of(files: &'a Modules) -> Self {
        let mut found = Self { files, names: BTreeMap::new(), paths: Vec::new() };
        for (module, text) in files {
            for (is_public, tree) in uses(text) {
                for leaf in leaves(tree) {
                    let (path, alias) = leaf.split_once(" as ").unwrap_or((&leaf, ""));
                    let path = path.strip_suffix("::self").unwrap_or(path);
                    let Some(path) = found.absolute(module, path) else { continue };
                    let name = if alias.is_empty() {
                        path.last().cloned()
                    } else {
                        Some(alias.to_owned())
                    };
                    found.names.extend(name.map(|name| ((module.as_slice(), name), path.clone())));
                    if !is_public {
                        found.paths.push((module, path));
                    }
                }
            }
        }
        found
    }

    /// Returns the path from the root of the crate; `None` if it leads to another crate.
    fn absolute(&self, module: &[String], path: &str) -> Option<Vec<String>> {
        let mut parts = path.split("::").peekable();
        let mut base = module.to_vec();
        match *parts.peek()? {
            "crate" => base.clear(),
            "self" | "super" => {}
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.files.contains_key(&child).then_some(())?;
            }
        }
        for part in parts {
            match part {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    /// Returns the module whose file declares what `path` names.
    fn file_of(&self, path: &[String]) -> &'a [String] {
        let (mut path, mut seen) = (path.to_vec(), BTreeSet::new());
        loop {
            let mut lengths = (0..=path.len()).rev();
            let of_file = lengths.find_map(|length| self.files.get_key_value(&path[..length]));
            let Some((module, _)) = of_file else { return &[] };
            let rest = &path[module.len()..];
            let exported =
                rest.first().and_then(|name| self.names.get(&(module.as_slice(), name.clone())));
            match exported.filter(|_| seen.insert(path.clone())) {
                Some(exported) => path = [exported, &rest[1..]].concat(),
                None => return module,
            }
        }
    }
}

/// Returns the trees of every `use` in the text, and `true` for re-exports.
fn uses(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let starts = text.match_indices("use ").filter_map(|(at, word)| {
        let before = text[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        let is_public = before.starts_with("pub")
            && before.ends_with(' ')
            && !before[..before.len() - 1].contains(' ');
        (before.is_empty() || is_public).then_some((is_public, at + word.len()))
    });
    starts.filter_map(|(is_public, at)| Some((is_public, text[at..].split_once(';')?.0)))
}

/// Returns the paths of a tree of `use`: `a::{b, c::{d}}` has `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((head, group)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let mut depth = 0;
    let parts = group.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(leaves).map(|leaf| format!("{}{leaf}", head.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let path =
            |name: &str| name.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let files = files.iter().map(|(name, text)| (path(name), (*text).to_owned()));
        circles(&files.collect()).iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn three_files_may_import_one_another_and_four_may_not() {
        let three =
            [("a", "use crate::b::B;\n"), ("b", "use super::c::C;\n"), ("c", "use crate::a::A;\n")];
        assert_eq!(found(&three), [""; 0]);
        let four = [
            ("a", "use crate::{b::B, other::Other};\nuse std::fmt;\n"),
            ("b", "use super::c::{self, C};\n"),
            ("c", "fn c() {\n    use crate::d::{\n        D,\n        E as F,\n    };\n}\n"),
            ("d", "use crate::a::A;\n"),
            ("other", ""),
        ];
        assert_eq!(found(&four), ["a b c d"]);
        // A path in an expression is none.
        let [a, b, c, _, other] = four;
        assert_eq!(found(&[a, b, c, ("d", "const D: u8 = crate::a::A;\n"), other]), [""; 0]);
    }

    #[test]
    fn re_exports_lead_to_the_file_that_declares() {
        let re_exported = [
            ("", "mod a;\n"),
            ("a", "mod b;\nmod c;\npub(crate) use b::B;\npub use self::c::C as Sea;\n"),
            ("a::b", "use crate::a::Sea;\n"),
            ("a::c", "use crate::d::D;\n"),
            ("d", "use crate::e::E;\n"),
            ("e", "use crate::a::B;\n"),
        ];
        assert_eq!(found(&re_exported), ["a::b a::c d e"]);
        // Declared in the module itself.
        let mut own = re_exported;
        own[5].1 = "use crate::a::Own;\n";
        assert_eq!(found(&own), [""; 0]);
    }
}
