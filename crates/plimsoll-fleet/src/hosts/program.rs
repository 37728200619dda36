//! This program as a file that can be copied to a host that lacks it.
//!
//! [`Program::of_this_process`] describes the running executable by identity, size, SHA-256 and path. [`identity`] is
//! the build ID that the linker wrote into the ELF notes; without one, it is the version and the size. The file is
//! opened through `/proc/self/exe`, so a replaced or deleted file does no harm, and it is hashed once per process.
//! Start reading at [`identity`].

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use plimsoll_sys::process;
use sha2::{Digest, Sha256};

/// The type of the note with the linker's hash of the whole program.
const BUILD_ID: u32 = 3;
/// Most bytes of notes that are read; a program has some hundred.
const NOTES_MAX: u64 = 64 * 1024;
/// The bytes that are hashed at a time.
const HASHED_AT_ONCE: usize = 256 * 1024;

/// Returns the hash that distinguishes this build of the program from every other one: the linker's.
pub fn identity() -> &'static str {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let build_id = build_id(&process::own_executable()).ok().flatten();
        // A linker that makes no hash: another build has another size, most of the time.
        build_id.unwrap_or_else(|| {
            let bytes = fs::metadata(process::own_executable()).map_or(0, |file| file.len());
            format!("{}.{bytes}", env!("CARGO_PKG_VERSION"))
        })
    })
}

/// The program's file.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) identity: &'static str,
    pub(crate) bytes: u64,
    /// In hexadecimal digits.
    pub(crate) sha256: String,
    /// Path here, and so perhaps there; `None` if the file was replaced or deleted.
    pub(crate) path: Option<PathBuf>,
}

impl Program {
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let file = process::own_executable();
        Ok(Self {
            identity: identity(),
            bytes: fs::metadata(&file)?.len(),
            sha256: own_sha256(&file)?,
            path: fs::read_link(&file).ok().filter(|path| path.exists()),
        })
    }

    pub(crate) fn open(&self) -> io::Result<fs::File> {
        fs::File::open(process::own_executable())
    }
}

/// Returns the hash of this program's file, which is read once.
fn own_sha256(path: &Path) -> io::Result<String> {
    static SHA256: OnceLock<String> = OnceLock::new();
    if let Some(known) = SHA256.get() {
        return Ok(known.clone());
    }
    let read = sha256(fs::File::open(path)?)?;
    Ok(SHA256.get_or_init(|| read).clone())
}

pub(crate) fn sha256(file: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut BufReader::with_capacity(HASHED_AT_ONCE, file), &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Returns the note of a 64-bit ELF file; `None` if it has none.
fn build_id(path: &PathBuf) -> io::Result<Option<String>> {
    let mut file = fs::File::open(path)?;
    let header = read_at(&mut file, 0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (offset, size, count) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    let table = read_at(&mut file, offset, u64::from(size) * u64::from(count))?;
    for entry in table.chunks_exact(usize::from(size.max(56))) {
        // PT_NOTE
        if u32_at(entry, 0) == 4 {
            let notes = read_at(&mut file, u64_at(entry, 8), u64_at(entry, 32))?;
            if let Some(id) = build_id_in(&notes) {
                return Ok(Some(id));
            }
        }
    }
    Ok(None)
}

fn build_id_in(mut notes: &[u8]) -> Option<String> {
    while notes.len() >= 12 {
        let (name, description) = (u32_at(notes, 0) as usize, u32_at(notes, 4) as usize);
        let begin = 12 + name.checked_next_multiple_of(4)?;
        let end = begin.checked_add(description)?;
        let (kind, body) = (u32_at(notes, 8), notes.get(begin..end)?);
        if kind == BUILD_ID && notes[12..].starts_with(b"GNU\0") {
            return Some(body.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn read_at(file: &mut fs::File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.by_ref().take(bytes.min(NOTES_MAX)).read_to_end(&mut buffer)?;
    // Short where the file is cut: read as zeros.
    buffer.resize(usize::try_from(bytes.min(NOTES_MAX)).unwrap_or(0), 0);
    Ok(buffer)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_searched_for_the_one_with_the_hash() {
        let note = |kind: u32, name: &[u8], body: &[u8]| {
            let mut note = Vec::new();
            for number in [name.len() as u32, body.len() as u32, kind] {
                note.extend(number.to_le_bytes());
            }
            note.extend(name);
            note.extend(body);
            note
        };
        let other = note(1, b"GNU\0", &[0; 16]);
        let id = note(3, b"GNU\0", &[0xab, 0x01, 0xff, 0x10]);
        let both = [other.clone(), id.clone()].concat();
        assert_eq!(build_id_in(&both).as_deref(), Some("ab01ff10"));
        assert_eq!(build_id_in(&other), None);
        assert_eq!(build_id_in(&note(3, b"XYZ\0", &[1; 4])), None);
        // Lengths that lead out of the notes.
        for cut in 0..id.len() {
            assert_eq!(build_id_in(&id[..cut]), None);
        }
        assert_eq!(build_id_in(&[0xff; 64]), None);
    }

    #[test]
    fn a_hash_is_that_of_sha256sum() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&b"abc"[..]).unwrap(), expected);
    }

    #[test]
    fn this_program_is_some_build() {
        let word = identity();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
        assert!(!word.is_empty() && word.chars().all(is_plain), "{word}");
        let program = Program::of_this_process().unwrap();
        assert!(program.bytes > 0 && program.path.is_some());
    }
}
