//! The reference run: what the generator alone reaches, with the load's own profile against the
//! null responder. Once before a search, for two seconds.
//!
//! The server is as cheap as the client, so it may be the slower of the two. What the client would
//! reach with its busiest thread full follows from how busy that was.

use plimsoll_capacity::validity::REFERENCE_FAIL;
use plimsoll_fleet::ServerGroup;
use plimsoll_lab::{LabError, OwnServers};
use plimsoll_model::event::Event;
use plimsoll_model::plan::{Identity, LoadPlan, Pacing, Trust};
use plimsoll_model::tally::Interval;
use plimsoll_model::{Nanos, Rate};
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_tls::KeyKind;

use crate::session::Session;

/// One second of warm-up, and one that is measured.
const SPAN: Nanos = Nanos::from_secs(2);
/// More connections would only take time to open.
const CONNECTIONS_MAX: u64 = 1_000;
/// A client less busy than this waits for something else, such as a `sleep` that its requests
/// ask for, so its capacity cannot be measured.
const BUSY_MIN: f64 = 0.1;

/// The processes and CPUs of the null responder.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    /// CPUs of the null responder; empty for the CPUs of this process.
    pub(crate) cpus: Vec<u32>,
    /// The certificate that the clients trust already; `None` makes one.
    pub(crate) identity: Option<Identity>,
}

impl Reference {
    /// Makes the reference run. Without a result the search continues, and the check is left out.
    pub(super) fn run(self, plan: &LoadPlan, session: &Session<'_>) -> Option<Rate> {
        if session.is_interrupted() {
            return None;
        }
        let measured = self.measure(plan, session);
        session.note(match &measured {
            Ok(Some(alone)) => format!(
                "reference run: the load generator alone reaches {alone} against a null server \
                 ({SPAN}, extrapolated to a fully used thread); no trial offers more than {:.0} % of \
                 that",
                REFERENCE_FAIL * 100.0
            ),
            Ok(None) => "reference run: no result, because the requests or this host keep the load \
                         generator waiting"
                .to_owned(),
            Err(why) => format!("reference run failed: {why}"),
        });
        measured.ok().flatten()
    }

    fn measure(self, plan: &LoadPlan, session: &Session<'_>) -> Result<Option<Rate>, String> {
        let cpus = if self.cpus.is_empty() { usable_cpus() } else { self.cpus };
        let responder = NullResponder::start(Self { cpus, ..self }, plan, session)
            .map_err(|error| error.to_string())?;
        let mut plan = responder.in_place_of(plan);
        plan.pacing = Pacing::Closed { duration: Some(SPAN), ops_total: None };
        plan.connections = plan.connections.min(CONNECTIONS_MAX);
        if responder.is_loopback {
            // Addresses of other interfaces do not reach this one.
            plan.sources.retain(|source| source.is_ipv4() && source.is_loopback());
        }
        let mut rate = None;
        session
            .run_unrecorded(&plan, &mut |event| {
                if let Event::Interval(interval) = event {
                    rate = rate.or_else(|| extrapolated(interval));
                }
            })
            .map_err(|stop| stop.complaint().unwrap_or_default())?;
        Ok(rate)
    }
}

/// Our own server in place of the SUT: one plain port and one with TLS.
pub(super) struct NullResponder {
    servers: ServerGroup,
    identity: Identity,
    /// Clients reach it from addresses of loopback.
    pub(super) is_loopback: bool,
}

impl NullResponder {
    /// Starts it for clients that run `plan`.
    pub(super) fn start(
        by: Reference,
        plan: &LoadPlan,
        session: &Session<'_>,
    ) -> Result<Self, LabError> {
        let identity = match by.identity {
            Some(identity) => identity,
            None => {
                let tls = plan.destinations.iter().filter_map(|server| server.tls.as_ref());
                let mut names: Vec<String> = tls.map(|name| name.0.clone()).collect();
                names.push("localhost".to_owned());
                plimsoll_tls::self_signed(&names, KeyKind::EcdsaP256)?
            }
        };
        let host = session.server().isolated().map(|hosts| hosts.sut);
        let is_loopback = host.is_none();
        let servers = OwnServers { host, ..OwnServers::new(&by.cpus) }
            .start(&[false, true], Some(identity.clone()))?;
        Ok(Self { servers, identity, is_loopback })
    }

    /// Returns `plan` with this server as every destination.
    pub(super) fn in_place_of(&self, plan: &LoadPlan) -> LoadPlan {
        let mut plan = LoadPlan { abort_bad_ops: None, unix_socket: None, ..plan.clone() };
        for destination in &mut plan.destinations {
            let is_tls = destination.tls.is_some();
            let listeners = self.servers.listeners().iter();
            let wanted = listeners.filter(|listener| listener.tls == is_tls);
            destination.addresses = wanted.map(|listener| listener.address).collect();
        }
        if plan.tls.trust != Trust::Insecure {
            plan.tls.trust = Trust::Roots(self.identity.chain_pem.clone());
        }
        plan
    }
}

/// Returns the figures of the measured second; `None` for other seconds, and where the client was not busy.
fn extrapolated(interval: &Interval) -> Option<Rate> {
    let busy = interval.tally.generator.busiest_thread;
    let is_told = interval.second == 1 && busy >= BUSY_MIN && interval.tally.ok > 0;
    is_told.then(|| Rate::per_second(interval.tally.ok as f64 / busy)).flatten()
}

#[cfg(test)]
mod tests {
    use plimsoll_model::tally::Tally;

    use super::*;

    #[test]
    fn a_client_that_was_half_busy_reaches_twice_as_much() {
        let interval = |second, ok, busiest_thread| {
            let mut tally = Tally { ok, ..Tally::default() };
            tally.generator.busiest_thread = busiest_thread;
            Interval { second, tally }
        };
        assert_eq!(extrapolated(&interval(1, 40_000, 0.5)), Rate::per_second(80_000.0));
        for nothing in [interval(0, 40_000, 0.5), interval(1, 40_000, 0.05), interval(1, 0, 1.0)] {
            assert_eq!(extrapolated(&nothing), None);
        }
    }
}
