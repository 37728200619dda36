//! Events of a load: their flags, compared with the abilities of its server.
//!
//! The checks are methods of [`EventFlags`], and they run before anything starts. [`EventFlags::check`] compares each
//! event with the [`Ways`] of the server: `needs` is the table of events, requirements and remedies. `check_backends`
//! then plays the events in the order of their instants and refuses one that takes down or drains more backends than
//! are left. Start with [`EventFlags::check`].

use plimsoll_lab::{Description, Ways, describe};
use plimsoll_model::SutKind;
use plimsoll_model::disruption::{Disruption, DisruptionKind};

use crate::exit::Result;
use crate::flags::programs::kinds;
use crate::flags::shared::EventFlags;

impl EventFlags {
    /// Refuses events of a load that are for a hold.
    pub(super) fn check_load(&self) -> Result<()> {
        refuse_if!(self.has(|kind| matches!(kind, DisruptionKind::Reconnect(_)));
            "the event reconnect is for held connections";
            "use it with hold or lab hold; a load opens its connections as it needs them");
        Ok(())
    }

    /// Reports whether the server is to reload by itself.
    pub(crate) fn needs_reload(&self) -> bool {
        let by_command =
            |kind: &DisruptionKind| *kind == DisruptionKind::Reload && self.on_reload.is_some();
        self.event.iter().any(|one| one.kind.reloads() && !by_command(&one.kind))
    }

    /// Reports whether backends are to end.
    pub(crate) fn ends_backends(&self) -> bool {
        self.has(|kind| matches!(kind, DisruptionKind::BackendDown(_)))
    }

    /// Refuses events for which the server does not offer a way.
    pub(crate) fn check(&self, ways: &Ways) -> Result<()> {
        for Disruption { kind, .. } in &self.event {
            let (is_possible, needs, fix) = self.needs(kind, ways);
            refuse_if!(!is_possible; "the event {} needs {needs}", kind.name(); "{fix}");
        }
        self.check_backends(ways)
    }

    /// Returns whether an event is possible, what it needs, and what would allow it.
    fn needs(&self, kind: &DisruptionKind, ways: &Ways) -> (bool, &'static str, String) {
        let proxies = |is: fn(&Description) -> bool| {
            kinds(SutKind::proxies().filter(|kind| is(describe(*kind))))
        };
        let in_laboratory = |proxies: String, else_for: &str| {
            format!(
                "use lab hold with --sut {proxies}; for {else_for}, give --event 'script:COMMAND@WHEN'"
            )
        };
        match kind {
            DisruptionKind::Reload => (
                ways.reload || self.on_reload.is_some(),
                "a way to reload this server",
                format!(
                    "give --on-reload COMMAND, such as --on-reload 'systemctl reload haproxy', or use \
                     lab hold with --sut {}",
                    proxies(Description::reloads)
                ),
            ),
            DisruptionKind::Certificate => (
                ways.certificate,
                "a server of a laboratory that reloads and speaks TLS",
                in_laboratory(
                    format!("{}, over TLS", proxies(Description::reloads)),
                    "another server",
                ),
            ),
            DisruptionKind::Restart => (
                ways.restart,
                "a server that plimsoll has started",
                in_laboratory(proxies(Description::is_proxy), "another server"),
            ),
            DisruptionKind::Freeze(_) => (
                ways.processes,
                "the processes of the server on this host",
                "name one: --watch pid:PID".to_owned(),
            ),
            DisruptionKind::BackendDown(_) | DisruptionKind::BackendUp => (
                ways.backends > 0 || (*kind == DisruptionKind::BackendUp && ways.drained > 0),
                "simulated backends behind a proxy",
                in_laboratory(proxies(Description::is_proxy), "other backends"),
            ),
            DisruptionKind::Drain(_) => (
                ways.drained > 0,
                "a proxy of a laboratory that takes the command at its statistics socket",
                in_laboratory(proxies(|kind| kind.drains), "another server"),
            ),
            DisruptionKind::LinkDown(_) => (
                ways.link,
                "clients and server in network namespaces of their own",
                "use lab hold as root, with --isolate netns".to_owned(),
            ),
            DisruptionKind::Reconnect(_) | DisruptionKind::Script(_) => (true, "", String::new()),
        }
    }

    /// Refuses more backends than there are when their turn comes.
    fn check_backends(&self, ways: &Ways) -> Result<()> {
        let mut plan = self.event.clone();
        plan.sort_by_key(|one| one.at);
        let all = ways.backends.max(ways.drained);
        let (mut down, mut drained) = (0_u32, 0_u32);
        for Disruption { kind, at } in &plan {
            match kind {
                DisruptionKind::BackendDown(count) => down = down.saturating_add(*count),
                DisruptionKind::Drain(count) => drained = drained.saturating_add(*count),
                DisruptionKind::BackendUp if down + drained == 0 => {
                    refuse!("the event backend-up at {} s finds no backend down", at.as_secs_f64();
                        "give an earlier backend-down or drain")
                }
                DisruptionKind::BackendUp => (down, drained) = (0, 0),
                _ => {}
            }
            let left_for_drained = u32::from(drained > 0);
            refuse_if!(down.saturating_add(drained) > all.saturating_sub(left_for_drained);
                "the event {kind} at {} s is too much for {all} backends", at.as_secs_f64();
                "give --backends N; a drain leaves one of them at least");
        }
        Ok(())
    }

    fn has(&self, is: fn(&DisruptionKind) -> bool) -> bool {
        self.event.iter().any(|one| is(&one.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Stop;

    /// A laboratory with HAProxy, four backends and network namespaces.
    const ALL: Ways = Ways {
        processes: true,
        reload: true,
        restart: true,
        backends: 4,
        drained: 4,
        link: true,
        certificate: true,
    };

    fn refusal(events: &[&str], ways: &Ways) -> Option<String> {
        let event = events.iter().map(|text| text.parse().expect("an event")).collect();
        match (EventFlags { event, on_reload: None }).check(ways) {
            Ok(()) => None,
            Err(Stop::Usage(text)) => Some(text),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_that_the_server_does_not_allow_is_refused_with_what_would() {
        let events = [
            ("reload@1s", "--on-reload COMMAND"),
            ("certificate@1s", "over TLS"),
            ("restart@1s", "lab hold with --sut haproxy, nginx or caddy"),
            ("freeze:1s@1s", "--watch pid:PID"),
            ("backend-down@1s", "simulated backends"),
            ("drain@1s", "statistics socket"),
            ("link-down:1s@1s", "--isolate netns"),
        ];
        for (event, fix) in events {
            assert_eq!(refusal(&[event], &ALL), None, "{event}");
            let text = refusal(&[event], &Ways::default()).expect(event);
            let name = event.split([':', '@']).next().expect("a name");
            assert!(text.starts_with(&format!("the event {name} needs ")), "{text}");
            assert!(text.contains(fix), "{text}");
        }
        let all = format!("lab hold with --sut {}", kinds(SutKind::proxies()));
        for event in ["reload@1s", "certificate@1s", "restart@1s", "backend-down@1s"] {
            let text = refusal(&[event], &Ways::default()).expect(event);
            assert!(text.contains(&all), "{text}");
        }
        let text = refusal(&["drain@1s"], &Ways::default()).expect("no drain");
        assert!(text.contains("lab hold with --sut haproxy;"), "{text}");
        assert_eq!(refusal(&["script:true@1s", "reconnect:1%@2s"], &Ways::default()), None);
    }

    #[test]
    fn there_are_as_many_backends_as_events_end_at_once() {
        let refused = |events: &[&str]| refusal(events, &ALL);
        // In the order of their instants.
        assert_eq!(refused(&["backend-up@3s", "backend-down:4@1s", "backend-down:4@4s"]), None);
        assert_eq!(refused(&["backend-down:1@1s", "drain:2@2s", "backend-up@3s"]), None);
        for events in [
            &["backend-down:5@1s"][..],
            &["backend-down:2@1s", "backend-down:3@2s"],
            &["drain:4@1s"],
            &["drain:1@1s", "backend-down:3@2s"],
        ] {
            let text = refused(events).expect("too many");
            assert!(text.contains("too much for 4 backends"), "{text}");
        }
        let text = refused(&["backend-up@1s", "backend-down:1@2s"]).expect("none is down");
        assert!(text.starts_with("the event backend-up at 1 s finds no backend down"), "{text}");
    }

    #[test]
    fn a_command_reloads_what_cannot_reload_by_itself() {
        let with = |event: &str, on_reload: Option<&str>| EventFlags {
            event: vec![event.parse().expect("an event")],
            on_reload: on_reload.map(str::to_owned),
        };
        assert!(with("reload@1s", None).needs_reload());
        let by_command = with("reload@1s", Some("true"));
        assert!(!by_command.needs_reload() && by_command.check(&Ways::default()).is_ok());
        assert!(with("certificate@1s", Some("true")).needs_reload());
    }
}
