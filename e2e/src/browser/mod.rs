//! A headless Chromium: the pages of a report as a reader's browser shows them, and what is to be
//! checked of each.
//!
//! It is driven by the Chrome DevTools Protocol over a pair of pipes, which needs no library: each
//! message is a JSON object. A check returns what is wrong, a line each; tests decide.

pub mod checks;
pub mod content;
mod contrast;
mod page;
pub mod paper;
mod pipe;
mod visit;

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Guarded;
use crate::program;

pub use page::{Page, Screen, Theme};
pub use pipe::Event;
use pipe::Pipe;
pub use visit::ReportFile;

/// A shell by which the browser's protocol, on descriptors 3 and 4, is our pipes.
const ON_PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2";

/// No sandbox, because tests run as root in containers; no network but loopback, whatever a page
/// asks for; device pixels are CSS pixels, and no scroll bar takes of the width.
const FLAGS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A running browser. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    pipe: RefCell<Pipe>,
    // Ends before its profile is removed.
    _process: Guarded,
    _profile: TempDir,
}

impl Browser {
    /// Starts one with an empty profile.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("the temporary directory is writable");
        let mut command = Command::new(program::installed("bash"));
        command.arg("-c").arg(ON_PIPES).arg(program()).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let log = fs::File::create(profile.path().join("log")).expect("as above");
        command.env("HOME", profile.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = Guarded::start(&mut command);
        let commands = process.child().stdin.take().expect("the pipe was asked for");
        let answers = process.child().stdout.take().expect("the pipe was asked for");
        let pipe = RefCell::new(Pipe::new(commands, answers));
        let browser = Self { pipe, _process: process, _profile: profile };
        if let Err(why) = browser.try_call("", "Browser.getVersion", &json!({})) {
            let log = fs::read_to_string(browser._profile.path().join("log"));
            panic!("chromium does not start: {why}\n{}", log.unwrap_or_default());
        }
        browser
    }

    /// Returns an empty page.
    pub fn page(&self) -> Page<'_> {
        Page::open(self)
    }

    fn try_call(&self, session: &str, method: &str, parameters: &Value) -> Result<Value, String> {
        self.pipe.borrow_mut().call(session, method, parameters)
    }

    fn call(&self, session: &str, method: &str, parameters: &Value) -> Value {
        self.try_call(session, method, parameters).unwrap_or_else(|why| panic!("{why}"))
    }
}

/// Returns the browser's program: the one without a window where both are installed, which starts in half the
/// time.
fn program() -> PathBuf {
    ["chromium-headless-shell", "chromium"]
        .into_iter()
        .find_map(program::find)
        .unwrap_or_else(|| program::installed("chromium-headless-shell"))
}
