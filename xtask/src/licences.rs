//! Every dependency's licence must be one that a binary under MIT or Apache-2.0 may carry.

use anyhow::Result;

use crate::metadata;
use crate::metadata::Depth;

/// SPDX names that need no more from us than to be named.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
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

/// Exceptions, which only ever give more rights than the licence they go with.
const ALLOWED_EXCEPTIONS: &[&str] = &["LLVM-exception"];

/// Checks all dependencies, whatever the platform they are for.
pub(crate) fn run() -> Result<()> {
    let metadata = metadata::read(&crate::root(), Depth::All)?;
    let mut offences = Vec::new();
    for package in metadata.packages.iter().filter(|package| !package.is_ours) {
        let licence = package.licence.as_deref().unwrap_or("no licence expression");
        if !is_allowed(licence) {
            offences.push(format!("{} {}: {licence}", package.name, package.version));
        }
    }
    crate::verdict("licences that xtask/src/licences.rs does not allow", &offences)
}

/// Whether some choice that the expression leaves is made of allowed licences only. What cannot be
/// understood is not allowed.
fn is_allowed(expression: &str) -> bool {
    // "MIT/Apache-2.0" is the old way to write OR.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_ascii_whitespace().collect(), next: 0 };
    words.any_of() == Some(true) && words.next == words.words.len()
}

/// A recursive-descent reader of SPDX expressions: OR binds weakest, WITH strongest.
struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next).copied();
        self.next += usize::from(word.is_some());
        word
    }

    fn take_if(&mut self, expected: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&expected);
        self.next += usize::from(is_next);
        is_next
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut allowed = self.all_of()?;
        while self.take_if("OR") {
            allowed |= self.all_of()?;
        }
        Some(allowed)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take_if("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take_if("(") {
            let allowed = self.any_of()?;
            return self.take_if(")").then_some(allowed);
        }
        let mut allowed = ALLOWED.contains(&self.take()?);
        if self.take_if("WITH") {
            allowed &= ALLOWED_EXCEPTIONS.contains(&self.take()?);
        }
        Some(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT OR GPL-3.0-only", true),         // our choice
            ("MIT AND GPL-3.0-only", false),       // both bind
            ("GPL-3.0-only OR MIT AND ISC", true), // AND binds stronger
            ("(GPL-3.0-only OR MIT) AND ISC", true),
            ("(MIT OR ISC) AND GPL-3.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("Apache-2.0 WITH Some-exception", false),
            ("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", true),
            ("AGPL-3.0-only", false),
            ("no licence expression", false),
            ("", false),
            ("MIT OR", false), // broken
            ("(MIT", false),
            ("MIT)", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }
}
