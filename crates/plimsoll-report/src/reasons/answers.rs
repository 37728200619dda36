//! Answers that failed: statuses of HTTP and gRPC, reason codes of MQTT, and unrequested answers.
//!
//! Each `of_` function is a table from a code to a sentence and a remedy; `reasons.rs` selects the function by the
//! reason. The first matching row counts, so in [`of_status`] the rows with a condition on the body or the
//! [`Setting`] precede the general row of their status. The body must come in small letters. [`quoted`] escapes words
//! of a server before they are shown. Start reading at [`of_status`].

use plimsoll_model::Nanos;
use plimsoll_model::reason::MqttPacket;

use super::{Advice, CERTIFICATE_MISSING, GIVE_CERTIFICATE, Setting};

/// Quotes words of the server at the end of a sentence.
pub(super) fn quoted(words: &str) -> String {
    match words.is_empty() {
        true => String::new(),
        false => format!("; it says {words:?}"),
    }
}

/// Returns the words of a body, without the tags of HTML and without repetition; a body without HTML as it is.
pub(super) fn without_markup(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return body.to_owned();
    }
    let mut words: Vec<&str> = Vec::new();
    for part in body.split('<') {
        let text = part.split_once('>').map_or("", |(_, text)| text.trim());
        if !text.is_empty() && !words.contains(&text) {
            words.push(text);
        }
    }
    words.join(" ")
}

/// Returns the row of a failing status; `body` in small letters.
pub(super) fn of_status(status: u16, body: &str, setting: Setting) -> Advice {
    let has = |parts: &[&str]| parts.iter().any(|part| body.contains(part));
    let (sentence, remedy) = table! { status;
        // nginx; Go and Caddy; Apache.
        400 if has(&["plain http request was sent to https port", "sent an http request to an https server",
            "speaking plain http to an ssl-enabled"]) =>
            "the port speaks TLS, and the request came without"; "write https:// in the URL",
        400 if has(&["no required ssl certificate was sent"]) => CERTIFICATE_MISSING; GIVE_CERTIFICATE,
        400 if has(&["ssl certificate error"]) => "the server does not accept the client certificate";
            "give one whose issuer the server trusts (nginx: ssl_client_certificate) with --cert and --key",
        400 if has(&["header or cookie too large"]) =>
            "the header fields of the request are larger than the server reads";
            "send fewer or shorter -H fields, or raise the bound (nginx: large_client_header_buffers)",
        400 if setting.introduces =>
            "the server calls the request malformed; it may not expect the header of the PROXY protocol";
            "drop --proxy-protocol, or let the server accept it (HAProxy: accept-proxy; nginx: proxy_protocol)",
        400 if has(&["your browser sent an invalid request"]) =>
            "HAProxy calls the request malformed, or it is longer than its buffer (tune.bufsize)";
            "shorten the URL, or send fewer or shorter -H fields; `show errors` on HAProxy's socket shows the \
             request and the place that it does not accept",
        400 => "the server calls the request malformed";
            "check the Host header, the path and other -H fields; a proxy's log says what it does not accept",
        401 => "the server asks for credentials";
            "send them: -H 'Authorization: ...', or those that its WWW-Authenticate names",
        403 => "a rule of the server or the proxy forbids the request";
            "check its access rules (HAProxy: http-request deny; nginx: allow, deny) for this address, path and \
             method",
        404 | 410 => "the server has nothing at that path";
            "check the path, and the Host header that chooses the site",
        405 => "the server does not allow the method at that path";
            "check the method, which is POST with --data or --body unless -X names another (nginx serves files and \
             static answers to GET and HEAD only)",
        408 =>
            "the server's timeout for a request ended; it had waited on an idle connection when this request was \
             sent, or for the rest of the request";
            request_timeout(setting),
        411 => "the server wants a Content-Length"; "send a body with a length: --body or --data",
        413 => "the body of the request is larger than the server accepts";
            "send a smaller body, or raise the bound (nginx: client_max_body_size; Apache: LimitRequestBody)",
        414 => "the URL is longer than the server reads";
            "shorten the URL, or raise the bound (nginx: large_client_header_buffers; Apache: LimitRequestLine)",
        415 => "the server does not take that type of body, or no body with that method";
            "name another type: -H 'Content-Type: ...'; a method such as DELETE may have to come without --data and \
             --body",
        421 => "the server has no site of that name on this connection";
            "let Host header and TLS name agree: --sni, -H 'Host: ...'",
        426 =>
            "the server answers only after a switch to another protocol, which the Upgrade field of its answer names";
            "write ws:// or wss:// for an endpoint of WebSocket; else check the URL's scheme, and --http",
        429 => "a limit on requests per client or in all refuses it";
            "offer less, raise the limit (nginx: limit_req; HAProxy: a stick-table rule), or come from more \
             addresses with --source",
        431 => "the header fields of the request are larger than the server reads";
            "send fewer or shorter -H fields, or raise the bound (HAProxy: tune.bufsize; nginx: \
             large_client_header_buffers)",
        502 => "the proxy got no valid answer from its backend";
            "check that the backend runs, that its address is right and that it speaks what the proxy sends it; the \
             proxy's log names the backend",
        503 if has(&["no server is available to handle this request"]) =>
            "HAProxy has no server for it: all are down or full, or it waited in the queue for longer than timeout \
             queue";
            "look at the status, qcur and slim of its servers (show stat), then raise their maxconn or add servers",
        503 if has(&["backend fetch failed"]) => "Varnish got no answer from its backend";
            "check that the backend runs, and its .max_connections and timeouts",
        503 if has(&["nginx", "openresty"]) =>
            "nginx itself refuses it, by limit_req or limit_conn; a backend that fails gives 502 or 504";
            "offer less, or raise rate and burst of the limit",
        503 => "the server is at a limit or has no backend";
            "look for a limit on requests or connections, a full queue, and backends that are down",
        504 => "the backend did not answer within the proxy's timeout";
            "find out why the backend is slow; the timeout is timeout server (HAProxy) or proxy_read_timeout (nginx)",
        500 => "the server failed at the request"; "look for the fault in the log of the application",
        501 | 505 => "the server does not know the method or the version of HTTP"; "check -X and --http",
        _ if status < 500 => "the server refuses the request"; "check method, path and headers",
        _ => "the server or a backend behind it failed"; "look for the reason in its log",
    };
    Advice::new(sentence, remedy)
}

/// Returns the row of a status of gRPC (its statuscodes.md).
pub(super) fn of_grpc(status: u8, message: &str) -> Advice {
    let (name, sentence, remedy) = table! { status;
        1 => "CANCELLED";
            "the server or a proxy cancelled the call";
            "look for a timeout of a proxy or of the server in its log",
        3 => "INVALID_ARGUMENT"; "the server does not accept the message"; "correct the message: --data, --body",
        4 => "DEADLINE_EXCEEDED";
            "a deadline within the server, or one that a grpc-timeout header set, ended the call";
            "find out why the server is slow, or raise that deadline",
        5 => "NOT_FOUND"; "the server does not have what the message asks for"; "correct the message: --data, --body",
        7 => "PERMISSION_DENIED";
            "the server's rules forbid the call";
            "send other credentials: -H 'authorization: ...', or change the rules",
        8 => "RESOURCE_EXHAUSTED";
            "a quota or a limit of the server is reached, or the message is larger than it accepts";
            "offer less, or raise the limit (calls at once, message size, memory)",
        12 => "UNIMPLEMENTED";
            "the server does not have that service or method";
            "check --grpc SERVICE/METHOD, and that the port is the one of that service",
        13 => "INTERNAL"; "the server failed at the call"; "look for the fault in its log",
        14 => "UNAVAILABLE";
            "the service is not available: it is down, overloaded, or a proxy has no backend for it";
            "look at the backends and the limits of the server and the proxy before it",
        16 => "UNAUTHENTICATED";
            "the server asks for credentials";
            "send them: -H 'authorization: ...', or a client certificate with --cert and --key",
        2 => "UNKNOWN"; "the application failed at the call"; "look for the fault in its log",
        6 => "ALREADY_EXISTS"; "what the message creates exists"; "send messages that differ",
        9 => "FAILED_PRECONDITION"; "the server is not in the state that the call needs"; "",
        10 => "ABORTED"; "the server gave the call up, for example in a conflict"; "",
        11 => "OUT_OF_RANGE"; "a value of the message is out of its range"; "correct the message",
        15 => "DATA_LOSS"; "the server has lost data"; "look for the fault in its log",
        _ => "of no name"; "the server failed"; "look for the fault in its log",
    };
    let says = quoted(message);
    Advice::new(format!("gRPC status {status}, {name}: {sentence}{says}"), remedy)
}

/// Returns sentence and remedy of a broker's refusal, by its code (MQTT 5.0, 2.4; MQTT 3.1.1, 3.2.2.3).
pub(super) fn of_mqtt(
    packet: MqttPacket,
    code: u8,
    setting: Setting,
) -> (&'static str, &'static str) {
    let sentence = match packet {
        MqttPacket::Connack => "the broker refuses the connection",
        MqttPacket::Suback => "the broker refuses the subscription",
        MqttPacket::Puback => "the broker refuses the message",
        MqttPacket::Disconnect => "the broker ended the connection",
    };
    let remedy = table! { (packet, code);
        (MqttPacket::Connack, 4 | 5 | 0x86 | 0x87) =>
            "give a user that the broker knows: --users FILE (mosquitto: password_file, allow_anonymous), or a \
             client certificate with --cert and --key",
        (_, 0x87) =>
            "check the broker's rules for the topic and the user (mosquitto: acl_file, or the roles of its dynamic \
             security)",
        (_, 1 | 0x84) => "the broker speaks another version: --mqtt 3.1.1 or --mqtt 5",
        (_, 2 | 0x85) => "check --client-id against the broker's rules (mosquitto: clientid_prefixes)",
        (_, 3 | 0x88 | 0x89) =>
            "the broker is at a limit or starts: look at its limit on connections, and at its log",
        (_, 0x8B) => "the broker was stopped or restarted: look in its log",
        (_, 0x8D) if setting.is_hold =>
            "nothing reached the broker for one and a half times the keep-alive: lower --keep-alive, or look for a \
             path or a proxy that drops silent connections",
        (_, 0x8D) =>
            "nothing reached the broker for one and a half times the keep-alive: look for a generator or a path that \
             stalls",
        (_, 0x8E) =>
            "another connection has the same client identifier: give each load a --client-id PREFIX of its own",
        (_, 0x8F | 0x90) => "check --topic and --subscribe",
        (_, 0x93) => "lower --inflight to the receive maximum that the broker announces",
        (_, 0x95) => "shorten --data or --body, or raise the bound (mosquitto: max_packet_size)",
        (_, 0x96 | 0x9F) => "offer less, or raise the broker's limit on the rate",
        (_, 0x97) =>
            "a quota is reached: offer less, or raise it (mosquitto: max_queued_messages, max_connections, \
             memory_limit)",
        (_, 0x98) =>
            "an administrator or a tool ended it: look for a user that was disabled or changed (mosquitto: \
             mosquitto_ctrl dynsec), and in the broker's log",
        (_, 0x9A) => "drop --retain, or allow it (mosquitto: retain_available)",
        (_, 0x9B) => "lower --qos, or raise the bound (mosquitto: max_qos)",
        (_, 0x9E | 0xA2) => "the broker has no such subscriptions: write another --subscribe",
        _ => "look for the reason in the broker's log",
    };
    (sentence, remedy)
}

const fn request_timeout(setting: Setting) -> &'static str {
    if setting.is_hold {
        "raise the timeout (HAProxy: timeout http-request before the first request, timeout http-keep-alive behind an \
         answer; nginx: client_header_timeout, keepalive_timeout), or ask more often: --heartbeat"
    } else {
        "raise the timeout (HAProxy: timeout http-request before the first request, timeout http-keep-alive behind an \
         answer; nginx: client_header_timeout, keepalive_timeout), or leave no connection idle for so long: fewer \
         --connections, or --no-keepalive"
    }
}

/// Returns the row of an answer on an idle connection.
pub(super) fn of_unrequested(
    status: Option<u16>,
    idle_ms: u64,
    was_used: bool,
    setting: Setting,
) -> Advice {
    let since = if was_used { "its last answer" } else { "it was opened" };
    let idle = match idle_ms {
        0 => "less than 1 ms".to_owned(),
        idle_ms => Nanos::from_millis(idle_ms).to_string(),
    };
    match status {
        Some(408) => Advice::new(
            format!(
                "the server sent status 408 on a connection on which no request was open, {idle} after {since}: its \
                 timeout for a request ended, and no request was lost"
            ),
            request_timeout(setting),
        ),
        Some(400) if setting.introduces => Advice::new(
            format!(
                "the server sent status 400 {idle} after a connection was opened, before any request"
            ),
            "it may not expect the header of the PROXY protocol: drop --proxy-protocol, or let it accept the header \
             (HAProxy: accept-proxy; nginx: proxy_protocol)",
        ),
        Some(status) => Advice::new(
            format!(
                "the server sent status {status} on a connection on which no request was open, {idle} after {since}"
            ),
            "look in the server's log for what ended the connection: a timeout, a limit or a restart",
        ),
        None => Advice::new(
            format!(
                "the server sent bytes that are no answer of HTTP, {idle} after {since}, on an idle connection"
            ),
            "check the URL's port: servers of SMTP, SSH and FTP speak first",
        ),
    }
}
