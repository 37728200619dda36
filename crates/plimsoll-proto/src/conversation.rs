//! The client half of whatever protocol is spoken: what opens a connection, what an operation sends,
//! and what its answer means.

mod progress;
mod shared;
mod traits;

use std::sync::Arc;

use plimsoll_model::ErrorClass;
use plimsoll_model::plan::{LoadPlan, MqttPlan};
use plimsoll_model::target::{
    Filling, MqttVersion, Protocol, Publish, Qos, Subscription, Target, Template, shared_filter,
};
use thiserror::Error;

use crate::http1::{self, ResponseError, ResponseParser};
use crate::http2::{self, Http2Error};
use crate::mqtt::{self, MqttError};
use crate::script::{self, Program, ScriptFault};
use crate::streamed::Streamed;
use crate::websocket::{self, WebSocketError};

pub use progress::{Answer, Progress, StreamProgress};
pub use shared::{Gathered, Shared};
pub use traits::{Greeting, Traits};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The target's request, message or publish.
    Exchange,
    /// The smallest thing that a server must answer, for connections that are held: a ping if the
    /// protocol has one, else the target's request.
    Beat,
}

/// The bytes of an operation, and the effect of sending them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The bytes, if they are the same for each operation; with `streamed`, those before it.
    pub bytes: Vec<u8>,
    /// The part behind them, if the body is large.
    pub streamed: Option<Streamed>,
    /// Template to fill instead, if the bytes differ each time.
    pub template: Option<Template>,
    /// The expected answer.
    pub expected: Expected,
}

/// The next expected message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The protocol's opening: the switch to WebSocket, CONNACK.
    Greeting(mqtt::Needs),
    /// An HTTP response, without a body if it answers HEAD.
    Response {
        /// `true` if it answers HEAD.
        head_method: bool,
    },
    /// The end of a stream of HTTP/2.
    Stream {
        /// Bytes of the header block; the rest is the body.
        block_bytes: u32,
        /// `true` if it is a gRPC call.
        is_grpc: bool,
        /// `true` if it answers HEAD.
        is_head: bool,
    },
    /// A message of WebSocket.
    Message,
    /// The acknowledgement of a publish at QoS 1, or with `exactly_once` 2.
    Acknowledgement {
        /// QoS 2.
        exactly_once: bool,
    },
    /// Steps of the script after the bytes that it sends first.
    Steps,
    /// The answer to a ping.
    Pong,
    /// No answer: the operation is complete once it is sent.
    Nothing,
}

/// Reads what the server sends on one connection that awaits something. After an error it is of no more
/// use.
#[derive(Debug)]
pub enum Conversation {
    /// HTTP/1.1.
    Http1(ResponseParser),
    /// HTTP/2; boxed, as all that is larger than HTTP/1.1.
    Http2(Box<http2::Client>),
    /// WebSocket; boxed, so that HTTP does not pay for it.
    WebSocket(Box<websocket::Client>),
    /// MQTT before the connection is usable.
    MqttOpening(Box<mqtt::Opening>),
    /// MQTT.
    Mqtt(mqtt::Client),
    /// MQTT with several publishes at once.
    MqttWindow(Box<mqtt::Window>),
    /// A script.
    Script(Box<script::Client>),
}

/// One per connection that awaits an answer.
const _: () = assert!(size_of::<Conversation>() <= 32);

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ConversationError {
    /// An error of HTTP/1.1.
    #[error(transparent)]
    Http1(#[from] ResponseError),
    /// An error of HTTP/2.
    #[error(transparent)]
    Http2(#[from] Http2Error),
    /// An error of WebSocket.
    #[error(transparent)]
    WebSocket(#[from] WebSocketError),
    /// An error of MQTT.
    #[error(transparent)]
    Mqtt(#[from] MqttError),
    /// An error of the script.
    #[error(transparent)]
    Script(#[from] ScriptFault),
}

impl ConversationError {
    /// Returns the limit of a broker that the plan breaks.
    pub const fn broken_limit(&self) -> Option<mqtt::Limit> {
        match self {
            Self::Mqtt(MqttError::Limit(limit)) => Some(*limit),
            _ => None,
        }
    }

    /// Returns the class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Http1(error) => error.class(),
            Self::Http2(error) => error.class(),
            Self::WebSocket(error) => error.class(),
            Self::Mqtt(error) => error.class(),
            Self::Script(fault) => fault.class(),
        }
    }

    /// Returns the error for bytes in the place of a connection's second or later answer. Bytes that do not begin an
    /// answer are the rest of the previous one.
    #[must_use]
    pub const fn behind_an_answer(self) -> Self {
        match self {
            Self::Http1(ResponseError::NotHttp { .. }) => Self::Http1(ResponseError::Unrequested),
            other => other,
        }
    }
}

/// The result of every read of an answer, which is returned through memory if it is large.
const _: () = assert!(size_of::<Result<(usize, Progress), ConversationError>>() <= 40);

/// Makes the bytes of `operation` for `target`. `keepalive` is for HTTP alone, `version`
/// for MQTT.
pub fn outgoing(
    target: &Target,
    operation: Operation,
    keepalive: bool,
    version: MqttVersion,
) -> Outgoing {
    let (mut bytes, mut template, mut streamed) = (Vec::new(), None, None);
    let is_large = target.body.is_large();
    let expected = match (target.url.protocol, operation) {
        (Protocol::Http1, _) => {
            if is_large {
                let (head, tail) = http1::encode::request_frame(target, keepalive);
                (bytes, streamed) = (head, Some(Streamed::plain(target.body.clone(), tail)));
            } else {
                bytes = http1::encode::request(target, keepalive);
            }
            Expected::Response { head_method: target.method == "HEAD" }
        }
        (Protocol::Http2, Operation::Exchange) => {
            http2::request::write_request_block(&mut bytes, target);
            let block_bytes = bytes.len() as u32;
            let is_grpc = http2::request::is_grpc(target);
            if is_grpc {
                bytes.extend_from_slice(&http2::request::grpc_prefix(target.body.len()));
            }
            match is_large {
                true => streamed = Some(Streamed::plain(target.body.clone(), b"")),
                false => bytes.extend_from_slice(&target.body),
            }
            Expected::Stream { block_bytes, is_grpc, is_head: target.method == "HEAD" }
        }
        // The ping is written when it is expected.
        (Protocol::Http2, Operation::Beat) => Expected::Pong,
        (Protocol::WebSocket, Operation::Exchange) => {
            let messages = target.websocket.clone().unwrap_or_default();
            match is_large {
                true => streamed = Some(Streamed::message(target.body.clone(), &messages)),
                false => websocket::message(&mut bytes, &target.body, &messages),
            }
            Expected::Message
        }
        (Protocol::WebSocket, Operation::Beat) => {
            websocket::ping(&mut bytes);
            Expected::Pong
        }
        (Protocol::Mqtt, Operation::Beat) => {
            mqtt::pingreq(&mut bytes);
            Expected::Pong
        }
        (Protocol::Mqtt, Operation::Exchange) => {
            let publish = target.publish.clone().unwrap_or_default();
            mqtt::publish_head(&mut bytes, version, &publish, target.body.len());
            match is_large {
                true => streamed = Some(Streamed::plain(target.body.clone(), b"")),
                false => bytes.extend_from_slice(&target.body),
            }
            match publish.qos {
                Qos::AtMostOnce => Expected::Nothing,
                qos => Expected::Acknowledgement { exactly_once: qos == Qos::ExactlyOnce },
            }
        }
        (Protocol::Script, _) => {
            let steps = target.script.as_ref().map_or(&[][..], |script| &script.operation);
            let leading = script::leading(steps);
            match leading.as_literal() {
                Some(literal) => bytes = literal,
                None => template = Some(leading),
            }
            if script::sends_body(steps) {
                streamed = Some(Streamed::plain(target.body.clone(), b""));
            }
            if script::only_sends(steps) { Expected::Nothing } else { Expected::Steps }
        }
    };
    Outgoing { bytes, template, expected, streamed }
}

/// Returns the parts of a plan that a broker may not allow, for the connection with a number. `longest` is the target
/// with the longest message, if messages are published.
pub fn needs(plan: &MqttPlan, longest: Option<&Target>, number: u64) -> mqtt::Needs {
    let subscription = plan.subscribe.as_ref();
    let filter = subscription.map(|wanted| plan.filled(&wanted.filter, number)).unwrap_or_default();
    let mut needs = mqtt::Needs {
        subscribes: subscription.map(|wanted| wanted.qos),
        session_expiry_s: plan.session_expiry_s.unwrap_or_default(),
        has_wildcard: filter.contains(['+', '#']),
        is_shared: shared_filter(&filter).is_some(),
        resumes_session: plan.resumes_session,
        ..mqtt::Needs::NONE
    };
    let mut packet_bytes = 0;
    if subscription.is_some() {
        packet_bytes = mqtt::subscribe_bytes(plan.version, &filter);
    }
    if let Some(target) = longest
        && let Some(publish) = &target.publish
    {
        let filled = Publish { topic: plan.filled(&publish.topic, number), ..publish.clone() };
        let bytes = mqtt::publish_bytes(plan.version, &filled, target.body.len());
        packet_bytes = packet_bytes.max(bytes);
        (needs.qos, needs.retain) = (publish.qos, publish.retain);
    }
    mqtt::Needs { packet_bytes: u32::try_from(packet_bytes).unwrap_or(u32::MAX), ..needs }
}

/// Appends the message that makes a connection usable; appends nothing for HTTP. `filling` distinguishes the connection
/// from all others that the load has at the same time.
pub fn greeting(out: &mut Vec<u8>, target: &Target, mqtt: Option<&MqttPlan>, filling: &Filling) {
    match (target.url.protocol, mqtt) {
        (Protocol::WebSocket, _) => websocket::opening(out, target),
        (Protocol::Http2, _) => http2::client::write_opening(out),
        (Protocol::Mqtt, Some(plan)) => greet_broker(out, plan, filling.connection.into()),
        (Protocol::Script, _) => {
            let steps = target.script.as_ref().map_or(&[][..], |script| &script.opening);
            script::leading(steps).fill(filling, out);
        }
        (Protocol::Http1 | Protocol::Mqtt, _) => {}
    }
}

fn greet_broker(out: &mut Vec<u8>, plan: &MqttPlan, number: u64) {
    let will = plan.will.as_ref().map(|will| {
        let mut will = will.clone();
        will.publish.topic = plan.filled(&will.publish.topic, number);
        will
    });
    let says = mqtt::Connect {
        client_id: &plan.client_id(number),
        keep_alive_s: plan.keep_alive_s,
        resumes_session: plan.resumes_session,
        session_expiry_s: plan.session_expiry_s,
        user: plan.user(number),
        will: will.as_ref(),
    };
    mqtt::connect(out, plan.version, &says);
    if let Some(Subscription { filter, qos }) = &plan.subscribe {
        let filled = Subscription { filter: plan.filled(filter, number), qos: *qos };
        mqtt::subscribe(out, plan.version, &filled);
    }
}

/// The settings of a load that all its conversations share.
#[derive(Clone, Debug)]
pub struct Dialect {
    protocol: Protocol,
    mqtt: MqttVersion,
    /// Connections carry several operations at once.
    is_shared: bool,
    program: Arc<Program>,
    answers: Arc<websocket::Answers>,
}

impl Dialect {
    /// Returns the dialect of a plan. Scripts and expressions that cannot be compiled were refused when it was made.
    pub fn of(plan: &LoadPlan) -> Self {
        let program = plan.script().and_then(|script| Program::new(script).ok());
        let answers = plan.targets.first().and_then(|target| websocket::Answers::new(target).ok());
        Self {
            protocol: plan.protocol(),
            mqtt: plan.mqtt.as_ref().map(|mqtt| mqtt.version).unwrap_or_default(),
            is_shared: plan.shares_connections(),
            program: Arc::new(program.unwrap_or_default()),
            answers: Arc::new(answers.unwrap_or_default()),
        }
    }

    /// Returns the properties of the protocol.
    pub const fn traits(&self) -> &'static Traits {
        Traits::of(self.protocol)
    }

    /// Creates the parser of a connection, which is usable already if it `is_greeted`.
    pub fn conversation(&self, is_greeted: bool) -> Conversation {
        match self.protocol {
            Protocol::Http1 => Conversation::Http1(ResponseParser::default()),
            // It goes on from the state of its connection.
            Protocol::Http2 => Conversation::Http2(Box::default()),
            Protocol::WebSocket => {
                let client = websocket::Client::new(Arc::clone(&self.answers), is_greeted);
                Conversation::WebSocket(Box::new(client))
            }
            Protocol::Mqtt if self.is_shared => {
                Conversation::MqttWindow(Box::new(mqtt::Window::new(self.mqtt)))
            }
            Protocol::Mqtt if is_greeted => Conversation::Mqtt(mqtt::Client::new(self.mqtt)),
            Protocol::Mqtt => Conversation::MqttOpening(Box::new(mqtt::Opening::new(self.mqtt))),
            Protocol::Script => {
                Conversation::Script(Box::new(script::Client::new(Arc::clone(&self.program))))
            }
        }
    }
}

impl Conversation {
    /// Sets the values of the next operation.
    pub fn fill_with(&mut self, filling: Filling) {
        if let Self::Script(client) = self {
            client.fill_with(filling);
        }
    }

    /// Notes that a message was sent whose answer is `expected`. Call it only when no answer is awaited.
    #[inline]
    pub fn expect(&mut self, expected: Expected) {
        match (self, expected) {
            (Self::Http1(parser), Expected::Response { head_method }) => {
                parser.expect_response(head_method);
            }
            (Self::Http2(client), Expected::Pong) => client.ping(),
            (Self::WebSocket(client), Expected::Message) => client.expect_message(),
            (Self::WebSocket(client), Expected::Pong) => client.expect_pong(),
            (Self::MqttOpening(opening), Expected::Greeting(needs)) => {
                opening.expect_connack(needs);
            }
            (Self::MqttWindow(window), Expected::Greeting(needs)) => window.expect_connack(needs),
            (Self::Mqtt(client), Expected::Pong) => client.expect_pingresp(),
            (Self::Mqtt(client), Expected::Acknowledgement { exactly_once }) => {
                client.expect_acknowledgement(exactly_once);
            }
            (Self::Script(client), Expected::Greeting(_)) => client.expect_opening(),
            (Self::Script(client), Expected::Steps) => client.expect_operation(),
            // A client of WebSocket begins with the switch.
            (Self::WebSocket(_) | Self::Http2(_), Expected::Greeting(_))
            | (_, Expected::Nothing) => {}
            (_, expected) => debug_assert!(false, "{expected:?} of another protocol"),
        }
    }

    /// Begins the operation of `key`, whose bytes gather with others, as far as the server has room for it.
    #[inline]
    pub fn begin(&mut self, key: u32, expected: Expected, bytes: &Gathered<'_>) {
        let Gathered { head, body, large } = *bytes;
        match (self, expected) {
            (Self::Http2(client), Expected::Stream { is_grpc, is_head, .. }) => {
                // On its own connection, it waits until the server allows a stream.
                if client.has_room(u32::MAX) {
                    let body_number = large.number;
                    let request =
                        http2::Request { block: head, body, body_number, is_grpc, is_head };
                    client.begin(key, &request);
                }
            }
            (Self::MqttWindow(window), Expected::Acknowledgement { exactly_once }) => {
                window.begin(key, head, large, exactly_once);
            }
            (Self::MqttWindow(window), Expected::Nothing) => {
                window.begin_unanswered(key, head, large);
            }
            (conversation, expected) => conversation.expect(expected),
        }
    }

    /// Notes that the connection has become usable. Returns the seconds within which a broker of MQTT 5 wants to be
    /// sent something, if it states that.
    pub fn finish_greeting(&mut self) -> Option<u16> {
        match self {
            Self::MqttOpening(opening) => {
                let (client, keep_alive_s) = opening.finish();
                *self = Self::Mqtt(client);
                keep_alive_s
            }
            Self::MqttWindow(window) => window.keep_alive_s(),
            _ => None,
        }
    }

    /// Appends a ping that is no operation, or lets it gather with the other output of a connection that is shared.
    pub fn ping_aside(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Mqtt(client) => client.ping(out),
            Self::MqttWindow(window) => window.ping(),
            _ => debug_assert!(false, "no protocol but MQTT has them"),
        }
    }

    /// Reports whether nothing would be lost by dropping it.
    pub fn is_idle(&self) -> bool {
        match self {
            // Bytes that no request asked for end the connection.
            Self::Http1(_) => true,
            Self::Http2(client) => client.is_idle(),
            Self::WebSocket(client) => client.is_idle(),
            Self::Mqtt(client) => client.is_idle(),
            // It knows what the broker allows.
            Self::MqttWindow(_) | Self::MqttOpening(_) => false,
            Self::Script(client) => client.is_idle(),
        }
    }

    /// Reports whether it is as for a connection that was just made usable.
    pub fn is_fresh(&self) -> bool {
        !matches!(self, Self::Http1(_)) && self.is_idle()
    }

    /// Handles bytes from the server, up to what ends something; returns how many were consumed, and
    /// the result. What must be sent at once is appended to `reply`.
    #[inline]
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Progress), ConversationError> {
        Ok(match self {
            Self::Http1(parser) => match parser.handle_bytes(input)? {
                (consumed, http1::Progress::NeedMore) => (consumed, Progress::NeedMore),
                (consumed, http1::Progress::Complete(response)) => {
                    (consumed, Progress::Complete(Answer::of_http(&response)))
                }
            },
            Self::Http2(client) => client.handle_bytes(input)?,
            Self::WebSocket(client) => client.handle_bytes(input, reply)?,
            Self::MqttOpening(opening) => opening.handle_bytes(input, reply)?,
            Self::Mqtt(client) => client.handle_bytes(input, reply)?,
            Self::MqttWindow(window) => window.handle_bytes(input)?,
            Self::Script(client) => client.handle_bytes(input, reply)?,
        })
    }

    /// Returns the status of an answer that is not complete, if it is a failure.
    pub fn failing_status(&self) -> Option<u16> {
        if let Self::Http1(parser) = self { parser.failing_status() } else { None }
    }

    /// Handles the end of the server's stream while an answer was awaited.
    pub fn handle_eof(&mut self) -> Result<Answer, ResponseError> {
        match self {
            Self::Http1(parser) => parser.handle_eof().map(|response| Answer::of_http(&response)),
            Self::Script(client) => match client.handle_eof() {
                Some(bytes) => Ok(Answer { keep_alive: false, ..Answer::plain(bytes, None) }),
                None if client.has_begun() => Err(ResponseError::Truncated),
                None => Err(ResponseError::ClosedBeforeResponse),
            },
            _ => Err(ResponseError::ClosedBeforeResponse),
        }
    }

    /// Returns the server's explanation for the failure of the operation of `key`, which has just ended; empty if none
    /// is stored.
    pub fn said(&self, key: u32) -> &[u8] {
        if let Self::Http2(client) = self { client.said(key) } else { &[] }
    }

    /// Returns the client of a connection that may carry several operations at once.
    pub fn shared(&mut self) -> Option<Shared<'_>> {
        match self {
            Self::Http2(client) => Some(Shared::Http2(client)),
            Self::MqttWindow(window) => Some(Shared::Mqtt(window)),
            _ => None,
        }
    }
}
