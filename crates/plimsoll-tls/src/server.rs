//! The server side's settings, checked once and shared by all its sessions.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, ServerConnection};

use plimsoll_model::plan::{Identity, TicketKey, TlsState};

use crate::agreed::HTTP2;
use crate::capture::SecretSink;
use crate::handshaking::Afterwards;
use crate::identity::certified_key;
use crate::ticketer::SharedTicketer;
use crate::{ConfigError, Session};

/// The shared part of every server session: TLS 1.2 and 1.3, stateless tickets, `h2` or `http/1.1` for
/// clients that ask by ALPN. Clones are cheap and accept each other's tickets.
#[derive(Clone, Debug)]
pub struct ServerContext {
    config: Arc<ServerConfig>,
    state: TlsState,
}

impl ServerContext {
    /// Creates a server that presents `identity` to everyone and keeps `state` of its connections.
    pub fn new(identity: &Identity, state: TlsState) -> Result<Self, ConfigError> {
        Self::build(identity, state, WebPkiClientVerifier::no_client_auth())
    }

    /// Creates a server that checks the certificates of its clients with `verifier`.
    pub(crate) fn build(
        identity: &Identity,
        state: TlsState,
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> Result<Self, ConfigError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = certified_key(identity, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(ConfigError::refused)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(ConfigError::refused)?;
        // Tickets do the job; the default store of TLS 1.2 session ids is a lock that all workers
        // would share.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        if state == TlsState::Compact {
            config.enable_secret_extraction = true;
            config.key_log = Arc::new(SecretSink);
        }
        Ok(Self { config: Arc::new(config), state })
    }

    /// Shares tickets with all servers that have this key.
    pub fn with_ticket_key(self, key: &TicketKey) -> Result<Self, ConfigError> {
        let mut config = ServerConfig::clone(&self.config);
        config.ticketer = Arc::new(SharedTicketer::new(key)?);
        Ok(Self { config: Arc::new(config), ..self })
    }

    /// Creates a session for a connection that was just accepted.
    pub fn session(&self) -> Result<Session, ConfigError> {
        let connection =
            ServerConnection::new(Arc::clone(&self.config)).map_err(ConfigError::refused)?;
        let afterwards = match self.state {
            // Its tickets leave with the end of the handshake.
            TlsState::Compact => Afterwards::Compact,
            TlsState::Rustls => Afterwards::Keep,
        };
        Ok(Session::new(connection.into(), afterwards))
    }
}
