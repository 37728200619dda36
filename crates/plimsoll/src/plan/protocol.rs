//! The check that flags and targets fit the protocol that the URL names.

use plimsoll_model::target::{Messages, Protocol, Target, is_method, parse_header};
use plimsoll_proto::websocket;

use super::bodies::Bodies;
use super::{Destination, Inputs, mqtt, script};
use crate::exit::{Result, Stop};
use crate::flags::shared::RequestFlags;
use crate::flags::websocket::WebSocketFlags;

/// Message of WebSocket, and payload of a publish, if no flag gives one.
const MESSAGE_DEFAULT: [u8; 64] = [b'x'; 64];
/// Refuses what does not fit the protocol, and completes what the flags left out.
pub(super) fn complete(
    targets: &mut [Target],
    to: &Destination,
    bodies: &mut Bodies,
    inputs: &mut Inputs,
) -> Result<()> {
    let flags = &to.request;
    let protocols = || targets.iter().map(|target| target.url.protocol);
    let is_other = |protocol: &Protocol| !protocol.is_http();
    let Some(protocol) = protocols().find(is_other) else {
        if let Some(flag) = flags.websocket.first_given() {
            refuse!("{flag} is for WebSocket";
                "drop it, or give a URL that starts with ws:// or wss://");
        }
        return match (flags.mqtt.first_given(), flags.script.first_given()) {
            (Some(flag), _) => refuse!("{flag} is for MQTT";
                "drop it, or give a URL that starts with mqtt:// or mqtts:// (lab: --protocol mqtt)"),
            (None, Some(flag)) => refuse!("{flag} is for raw TCP and TLS";
                "drop it, or give a URL that starts with tcp:// or tls:// (lab: --protocol tcp)"),
            (None, None) => Ok(()),
        };
    };
    let [target] = targets else {
        refuse!("a list of targets is for HTTP, and one of these is not";
            "give that one as the URL");
    };
    if let Some(flag) = foreign_flag(protocol, flags) {
        return Err(not_spoken(flag, protocol));
    }
    "GET".clone_into(&mut target.method);
    if protocol == Protocol::Script {
        (target.script, target.body) =
            script::script(&flags.script, to.only_connects, bodies, inputs)?;
        return Ok(());
    }
    if target.body.is_empty() && flags.body.is_none() && flags.data.is_none() {
        target.body = MESSAGE_DEFAULT.to_vec().into();
    }
    if protocol == Protocol::WebSocket {
        apply_websocket(target, &flags.websocket)?;
    }
    if protocol == Protocol::Mqtt {
        target.headers.clear();
        target.publish = Some(mqtt::publish(&flags.mqtt, target.body.len())?);
    }
    Ok(())
}

fn apply_websocket(target: &mut Target, flags: &WebSocketFlags) -> Result<()> {
    let payload_bytes_max = match flags.ws_fragment {
        None => None,
        Some(0) => refuse!("--ws-fragment 0 sends nothing"; "give 1 or more"),
        Some(size) => Some(u32::try_from(size).unwrap_or(u32::MAX)),
    };
    let expected = flags.expect.as_deref().map(|wanted| {
        let expected = websocket::expected(wanted).map_err(|what| {
            usage!("--expect {wanted:.80}: {what}";
                "write a text that answers contain, or a regular expression as /^ok [0-9]+$/")
        });
        expected.map(Into::into)
    });
    target.websocket = Some(Messages {
        is_binary: flags.ws_binary,
        payload_bytes_max,
        skipped: flags.skip_messages.unwrap_or(0),
        expected: expected.transpose()?,
    });
    let names = &flags.ws_protocol;
    let is_repeated = |(at, name): &(usize, &String)| names[..*at].contains(name);
    if let Some((_, name)) = names.iter().enumerate().find(is_repeated) {
        refuse!("--ws-protocol names {name} twice"; "name each subprotocol once");
    }
    if !names.is_empty() {
        let offer = format!("Sec-WebSocket-Protocol: {}", names.join(", "));
        let header = parse_header(&offer).filter(|_| names.iter().all(|one| is_method(one)));
        target.headers.push(header.ok_or_else(|| {
            usage!("--ws-protocol is not a list of names"; "write it like --ws-protocol mqtt,chat")
        })?);
    }
    Ok(())
}

/// Returns a flag that was given and that belongs to another protocol.
fn foreign_flag(protocol: Protocol, flags: &RequestFlags) -> Option<&'static str> {
    let has_header = !flags.header.headers.is_empty() && !protocol.has_headers();
    let has_body = protocol == Protocol::Script;
    let mqtt = flags.mqtt.first_given().filter(|_| protocol != Protocol::Mqtt);
    let script = flags.script.first_given().filter(|_| protocol != Protocol::Script);
    let websocket = flags.websocket.first_given().filter(|_| protocol != Protocol::WebSocket);
    let others = [
        (flags.method.is_some(), "--method"),
        (has_header, "--header"),
        (has_body && flags.body.is_some(), "--body"),
        (has_body && flags.data.is_some(), "--data"),
    ];
    let other = others.into_iter().find_map(|(is_given, name)| is_given.then_some(name));
    other.or(mqtt).or(script).or(websocket)
}

/// Returns the error for a flag that the URL's protocol does not have.
fn not_spoken(flag: &str, protocol: Protocol) -> Stop {
    let (name, flags) = match protocol {
        Protocol::Http1 | Protocol::Http2 => ("HTTP", "--method, --header, --body, --data"),
        Protocol::WebSocket => {
            let flags = "--header, --body, --data, --ws-binary, --ws-fragment, --ws-protocol, --expect, \
                         --skip-messages";
            ("WebSocket", flags)
        }
        Protocol::Mqtt => {
            let flags = "--topic, --qos, --retain, --inflight, --subscribe, --subscribe-qos, --mqtt-version, \
                         --client-id, --client-ids, --users, --no-clean-start, --session-expiry, \
                         --will-topic, --will-message, --will-qos, --will-retain, --keep-alive, --body, \
                         --data";
            ("MQTT", flags)
        }
        Protocol::Script => ("a script", "--script, --echo"),
    };
    Stop::usage(format_args!("{name} has no {flag}"), format_args!("its flags are {flags}"))
}
