//! The fault of an error class in words, and remedies for failed checks.

use plimsoll_model::trial::CheckId;
use plimsoll_model::{ErrorClass, Fault};

use crate::reasons;

/// Returns the side at fault for a class, in words.
pub(crate) const fn fault(class: ErrorClass) -> &'static str {
    match class.fault() {
        Fault::Peer => "server or network",
        Fault::Local => "this host",
        Fault::OwnTimer => "plimsoll stopped waiting",
    }
}

/// Returns the class of that name, if there is one.
pub(crate) fn class_named(name: &str) -> Option<ErrorClass> {
    ErrorClass::ALL.iter().copied().find(|class| class.name() == name)
}

/// Remedy if the generator was the limit.
pub(crate) const MORE_GENERATOR: &str = "Give plimsoll more room: idle cores, more --threads or \
     --processes, a machine that does not also run the server; or offer less.";

/// Returns the remedy if the generator was the limit, by the names of the checks that failed
/// (`local-errors, local-ports`): the sentence of the first that has one of its own.
pub(crate) fn remedy(why: &str) -> String {
    let own = why.split(", ").find_map(|name| match CheckId::from(name.to_owned()) {
        CheckId::Pool => Some("Raise --connections.".to_owned()),
        CheckId::GeneratorMemory => Some("Use fewer --connections, or a larger host.".to_owned()),
        CheckId::GeneratorNetwork => {
            Some("Use a faster link, or one that loses nothing.".to_owned())
        }
        CheckId::PeerCounters => Some("Keep other clients from the server.".to_owned()),
        _ => class_named(name).map(|class| format!("Remedy: {}.", reasons::remedy_of_class(class))),
    });
    own.unwrap_or_else(|| MORE_GENERATOR.to_owned())
}

/// Reports whether a failed check says that plimsoll, or its share of this host, made another load than was asked for.
pub(crate) const fn is_of_generator(check: &CheckId) -> bool {
    matches!(
        check,
        CheckId::RateFidelity
            | CheckId::SendLag
            | CheckId::OwnDelay
            | CheckId::Arrivals
            | CheckId::GeneratorCpu
            | CheckId::Scheduling
            | CheckId::LocalErrors
            | CheckId::GeneratorMemory
            | CheckId::Reference
            | CheckId::Agents
    )
}

/// Returns the obstacle to judging loads, by the names of the checks that failed (`local-errors, local-ports`).
pub(crate) fn obstacle(why: &str) -> &'static str {
    let first = why.split(", ").next().unwrap_or_default();
    match CheckId::from(first.to_owned()) {
        CheckId::PeerCounters => {
            "requests that are not plimsoll's were the limit of what can be judged"
        }
        CheckId::Unrequested => {
            "messages that no request asked for were the limit of what can be judged"
        }
        CheckId::PathLoss => "the path was the limit",
        CheckId::HostCpu => {
            "this host's CPUs were the limit, for plimsoll and for other programs together"
        }
        CheckId::GeneratorNetwork => "this host's network was the limit",
        CheckId::Pool => "the number of connections was the limit",
        CheckId::Accounting | CheckId::LittlesLaw => {
            "figures that contradict each other were the limit of what can be judged"
        }
        _ => "the generator was the limit",
    }
}

/// Reports whether [`MORE_GENERATOR`] helps against a check.
pub(crate) const fn needs_more_generator(check: &CheckId) -> bool {
    matches!(
        check,
        CheckId::RateFidelity | CheckId::SendLag | CheckId::OwnDelay | CheckId::GeneratorCpu
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_the_failed_check() {
        for (why, says) in [
            ("pool", "--connections"),
            ("local-errors, local-ports", "--source"),
            ("local-errors, local-files", "ulimit -n"),
            ("send-lag, generator-cpu", "--threads"),
        ] {
            assert!(remedy(why).contains(says), "{why}: {}", remedy(why));
        }
    }

    #[test]
    fn the_generator_is_blamed_only_for_its_own_checks() {
        assert_eq!(obstacle("send-lag, peer-counters"), "the generator was the limit");
        assert_eq!(obstacle("peer-counters").find("generator"), None);
        // Checks of other programs on this host, of the path and of no single program.
        for why in ["host-cpu", "generator-network", "path-loss", "littles-law", "pool"] {
            assert_eq!(obstacle(why).find("generator"), None, "{why}");
        }
    }

    #[test]
    fn every_class_says_what_to_do() {
        for class in ErrorClass::ALL {
            assert_eq!(class_named(class.name()), Some(*class));
            assert!(reasons::remedy_of_class(*class).len() > 20, "{}", class.name());
        }
    }
}
