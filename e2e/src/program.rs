//! Finding the programs of the tests: plimsoll as it was built, the others as installed.

use std::env;
use std::path::{Path, PathBuf};

/// Where distributions put daemons; a user's PATH often lacks these.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// An installed program; panics with the command that installs it.
pub fn installed(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| {
        panic!("{name} is not installed; run: apt-get install {}", package(name))
    })
}

/// A program, if it is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

fn package(name: &str) -> &str {
    match name {
        "ab" => "apache2-utils",
        "chromium-headless-shell" => "chromium-headless-shell fonts-liberation",
        "mosquitto_pub" | "mosquitto_sub" => "mosquitto-clients",
        "nginx" => "nginx-light",
        "pdftotext" => "poppler-utils",
        other => other,
    }
}

/// The plimsoll under test: `PLIMSOLL_BIN`, else the release or debug build of this workspace.
pub fn plimsoll() -> PathBuf {
    if let Some(named) = env::var_os("PLIMSOLL_BIN") {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "PLIMSOLL_BIN names no file: {}", named.display());
        return named;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    ["release", "debug"]
        .map(|profile| target.join(profile).join("plimsoll"))
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("plimsoll is not built; run: cargo build --release -p plimsoll"))
}
