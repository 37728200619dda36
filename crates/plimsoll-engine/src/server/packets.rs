//! MQTT on one connection: clients are accepted, publishes acknowledged after the plan's delay, each by
//! itself, and delivered at once to the connection that they came on, if that has subscribed to them.

use plimsoll_model::Nanos;
use plimsoll_model::target::MqttVersion;
use plimsoll_proto::mqtt::{
    Broker, Event, Output, Subscriptions, Terms, refuse_excess, refuse_for_quota,
};

use super::conn::{BLOCKED, LINGER, MQTT_5, MQTT_CONNECTED, Phase};
use super::exchange::{Exchange, OUT_BYTES};
use super::service::Service;

/// A client without a keep-alive may be silent for a day: the wheel of timers needs some end.
const SILENT_MAX: Nanos = Nanos::from_secs(24 * 3600);
/// Silence that a client may keep, in percent of its keep-alive (MQTT 5.0, 3.1.2.10).
const SILENCE_PERCENT: u64 = 150;
/// Pause before a client that does not read is tried again.
const BLOCKED_PAUSE: Nanos = Nanos::from_millis(10);

impl<S: Service> Exchange<S> {
    /// Handles decrypted bytes; keeps those that must wait until the answers to the others are sent.
    pub(super) fn handle_packets(&mut self, index: u32, input: &[u8]) {
        let mut active = self.conns.take_active(index);
        let mut own = self.conns.slab.take_subscriptions(index);
        let (mut rest, mut is_active) = (input, false);
        self.payload.clear();
        while !rest.is_empty()
            && self.out.len() < OUT_BYTES
            && self.conns.slab[index].phase == Phase::Idle
        {
            let flags = self.conns.slab[index].flags;
            let connected = flags.has(MQTT_CONNECTED).then(|| match flags.has(MQTT_5) {
                true => MqttVersion::V5,
                false => MqttVersion::V3_1_1,
            });
            let receive_maximum = self.mqtt.receive_maximum;
            let terms = Terms { connected, receive_maximum };
            let written = self.out.len();
            let to = Output { reply: &mut self.out, delivery: &mut self.payload };
            match active.packets.handle_bytes(rest, terms, &mut own, to) {
                Ok((consumed, event)) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    is_active |= event.is_some();
                    match event {
                        Some(Event::Published) => {
                            self.counters.messages.add(1);
                            let delay = self.timeouts.acknowledgement;
                            if delay > Nanos::ZERO && self.out.len() > written {
                                self.conns.read_clock();
                                let due = self.conns.now + delay;
                                let is_kept = active.acknowledgements.put(
                                    due,
                                    &self.out[written..],
                                    receive_maximum.into(),
                                );
                                self.out.truncate(written);
                                if !is_kept {
                                    self.end_for_excess(index);
                                }
                            }
                            self.deliver(&mut own);
                        }
                        Some(event) => self.handle_event(index, event),
                        None => {}
                    }
                }
                Err(_) => {
                    self.counters.requests_malformed.add(1);
                    self.conns.slab[index].flags.set(LINGER);
                    self.conns.slab[index].phase = Phase::Closing;
                }
            }
        }
        self.conns.slab.keep_subscriptions(index, own);
        let is_version_5 = self.conns.slab[index].flags.has(MQTT_5);
        self.compare_kept(index, &mut active, |active, out| {
            active.packets = Broker::default();
            if is_version_5 {
                refuse_for_quota(out);
            }
        });
        // Bytes of a packet that does not end do not show that the client is alive.
        if is_active {
            active.acknowledgements.silent_until = self.conns.now + self.silence(index);
        }
        let due = active.acknowledgements.due();
        let until = active.acknowledgements.silent_until;
        self.keep_rest(index, active, rest);
        if self.conns.slab[index].phase == Phase::Idle && (is_active || due.is_some()) {
            self.set_due(index, due.map_or(until, |due| due.min(until)));
        }
    }

    /// Sends the message that is to be delivered, if there is one; where the plan says so, twice or not at all.
    fn deliver(&mut self, own: &mut Subscriptions) {
        if self.payload.is_empty() {
            return;
        }
        self.mqtt.deliveries += 1;
        let (count, faults) = (self.mqtt.deliveries, self.mqtt.faults);
        let is_last = |every: u32| every > 0 && count.is_multiple_of(every.into());
        if is_last(faults.lose_every) {
            self.counters.deliveries_lost.add(1);
        } else {
            self.counters.deliveries.add(1);
            self.out.extend_from_slice(&self.payload);
            if is_last(faults.repeat_every) {
                self.counters.deliveries_repeated.add(1);
                own.renumber(&mut self.payload);
                self.out.extend_from_slice(&self.payload);
            }
        }
        self.payload.clear();
    }

    /// Ends a connection whose client leaves more publishes open than it may.
    fn end_for_excess(&mut self, index: u32) {
        let flags = &mut self.conns.slab[index].flags;
        flags.set(LINGER);
        if flags.has(MQTT_5) {
            refuse_excess(&mut self.out);
        }
        self.conns.slab[index].phase = Phase::Closing;
    }

    fn set_due(&mut self, index: u32, at: Nanos) {
        self.conns.set_deadline(index, at.since(self.conns.now));
    }

    /// Reports whether acknowledgements wait, so that a deadline is theirs first.
    pub(super) fn is_acknowledging(&self, index: u32) -> bool {
        let active = self.conns.slab[index].active.as_ref();
        active.is_some_and(|active| !active.acknowledgements.is_empty())
    }

    /// Sends the acknowledgements that are due.
    pub(super) fn send_acknowledgements(&mut self, index: u32) {
        let now = self.conns.now;
        let conn = &mut self.conns.slab[index];
        let is_blocked = conn.flags.has(BLOCKED);
        let Some(active) = &mut conn.active else { return };
        let waiting = &mut active.acknowledgements;
        if waiting.silent_until <= now {
            conn.phase = Phase::Closing;
            return;
        }
        if !is_blocked {
            waiting.take_due(now, &mut self.out);
        }
        let next = match waiting.due() {
            // A client that does not read is asked again.
            Some(due) => due.max(now + if is_blocked { BLOCKED_PAUSE } else { Nanos::ZERO }),
            None => waiting.silent_until,
        };
        let at = next.min(waiting.silent_until);
        self.set_due(index, at);
    }

    fn handle_event(&mut self, index: u32, event: Event) {
        let conn = &mut self.conns.slab[index];
        match event {
            Event::Connected { version, keep_alive_s, is_refused } => {
                conn.flags.set(MQTT_CONNECTED);
                conn.flags.put(MQTT_5, version == MqttVersion::V5);
                // Answers of MQTT have no pieces.
                conn.piece_bytes = keep_alive_s.into();
                if is_refused {
                    conn.phase = Phase::Closing;
                }
            }
            Event::Disconnected => conn.phase = Phase::Closing,
            Event::Published | Event::Answered => {}
        }
    }

    /// The client has its keep-alive and half of it to send the next packet.
    fn silence(&self, index: u32) -> Nanos {
        let conn = &self.conns.slab[index];
        let keep_alive = Nanos::from_secs(conn.piece_bytes.into());
        match (conn.flags.has(MQTT_CONNECTED), keep_alive) {
            (false, _) => self.timeouts.request,
            (true, Nanos::ZERO) => SILENT_MAX,
            (true, keep_alive) => Nanos(keep_alive.0 * SILENCE_PERCENT / 100),
        }
    }
}
