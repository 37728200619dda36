//! What to do about an error class or a failed check, in one plain sentence each.

use plimsoll_model::hold::HoldEnd;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::CheckId;
use plimsoll_model::{ErrorClass, Fault};

/// Whose fault a class is, in words.
pub(crate) const fn fault(class: ErrorClass) -> &'static str {
    match class.fault() {
        Fault::Peer => "server or network",
        Fault::Local => "this host",
        Fault::OwnTimer => "plimsoll stopped waiting",
    }
}

/// What to do about a class in a run. A known limit of the server is the reason for silence.
pub(crate) fn for_class_in(summary: &Summary, class: ErrorClass) -> &'static str {
    let end = summary.hold.as_ref().map(|hold| &hold.end);
    match (class, end) {
        (ErrorClass::Timeout, Some(HoldEnd::ServerFull { .. })) => {
            "the server answers no connection beyond its limit, see the first line"
        }
        (class, _) => for_class(class),
    }
}

/// What to do about a class.
pub(crate) const fn for_class(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::ConnectRefused => {
            "nothing listens there: check address and port, and that the server still runs"
        }
        ErrorClass::ConnectTimeout => {
            "no answer to the SYN: a firewall drops it, or the server's accept queue is full"
        }
        ErrorClass::ConnectUnreachable => "no route to host: check the address and the routes here",
        ErrorClass::ConnectReset => {
            "reset while connecting: look for a connection limit at the server or a proxy"
        }
        ErrorClass::TlsAlert => {
            "the server refused the handshake: its log says why; it may want a client \
             certificate (--cert, --key), another name (--sni) or version (--tls)"
        }
        ErrorClass::TlsUntrusted => {
            "the certificate is not trusted: see the first fault; name its issuer with --cacert, or \
             skip the check with --insecure"
        }
        ErrorClass::TlsHandshake => {
            "no TLS version, group or cipher in common: is it a TLS port? else try --tls, --groups"
        }
        ErrorClass::TlsClosed => {
            "closed during the handshake: the server is overloaded or at a connection limit"
        }
        ErrorClass::TlsRecord => {
            "a TLS record could not be decrypted, or the server sent an alert: see its log"
        }
        ErrorClass::ResetByPeer => {
            "reset after the request was sent: a crash, a limit or a timeout at the server"
        }
        ErrorClass::ClosedByPeer => {
            "closed before the answer was complete: a crash, a restart or a timeout at the server"
        }
        ErrorClass::KeepaliveRace => {
            "the server ended a kept connection before it answered the next request: raise its keep-alive \
             timeout or limit of requests, or stay below it with --requests-per-connection N or --no-keepalive"
        }
        ErrorClass::HttpMalformed => {
            "the answer is not HTTP/1.1: the first fault below names what is wrong with it"
        }
        ErrorClass::HttpTooLarge => {
            "the answer's headers are larger than plimsoll reads: shorten them at the server"
        }
        ErrorClass::Status4xx => "the server refused the request: check method, path and headers",
        ErrorClass::Status5xx => "the server or a backend behind it failed: see its log",
        ErrorClass::Timeout => {
            "no answer within deadline plus linger: raise --linger to see how long it takes"
        }
        ErrorClass::Interrupted => "not finished when the run was stopped: no fault of the server",
        ErrorClass::LocalFiles => {
            "too few open files allowed here: raise `ulimit -n`, or spread with --processes"
        }
        ErrorClass::LocalPorts => {
            "source ports ran out here: add addresses with --source, or keep connections alive"
        }
        ErrorClass::LocalMemory => {
            "socket memory ran out here: fewer --connections, or raise net.ipv4.tcp_mem"
        }
        ErrorClass::LocalOther => "a system call failed here: see `dmesg`",
        ErrorClass::AgentLost => {
            "a plimsoll process ended early: out of memory or killed? see `dmesg`; fewer --connections"
        }
        ErrorClass::WsRefused => {
            "the server did not switch to WebSocket: check the path, and the proxy's rules for it"
        }
        ErrorClass::WsMalformed => {
            "what came after the switch is not WebSocket: the first fault says what is wrong with it"
        }
        ErrorClass::WsClosed => {
            "the server closed WebSockets before it answered: its code is counted above"
        }
        ErrorClass::MqttRefused => {
            "the broker refused CONNECT: its log says why; it may want a user or a client certificate"
        }
        ErrorClass::MqttRejected => {
            "the broker refused the message or the subscription: check its rules for the topic, its quotas"
        }
        ErrorClass::MqttDisconnected => "the broker ended the connection and said why: see its log",
        ErrorClass::MqttMalformed => "the answer is not MQTT: is it the broker's port?",
        ErrorClass::AlpnMismatch => {
            "the server does not offer HTTP/2 by ALPN: enable it there, or use --http 1.1"
        }
        ErrorClass::H2Malformed => {
            "the answer breaks HTTP/2, see the first fault; if the server does not speak it here, use --http 1.1"
        }
        ErrorClass::H2Reset => "the server reset single requests: see the first fault, and its log",
        ErrorClass::H2Goaway => {
            "the server ended connections for an error: see its log and its limits per connection"
        }
        ErrorClass::H2Refused => {
            "the server began none of these, however often they were sent: see the first fault; lower \
             --streams, or raise its limit"
        }
        ErrorClass::GrpcStatus => {
            "calls ended with a status other than 0: see grpc_status in --json"
        }
        ErrorClass::ScriptMismatch => {
            "the answer is not what the script expects: the first fault says what came, and at which line"
        }
        ErrorClass::PeerSpokeFirst => {
            "the server sent more than the script expects: expect all of an answer, or a banner before loop"
        }
        ErrorClass::UnrequestedAnswer => {
            "the server sent bytes that no request asked for, which ends a connection: more behind an answer than \
             its head announces (HEAD, 204 and 304 have no body), or an answer of its own accord"
        }
        ErrorClass::PeerNotReading => {
            "the server sends what must be answered and reads no answers: look for a loop of pings, or a connection that \
             it has stopped reading"
        }
        ErrorClass::DeliveryLost => {
            "acknowledged and not delivered: look for a full queue of a subscriber in the broker's log and limits"
        }
    }
}

/// The class of that name, if there is one.
pub(crate) fn class_named(name: &str) -> Option<ErrorClass> {
    ErrorClass::ALL.iter().copied().find(|class| class.name() == name)
}

/// What helps when the generator was the limit.
pub(crate) const MORE_GENERATOR: &str = "Give plimsoll more room: idle cores, more --threads or \
     --processes, a machine that does not also run the server; or offer less.";

/// What a person can do where the generator was the limit, by the names of the checks that failed
/// (`local-errors, local-ports`): the sentence of the first that has one of its own.
pub(crate) fn remedy(why: &str) -> String {
    let own = why.split(", ").find_map(|name| match CheckId::from(name.to_owned()) {
        CheckId::Pool => Some("Raise --connections.".to_owned()),
        CheckId::GeneratorMemory => Some("Use fewer --connections, or a larger host.".to_owned()),
        CheckId::GeneratorNetwork => {
            Some("Use a faster link, or one that loses nothing.".to_owned())
        }
        CheckId::PeerCounters => Some("Keep other clients from the server.".to_owned()),
        _ => class_named(name).map(|class| format!("Remedy: {}.", for_class(class))),
    });
    own.unwrap_or_else(|| MORE_GENERATOR.to_owned())
}

/// Whether a failed check says that plimsoll, or its share of this host, made another load than was asked for.
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

/// What kept loads from being judged, by the names of the checks that failed (`local-errors, local-ports`).
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
        _ => "the generator was the limit",
    }
}

/// Whether [`MORE_GENERATOR`] helps against a check.
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
    }

    #[test]
    fn every_class_says_what_to_do() {
        for class in ErrorClass::ALL {
            assert_eq!(class_named(class.name()), Some(*class));
            assert!(for_class(*class).len() > 20, "{}", class.name());
        }
    }
}
