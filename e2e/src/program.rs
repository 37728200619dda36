//! Finding the programs of the tests: plimsoll as it was built, the others as installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, io};

/// Folders in which distributions put daemons; a user's PATH often lacks these.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Returns an installed program; panics with the command that installs it.
pub fn installed(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| {
        panic!("{name} is not installed; run: apt-get install {}", package(name))
    })
}

/// Returns the program of a Go module, built by `go install` once for all tests, in the target folder. `None`, and a
/// line that gives the reason, where go is not installed or does not build it.
pub fn built_by_go(program: &str) -> Option<PathBuf> {
    let target = plimsoll().parent()?.parent()?.join("go-tools");
    let (path, version) = program.split_once('@')?;
    let built = target.join(Path::new(path).file_name()?);
    if built.is_file() {
        return Some(built);
    }
    match run_go(Command::new("go").args(["install", program]).env("GOBIN", &target)) {
        Ok(output) if output.status.success() => Some(built),
        Ok(output) => {
            println!("SKIPPED: {path} {version}: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            println!("SKIPPED: go: {error}; run: apt-get install golang-go");
            None
        }
    }
}

/// Returns the program of `e2e/go/NAME.go`, built in `folder`. `None`, and a line that says so, where there is no go.
pub fn of_go_source(name: &str, folder: &Path) -> Option<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (source, binary) = (tests.join(format!("go/{name}.go")), folder.join(name));
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&binary).arg(&source).env("GOPATH", folder.join("path"));
    let Ok(output) = run_go(&mut build) else {
        println!("SKIPPED: go is not installed; run: apt-get install golang-go");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(binary)
}

/// Runs go with one cache for all tests, and one build after the other: its library takes 40 s of CPU time, and two
/// builds at once would both compile it. Without garbage collection in the compiler it takes 29 s, and 20 s without inlining.
fn run_go(go: &mut Command) -> io::Result<Output> {
    static BUILDS: Mutex<()> = Mutex::new(());
    let _one = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/go-cache");
    go.env("GOCACHE", cache).env("GOFLAGS", "-gcflags=all=-l").env("GOGC", "off");
    go.stdin(Stdio::null()).output()
}

/// Returns a program, if it is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

fn package(name: &str) -> &str {
    match name {
        "ab" => "apache2-utils",
        "chromium-headless-shell" => "chromium-headless-shell fonts-liberation",
        "h2load" => "nghttp2-client",
        "mosquitto_pub" | "mosquitto_sub" => "mosquitto-clients",
        "nghttpd" => "nghttp2-server",
        "nginx" => "nginx-light",
        "qemu-system-x86_64" => "qemu-system-x86",
        "pdftotext" => "poppler-utils",
        other => other,
    }
}

/// Returns the plimsoll under test: `PLIMSOLL_BIN`, else the release or debug build of this workspace.
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
