//! What to do about an error class or a failed check, in one plain sentence each.

use plimsoll_model::trial::Level;
use plimsoll_model::{ErrorClass, Fault};

/// Whose fault a class is, in words.
pub(crate) const fn fault(class: ErrorClass) -> &'static str {
    match class.fault() {
        Fault::Peer => "server or network",
        Fault::Local => "this machine",
        Fault::OwnTimer => "plimsoll stopped waiting",
    }
}

/// What to do about a class.
pub(crate) const fn for_class(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::ConnectRefused => {
            "nothing accepts connections there: check address and port, and that it still runs"
        }
        ErrorClass::ConnectTimeout => {
            "no answer to connecting: a firewall drops it, or the server's accept queue is full"
        }
        ErrorClass::ConnectUnreachable => "no way to that address: check it and the routes here",
        ErrorClass::ConnectReset => {
            "cut off while connecting: look for a connection limit at the server or a proxy"
        }
        ErrorClass::TlsAlert => {
            "the server refused the handshake: its log says why; it may want a client \
             certificate (--cert, --key), another name (--sni) or version (--tls)"
        }
        ErrorClass::TlsUntrusted => {
            "the certificate is not trusted: name its issuer with --cacert, or skip the check \
             with --insecure"
        }
        ErrorClass::TlsHandshake => {
            "no TLS version, group or cipher in common: is it a TLS port? else try --tls, --groups"
        }
        ErrorClass::TlsClosed => {
            "closed during the handshake: the server is overloaded or at a connection limit"
        }
        ErrorClass::TlsRecord => {
            "encrypted data arrived broken, or the server raised an alarm: see its log"
        }
        ErrorClass::ResetByPeer => {
            "cut off after the request was sent: a crash, a limit or a timeout at the server"
        }
        ErrorClass::ClosedByPeer => {
            "closed before the answer was complete: a crash, a restart or a timeout at the server"
        }
        ErrorClass::KeepaliveRace => {
            "the server closed an idle connection as a request was on its way: normal where its \
             keep-alive timeout or limit is reached"
        }
        ErrorClass::HttpMalformed => {
            "the answer is not HTTP/1.1: is it an https port, or another protocol?"
        }
        ErrorClass::HttpTooLarge => {
            "the answer's headers are larger than plimsoll reads: shorten them at the server"
        }
        ErrorClass::Status4xx => "the server refused the request: check method, path and headers",
        ErrorClass::Status5xx => "the server or a backend behind it failed: see its log",
        ErrorClass::Timeout => {
            "no answer in the whole wait (deadline plus linger): raise --linger to see how long \
             it takes"
        }
        ErrorClass::Interrupted => {
            "not finished when the run was stopped: says nothing about the server"
        }
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
            "a plimsoll process died: out of memory or killed? see `dmesg`; fewer --connections"
        }
    }
}

/// The class of that name, if this version knows it.
pub(crate) fn class_named(name: &str) -> Option<ErrorClass> {
    ErrorClass::ALL.iter().copied().find(|class| class.name() == name)
}

/// Whether a check is a goal of the SLO: `p99<50ms`.
pub(crate) fn is_goal(check: &str) -> bool {
    check.contains('<')
}

/// The check of a run that ended before it could be judged: killed, or stopped too early.
pub const RUN_COMPLETE: &str = "run-complete";

/// The check that anything was answered at all.
pub(crate) const ANSWERS: &str = "answers";

/// The check that no agent died.
const AGENTS: &str = "agents";

/// Whether a failed check speaks against the generator, not against the server.
pub(crate) fn is_generator(check: &str) -> bool {
    const OF_THE_SERVER: [&str; 9] =
        ["stable", "aborted", ANSWERS, RUN_COMPLETE, "held", "lost", "answered", "status", "late"];
    !is_goal(check) && !OF_THE_SERVER.contains(&check)
}

/// The validity checks of a load, with their numbers in the methodology; two share one.
pub(crate) const VALIDITY: [(&str, &str); 18] = [
    ("V1", "rate-fidelity"),
    ("V2", "send-lag"),
    ("V3", "arrivals"),
    ("V4", "accounting"),
    ("V5", "littles-law"),
    ("V6", "peer-counters"),
    ("V7", "generator-cpu"),
    ("V7", "host-cpu"),
    ("V8", "scheduling"),
    ("V9", "local-errors"),
    ("V10", "own-timers"),
    ("V11", "generator-network"),
    ("V12", "reference"),
    ("V13", "generator-memory"),
    ("V14", "stationarity"),
    ("V15", "monitor"),
    ("V16", "co-location"),
    ("", "pool"),
];

/// What a check that did not pass means and what to do; goals speak for themselves.
pub(crate) fn for_check(check: &str, level: Level) -> Option<&'static str> {
    Some(match check {
        ANSWERS => "there is nothing to measure: see the errors above",
        AGENTS => {
            "a plimsoll process died or hung, and its share of the load with it: out of memory or \
             killed? see `dmesg`"
        }
        "rate-fidelity" => "plimsoll did not start as many operations as planned",
        "send-lag" => "operations left later than they could: plimsoll or this machine was busy",
        "generator-cpu" => "a plimsoll thread was busy for most of the time",
        "accounting" => "the figures do not add up: a fault of plimsoll, please report it",
        "arrivals" => "operations did not start in the pattern that was asked for",
        "littles-law" => {
            "operations in flight do not fit rate and latency: one of the two was measured wrongly"
        }
        "peer-counters" => {
            "the server counted other requests than plimsoll: does anyone else use it, or does \
             something between them retry or answer by itself?"
        }
        "host-cpu" => "this machine had no CPU to spare: end other work, or use another host",
        "scheduling" => {
            "threads of plimsoll were ready and did not get a CPU: end other work, pin them, or \
             use another host"
        }
        "generator-network" => "packets were lost on this side, or its link was full",
        "reference" => "the load is close to the most that this generator can make",
        "generator-memory" => "this machine was short of memory: fewer --connections",
        "stationarity" => "the second half was unlike the first: a longer trial may tell more",
        "monitor" => "the server was not looked at often enough to say what limits it",
        "co-location" => "generator and server take each other's CPU time",
        "local-errors" => "this machine ran out of something: see the errors above",
        "pool" if level == Level::Fail => {
            "operations waited for a free connection although the server was fast: raise \
             --connections"
        }
        "pool" => {
            "operations waited for a free connection: the server was too slow for the pool, or \
             --connections is too small"
        }
        "own-timers" => "plimsoll stopped waiting; raise --linger to see how long answers take",
        "stable" => "more came in than was finished: the backlog grew for as long as it lasted",
        "held" => "fewer connections than asked for were open at the end: see the classes above",
        "lost" => {
            "the server or the network ended connections that were held: a limit, a timer or a \
             restart there; see the classes above"
        }
        "answered" => "connections that looked open did not answer a request",
        "status" => "the server answered, and refused or failed: check the path and its log",
        "laboratory" => {
            "what kept the server running was lost, and the server with it: out of memory or \
             killed? see `dmesg`"
        }
        "machine" => "this machine does not take more: use --up-to to hold what fits",
        "late" => "answers that took longer than --deadline, or than a whole heartbeat period",
        "aborted" => "ended early, because the verdict could not change any more",
        _ => return None,
    })
}

/// What helps when the generator was the limit.
pub(crate) const MORE_GENERATOR: &str = "Give plimsoll more room: idle cores, more --threads or \
     --processes, a machine that does not also run the server; or offer less.";

/// Whether [`MORE_GENERATOR`] helps against a check.
pub(crate) fn needs_more_generator(check: &str) -> bool {
    ["rate-fidelity", "send-lag", "generator-cpu"].contains(&check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_says_what_to_do() {
        for class in ErrorClass::ALL {
            assert_eq!(class_named(class.name()), Some(*class));
            assert!(for_class(*class).len() > 20, "{}", class.name());
        }
    }
}
