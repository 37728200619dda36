//! Every dependency's licence must be one that a binary under MIT or Apache-2.0 may carry.

use anyhow::Result;
use spdx::{Expression, ParseMode};

use crate::metadata;
use crate::metadata::Depth;

/// Licences that need no more from us than to be named. An exception only ever gives more rights.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "OpenSSL",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// The list of vendored programs, which no package manager knows.
pub(crate) const VENDORED: &str = "crates/plimsoll-report/assets/vendor/VENDOR.toml";

/// Returns the values of one key in such a list, in order.
pub(crate) fn values<'a>(list: &'a str, key: &'static str) -> impl Iterator<Item = &'a str> {
    let lines = list.lines().filter_map(|line| line.split_once(" = "));
    lines.filter(move |(name, _)| *name == key).map(|(_, value)| value.trim_matches('"'))
}

/// Checks all dependencies, whatever the platform they are for.
pub(crate) fn run() -> Result<()> {
    let metadata = metadata::read(&crate::root(), Depth::All)?;
    let mut offences = Vec::new();
    for package in metadata.packages.iter().filter(|package| !package.is_ours()) {
        let licence = package.license.as_deref().unwrap_or("no licence expression");
        if !is_allowed(licence) {
            offences.push(format!("{} {}: {licence}", package.name, package.version));
        }
    }
    let vendored = std::fs::read_to_string(crate::root().join(VENDORED))?;
    for (name, licence) in values(&vendored, "name").zip(values(&vendored, "licence")) {
        if !is_allowed(licence) {
            offences.push(format!("{name}, vendored: {licence}"));
        }
    }
    crate::verdict("licences that xtask/src/licences.rs does not allow", &offences)
}

/// Reports whether some choice that the expression leaves is made of allowed licences only. What cannot be
/// understood is not allowed.
fn is_allowed(expression: &str) -> bool {
    // "MIT/Apache-2.0" is the old way to write OR.
    let parsed = Expression::parse_mode(expression, ParseMode::LAX);
    parsed.is_ok_and(|parsed| {
        parsed.evaluate(|licence| ALLOWED.contains(&licence.to_string().as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_vendored_programs_are_read() {
        let list = "[[vendored]]\nname = \"a\"\nlicence = \"ISC\"\nlicence_file = \"a/LICENSE\"\n";
        assert!(values(list, "name").eq(["a"]) && values(list, "licence").eq(["ISC"]));
    }

    #[test]
    fn expressions_are_evaluated() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT OR GPL-3.0-only", true),   // our choice
            ("MIT AND GPL-3.0-only", false), // both bind
            ("(MIT OR ISC) AND GPL-3.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-3.0-only WITH Classpath-exception-2.0", false),
            ("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", true),
            ("no licence expression", false),
            ("", false),
            ("MIT OR", false), // broken
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }
}
