//! Keys of a run as files: those of the coordinator, and of each agent by its index.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

use plimsoll_model::plan::Identity;
use plimsoll_tls::RunKeys;
use thiserror::Error;

/// The file with the run's authority.
const ROOTS: &str = "ca.pem";
/// A file of keys is some hundred bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Why a file of keys cannot be read.
#[derive(Debug, Error)]
#[error("{file}: {source}")]
pub struct ReadKeysError {
    /// Its path.
    pub file: String,
    /// The system's reason.
    pub source: io::Error,
}

/// The files that the coordinator needs, by their names.
pub(crate) fn coordinator_files(keys: &RunKeys) -> Vec<(String, &str)> {
    files(&keys.roots_pem, [("coordinator".to_owned(), &keys.coordinator)])
}

/// The files that the agents need, by their names.
pub(crate) fn agent_files(keys: &RunKeys) -> Vec<(String, &str)> {
    let named = keys.agents.iter().enumerate();
    files(&keys.roots_pem, named.map(|(index, identity)| (format!("agent-{index}"), identity)))
}

/// The files that agent `index` needs; none if there is no such agent.
pub(crate) fn files_of_agent(keys: &RunKeys, index: u32) -> Vec<(String, &str)> {
    let identity = usize::try_from(index).ok().and_then(|index| keys.agents.get(index));
    let named = identity.map(|identity| (format!("agent-{index}"), identity));
    named.map_or_else(Vec::new, |named| files(&keys.roots_pem, [named]))
}

fn files<'a>(
    roots_pem: &'a str,
    identities: impl IntoIterator<Item = (String, &'a Identity)>,
) -> Vec<(String, &'a str)> {
    let pairs = identities.into_iter().flat_map(|(name, identity)| {
        [
            (format!("{name}.pem"), identity.chain_pem.as_str()),
            (format!("{name}.key"), identity.key_pem.as_str()),
        ]
    });
    [(ROOTS.to_owned(), roots_pem)].into_iter().chain(pairs).collect()
}

/// Makes keys for a run with so many agents, valid in these seconds since 1970, and writes them into a new
/// directory that only this user can read.
pub fn write_keys(dir: &Path, agents: u32, valid_unix_s: Range<u64>) -> io::Result<()> {
    let keys = RunKeys::new(agents, valid_unix_s).map_err(io::Error::other)?;
    DirBuilder::new().mode(0o700).create(dir)?;
    for (name, text) in coordinator_files(&keys).into_iter().chain(agent_files(&keys)) {
        // The authority is in both.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(dir.join(name))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// What the coordinator presents, and the run's authority.
pub fn read_coordinator(dir: &Path) -> Result<(Identity, String), ReadKeysError> {
    read_identity(dir, "coordinator")
}

/// What agent `index` presents, and the run's authority.
pub fn read_agent(dir: &Path, index: u32) -> Result<(Identity, String), ReadKeysError> {
    read_identity(dir, &format!("agent-{index}"))
}

fn read_identity(dir: &Path, name: &str) -> Result<(Identity, String), ReadKeysError> {
    let identity = Identity {
        chain_pem: read(&dir.join(format!("{name}.pem")))?,
        key_pem: read(&dir.join(format!("{name}.key")))?,
    };
    Ok((identity, read(&dir.join(ROOTS))?))
}

fn read(path: &Path) -> Result<String, ReadKeysError> {
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|source| ReadKeysError { file: path.display().to_string(), source })?;
    Ok(text)
}
