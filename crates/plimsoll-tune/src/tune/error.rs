//! Why a host could not be changed, or changed back.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_sys::trusted_file::TrustError;
use thiserror::Error;

/// An error of a plan or a journal as a whole; a single setting that cannot be written is
/// its own result.
#[derive(Debug, Error)]
pub enum TuneError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another apply or revert is going on.
    #[error("another plimsoll tune is using {}: wait until it has ended", dir.display())]
    Busy {
        /// The directory of journals.
        dir: PathBuf,
    },
    /// There is no journal to revert.
    #[error("{} has no changes that are not reverted yet", dir.display())]
    Nothing {
        /// The directory of journals.
        dir: PathBuf,
    },
    /// A line of the journal is not what was written there.
    #[error(
        "{}:{line}: damaged; nothing was changed. Its lines hold the old value of each setting as \
         \"old\": restore by hand what you still want",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// Another user can have written the journal.
    #[error(
        "{0}; nothing was changed: a journal that others can write restores whatever they put into it"
    )]
    Forgeable(TrustError),
    /// The journal holds a change that `apply` does not make.
    #[error(
        "{}: {} is no setting of the kernel and no file that plimsoll tune writes; nothing was changed",
        path.display(),
        changed.display()
    )]
    NotOurs {
        /// The journal.
        path: PathBuf,
        /// The file that it names.
        changed: PathBuf,
    },
    /// The journal was written on another host.
    #[error(
        "{} is a journal of the host {theirs:?}, and this is {ours:?} with another machine ID; nothing was \
         changed. Revert it there, or add --force",
        path.display()
    )]
    OtherHost {
        /// The journal.
        path: PathBuf,
        /// The host that wrote it.
        theirs: String,
        /// This host.
        ours: String,
    },
}

impl TuneError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<TrustError> for TuneError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Io { path, source } => Self::Io { path, source },
            other => Self::Forgeable(other),
        }
    }
}
