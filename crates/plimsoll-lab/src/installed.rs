//! An installed proxy that a configuration is written for.
//!
//! [`Installed::find`] locates the program, reads its version and refuses one that is foreign or older than the
//! oldest version of the dialect. [`Installed::check`] lets the program check a configuration from a scratch
//! directory, which is removed afterwards. The description of the proxy reports the capabilities of a build. Start
//! reading at [`Installed::find`].

use std::path::{Path, PathBuf};

use plimsoll_sys::private_dir::ScratchDir;
use plimsoll_tune::proxy as languages;
use plimsoll_tune::proxy::{Dialect, Version};

use crate::error::{LabError, Result};
use crate::program;
use crate::program::CheckError;
use crate::sut::{Proxy, describe, write};

/// A proxy that is installed on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The language of its configuration.
    pub dialect: &'static Dialect,
    /// Path of the program.
    pub path: PathBuf,
    /// The version as it writes it: `2.6.12-1+deb12u4`.
    pub version_text: String,
    /// The numbers of it.
    pub version: Version,
}

impl Installed {
    /// Finds the named program, or the installed one. An old or foreign program is refused.
    pub fn find(dialect: &'static Dialect, named: Option<&Path>) -> Result<Self> {
        let name = dialect.kind.name();
        let path = program::find(name, named).ok_or_else(|| match named {
            Some(path) => LabError::NoProgram(path.to_owned()),
            None => LabError::NotThere(name),
        })?;
        let version_text = proxy(dialect)?.version(&path)?;
        let foreign =
            || CheckError::NoVersion { program: path.clone(), output: version_text.clone() };
        let version = languages::version(&version_text).ok_or_else(foreign)?;
        let oldest = dialect.oldest;
        if version < oldest {
            let oldest = format!("{}.{}", oldest.0, oldest.1);
            return Err(LabError::TooOld { path, version: version_text, oldest });
        }
        Ok(Self { dialect, path, version_text, version })
    }

    /// Reports whether this build of the program reports statistics.
    pub fn has_statistics(&self) -> bool {
        proxy(self.dialect).is_ok_and(|proxy| proxy.has_statistics(&self.path))
    }

    /// Reports whether this build of the program speaks HTTP/2.
    pub fn has_http2(&self) -> bool {
        proxy(self.dialect).is_ok_and(|proxy| proxy.has_http2(&self.path))
    }

    /// Lets the program itself check a configuration.
    pub fn check(&self, text: &str) -> Result<()> {
        let scratch = ScratchDir::new("plimsoll-tune").map_err(LabError::Scratch)?;
        let config = scratch.path().join(format!("{}.cfg", self.dialect.kind));
        write(&config, text)?;
        Ok(proxy(self.dialect)?.check(&self.path, &config)?)
    }
}

fn proxy(dialect: &Dialect) -> Result<&'static dyn Proxy> {
    describe(dialect.kind).proxy.ok_or_else(|| LabError::NotThere(dialect.kind.name()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use plimsoll_tune::proxy::{HAPROXY, NGINX, Places, ProxyGoal};

    use super::*;
    use crate::program::tests::write_certificate;

    /// Returns a goal with all files below `scratch`, and without another user.
    fn goal(scratch: &Path) -> ProxyGoal {
        ProxyGoal {
            connections: 500,
            rate_per_s: 100,
            cores: 2,
            certificate: scratch.join("the site.pem"),
            handshakes_per_cpu: 4_500,
            named_backends: Vec::new(),
            http2: true,
            backends: vec!["127.0.0.1:9001".to_owned(), "127.0.0.1:9002".to_owned()],
            listen: "127.0.0.1:18443".to_owned(),
            places: Places {
                user: None,
                chroot: None,
                statistics: Some(scratch.join("statistics.sock")),
                log: Some(scratch.join("access.log")),
                state: scratch.to_owned(),
            },
        }
    }

    /// Returns the goal, and others that make further directives.
    fn variants(goal: &ProxyGoal) -> [ProxyGoal; 4] {
        let bare = Places { statistics: None, log: None, ..goal.places.clone() };
        let name = "localhost:9003".to_owned();
        [
            goal.clone(),
            ProxyGoal { http2: false, places: bare, ..goal.clone() },
            ProxyGoal { backends: vec![name.clone()], named_backends: vec![name], ..goal.clone() },
            ProxyGoal { cores: 40, rate_per_s: 20_000, ..goal.clone() },
        ]
    }

    /// Returns the program's warnings about a configuration that it accepts.
    fn warnings(installed: &Installed, text: &str) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let config = scratch.path().join("config");
        fs::write(&config, text).unwrap();
        let argv = proxy(installed.dialect).unwrap().check_argv(&installed.path, &config);
        let output = program::run(Path::new(&argv[0]), &argv[1..]).unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_warning = |line: &&str| line.to_lowercase().contains("[warn");
        text.lines().filter(is_warning).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_installed_programs_accept_what_is_written_for_them() {
        let prefix = r#"plimsoll's "tune" \b #c; {d} "#;
        let scratch = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
        let goal = goal(scratch.path());
        write_certificate(&goal.certificate);
        for dialect in [&HAPROXY, &NGINX] {
            let installed = Installed::find(dialect, None).unwrap();
            let written = dialect.configure(installed.version, &goal);
            for goal in variants(&goal) {
                let written = dialect.configure(installed.version, &goal);
                installed.check(&written.text).unwrap();
                assert_eq!(warnings(&installed, &written.text), "", "{}", written.text);
            }
            // A test that cannot fail would be none.
            let broken = written.text.replace("timeout", "timeoutt");
            let text = installed.check(&broken).unwrap_err().to_string();
            assert!(text.contains("timeout"), "{text}");
        }
    }

    #[test]
    fn what_is_planted_in_the_directory_for_temporary_files_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("target");
        fs::write(&target, "untouched").unwrap();
        // The name that was foreseen once.
        let planted = std::env::temp_dir().join(format!("plimsoll-tune-{}", std::process::id()));
        fs::create_dir(&planted).unwrap();
        for name in ["haproxy.cfg", "nginx.cfg"] {
            symlink(&target, planted.join(name)).unwrap();
        }
        let goal = goal(scratch.path());
        write_certificate(&goal.certificate);
        for dialect in [&HAPROXY, &NGINX] {
            let installed = Installed::find(dialect, None).unwrap();
            let written = dialect.configure(installed.version, &goal);
            installed.check(&written.text).unwrap();
        }
        let left = fs::read_dir(&planted).map(Iterator::count);
        let _ = fs::remove_dir_all(&planted);
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        assert_eq!(left.unwrap(), 2);
    }

    #[test]
    fn old_missing_and_foreign_programs_are_one_clear_line() {
        let scratch = tempfile::tempdir().unwrap();
        let script = |name: &str, says: &str| {
            let path = scratch.path().join(name);
            // Written by another process: a child that a test beside this one starts would hold our file open
            // for writing, and a program that is written to does not run.
            let text = format!("#!/bin/sh\necho '{says}'\n");
            let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
            let mut shell = Command::new("/bin/sh");
            assert!(shell.args(["-c", write]).arg(&path).arg(text).status().unwrap().success());
            path
        };
        let old = script("old", "HA-Proxy version 1.8.4 2018/02/08");
        let foreign = script("foreign", "hello");
        let missing = scratch.path().join("missing");
        for (path, words) in [
            (&old, "is version 1.8.4, and settings are known for 2.4 and later"),
            (&foreign, "reports no version but \"hello\""),
            (&missing, "is no program"),
        ] {
            let error = Installed::find(&HAPROXY, Some(path)).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }
}
