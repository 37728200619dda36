//! A real mosquitto, and its clients.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::certificate::Certificate;
use crate::process::Guarded;
use crate::{port, program, wait};

/// A running broker.
#[derive(Debug)]
pub struct Mosquitto {
    /// Address of MQTT.
    pub plain: SocketAddr,
    /// Address of MQTT over TLS.
    pub tls: SocketAddr,
    guarded: Guarded,
    folder: TempDir,
    /// The folder of the users that an administrator changes.
    state: Option<TempDir>,
}

/// Returns the plugin with which an administrator changes users.
fn plugin() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut files = folders.map(|folder| folder.join("mosquitto_dynamic_security.so"));
    files.find(|file| file.exists())
}

impl Mosquitto {
    /// Starts one on 127.0.0.1 with a certificate for it; it lets everybody in.
    pub fn start(certificate: &Certificate) -> Self {
        Self::start_as(&[], "", "", certificate)
    }

    /// Like [`Self::start`], with more lines of configuration.
    pub fn start_with(options: &str, certificate: &Certificate) -> Self {
        Self::start_as(&[], options, "", certificate)
    }

    /// Like [`Self::start`], with more lines for the listener with TLS.
    pub fn start_with_tls(options: &str, certificate: &Certificate) -> Self {
        Self::start_as(&[], "", options, certificate)
    }

    /// Starts one whose users an administrator (`admin`, `adminpw`) changes while it runs: see [`Self::control`].
    ///
    /// Returns `None` if this mosquitto has no plugin for that.
    pub fn start_controlled(certificate: &Certificate) -> Option<Self> {
        let plugin = plugin()?;
        let state = tempfile::tempdir().expect("the temporary directory is writable");
        let file = state.path().join("users.json");
        let mut init = Command::new(program::installed("mosquitto_ctrl"));
        init.args(["dynsec", "init"]).arg(&file).args(["admin", "adminpw"]);
        let output = init.stdin(Stdio::null()).output().expect("mosquitto_ctrl can be run");
        assert!(output.status.success(), "{output:?}");
        let options =
            format!("plugin {}\nplugin_opt_config_file {}\n", plugin.display(), file.display());
        let mut broker = Self::start_as(&[], &options, "", certificate);
        broker.state = Some(state);
        Some(broker)
    }

    /// Lets the administrator give this command of `mosquitto_ctrl dynsec`.
    pub fn control(&self, command: &[&str]) {
        let mut control = Command::new(program::installed("mosquitto_ctrl"));
        control.args(["-h", "127.0.0.1", "-p", &self.plain.port().to_string()]);
        control.args(["-u", "admin", "-P", "adminpw", "dynsec"]).args(command);
        let output = control.stdin(Stdio::null()).output().expect("mosquitto_ctrl can be run");
        assert!(output.status.success(), "{output:?}");
    }

    /// Starts one that lets only these users with their passwords in, or everybody where there are none.
    pub fn start_for(users: &[(&str, &str)], certificate: &Certificate) -> Self {
        Self::start_as(users, "", "", certificate)
    }

    fn start_as(
        users: &[(&str, &str)],
        options: &str,
        tls_options: &str,
        certificate: &Certificate,
    ) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let (plain, tls) = (port::free(), port::free());
        let path = folder.path().display();
        let access = match users.is_empty() {
            true => "allow_anonymous true\n".to_owned(),
            false => {
                let passwords = folder.path().join("passwords");
                let lines = users.iter().map(|(name, password)| format!("{name}:{password}\n"));
                fs::write(&passwords, lines.collect::<String>())
                    .expect("an own folder is writable");
                let mut hash = Command::new(program::installed("mosquitto_passwd"));
                let status = hash.arg("-U").arg(&passwords).status();
                assert!(status.is_ok_and(|status| status.success()), "mosquitto_passwd failed");
                format!("allow_anonymous false\npassword_file {path}/passwords\n")
            }
        };
        let config = format!(
            "user root\n{access}{options}persistence false\nset_tcp_nodelay true\n\
             log_dest file {path}/log\nlog_type all\nconnection_messages true\n\
             listener {} 127.0.0.1\n\
             listener {} 127.0.0.1\ncertfile {}\nkeyfile {}\n{tls_options}",
            plain.port(),
            tls.port(),
            certificate.chain().display(),
            certificate.key().display(),
        );
        let file = folder.path().join("mosquitto.conf");
        fs::write(&file, config).expect("an own folder is writable");
        let mut command = Command::new(program::installed("mosquitto"));
        command.arg("-c").arg(&file).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut guarded = Guarded::start(&mut command);
        wait::until("mosquitto to listen", || {
            let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(guarded.ended().is_none(), "mosquitto: {log}");
            // It listens before it has read its certificate, which the caller may delete.
            log.contains(" running").then_some(())
        });
        Self { plain, tls, guarded, folder, state: None }
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until its log contains `text` at least `count` times.
    pub fn wait_for(&self, text: &str, count: usize) {
        wait::until("mosquitto to log it", || {
            (self.log().matches(text).count() >= count).then_some(())
        });
    }

    /// Ends it and all its connections at once.
    pub fn kill(&mut self) {
        self.guarded.kill();
    }
}
