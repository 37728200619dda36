//! Session tickets for resumption: a bounded store per context, newest ticket first.
//!
//! rustls's own store keeps 8 tickets per server, too few when hundreds of handshakes with one
//! server overlap.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Servers whose tickets are kept, at most; a load has the servers that its plan names.
const SERVERS_MAX: usize = 256;

struct Server {
    name: ServerName<'static>,
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

/// A linear list: a load talks to a handful of servers, and comparing names is cheaper than
/// hashing them.
pub(crate) struct TicketStore {
    servers: Mutex<Vec<Server>>,
    /// Tickets kept per server; at least one.
    tickets_max: usize,
}

impl std::fmt::Debug for TicketStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TicketStore").finish_non_exhaustive()
    }
}

impl TicketStore {
    pub(crate) fn new(tickets_max: u32) -> Self {
        Self { servers: Mutex::default(), tickets_max: tickets_max.max(1) as usize }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Server>> {
        // Nothing in here can panic half way, so a poisoned store is still a sound one.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit(&self, name: ServerName<'static>, change: impl FnOnce(&mut Server)) {
        let mut servers = self.lock();
        if let Some(server) = servers.iter_mut().find(|server| server.name == name) {
            change(server);
        } else if servers.len() < SERVERS_MAX {
            let mut server = Server { name, group: None, tls12: None, tls13: VecDeque::new() };
            change(&mut server);
            servers.push(server);
        }
    }

    fn look_up<T>(
        &self,
        name: &ServerName<'_>,
        find: impl FnOnce(&mut Server) -> Option<T>,
    ) -> Option<T> {
        self.lock().iter_mut().find(|server| server.name == *name).and_then(find)
    }
}

impl ClientSessionStore for TicketStore {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.edit(name, |server| server.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.look_up(name, |server| server.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.edit(name, |server| server.tls12 = Some(value));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.look_up(name, |server| server.tls12.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.look_up(name, |server| server.tls12.take());
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.edit(name, |server| {
            if server.tls13.len() == self.tickets_max {
                server.tls13.pop_front();
            }
            server.tls13.push_back(value);
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.look_up(name, |server| server.tls13.pop_back())
    }
}
