//! Counts the lines of the program: without tests, comments and empty lines.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::metadata::Depth;
use crate::{metadata, tidy};

/// Prints the lines of every package that is shipped, and their sum.
pub(crate) fn run() -> Result<()> {
    let root = crate::root();
    let mut sum = 0;
    for package in metadata::read(&root, Depth::Ours)?.packages {
        let mut files = BTreeSet::new();
        for target in package.targets {
            let is_shipped = target.src_path.strip_prefix(root.join("crates")).is_ok_and(|path| {
                path.components().nth(1).is_some_and(|part| part.as_os_str() == "src")
            });
            if is_shipped {
                tidy::reach(&target.src_path, true, &mut files, &of_program);
            }
        }
        let lines: usize = files.iter().map(|file| count(file)).sum();
        if lines > 0 {
            println!("{:20} {lines:6}", package.name);
        }
        sum += lines;
    }
    println!("{:20} {sum:6}", "all");
    Ok(())
}

fn count(file: &Path) -> usize {
    let text = fs::read_to_string(file).map(|text| of_program(&text)).unwrap_or_default();
    text.lines().count()
}

/// Returns the text without items that only tests have, comments and empty lines. The text must be formatted: an item
/// ends where its first line is indented.
pub(crate) fn of_program(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut kept = String::new();
    let mut lines = text.lines().filter(|line| {
        let code = line.trim_start();
        !code.is_empty() && !code.starts_with("//")
    });
    while let Some(line) = lines.next() {
        if line.trim_start() != "#[cfg(test)]" {
            kept.extend([line, "\n"]);
            continue;
        }
        let Some(item) = lines.find(|line| !line.trim_start().starts_with("#[")) else { break };
        // A module of tests ends its file, and contains text that looks like code.
        if item.starts_with("mod ") && item.ends_with('{') {
            break;
        }
        let ends = |line: &&str| {
            line.ends_with([';', ',', '}']) && (indent(line) == indent(item) || item.ends_with('='))
        };
        if !ends(&item) {
            lines.find(ends);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_comments_and_empty_lines_are_no_lines_of_the_program() {
        let text = "//! A file.\n\nuse a::b;\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\n\nfn one() {\n    // Says why.\n    two();\n}\n\n\
                    impl A {\n    #[cfg(test)]\n    fn of(\n        a: u8,\n    ) -> Self {\n        A {}\n    }\n}\n\
                    #[cfg(test)]\nconst ALL: [u8; 1] =\n    [1];\n#[cfg(test)]\nmod more {\n    use super::*;\n\n    fn three() {}\n}\n";
        assert_eq!(of_program(text), "use a::b;\nfn one() {\n    two();\n}\nimpl A {\n}\n");
    }
}
