//! Errors of reports and archives; each text names the place and the fix.
//!
//! [`ReportError`] covers writing, reading and merging of archives, and the output of reports. Unreadable content of
//! an archive has three variants: `ArchiveSchema` for another schema, `Newer` for a name that another version wrote,
//! and `Damaged` for anything else; the last two name file and line. [`ReportError::is_unread`] reports whether an
//! archive cannot be read as it is. Start reading at the variants of [`ReportError`].

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A result that fails as reports do.
pub(crate) type Result<T, E = ReportError> = std::result::Result<T, E>;

/// An error of reports and archives.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The archive's directory already holds something.
    #[error(
        "{} exists and is not empty: an archive never overwrites; \
         name another directory with --out, or remove it",
        dir.display()
    )]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The archive could not be begun.
    #[error(
        "cannot make the archive {}: {source}; name a place that can be written with --out",
        dir.display()
    )]
    Create {
        /// Directory of the archive.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of an archive could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the written file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the read file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory is not an archive.
    #[error(
        "{} is not a run archive: it has no manifest.json; \
         give the directory that a run named in its last line",
        dir.display()
    )]
    NotAnArchive {
        /// The directory.
        dir: PathBuf,
    },
    /// A file where the directory of a run was expected.
    #[error(
        "{} is a file, and a run archive is a directory; \
         give the directory that a run named in its last line",
        path.display()
    )]
    IsFile {
        /// The file.
        path: PathBuf,
    },
    /// An archive in another form than this program reads.
    #[error(
        "{} is an archive of schema {found:?}, written by plimsoll {by}; this one reads {:?}: \
         use the plimsoll that wrote it",
        dir.display(),
        crate::archive::SCHEMA
    )]
    ArchiveSchema {
        /// The archive's directory.
        dir: PathBuf,
        /// The schema that it names.
        found: String,
        /// The version that wrote it.
        by: String,
    },
    /// Single operations were not recorded.
    #[error(
        "{} holds no single operations; record some with `plimsoll load --rows FILE --out DIR`",
        dir.display()
    )]
    NoRows {
        /// The archive's directory.
        dir: PathBuf,
    },
    /// Runs that are not of one load.
    #[error("cannot merge: {why}")]
    NotMergeable {
        /// The first difference, or what is missing.
        why: String,
    },
    /// The summary of a run is not what its seconds add up to.
    #[error("{} disagrees with itself: {line}", dir.display())]
    Disagrees {
        /// The archive's directory.
        dir: PathBuf,
        /// The first figure of several.
        line: String,
    },
    /// A file's content is not what was written there.
    #[error("{}:{line}: damaged: {why}; {fix}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The mismatch.
        why: String,
        /// The remedy.
        fix: &'static str,
    },
    /// A name in an archive that this program does not know.
    #[error(
        "{}:{line}: {what}: another version of plimsoll wrote it, which manifest.json names; use that one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The name, and that it is unknown.
        what: String,
    },
    /// A JSON object is not of the expected schema.
    #[error("schema is {found:?}, but this plimsoll reads {expected:?}; use the one that wrote it")]
    Schema {
        /// Format found.
        found: String,
        /// Format expected.
        expected: &'static str,
    },
    /// Not a summary.
    #[error("not a summary: {0}")]
    Json(#[from] serde_json::Error),
    /// The writer for a report failed.
    #[error("the report cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl ReportError {
    /// Reports whether an archive cannot be read as it is.
    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Damaged { .. } | Self::Newer { .. })
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
