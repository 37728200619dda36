//! A SUT on the machine that it was asked to run on by a laboratory elsewhere.

use plimsoll_fleet::message::{SutPlan, SutStarted, SutStatus};
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::affinity::usable_cpus;

use crate::address::SutAddress;
use crate::error::{LabError, Result};
use crate::placement::Placement;
use crate::plan::LabPlan;
use crate::running_sut::RunningSut;
use crate::sut::Sut;
use crate::watched::WatchedServer;

/// A running SUT for a laboratory elsewhere. Dropping it ends it.
#[derive(Debug)]
pub struct SutHost {
    sut: RunningSut,
    /// End of the program, which its supervisor reports once.
    ended: Option<String>,
    /// The port stays reserved.
    _at: SutAddress,
}

impl SutHost {
    /// Finds the program, writes and checks its configuration, and starts it.
    pub fn start(plan: SutPlan) -> Result<Self> {
        let sut = Sut::find(plan.kind, None).map_err(on_this_host)?;
        let lab = LabPlan {
            connections: plan.connections,
            longest_wait: plan.longest_wait,
            tls_state: plan.tls_state,
            protocol: plan.protocol,
            tls: plan.tls,
            resumes: plan.resumes,
            keep_config: plan.keep_config,
            placement: plan
                .is_pinned
                .then(|| Placement { sut: usable_cpus(), ..Placement::default() }),
            ..LabPlan::new(sut)
        };
        let at = SutAddress::named(plan.listen, plan.identity)?;
        let sut = RunningSut::start(&lab, &at, plan.backends)?;
        Ok(Self { sut, ended: None, _at: at })
    }

    /// Returns the description of the server.
    pub fn started(&self) -> SutStarted {
        self.sut.started.clone()
    }

    /// Returns its status.
    pub fn status(&mut self) -> SutStatus {
        if self.ended.is_none() {
            self.ended = self.sut.ended().map(|end| end.reason().to_owned());
        }
        SutStatus {
            counted: self
                .sut
                .counters()
                .map(|seen| (seen.requests, seen.incomplete, seen.connections)),
            limits: self.sut.limits(),
            ended: self.ended.clone(),
        }
    }

    /// Returns its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.sut.pids()
    }

    /// Returns the source of its figures.
    pub fn statistics(&self) -> Option<CounterSource> {
        self.sut.statistics()
    }
}

/// Rewords an error of this host for a user on another host.
fn on_this_host(error: LabError) -> LabError {
    match error {
        LabError::NotInstalled { program, package } => {
            LabError::NotInstalledThere { program, package }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::plan::TlsState;
    use plimsoll_model::target::Protocol;
    use plimsoll_model::{Nanos, SutKind};
    use plimsoll_tls::KeyKind;

    use super::*;

    #[test]
    fn an_address_of_another_host_is_named() {
        // Of TEST-NET-1.
        let listen = "192.0.2.1:8443".parse().expect("an address");
        let at = SutAddress::elsewhere(KeyKind::EcdsaP256, listen).expect("a certificate");
        let plan = SutPlan {
            kind: SutKind::Embedded,
            listen,
            identity: at.identity,
            backends: Vec::new(),
            connections: 1,
            longest_wait: Nanos::ZERO,
            tls_state: TlsState::Compact,
            protocol: Protocol::Http1,
            tls: true,
            resumes: true,
            keep_config: false,
            is_pinned: false,
        };
        let refused = SutHost::start(plan).expect_err("no host has it").to_string();
        assert!(
            refused.contains(&format!("cannot listen at {listen}: Cannot assign")),
            "{refused}"
        );
        assert!(refused.contains("--sut-address"), "{refused}");
    }
}
