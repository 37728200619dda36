//! A terminal with a shell in it, as a person has: tmux, without its user's settings.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{program, wait};

/// A shell in a terminal of 80 columns and 24 rows. Dropping it ends all that runs there.
#[derive(Debug)]
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Starts it, with plimsoll as `$PLIMSOLL`.
    pub fn start() -> Self {
        let terminal =
            Self { folder: tempfile::tempdir().expect("the temporary directory is writable") };
        let plimsoll = format!("PLIMSOLL={}", program::plimsoll().display());
        let shell = ["env", "-u", "CI", "-u", "NO_COLOR", "LC_ALL=C.UTF-8", &plimsoll];
        let size = ["new-session", "-d", "-x", "80", "-y", "24", "-c"];
        let folder = terminal.folder.path().display().to_string();
        terminal.tmux(&[&size[..], &[&folder], &shell, &["bash", "--norc"]].concat());
        terminal
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Presses a key, as tmux names it.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Makes its window as large.
    pub fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// Returns the text on the screen.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Returns the text, with the sequences that colour it.
    pub fn coloured(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }

    /// Waits until it shows `text`.
    pub fn wait_for(&self, text: &str) {
        let shown = wait::within(wait::PATIENCE, &mut || self.text().contains(text).then_some(()));
        assert!(shown.is_some(), "{text:?} is not shown:\n{}", self.text());
    }

    /// Asserts that the shell is back on the screen in which its line was typed, where it wrote `ended CODE`, and `stty
    /// -g` before and after it into the files `before` and `after`.
    pub fn assert_restored(&self, code: u32) {
        self.wait_for(&format!("ended {code}"));
        wait::until("the shell", || self.has_file("over").then_some(()));
        assert_eq!(self.file("before"), self.file("after"));
        assert!(!self.text().contains("stop and report"), "{}", self.text());
    }

    /// Returns a file in the folder of its shell.
    pub fn file(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Reports whether there is one.
    pub fn has_file(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Returns a path in the folder of its shell.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program::installed("tmux"));
        command.args(["-f", "/dev/null", "-S"]).arg(self.path("socket")).args(arguments);
        let output = command.output().expect("tmux runs");
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        output
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = Command::new(program::installed("tmux"));
        command.arg("-S").arg(self.path("socket")).arg("kill-server");
        // A panic in a drop would hide the test's own.
        let _ = command.output();
    }
}
