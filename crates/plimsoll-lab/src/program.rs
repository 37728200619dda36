//! Lookup and checks of installed programs: the functions that all descriptions share.
//!
//! `find` looks up a program in PATH and in the folders of daemons, or returns the path that the user named if it is
//! executable. `run` waits for a program without input, `version` extracts a word from its output, and `alert`
//! selects the one line of an error output that matters. All failures are a [`CheckError`]. Start reading at `find`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, io};

/// A reason why an installed program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The program did not start.
    #[error("cannot run {}: {source}; install it or name another", program.display())]
    NotRun {
        /// Path of the program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program rejects its configuration.
    #[error("{} rejects {}: {alert}", program.display(), config.display())]
    Rejected {
        /// Path of the program.
        program: PathBuf,
        /// The configuration it was given.
        config: PathBuf,
        /// The program's first error message.
        alert: String,
    },
    /// The program reports no version; it may be another program of that name.
    #[error("{} reports no version but {output:?}; is it the right program?", program.display())]
    NoVersion {
        /// Path of the program.
        program: PathBuf,
        /// The first line it wrote.
        output: String,
    },
}

/// Folders in which distributions and nginx's source build install daemons; a user's PATH often lacks them.
const SYSTEM_FOLDERS: [&str; 4] =
    ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/local/nginx/sbin"];

/// Finds the program `explicit`, or `name` if that is `None`. A bare name is looked up in PATH, then in the system's
/// folders; a path must be executable.
pub(crate) fn find(name: &str, explicit: Option<&Path>) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    find_in(folders, name, explicit)
}

fn find_in(
    folders: impl IntoIterator<Item = PathBuf>,
    name: &str,
    explicit: Option<&Path>,
) -> Option<PathBuf> {
    let wanted = explicit.unwrap_or_else(|| Path::new(name));
    if wanted.components().count() > 1 {
        return is_executable(wanted).then(|| wanted.to_owned());
    }
    folders.into_iter().map(|folder| folder.join(wanted)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Runs `program` to its end, without input.
pub(crate) fn run(program: &Path, arguments: &[String]) -> Result<Output, CheckError> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| CheckError::NotRun { program: program.to_owned(), source })
}

/// Returns the word after `marker` on the line of `program argument` that names its version.
pub(crate) fn version(program: &Path, argument: &str, marker: &str) -> Result<String, CheckError> {
    let output = run(program, &[argument.to_owned()])?;
    // HAProxy writes to stdout, nginx to stderr.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .find_map(|line| line.split_once(marker)?.1.split_ascii_whitespace().next())
        .map(str::to_owned)
        .ok_or_else(|| CheckError::NoVersion {
            program: program.to_owned(),
            output: text.lines().next().unwrap_or_default().to_owned(),
        })
}

/// Returns the first line of `stderr` that holds `mark`, from after `mark`; else its last line with text.
pub(crate) fn alert(stderr: &[u8], mark: &str) -> String {
    let text = String::from_utf8_lossy(stderr);
    let marked = text.lines().find_map(|line| Some(line.split_once(mark)?.1));
    let last = || text.lines().rev().find(|line| !line.trim().is_empty());
    marked.or_else(last).unwrap_or("it failed without a message").trim().to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// Returns the installed program, or a failure that says how to get it.
    pub(crate) fn installed(name: &str, package: &str) -> PathBuf {
        find(name, None).unwrap_or_else(|| {
            panic!("{name} is not installed, and this test needs it: apt-get install {package}")
        })
    }

    /// Writes a fresh chain and key into `path`.
    pub(crate) fn write_certificate(path: &Path) {
        let key = path.with_extension("key");
        let run =
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=lab";
        let output = Command::new(installed("openssl", "openssl"))
            .args(run.split(' '))
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let both = fs::read_to_string(path).unwrap() + &fs::read_to_string(key).unwrap();
        fs::write(path, both).unwrap();
    }

    #[test]
    fn explicit_paths_win_and_bare_names_are_looked_up() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("sbin");
        fs::create_dir(&folder).unwrap();
        let program = folder.join("proxy-2.8");
        fs::write(&program, "").unwrap();
        let find = |explicit: Option<&Path>| {
            find_in([scratch.path().to_owned(), folder.clone()], "proxy-2.8", explicit)
        };

        // Present, but not executable.
        assert_eq!(find(None), None);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(None), Some(program.clone()));
        assert_eq!(find(Some(Path::new("proxy-2.8"))), Some(program.clone()));
        assert_eq!(find(Some(&program)), Some(program.clone()));
        // A name that is not there is not silently replaced by another program.
        assert_eq!(find(Some(Path::new("proxy-3.0"))), None);
        assert_eq!(find(Some(&folder)), None);
    }

    #[test]
    fn alerts_come_from_the_marked_line() {
        for (stderr, text) in [
            ("[NOTICE] x\n[ALERT] (1) : first\n[ALERT] (1) : second\n", "(1) : first"),
            ("something else\n\n", "something else"), // no mark: the last line
            ("", "it failed without a message"),
        ] {
            assert_eq!(alert(stderr.as_bytes(), "[ALERT]"), text);
        }
    }

    #[test]
    fn errors_name_the_program() {
        let missing = Path::new("/nonexistent/haproxy");
        let text = version(missing, "-v", "version ").unwrap_err().to_string();
        assert!(text.starts_with("cannot run /nonexistent/haproxy: "), "{text}");
        let echo = installed("echo", "coreutils");
        assert!(matches!(version(&echo, "-v", "version "), Err(CheckError::NoVersion { .. })));
    }
}
