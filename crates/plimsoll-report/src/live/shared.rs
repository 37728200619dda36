//! The head of a run, and state that several tasks share.

use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll_model::Nanos;
use plimsoll_sys::thread;

use crate::archive::Manifest;

/// The facts of a run when it begins.
#[derive(Clone, Debug)]
pub struct RunHead {
    /// Name of the run.
    pub run: String,
    /// Without secrets, as in an archive.
    pub manifest: Manifest,
    /// The deadline of one operation, which becomes an edge of the histograms.
    pub deadline: Option<Nanos>,
}

/// Shared by the tasks of one thread, which never hold it while they wait.
#[derive(Debug)]
pub(super) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        thread::lock(&self.0)
    }
}
