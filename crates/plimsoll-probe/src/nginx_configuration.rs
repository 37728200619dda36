//! The configuration of a running nginx: its file and those that it includes.

use std::fs;
use std::path::Path;

use plimsoll_sys::input_file;

use crate::{file, lines};

/// The configuration if the command line names none.
const CONFIGURATION: &str = "/etc/nginx/nginx.conf";
/// Files included from files, so deep.
const INCLUDES_MAX: u32 = 3;
/// Files that are read in all.
const FILES_MAX: usize = 64;
/// The largest file that is read: the user who starts a server chooses its files.
pub(crate) const FILE_BYTES_MAX: u64 = 4 << 20;

/// Returns the texts of the configuration that the title of the master names, without comments, the main file first:
/// `nginx: master process nginx -p /run/x -c nginx.conf`.
pub(crate) fn texts(root: &Path, title: &str) -> Vec<String> {
    let words: Vec<&str> = title.split([' ', '\0']).collect();
    let after = |flag: &str| words.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
    let prefix = Path::new(after("-p").unwrap_or("/etc/nginx"));
    let file = prefix.join(after("-c").unwrap_or(CONFIGURATION));
    let mut texts = Vec::new();
    add_file(root, &file, INCLUDES_MAX, &mut texts);
    texts
}

/// Returns the texts of the configuration of the worker `pid`, whose master has it in its title.
pub(crate) fn of_worker(root: &Path, pid: u32) -> Option<Vec<String>> {
    let status = file::text(root.join(format!("proc/{pid}/status"))).ok()?;
    let master = lines::word(&status, "PPid:")?;
    Some(texts(root, &file::command_line(root, master)))
}

/// Returns every value of `name` in these texts: the text between it and the semicolon.
pub(crate) fn values<'a>(texts: &'a [String], name: &'a str) -> impl Iterator<Item = &'a str> {
    let statements = texts.iter().flat_map(|text| text.split([';', '{', '}']));
    statements.filter_map(move |statement| {
        let rest = statement.trim().strip_prefix(name)?;
        rest.starts_with(char::is_whitespace).then(|| rest.trim())
    })
}

fn add_file(root: &Path, file: &Path, depth: u32, texts: &mut Vec<String>) {
    if texts.len() >= FILES_MAX {
        return;
    }
    let place = file::below(root, file);
    let Ok(text) = input_file::read_text(&place, FILE_BYTES_MAX) else { return };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let own = [lines.collect::<Vec<_>>().join("\n")];
    let included: Vec<String> = values(&own, "include").map(str::to_owned).collect();
    texts.extend(own);
    if depth == 0 {
        return;
    }
    let beside = file.parent().unwrap_or_else(|| Path::new("/"));
    for pattern in included {
        add_included(root, &beside.join(pattern), depth - 1, texts);
    }
}

/// `conf.d/*.conf`: the star may be in the name of the file only.
fn add_included(root: &Path, file: &Path, depth: u32, texts: &mut Vec<String>) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let Some((start, end)) = name.split_once('*') else {
        return add_file(root, file, depth, texts);
    };
    let folder = file.parent().unwrap_or_else(|| Path::new("/"));
    let listed = fs::read_dir(file::below(root, folder));
    let mut names: Vec<String> = listed
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(start) && name.ends_with(end))
        .collect();
    names.sort();
    for name in names {
        add_file(root, &folder.join(name), depth, texts);
    }
}
