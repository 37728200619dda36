//! The certificate of a SUT, which is exchanged while it is under load.

use std::io;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use plimsoll_model::plan::{Identity, ServerName, TlsOptions, Trust};
use plimsoll_sys::whole_file::WholeFile;
use plimsoll_tls::{ClientContext, ThreadContext};

use crate::address::SutAddress;
use crate::error::LabError;

/// Timeout of each step of a handshake.
const STEP_WAIT: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 4_096;

/// The certificate of a SUT.
#[derive(Debug)]
pub(crate) struct Certificate {
    /// The file that the SUT reads it from.
    path: PathBuf,
    /// Names in it.
    names: Vec<String>,
    /// The first one, which clients trust.
    identity: Identity,
    /// Address at which the SUT shows it.
    listen: SocketAddr,
    exchanges: AtomicU32,
}

impl Certificate {
    /// Returns the certificate of the SUT at an address, in this file; `None` if it was not made here.
    pub(crate) fn of(at: &SutAddress, path: PathBuf) -> Option<Self> {
        let (names, identity) = (at.names.clone(), at.identity.clone());
        let exchanges = AtomicU32::new(0);
        let is_own = !names.is_empty();
        is_own.then_some(Self { path, names, identity, listen: at.listen, exchanges })
    }

    /// Writes another certificate into its file; clients trust it as they trust the first. Returns a name that no other
    /// one has.
    pub(crate) fn exchange(&self) -> Result<String, LabError> {
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        let own = format!("exchange-{number}.plimsoll");
        let names = [&self.names[..], std::slice::from_ref(&own)].concat();
        let Identity { chain_pem, key_pem } = plimsoll_tls::renewed(&names, &self.identity)?;
        let written = WholeFile::write(&self.path, format!("{chain_pem}{key_pem}").as_bytes());
        written.map_err(|source| LabError::Write { path: self.path.clone(), source })?;
        Ok(own)
    }

    /// Opens a connection that gets the certificate with this name; an error if it does not get it. To be called on a
    /// host that reaches the SUT.
    pub(crate) fn meet(&self, name: &str) -> Result<(), LabError> {
        let trust = Trust::Roots(self.identity.chain_pem.clone());
        let context = ClientContext::new(&TlsOptions { trust, ..TlsOptions::default() })?;
        self.handshake(&context, name).map_err(|error| {
            LabError::Event(format!("a new connection does not get the new certificate: {error}"))
        })
    }

    /// Completes a handshake with a server that has this name.
    fn handshake(&self, context: &ClientContext, name: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.listen, STEP_WAIT)?;
        stream.set_read_timeout(Some(STEP_WAIT))?;
        let session = context.session(&ServerName(name.to_owned()), false);
        let mut session = session.map_err(io::Error::other)?;
        let mut thread = ThreadContext::new(1);
        let (mut sent, mut received) = (Vec::new(), [0; READ_BYTES]);
        loop {
            session.poll_transmit(&mut thread, &mut sent);
            stream.write_all(&sent)?;
            sent.clear();
            let bytes = stream.read(&mut received)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut plaintext = Vec::new();
            let taken = session.handle_ciphertext(&mut thread, &received[..bytes], &mut plaintext);
            if taken.map_err(io::Error::other)?.handshake_finished {
                return Ok(());
            }
        }
    }
}
