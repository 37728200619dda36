//! Lists that flags name: text files of one entry a line.

use plimsoll_model::lines::{Line, lines};

use super::Inputs;
use crate::exit::{Result, Stop};
use crate::flags::values::InputFile;

/// The text of a list, which has an entry.
pub(super) struct List {
    /// The flag and its file, for errors.
    name: String,
    text: Vec<u8>,
}

impl List {
    /// Reads the list of `flag`; `entry` is the form of a line.
    pub(super) fn read(
        flag: &str,
        from: &InputFile,
        entry: &str,
        inputs: &mut Inputs,
    ) -> Result<Self> {
        let list = Self { name: format!("{flag} {from}"), text: inputs.read(flag, from)? };
        if let Err(error) = lines(&list.text) {
            return Err(Stop::Usage(format!("{}, {error}", list.name)));
        }
        if list.entries().next().is_none() {
            return Err(list.refused("has no entry", format_args!("write {entry}, one a line")));
        }
        Ok(list)
    }

    /// Returns the lines that are neither blank nor comments.
    pub(super) fn entries(&self) -> impl Iterator<Item = Line<'_>> {
        // It was read before.
        lines(&self.text).into_iter().flatten().filter(|line| !line.is_blank())
    }

    /// Returns the error of the list as a whole.
    pub(super) fn refused(
        &self,
        what: impl std::fmt::Display,
        fix: impl std::fmt::Display,
    ) -> Stop {
        Stop::usage(format_args!("{} {what}", self.name), fix)
    }

    /// Returns the error of an entry.
    pub(super) fn wrong(
        &self,
        line: usize,
        what: impl std::fmt::Display,
        fix: impl std::fmt::Display,
    ) -> Stop {
        Stop::usage(format_args!("{}, line {line}: {what}", self.name), fix)
    }
}
