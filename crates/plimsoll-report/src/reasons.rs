//! The table of failures: from a reason to its sentence and its remedy.
//!
//! A hint is chosen by what the server, the proxy or the kernel said, and by the settings of the load; by the class
//! alone only where nothing more is known. e2e/tests/waiting/reasons.rs provokes the rows with real servers.

mod answers;

use std::net::IpAddr;

use plimsoll_model::hold::HoldEnd;
use plimsoll_model::reason::{CertificateFault, Reason};
use plimsoll_model::settings::LoadSettings;
use plimsoll_model::summary::{ReasonSummary, Summary};
use plimsoll_model::units::grouped;
use plimsoll_model::{ErrorClass, Nanos};

use crate::terminal::hints::class_named;
use crate::terminal::layout::clean;

use answers::{of_grpc, of_mqtt, of_status, of_unrequested, quoted, without_markup};

/// The row of the table for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// A clause without a full stop.
    pub(crate) sentence: String,
    /// A clause in the imperative.
    pub(crate) remedy: String,
}

impl Advice {
    fn new(sentence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), remedy: remedy.into() }
    }

    /// Returns both in one line.
    pub(crate) fn text(&self) -> String {
        joined(&self.sentence, &self.remedy)
    }
}

/// Settings of a load that may be what failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Connections begin with a header of the PROXY protocol.
    introduces: bool,
    /// A client certificate is presented where one is asked for.
    has_certificate: bool,
    /// The URL has an address instead of a name, which TLS does not send.
    is_address: bool,
    /// Connections are held.
    is_hold: bool,
    /// All connections go to a Unix socket.
    is_unix: bool,
    /// The exchange that opens each connection, if the protocol has one.
    greeting: Option<Greeting>,
}

/// The exchange that opens a connection before its first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    /// CONNECT and CONNACK of MQTT.
    Mqtt,
    /// The switch to WebSocket.
    WebSocket,
}

impl Greeting {
    /// Returns the exchange that URLs of this scheme have.
    fn of(url: &str) -> Option<Self> {
        match url.split_once("://")?.0 {
            "mqtt" | "mqtts" => Some(Self::Mqtt),
            "ws" | "wss" => Some(Self::WebSocket),
            _ => None,
        }
    }
}

impl Setting {
    pub(crate) fn of(summary: &Summary) -> Self {
        let has = |is: fn(&LoadSettings) -> bool| summary.settings.has_load(is);
        Self {
            introduces: has(|load| load.proxy_protocol),
            has_certificate: has(|load| {
                load.tls.as_ref().is_some_and(|tls| tls.has_client_certificate)
            }),
            is_address: has_address(&summary.target),
            is_hold: summary.result.hold().is_some(),
            is_unix: has(|load| load.unix_socket),
            greeting: Greeting::of(&summary.target),
        }
    }
}

/// Reports whether the host of a URL is an address.
fn has_address(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or(host),
        None => host.split(':').next().unwrap_or(host),
    };
    host.parse::<IpAddr>().is_ok()
}

/// Returns the reasons of a class, each with its count, time and connection; without reasons only the remedy of the
/// class.
pub(crate) fn paragraphs(class: &str, summary: &Summary) -> Vec<String> {
    let known = class_named(class);
    let end = summary.result.hold().map(|hold| &hold.end);
    if let (Some(ErrorClass::Timeout), Some(HoldEnd::ServerFull { .. })) = (known, end) {
        return vec![
            "the server answers no connection beyond its limit, see the first line".to_owned(),
        ];
    }
    let Some(reasons) = summary.failures.error_reasons.get(class).filter(|all| !all.is_empty())
    else {
        return known.map(|class| remedy_of_class(class).to_owned()).into_iter().collect();
    };
    let setting = Setting::of(summary);
    let all: Vec<_> = reasons.iter().map(|one| advice(known, &one.reason, setting)).collect();
    let lines = all.iter().zip(reasons).enumerate().map(|(at, (advice, counted))| {
        let lead = format!("{} ({})", advice.sentence, occurrence(counted));
        // Of reasons with one remedy the last names it.
        let is_named_later = all[at + 1..].iter().any(|later| later.remedy == advice.remedy);
        let remedy = if is_named_later { "" } else { &advice.remedy };
        clean(&joined(&lead, remedy))
    });
    lines.collect()
}

/// Returns the remedy for connections that the server ended while no operation was open on them, without a reason.
pub(crate) fn lost_idle(class: ErrorClass, summary: &Summary) -> Option<&'static str> {
    let is_ended = matches!(class, ErrorClass::ClosedByPeer | ErrorClass::ResetByPeer);
    // Many brokers, such as mosquitto 2.0, end a session that is taken over without a DISCONNECT.
    (is_ended && Greeting::of(&summary.target) == Some(Greeting::Mqtt)).then_some(
        "the broker gave no reason. If another client or load has the same client identifiers, it takes the sessions over: \
         give each load a --client-id PREFIX of its own; else look for a stop or a limit in the broker's log",
    )
}

fn joined(sentence: &str, remedy: &str) -> String {
    match remedy.is_empty() {
        true => format!("{sentence}."),
        false => format!("{sentence}. Remedy: {remedy}."),
    }
}

/// Returns count, first time and connection of a reason.
fn occurrence(counted: &ReasonSummary) -> String {
    let times = match counted.count {
        1 => "once".to_owned(),
        count => format!("{} times", grouped(count)),
    };
    let on = counted.connection.as_ref().map_or_else(String::new, |at| format!(" on {at}"));
    match counted.first_s > 0.0 {
        true => format!("{times}, first after {}{on}", Nanos::from_secs_f64(counted.first_s)),
        false => format!("{times}, first before the start{on}"),
    }
}

/// Returns the line for the first failure of a load, while it runs.
pub(crate) fn first_failure(class: ErrorClass, reason: &Reason) -> String {
    format!("first fault: {}", clean(&advice(Some(class), reason, Setting::default()).sentence))
}

/// Puts the words beside the reasons, for those who read the JSON.
pub(crate) fn put_words(summary: &mut Summary) {
    let setting = Setting::of(summary);
    for (class, reasons) in &mut summary.failures.error_reasons {
        let class = class_named(class);
        for counted in reasons {
            counted.text = advice(class, &counted.reason, setting).text();
        }
    }
}

// ---- the table

const CERTIFICATE_MISSING: &str = "the server asks for a client certificate, and none was sent";
const GIVE_CERTIFICATE: &str = "give one with --cert and --key";

/// Returns the row of a reason.
fn advice(class: Option<ErrorClass>, reason: &Reason, setting: Setting) -> Advice {
    match reason {
        Reason::Status { status, body } => {
            let row = of_status(*status, &body.to_lowercase(), setting);
            let says = quoted(&without_markup(body));
            Advice::new(format!("status {status}: {}{says}", row.sentence), row.remedy)
        }
        Reason::Grpc { status, message } => of_grpc(*status, message),
        Reason::Mqtt { packet, code, name, text } => {
            let (sentence, remedy) = of_mqtt(*packet, *code, setting);
            let says = quoted(text);
            Advice::new(format!("{sentence}: {name}, reason {code:#04x}{says}"), remedy)
        }
        Reason::Unrequested { status, idle_ms, was_used } => {
            of_unrequested(*status, *idle_ms, *was_used, setting)
        }
        Reason::Surplus => Advice::new(
            "the server sent bytes that no request asked for: more behind an answer than its head announces (HEAD, 204 \
             and 304 have no body)",
            "correct the server's answer; such bytes end the connection",
        ),
        Reason::Unanswered { reset } => of_unanswered(*reset, setting),
        Reason::HandshakeCut { reset } => of_cut_handshake(*reset, setting),
        Reason::NotTls => Advice::new(
            "the server answered the TLS handshake with bytes that are not TLS",
            "write http:// instead of https:// in the URL (tcp, mqtt, ws), or check the port",
        ),
        Reason::Alert { alert } => of_alert(alert, setting),
        Reason::Certificate { fault } => Advice::new(
            format!("the server's certificate is not trusted: {fault}"),
            of_certificate(fault),
        ),
        Reason::Other { detail }
            if setting.is_unix && class == Some(ErrorClass::ConnectRefused) =>
        {
            Advice::new(
                detail.clone(),
                "check the path and its permissions, and that a server listens there; if its accept queue is full, raise \
                 its backlog and net.core.somaxconn",
            )
        }
        Reason::Other { detail } => {
            let remedy = class.map_or("look for the reason in the server's log", remedy_of_class);
            Advice::new(detail.clone(), remedy)
        }
    }
}

/// Returns the row of a new connection that the server ended after the first request.
fn of_unanswered(reset: bool, setting: Setting) -> Advice {
    let ended = if reset { "reset" } else { "closed" };
    match setting.greeting {
        Some(Greeting::Mqtt) => Advice::new(
            format!(
                "the broker {ended} connections that it had accepted, before it answered the first packet on them"
            ),
            "the message may be longer than the broker accepts (mosquitto: max_packet_size), or its topic forbidden: with \
             --mqtt-version 5 a broker states its reason; else look in its log",
        ),
        Some(Greeting::WebSocket) => Advice::new(
            format!("the server {ended} WebSockets before it answered the first message on them"),
            "look for a timeout (HAProxy: timeout tunnel; nginx: proxy_read_timeout), a limit on messages or a crash, in the logs \
             of the server and of a proxy before it",
        ),
        None => Advice::new(
            format!("the server {ended} new connections before any byte of an answer"),
            match setting.introduces {
                true => {
                    "it may not expect the header of the PROXY protocol: drop --proxy-protocol; else look for a limit or a \
                     crash in its log"
                }
                false => {
                    "it may expect a header of the PROXY protocol first (HAProxy: accept-proxy; nginx: proxy_protocol): \
                     --proxy-protocol v2; or TLS: https://; else look for a limit on connections, a deny rule or a crash in its log"
                }
            },
        ),
    }
}

/// Returns the row of a TCP connection that ended within the TLS handshake.
fn of_cut_handshake(reset: bool, setting: Setting) -> Advice {
    let ended = if reset { "reset" } else { "closed" };
    let sentence =
        format!("the server {ended} the connection within the TLS handshake, without an alert");
    let name = match setting.is_address {
        true => {
            "the URL has an address, so that no name is sent unless --sni does: a proxy that routes by name (SNI) ends such \
             connections, so try --sni NAME"
        }
        false => {
            "a proxy that routes by name (SNI) ends connections with a name that it does not know: check --sni"
        }
    };
    let header = match setting.introduces {
        true => "it may not expect the header of the PROXY protocol: drop --proxy-protocol",
        false => "it may expect a header of the PROXY protocol first: --proxy-protocol v2",
    };
    Advice::new(
        sentence,
        format!("{name}; {header}; else look for a limit on connections in its log"),
    )
}

/// Returns the row of a TLS alert, by its name in RFC 8446.
fn of_alert(alert: &str, setting: Setting) -> Advice {
    let (means, remedy) = table! { alert;
        "handshake_failure" | "insufficient_security" =>
            "no cipher suite, group or signature algorithm in common, or in TLS 1.2 a client certificate that is \
             missing";
            "drop --tls, --groups and --certificate-key, or enable what they name at the server; a client \
             certificate is given with --cert and --key",
        "protocol_version" => "the server does not speak the version of TLS that was offered";
            "drop --tls, or enable that version at the server (nginx: ssl_protocols; HAProxy: ssl-min-ver, \
             ssl-max-ver)",
        "certificate_required" => CERTIFICATE_MISSING; GIVE_CERTIFICATE,
        // Servers in Go send this one.
        "bad_certificate" if !setting.has_certificate => CERTIFICATE_MISSING; GIVE_CERTIFICATE,
        "unknown_ca" | "bad_certificate" | "certificate_unknown" | "certificate_expired" | "certificate_revoked"
        | "unsupported_certificate" if setting.has_certificate =>
            "the server does not accept the client certificate";
            "give one that is valid and whose issuer the server trusts (nginx: ssl_client_certificate; HAProxy: \
             ca-file; mosquitto: cafile) with --cert and --key",
        "access_denied" => "the server denies access"; "check the client certificate: --cert, --key",
        "unrecognized_name" if setting.is_address =>
            "the server serves only names that it knows, and a URL with an address sends none unless --sni does";
            "send a name that it has: --sni NAME",
        "unrecognized_name" => "the server has no certificate for the name that was asked for";
            "send a name that it has: --sni NAME",
        "internal_error" => "the server failed, or it has no certificate for the name that was asked for (Caddy)";
            "check the name in the URL and --sni; else look for the reason in the server's log",
        _ => "the server's log may say why"; "look for the reason in the server's log",
    };
    Advice::new(format!("the server ended TLS with the alert {alert}: {means}"), remedy)
}

/// Returns the remedy for a fault of a certificate. `--insecure` skips the check in each case.
fn of_certificate(fault: &CertificateFault) -> String {
    use CertificateFault as F;
    let remedy = table! { fault;
        F::Expired => "renew it, and reload the server: a renewed file is not read by itself",
        F::NotValidYet => "check the clocks of this host and of the host that issued it",
        F::WrongName { .. } => "use a name that it has, in the URL or with --sni, or issue it for this one",
        F::NoName => "issue it with a subject alternative name (openssl: -addext subjectAltName=DNS:NAME)",
        F::SelfSigned | F::UnknownIssuer => "trust it by name: --cacert FILE with that certificate or its issuer",
        F::UntrustedRoot { .. } => "trust that authority: --cacert FILE with its certificate",
        F::IssuerMissing { sent_others: false, .. } =>
            "if that issuer is an intermediate authority, let the server send the whole chain (nginx: \
             ssl_certificate, HAProxy: crt, with the intermediates behind the certificate); if it is a root, trust \
             it with --cacert FILE",
        F::IssuerMissing { sent_others: true, .. } =>
            "let the server send the missing certificate, too, or trust that issuer: --cacert FILE",
        F::ForeignSignature => "the authority has a new key: give its present certificate with --cacert FILE",
        F::WeakSignature { .. } => "issue it again, signed with SHA-256",
        F::WeakKey { .. } => "issue it again with an RSA key of 2,048 bits or an ECDSA key",
        F::OldVersion =>
            "issue it again with extensions, which make it one of version 3 (openssl: -addext \
             subjectAltName=DNS:NAME)",
        F::Authority => "issue one for the server, or trust exactly this one: --cacert FILE",
        F::WrongPurpose => "issue it again with the extended key usage serverAuth",
        F::Revoked => "issue another one",
        F::Missing => "give the server a certificate",
        F::Malformed | F::Other { .. } => "issue it again",
    };
    format!("{remedy}; --insecure skips the check")
}

/// Returns the remedy for a class of which no reason is known.
pub(crate) const fn remedy_of_class(class: ErrorClass) -> &'static str {
    use ErrorClass as C;
    table! { class;
        C::ConnectRefused => "nothing listens there: check address and port, and that the server still runs",
        C::ConnectTimeout => "no answer to the SYN: a firewall drops it, or the server's accept queue is full",
        C::ConnectUnreachable => "no route to host: check the address and the routes here",
        C::ConnectReset => "reset while connecting: look for a connection limit at the server or a proxy",
        C::TlsAlert => "look for the reason in the server's log",
        C::TlsUntrusted => "name the issuer of the certificate with --cacert, or skip the check with --insecure",
        C::TlsHandshake => "check that the port speaks TLS; then try other versions and groups: --tls, --groups",
        C::TlsClosed => "look for a limit on connections or a restart in the server's log",
        C::TlsRecord => "a TLS record could not be decrypted, or the server sent an alert: see its log",
        C::ResetByPeer => "reset after the request was sent: a crash, a limit or a timeout at the server",
        C::ClosedByPeer => "closed before the answer was complete: a crash, a restart or a timeout at the server",
        C::KeepaliveRace =>
            "the server ended a kept connection before it answered the next request: raise its keep-alive timeout or \
             limit of requests, or stay below it with --requests-per-connection N or --no-keepalive",
        C::HttpMalformed => "the answer is not HTTP/1.1: check the URL's scheme and port, or correct the server",
        C::HttpTooLarge => "the answer's headers are larger than plimsoll reads: shorten them at the server",
        C::Status4xx => "the server refused requests: its statuses are counted above",
        C::Status5xx => "the server or a backend behind it failed: its statuses are counted above",
        C::Timeout => "no answer within deadline plus linger, or no connection within --connect-timeout: raise --linger, or that, to see how long it takes",
        C::Interrupted => "open when plimsoll ended the run, or cut its connection: no fault of the server",
        C::LocalFiles => "too few open files allowed here: raise `ulimit -n`, or spread with --processes",
        C::LocalPorts => "source ports ran out here: add addresses with --source, or keep connections alive",
        C::LocalMemory => "socket memory ran out here: fewer --connections, or raise net.ipv4.tcp_mem",
        C::LocalOther => "a system call failed here: see `dmesg`",
        C::AgentLost => "a plimsoll process ended early: out of memory or killed? see `dmesg`; fewer --connections",
        C::WsRefused => "the server did not switch to WebSocket: check the path, and the proxy's rules for it",
        C::WsMalformed => "what came after the switch is not WebSocket: correct the server, or the proxy before it",
        C::WsClosed => "the server closed WebSockets before it answered: its code is counted above",
        C::MqttRefused => "the broker refused CONNECT: its log says why; it may want a user or a client certificate",
        C::MqttRejected =>
            "the broker refused the message or the subscription: check its rules for the topic, its quotas",
        C::MqttDisconnected => "the broker ended the connection: look for the reason in its log",
        C::MqttMalformed => "the answer is not MQTT: is it the broker's port?",
        C::AlpnMismatch => "the server does not offer HTTP/2 by ALPN: enable it there, or use --http 1.1",
        C::H2Malformed => "the answer breaks HTTP/2: if the server does not speak it here, use --http 1.1",
        C::H2Reset => "the server reset single requests: look for the reason in its log",
        C::H2Goaway => "the server ended connections for an error: see its log and its limits per connection",
        C::H2Refused =>
            "the server began none of these, however often they were sent: lower --streams, or raise its limit",
        C::GrpcStatus => "calls ended with a status other than 0: see grpc_status in --json",
        C::ScriptMismatch => "the answer is not what the script expects: correct the script, or the server",
        C::PeerSpokeFirst =>
            "the server sent more than the script expects: expect all of an answer, or a banner before loop",
        C::PeerNotReading =>
            "the server sends what must be answered and reads no answers: look for a loop of pings, or a connection \
             that it has stopped reading",
        C::UnrequestedAnswer => "the server sent bytes that no request asked for, which ends a connection",
        C::DeliveryLost =>
            "acknowledged and not delivered: look for a full queue of a subscriber in the broker's log and limits",
    }
}

#[cfg(test)]
mod tests;
