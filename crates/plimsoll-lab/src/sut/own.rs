//! plimsoll's own server as the SUT, which answers requests itself.

use plimsoll_fleet::ServerGroup;
use plimsoll_fleet::message::SutStarted;
use plimsoll_model::cliff::Owner;
use plimsoll_model::plan::Listener;
use plimsoll_sys::limits;
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use super::{Description, several};
use crate::address::SutAddress;
use crate::error::Result;
use crate::own_servers::OwnServers;
use crate::plan::LabPlan;

pub(super) static DESCRIPTION: Description =
    Description { carries_tcp: true, costs_as_client: true, ..Description::PROXY };

/// Starts it in as many processes as descriptors require.
pub(crate) fn start(plan: &LabPlan, at: &SutAddress) -> Result<(ServerGroup, SutStarted)> {
    let fit = limits::raise_descriptor_limit().saturating_sub(PROCESS_DESCRIPTORS);
    let own = OwnServers {
        processes: plan.processes(fit),
        tls_state: plan.tls_state,
        host: at.isolated.as_ref().map(|hosts| hosts.sut.clone()),
        ..plan.own_servers(plan.sut_cpus())
    };
    let listener = Listener { address: at.listen, tls: plan.tls, spoken: plan.spoken() };
    let servers = own.start_at(vec![listener], Some(at.identity.clone()))?;
    let name = several(own.processes, "plimsoll serve (embedded)");
    let timers = own.timers(Owner::Sut, "plimsoll serve");
    Ok((servers, SutStarted { name, notes: Vec::new(), timers }))
}
