//! The table of failures, row by row.

use plimsoll_model::reason::MqttPacket;

use super::*;
use crate::fixtures;

const PLAIN: Setting = Setting {
    introduces: false,
    has_certificate: false,
    is_address: false,
    is_hold: false,
    is_unix: false,
    greeting: None,
};

fn status(status: u16, body: &str) -> Reason {
    Reason::Status { status, body: body.to_owned() }
}

fn text(reason: &Reason, setting: Setting) -> String {
    advice(None, reason, setting).text()
}

#[test]
fn a_status_is_advised_on_by_what_its_body_says() {
    for (code, body, part) in [
        (400, "<h1>The plain HTTP request was sent to HTTPS port</h1>", "https://"),
        (400, "Client sent an HTTP request to an HTTPS server.", "https://"),
        (400, "<h1>No required SSL certificate was sent</h1>", "--cert"),
        (400, "<h1>400 Bad request</h1>\nYour browser sent an invalid request.", "tune.bufsize"),
        (400, "", "Host header"),
        (401, "", "Authorization"),
        (403, "", "access rules"),
        (404, "", "path"),
        (408, "", "http-keep-alive"),
        (413, "", "client_max_body_size"),
        (429, "", "--source"),
        (431, "", "-H fields"),
        (502, "<center>nginx</center>", "backend"),
        (503, "No server is available to handle this request.", "qcur"),
        (503, "<center>nginx/1.22.1</center>", "limit_req"),
        (504, "", "timeout server"),
        (418, "", "refuses"),
        (599, "", "failed"),
    ] {
        let text = text(&status(code, body), PLAIN);
        assert!(text.contains(part) && text.starts_with(&format!("status {code}: ")), "{text}");
    }
}

#[test]
fn settings_of_the_load_change_the_advice() {
    let with_header = Setting { introduces: true, ..PLAIN };
    for reason in [status(400, ""), Reason::Unanswered { reset: true }] {
        assert!(text(&reason, with_header).contains("drop --proxy-protocol"), "{reason:?}");
    }
    let plain = text(&Reason::Unanswered { reset: false }, PLAIN);
    assert!(plain.contains("accept-proxy") && plain.contains("closed new connections"), "{plain}");
    let cut = Reason::HandshakeCut { reset: false };
    assert!(text(&cut, Setting { is_address: true, ..PLAIN }).contains("--sni NAME"));
    let alert = Reason::Alert { alert: "unknown_ca".to_owned() };
    assert!(!text(&alert, PLAIN).contains("client certificate"));
    assert!(
        text(&alert, Setting { has_certificate: true, ..PLAIN }).contains("client certificate")
    );
    let alert = Reason::Alert { alert: "bad_certificate".to_owned() };
    assert!(text(&alert, PLAIN).contains("none was sent"));
    assert!(text(&alert, Setting { has_certificate: true, ..PLAIN }).contains("does not accept"));
    let alert = Reason::Alert { alert: "unrecognized_name".to_owned() };
    assert!(text(&alert, PLAIN).contains("that was asked for"));
    assert!(text(&alert, Setting { is_address: true, ..PLAIN }).contains("an address sends none"));
}

#[test]
fn a_connection_that_was_opened_by_an_exchange_is_not_advised_on_as_a_new_one() {
    for (url, part) in [
        ("mqtt://127.0.0.1", Some("max_packet_size")),
        ("mqtts://a.test/b", Some("max_packet_size")),
        ("ws://a.test/", Some("WebSockets")),
        ("wss://a.test/", Some("WebSockets")),
        ("http://a.test/", None),
        ("4 targets", None),
    ] {
        let setting = Setting { greeting: Greeting::of(url), ..PLAIN };
        let text = text(&Reason::Unanswered { reset: true }, setting);
        assert_eq!(text.contains("PROXY protocol"), part.is_none(), "{text}");
        assert!(text.contains(part.unwrap_or("accept-proxy")), "{text}");
    }
}

#[test]
fn an_idle_session_of_mqtt_that_ends_without_a_reason_may_be_taken_over() {
    let mut summary = fixtures::load_with_reasons();
    for (url, is_named) in [("mqtt://127.0.0.1", true), ("http://127.0.0.1", false)] {
        summary.target = url.to_owned();
        let remedy = lost_idle(ErrorClass::ClosedByPeer, &summary);
        assert_eq!(remedy.is_some_and(|text| text.contains("--client-id")), is_named);
        assert_eq!(lost_idle(ErrorClass::MqttDisconnected, &summary), None);
    }
}

#[test]
fn a_unix_socket_that_cannot_be_connected_to_is_advised_on_as_one() {
    let class = Some(ErrorClass::ConnectRefused);
    let refused = Reason::other(&"Unix socket: No such file or directory");
    let of = |setting| advice(class, &refused, setting).text();
    assert!(of(Setting { is_unix: true, ..PLAIN }).contains("check the path and its permissions"));
    assert!(of(PLAIN).contains("check address and port"));
}

#[test]
fn an_unrequested_answer_has_status_and_age() {
    let unasked = Reason::Unrequested { status: Some(408), idle_ms: 1_000, was_used: false };
    let text = text(&unasked, PLAIN);
    assert!(text.contains("408") && text.contains("1.00 s after it was opened"), "{text}");
    assert!(text.contains("timeout http-request") && text.contains("no request was lost"));
    let held = self::text(&unasked, Setting { is_hold: true, ..PLAIN });
    assert!(held.contains("--heartbeat") && !held.contains("--no-keepalive"), "{held}");
}

#[test]
fn a_body_is_shown_without_its_markup() {
    let page = "<html> <head><title>404 Not Found</title></head> <body> <h1>404 Not Found</h1> <hr>nginx</bo";
    assert_eq!(without_markup(page), "404 Not Found nginx");
    for text in [r#"{"error": "a < b"}"#, "plain words", ""] {
        assert_eq!(without_markup(text), text);
    }
}

#[test]
fn an_address_is_known_from_a_name() {
    for url in ["https://127.0.0.1:8443/a", "https://[::1]/", "mqtts://u@10.0.0.1"] {
        assert!(has_address(url), "{url}");
    }
    for url in ["https://localhost:8443/", "https://a.test", "4 targets"] {
        assert!(!has_address(url), "{url}");
    }
}

#[test]
fn reasons_of_one_remedy_name_it_once() {
    let summary = fixtures::load_with_reasons();
    let lines = paragraphs("tls-closed", &summary);
    let remedies = lines.iter().map(|line| line.contains("Remedy: ")).collect::<Vec<_>>();
    assert_eq!(remedies, [false, true], "{lines:?}");
    let lines = paragraphs("status-5xx", &summary);
    let occurred = "(1,100 times, first after 2.50 s on 127.0.0.1:40000)";
    assert!(lines.len() == 2 && lines[0].contains(occurred), "{lines:?}");
    // Nothing more is known of this class.
    assert_eq!(paragraphs("local-files", &summary), [remedy_of_class(ErrorClass::LocalFiles)]);
}

#[test]
fn what_a_call_and_a_broker_say_is_advised_on_by_their_codes() {
    let grpc = |status, message: &str| text(&Reason::grpc(status, message.as_bytes(), &[]), PLAIN);
    let missing = grpc(12, "unknown service a.B");
    assert!(
        missing.starts_with("gRPC status 12, UNIMPLEMENTED: ")
            && missing.contains("it says \"unknown service a.B\". Remedy: check --grpc"),
        "{missing}"
    );
    for (status, part) in [(8, "quota"), (14, "no backend"), (16, "authorization"), (99, "log")] {
        assert!(grpc(status, "").contains(part), "{status}");
    }
    let mqtt = |packet, code| text(&Reason::mqtt(packet, code, "name", b"", &[]), PLAIN);
    let refused = mqtt(MqttPacket::Connack, 5);
    assert!(
        refused.starts_with(
            "the broker refuses the connection: name, reason 0x05. Remedy: give a user"
        ),
        "{refused}"
    );
    for (packet, code, part) in [
        (MqttPacket::Puback, 0x87, "acl_file"),
        (MqttPacket::Puback, 0x97, "max_queued_messages"),
        (MqttPacket::Suback, 0x87, "acl_file"),
        (MqttPacket::Disconnect, 0x8E, "--client-id"),
        (MqttPacket::Disconnect, 0x95, "max_packet_size"),
        (MqttPacket::Disconnect, 0x8D, "keep-alive"),
        (MqttPacket::Connack, 0xFF, "log"),
    ] {
        assert!(mqtt(packet, code).contains(part), "{packet:?} {code}");
    }
}
