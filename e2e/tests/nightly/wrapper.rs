//! A program that starts the real HAProxy with a changed configuration, for `--haproxy`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use e2e::program;
use tempfile::TempDir;

/// HAProxy with limits that its generated configuration lacks.
#[derive(Default)]
pub(crate) struct Wrapper {
    /// Commands of sed for its configuration.
    pub(crate) edits: Vec<&'static str>,
    /// Commands of bash before it starts.
    pub(crate) before: String,
    /// Files of its folder, which is `@FOLDER@` in all texts.
    pub(crate) files: Vec<(&'static str, String)>,
}

impl Wrapper {
    /// Returns a program that starts HAProxy so.
    pub(crate) fn write(self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display().to_string();
        let edits: Vec<String> = self.edits.iter().map(|edit| format!("-e '{edit}'")).collect();
        let script = format!(
            "#!/bin/bash\nPATH=\"$PATH:/usr/sbin\"\n\
             for last; do :; done\n\
             if [ \"$1\" = -db ]; then\nsed -i {} \"$last\"\n{}\nfi\n\
             exec {} \"$@\"\n",
            edits.join(" "),
            self.before,
            program::installed("haproxy").display()
        );
        let script = script.replace("@FAULT@", env!("CARGO_BIN_EXE_fault"));
        let files = [&self.files[..], &[("haproxy", script)]].concat();
        for (name, text) in files {
            fs::write(folder.path().join(name), text.replace("@FOLDER@", &at)).expect("a file");
        }
        let path = folder.path().join("haproxy");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        (folder, path)
    }
}
