//! Certificates made by openssl, so that our own are not the only ones that our client accepts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::program;

/// The name in every certificate, beside 127.0.0.1, ::1 and localhost.
pub const NAME: &str = "sut.test";

/// A self-signed certificate and its key, which are also one file.
#[derive(Debug)]
pub struct Certificate {
    folder: TempDir,
}

impl Certificate {
    /// Creates a fresh one with an ECDSA key.
    pub fn new() -> Self {
        Self::with_key("ec -pkeyopt ec_paramgen_curve:P-256")
    }

    /// Creates a fresh one with an RSA key.
    pub fn rsa() -> Self {
        Self::with_key("rsa:2048")
    }

    /// `key` is what `openssl req -newkey` takes.
    fn with_key(key: &str) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let made = Self { folder };
        let output = Command::new(program::installed("openssl"))
            .args(format!("req -x509 -newkey {key} -nodes -days 2").split(' '))
            .args(["-subj", "/CN=plimsoll e2e", "-addext"])
            .arg(format!("subjectAltName=DNS:{NAME},DNS:localhost,IP:127.0.0.1,IP:::1"))
            .arg("-keyout")
            .arg(made.key())
            .arg("-out")
            .arg(made.chain())
            .stdin(Stdio::null())
            .output()
            .expect("openssl can be run");
        assert!(output.status.success(), "{output:?}");
        let read = |path: &Path| std::fs::read_to_string(path).expect("openssl has written it");
        let both = read(&made.chain()) + &read(&made.key());
        std::fs::write(made.both(), both).expect("an own folder is writable");
        made
    }

    /// Returns the certificate, PEM.
    pub fn chain(&self) -> PathBuf {
        self.folder.path().join("chain.pem")
    }

    /// Returns the path of its key, PEM.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Returns both in one file, as HAProxy likes it.
    pub fn both(&self) -> PathBuf {
        self.folder.path().join("both.pem")
    }

    /// Returns the certificate's path, as an argument.
    pub fn chain_argument(&self) -> String {
        self.chain().display().to_string()
    }

    /// Returns the key's path, as an argument.
    pub fn key_argument(&self) -> String {
        self.key().display().to_string()
    }
}

impl Default for Certificate {
    fn default() -> Self {
        Self::new()
    }
}
