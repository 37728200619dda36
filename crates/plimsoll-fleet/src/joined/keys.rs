//! Keys of a run as files: a folder for the coordinator, and one for each agent by its index. No end needs
//! the folder of another, and the owner of the coordinator's key leads all agents.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;
use std::{fs, io};

use plimsoll_model::plan::Identity;
use plimsoll_sys::trusted_file::TrustError;
use plimsoll_sys::{output_file, private_dir, trusted_file};
use plimsoll_tls::RunKeys;
use thiserror::Error;

/// The file with the run's authority.
const ROOTS: &str = "ca.pem";
/// The name of the coordinator's folder, and of its files.
const COORDINATOR: &str = "coordinator";
/// A file of keys is some hundred bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Why a file of keys cannot be read.
#[derive(Debug, Error)]
pub enum ReadKeysError {
    /// A file is missing, or other users could have written it, or read a key.
    #[error(transparent)]
    File(#[from] TrustError),
    /// The content of a file does not belong to this end.
    #[error("{file}: {source}")]
    Content {
        /// Path of the file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Returns the name of an agent's folder, and of its files.
fn agent_name(index: u32) -> String {
    format!("agent-{index}")
}

/// Returns the files that the coordinator needs, by their names.
pub(crate) fn coordinator_files(keys: &RunKeys) -> Vec<(String, &str)> {
    files(&keys.roots_pem, COORDINATOR, &keys.coordinator)
}

/// Returns the files that agent `index` needs; none if there is no such agent.
pub(crate) fn files_of_agent(keys: &RunKeys, index: u32) -> Vec<(String, &str)> {
    let Some(identity) = keys.agents.get(index as usize) else { return Vec::new() };
    files(&keys.roots_pem, &agent_name(index), identity)
}

fn files<'a>(roots_pem: &'a str, name: &str, identity: &'a Identity) -> Vec<(String, &'a str)> {
    vec![
        (ROOTS.to_owned(), roots_pem),
        (format!("{name}.pem"), &identity.chain_pem),
        (format!("{name}.key"), &identity.key_pem),
    ]
}

/// Creates keys for a run of `agents` agents, valid in these seconds since 1970, and writes them into a new
/// directory that only this user can read: `coordinator`, `agent-0` and so on, a folder for each end.
pub fn write_keys(dir: &Path, agents: u32, valid_unix_s: Range<u64>) -> io::Result<()> {
    let keys = RunKeys::new(agents, valid_unix_s).map_err(io::Error::other)?;
    private_dir::create(dir)?;
    write_folder(&dir.join(COORDINATOR), coordinator_files(&keys))?;
    (0..agents).try_for_each(|index| {
        write_folder(&dir.join(agent_name(index)), files_of_agent(&keys, index))
    })
}

fn write_folder(dir: &Path, files: Vec<(String, &str)>) -> io::Result<()> {
    private_dir::create(dir)?;
    files.iter().try_for_each(|(name, text)| {
        output_file::create_new(&dir.join(name))?.write_all(text.as_bytes())
    })
}

/// Reads the coordinator's identity, and the run's authority.
pub fn read_coordinator(dir: &Path) -> Result<(Identity, String), ReadKeysError> {
    read_identity(dir, COORDINATOR)
}

/// Reads the identity of agent `index`, and the run's authority. A folder with the coordinator's key is refused:
/// a user who got it from the agent's host could lead all other agents.
pub fn read_agent(dir: &Path, index: u32) -> Result<(Identity, String), ReadKeysError> {
    let name = agent_name(index);
    let foreign = dir.join(format!("{COORDINATOR}.key"));
    if fs::symlink_metadata(&foreign).is_ok() {
        let why = format!(
            "an agent's host must not have the coordinator's key; copy the folder {name} there and nothing else"
        );
        let file = foreign.display().to_string();
        return Err(ReadKeysError::Content { file, source: io::Error::other(why) });
    }
    read_identity(dir, &name)
}

fn read_identity(dir: &Path, name: &str) -> Result<(Identity, String), ReadKeysError> {
    let path = |ending: &str| dir.join(format!("{name}.{ending}"));
    let identity = Identity {
        chain_pem: read(&path("pem"), trusted_file::open_linked)?,
        key_pem: read(&path("key"), trusted_file::open_secret)?,
    };
    Ok((identity, read(&dir.join(ROOTS), trusted_file::open_linked)?))
}

/// Reads a file with `open`, which refuses a file that other users can write: they could lead the agents, or pass for
/// one.
fn read(
    path: &Path,
    open: impl FnOnce(&Path) -> Result<File, TrustError>,
) -> Result<String, ReadKeysError> {
    let mut text = String::new();
    open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|source| ReadKeysError::Content { file: path.display().to_string(), source })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn each_end_has_a_folder_with_its_own_keys_alone() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("keys");
        write_keys(&dir, 2, 0..4_000_000_000).unwrap();
        for end in ["coordinator", "agent-0", "agent-1"] {
            let names = fs::read_dir(dir.join(end)).unwrap();
            let name =
                |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
            let mut names: Vec<_> = names.map(name).collect();
            names.sort();
            let mut expected = ["ca.pem".to_owned(), format!("{end}.key"), format!("{end}.pem")];
            expected.sort();
            assert_eq!(names, expected);
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
        assert!(read_coordinator(&dir.join("coordinator")).is_ok());
        assert!(read_agent(&dir.join("agent-1"), 1).is_ok());
        assert!(read_agent(&dir.join("agent-1"), 0).is_err());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("keys");
        write_keys(&dir, 1, 0..4_000_000_000).unwrap();
        let own = dir.join("agent-0");
        let key = own.join("agent-0.key");
        // A group may read what is root's.
        let of_root = fs::metadata(&key).unwrap().uid() == 0;
        for (mode, is_read) in
            [(0o600, true), (0o400, true), (0o440, of_root), (0o644, false), (0o620, false)]
        {
            fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
            let read = read_agent(&own, 0).map_err(|error| error.to_string());
            assert_eq!(read.is_ok(), is_read, "{mode:o}");
            let is_told =
                |error: String| error.contains("agent-0.key") && error.contains("others can");
            assert!(read.err().is_none_or(is_told));
        }
        // The certificate is no secret.
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(own.join("agent-0.pem"), Permissions::from_mode(0o644)).unwrap();
        assert!(read_agent(&own, 0).is_ok());
        // A user who could change the authority would lead the agent.
        fs::set_permissions(own.join("ca.pem"), Permissions::from_mode(0o666)).unwrap();
        let error = read_agent(&own, 0).unwrap_err().to_string();
        assert!(error.contains("ca.pem has mode 0666"), "{error}");
    }

    #[test]
    fn an_agent_refuses_a_folder_with_the_coordinators_key() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("keys");
        write_keys(&dir, 1, 0..4_000_000_000).unwrap();
        let own = dir.join("agent-0");
        fs::copy(dir.join("coordinator/coordinator.key"), own.join("coordinator.key")).unwrap();
        let error = read_agent(&own, 0).unwrap_err().to_string();
        assert!(error.contains("must not have the coordinator's key"), "{error}");
        assert!(error.contains("the folder agent-0"), "{error}");
    }
}
