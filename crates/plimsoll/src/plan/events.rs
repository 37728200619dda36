//! Events of a load: their flags, checked against what its server allows.

use std::collections::BTreeMap;

use plimsoll_lab::Ways;
use plimsoll_model::disruption::{Disruption, DisruptionKind};

use crate::exit::Stop;
use crate::flags::shared::EventFlags;

/// Events of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventJob {
    /// The events.
    pub(crate) plan: Vec<Disruption>,
    /// The command that reloads the server.
    pub(crate) on_reload: Option<String>,
}

/// Resolves the events of a load, or of a hold.
pub(super) fn of(
    flags: &EventFlags,
    is_hold: bool,
    settings: &mut BTreeMap<String, String>,
) -> Result<EventJob, Stop> {
    let job = EventJob { plan: flags.event.clone(), on_reload: flags.on_reload.clone() };
    if !is_hold && job.has(|kind| matches!(kind, DisruptionKind::Reconnect(_))) {
        return Err(Stop::usage(
            "the event reconnect is for held connections",
            "use it with hold or lab hold; a load opens its connections as it needs them",
        ));
    }
    if !job.plan.is_empty() {
        let shown = |one: &Disruption| format!("{} at {} s", one.kind, one.at.as_secs_f64());
        let shown: Vec<String> = job.plan.iter().map(shown).collect();
        settings.insert("events".to_owned(), shown.join(", "));
    }
    Ok(job)
}

impl EventJob {
    /// Reports whether the server is to reload, and no command is given for that.
    pub(crate) fn needs_reload(&self) -> bool {
        self.on_reload.is_none() && self.has(|kind| *kind == DisruptionKind::Reload)
    }

    /// Refuses events for which the server does not offer a way.
    pub(crate) fn check(&self, ways: &Ways) -> Result<(), Stop> {
        if self.needs_reload() && !ways.reload {
            return Err(Stop::usage(
                "the event reload needs a way to reload this server",
                "give --on-reload COMMAND, such as --on-reload 'systemctl reload haproxy'; in a laboratory, \
                 HAProxy and nginx reload by themselves",
            ));
        }
        if self.has(|kind| matches!(kind, DisruptionKind::Freeze(_))) && !ways.processes {
            return Err(Stop::usage(
                "the event freeze needs the processes of the server on this host",
                "name one: --watch pid:PID",
            ));
        }
        Ok(())
    }

    fn has(&self, is: fn(&DisruptionKind) -> bool) -> bool {
        self.plan.iter().any(|one| is(&one.kind))
    }
}
