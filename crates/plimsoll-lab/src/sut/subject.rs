//! The program under test.

use std::path::{Path, PathBuf};

use plimsoll_model::SutKind;

use super::{Description, describe};
use crate::error::{LabError, Result};
use crate::program;

/// The server under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sut {
    /// Kind of the server.
    pub kind: SutKind,
    /// The program's file; unused for plimsoll's own server.
    pub program: PathBuf,
}

impl Sut {
    /// Returns plimsoll's own server, which answers requests itself.
    pub fn embedded() -> Self {
        Self { kind: SutKind::Embedded, program: PathBuf::new() }
    }

    /// Creates a SUT whose program another host looks up.
    pub fn elsewhere(kind: SutKind) -> Self {
        Self { kind, program: kind.name().into() }
    }

    /// Finds the named program of this kind, or the installed one.
    pub fn find(kind: SutKind, named: Option<&Path>) -> Result<Self> {
        let Some(proxy) = describe(kind).proxy else { return Ok(Self::embedded()) };
        let missing = LabError::NotInstalled { program: kind.name(), package: proxy.package() };
        let program = program::find(kind.name(), named).ok_or(missing)?;
        Ok(Self { kind, program })
    }

    /// Returns HAProxy if it is installed, else plimsoll's own server.
    pub fn installed() -> Self {
        Self::find(SutKind::Haproxy, None).unwrap_or_else(|_| Self::embedded())
    }

    /// Returns the description of its kind.
    pub fn description(&self) -> &'static Description {
        describe(self.kind)
    }
}
