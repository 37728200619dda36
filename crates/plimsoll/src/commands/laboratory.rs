//! A laboratory set up: the SUT, the backends behind it, and what is said of them first. What is
//! done in it is the business of whoever asked.

use plimsoll_fleet::ServerGroup;
use plimsoll_model::plan::Identity;

use crate::commands::lab::Staff;
use crate::commands::sut::{Room, Started};
use crate::commands::{lab, sut};
use crate::exit::Stop;
use crate::hosts::Placement;
use crate::plan::lab::{Hosts, Sut};

/// Runs until it is dropped, the SUT before its backends.
pub(super) struct Laboratory {
    pub(super) sut: Started,
    /// None behind our own server, which answers itself.
    pub(super) backends: Option<ServerGroup>,
    /// Where clients send their requests.
    pub(super) url: String,
    /// What reports call the target.
    pub(super) target_name: String,
    /// Lines for the reader.
    pub(super) notes: Vec<String>,
}

impl Laboratory {
    /// Starts `program` and what stands behind it. Without a placement nothing is pinned, and the
    /// backends' timers are the SUT's.
    pub(super) fn start(
        program: &sut::Program,
        hosts: &Hosts,
        identity: &Identity,
        room: &Room,
        placement: Option<&Placement>,
    ) -> Result<Self, Stop> {
        let placed = |text: String| match placement {
            Some(placement) => lab::placement_note(&text, placement),
            None => text,
        };
        let (sut, backends, behind) = match program {
            sut::Program::Embedded => {
                let nobody = "no backends: the SUT answers itself".to_owned();
                (sut::start_embedded(identity, room)?, None, placement.map(|_| placed(nobody)))
            }
            program => {
                let staff = match placement {
                    Some(placement) => Staff::new(&placement.backends),
                    None => Staff { timeout: room.timeout, ..Staff::new(&[]) },
                };
                let backends = lab::start_backends(hosts.backends, &staff)?;
                let addresses: Vec<_> =
                    backends.listeners().iter().map(|listener| listener.address).collect();
                let behind = placed(format!("{} backends", addresses.len()));
                let sut = sut::start_proxy(program, hosts.keep, identity, addresses, room)?;
                (sut, Some(backends), Some(behind))
            }
        };
        let scheme = if room.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/", sut.address);
        let mut notes = vec![format!("SUT {} at {url}", sut.name)];
        notes.extend(behind);
        if hosts.sut == Sut::Auto && matches!(program, sut::Program::Embedded) {
            notes.push(lab::NO_HAPROXY.to_owned());
        }
        notes.extend(sut.notes.iter().cloned());
        let target_name = format!("{} at {url}", sut.name);
        Ok(Self { sut, backends, url, target_name, notes })
    }
}
