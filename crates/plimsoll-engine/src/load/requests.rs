//! The requests of a load, and the choice of the next one.
//!
//! [`Requests::new`] encodes each target once, and [`Requests::take`] returns the index of the next target; shards
//! start at different targets and take them in turn. Most operations send the bytes of [`Request::piece`] unchanged.
//! Operations with a template, a topic of their connection or a stamp have their own bytes, which
//! [`Requests::write_own_bytes`] makes from a [`Filling`]. Start reading at [`Request`].

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPlan, MqttPlan, Pacing};
use plimsoll_model::target::{Filling, STAMP_BYTES, Target};
use plimsoll_proto::conversation::{self, Expected, Operation, Outgoing, Traits};
use plimsoll_proto::http2;
use plimsoll_proto::mqtt::Needs;

use super::deliveries::{number_of, of_load};

/// A target in the form in which it is sent.
pub(super) struct Request {
    /// The bytes to send and the expected answer.
    pub(super) outgoing: Outgoing,
    pub(super) destination: u32,
    /// `true` if the connection ends with the answer: `Connection: close`.
    pub(super) closes: bool,
    /// The target, if its topic is each connection's own.
    with_own_topic: Option<Box<Target>>,
    /// Bytes at the end of those before a large body that begin with a stamp; 0 for none.
    stamped_bytes: u32,
}

impl Request {
    /// Size of the header fields of HTTP/2, as its settings count it.
    fn header_bytes(&self) -> u64 {
        match self.outgoing.expected {
            Expected::Stream { block_bytes, .. } => {
                let block = self.outgoing.bytes.get(..block_bytes as usize).unwrap_or_default();
                http2::request::header_bytes(block)
            }
            _ => 0,
        }
    }

    /// Returns the number of bytes that are sent.
    pub(super) fn len(&self) -> usize {
        self.outgoing.bytes.len()
            + self.outgoing.streamed.as_ref().map_or(0, |streamed| streamed.len() as usize)
    }

    /// Returns some of the bytes from `from` on, and whether they are the last ones. They are put into `scratch` if
    /// they are made for this call.
    pub(super) fn piece<'a>(&'a self, from: usize, scratch: &'a mut Vec<u8>) -> (&'a [u8], bool) {
        match (from.checked_sub(self.outgoing.bytes.len()), &self.outgoing.streamed) {
            (Some(from), Some(streamed)) => streamed.piece(from, scratch),
            (_, streamed) => {
                (self.outgoing.bytes.get(from..).unwrap_or_default(), streamed.is_none())
            }
        }
    }

    /// Returns the part before the body, and the body in two parts, if it is sent apart from that.
    pub(super) fn parts(&self) -> (&[u8], [&[u8]; 2]) {
        let body: &[u8] = self.outgoing.streamed.as_ref().map_or(&[], |streamed| streamed.body());
        let head_bytes = match self.outgoing.expected {
            Expected::Stream { block_bytes, .. } => block_bytes as usize,
            _ => self.outgoing.bytes.len(),
        };
        let (head, first) = self.outgoing.bytes.split_at_checked(head_bytes).unwrap_or_default();
        (head, [first, body])
    }

    /// Returns the number of bytes of a large body that are sent with the part before it.
    pub(super) fn sent_with_head(&self) -> usize {
        match &self.outgoing.streamed {
            Some(_) => self.stamped_bytes as usize,
            None => 0,
        }
    }

    /// Returns the number of bytes of a large body that follow the rest of the request; 0 if there is none.
    pub(super) fn streamed_bytes(&self) -> usize {
        let all = self.outgoing.streamed.as_ref().map_or(0, |streamed| streamed.len() as usize);
        all.saturating_sub(self.sent_with_head())
    }
}

/// The plan's targets as requests, by their indices.
pub(super) struct Requests {
    all: Vec<Request>,
    /// Place of the worker among all of the load.
    shard: Shard,
    /// The first number of a connection.
    numbers_from: u32,
    /// Number that distinguishes the load from others.
    run: u32,
    mqtt: Option<MqttPlan>,
    /// The target with the longest message of MQTT, if messages are published.
    longest: Option<Box<Target>>,
    next: u32,
    step: u32,
    /// Pause of a connection after each operation.
    pub(super) rest: Nanos,
}

impl Requests {
    /// Creates the requests of the worker that makes `shard` of the load. Targets are used in turn; shards begin at
    /// different ones and step over each other's.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Self {
        let operation = match plan.pacing {
            Pacing::Hold(_) => Operation::Beat,
            Pacing::Open { .. } | Pacing::Closed { .. } => Operation::Exchange,
        };
        // A session's client ends it, so no request asks the server to.
        let keepalive = plan.keepalive || plan.session.is_some();
        let version = plan.mqtt.as_ref().map(|mqtt| mqtt.version).unwrap_or_default();
        let targets = plan.targets.iter().zip(&plan.target_destination);
        let counts_deliveries = plan.mqtt.as_ref().and_then(|mqtt| mqtt.deliveries);
        let all: Vec<_> = targets
            .map(|(target, destination)| {
                let mut outgoing = conversation::outgoing(target, operation, keepalive, version);
                let has_own_topic = operation == Operation::Exchange
                    && target.publish.as_ref().is_some_and(|publish| publish.topic.contains('%'));
                let with_own_topic = has_own_topic.then(|| Box::new(target.clone()));
                let destination = *destination;
                let stamped_bytes = match (counts_deliveries, &outgoing.streamed) {
                    (None, _) => 0,
                    (Some(_), None) => target.body.len() as u32,
                    (Some(_), Some(_)) => STAMP_BYTES as u32,
                };
                if has_own_topic {
                    // None is left to send once its own are.
                    outgoing.bytes.clear();
                }
                let traits = Traits::of(target.url.protocol);
                let closes = traits.is_http1 && target.closes_connection();
                Request { outgoing, destination, closes, with_own_topic, stamped_bytes }
            })
            .collect();
        let count = all.len().max(1) as u32;
        let step = match shard.of % count {
            0 => 1,
            step => step,
        };
        let publishes = operation == Operation::Exchange && !plan.handshake_only;
        let longest = plan.targets.iter().filter(|_| publishes && plan.mqtt.is_some());
        let longest = longest.max_by_key(|target| target.body.len()).cloned().map(Box::new);
        let rest = plan.script().map_or(Nanos::ZERO, |script| script.rest);
        let run = counts_deliveries.map_or(0, |deliveries| deliveries.run);
        let (mqtt, run) = (plan.mqtt.clone(), of_load(run, plan.seed));
        let numbers_from = plan.part.numbers_from;
        let next = shard.index % count;
        Self { all, shard, numbers_from, run, mqtt, longest, next, step, rest }
    }

    pub(super) fn get(&self, target: u32) -> &Request {
        &self.all[target as usize]
    }

    /// Appends the bytes of one operation if they differ from those of the target, as templates and stamps require. A
    /// large body follows them, see [`Request::sent_with_head`].
    pub(super) fn write_own_bytes(&self, target: u32, filling: &Filling, out: &mut Vec<u8>) {
        let request = self.get(target);
        if let Some(template) = &request.outgoing.template {
            return template.fill(filling, out);
        }
        match request.with_own_topic.as_ref().zip(self.mqtt.as_ref()) {
            Some((own, mqtt)) => {
                let mut own = Target::clone(own);
                if let Some(publish) = &mut own.publish {
                    publish.topic = mqtt.filled(&publish.topic, filling.connection.into());
                }
                let sent =
                    conversation::outgoing(&own, Operation::Exchange, true, mqtt.version).bytes;
                out.extend_from_slice(&sent);
            }
            None => out.extend_from_slice(&request.outgoing.bytes),
        }
        let with_head = request.sent_with_head();
        out.resize(out.len() + with_head, 0);
        let stamped = out.len().saturating_sub(request.stamped_bytes as usize);
        if let Some(place) = out.get_mut(stamped..stamped + STAMP_BYTES) {
            place.copy_from_slice(&filling.stamp());
        }
    }

    /// Reports whether each operation of a target has different bytes; a large body is shared by all.
    pub(super) fn has_own_bytes(&self, target: u32) -> bool {
        let request = self.get(target);
        request.outgoing.template.is_some()
            || request.with_own_topic.is_some()
            || request.stamped_bytes > 0
    }

    /// Returns the values that distinguish an operation on the connection in slot `index` from all others.
    pub(super) fn filling(
        &self,
        index: u32,
        operation: u32,
        intended: Nanos,
        began: Nanos,
    ) -> Filling {
        let connection = self.numbers_from.wrapping_add(number_of(index, self.shard));
        Filling { run: self.run, connection, operation, intended, began }
    }

    /// Returns the parts of the plan that a broker may not allow the connection in slot `index`.
    pub(super) fn needs(&self, index: u32) -> Needs {
        let number = self.filling(index, 0, Nanos::ZERO, Nanos::ZERO).connection.into();
        let longest = self.longest.as_deref();
        self.mqtt.as_ref().map_or(Needs::NONE, |plan| conversation::needs(plan, longest, number))
    }

    /// Returns the opening of the connection in slot `index` to `destination`; empty if the protocol has
    /// no such thing.
    pub(super) fn greeting(
        &self,
        plan: &LoadPlan,
        destination: u32,
        index: u32,
        now: Nanos,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(target) = plan.targets.get(self.first_for(destination, 0) as usize) {
            let filling = self.filling(index, 0, now, now);
            conversation::greeting(&mut bytes, target, plan.mqtt.as_ref(), &filling);
        }
        bytes
    }

    /// Returns the largest size of the header fields of a request of HTTP/2, as its settings count it.
    pub(super) fn header_bytes_max(&self) -> u64 {
        self.all.iter().map(Request::header_bytes).max().unwrap_or(0)
    }

    /// Takes the target whose turn it is.
    pub(super) fn take(&mut self) -> u32 {
        let target = self.next;
        self.next = (target + self.step) % self.all.len() as u32;
        target
    }

    /// Takes the target whose turn it is among those that go to `destination`.
    pub(super) fn take_for(&mut self, destination: u32) -> u32 {
        let target = self.take();
        self.first_for(destination, target)
    }

    /// Returns `proposed` if it goes to `destination`, else the next target that does.
    pub(super) fn first_for(&self, destination: u32, proposed: u32) -> u32 {
        let targets = self.all.len() as u32;
        (0..targets)
            .map(|step| (proposed + step) % targets)
            .find(|target| self.get(*target).destination == destination)
            .unwrap_or(proposed)
    }

    /// Returns the target after `target` that goes to the same destination.
    pub(super) fn after(&self, target: u32) -> u32 {
        let next = (target + 1) % self.all.len() as u32;
        self.first_for(self.get(target).destination, next)
    }
}
