//! MQTT on one connection: clients are accepted, publishes acknowledged after the plan's delay, nothing is
//! delivered.

use plimsoll_model::Nanos;
use plimsoll_model::target::MqttVersion;
use plimsoll_proto::mqtt::Event;

use super::conn::{LINGER, MQTT_5, MQTT_CONNECTED, Phase};
use super::exchange::{Exchange, OUT_BYTES};
use super::service::Service;

/// A client without a keep-alive may be silent for a day: the wheel of timers needs some end.
const SILENT_MAX: Nanos = Nanos::from_secs(24 * 3600);
/// Of its keep-alive, a client may be silent for so much (MQTT 5.0, 3.1.2.10), percent.
const SILENCE_PERCENT: u64 = 150;

impl<S: Service> Exchange<S> {
    /// Handles decrypted bytes; keeps those that must wait until the current publish is acknowledged.
    pub(super) fn handle_packets(&mut self, index: u32, input: &[u8]) {
        let mut active = self.conns.take_active(index);
        let mut rest = input;
        while !rest.is_empty()
            && self.out.len() < OUT_BYTES
            && self.conns.slab[index].phase == Phase::Idle
        {
            let flags = self.conns.slab[index].flags;
            let connected = flags.has(MQTT_CONNECTED).then(|| match flags.has(MQTT_5) {
                true => MqttVersion::V5,
                false => MqttVersion::V3_1_1,
            });
            let written = self.out.len();
            match active.packets.handle_bytes(rest, connected, &mut self.out) {
                Ok((consumed, event)) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    match event {
                        Some(Event::Published) => {
                            self.counters.messages.add(1);
                            let delay = self.timeouts.acknowledgement;
                            if delay > Nanos::ZERO && self.out.len() > written {
                                active.delayed.extend(self.out.drain(written..));
                                self.sleep(index, delay);
                            }
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
        self.keep_rest(index, active, rest);
        if self.conns.slab[index].phase == Phase::Idle {
            self.await_packet(index);
        }
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
    pub(super) fn await_packet(&mut self, index: u32) {
        let conn = &self.conns.slab[index];
        let keep_alive = Nanos::from_secs(conn.piece_bytes.into());
        let silence = match (conn.flags.has(MQTT_CONNECTED), keep_alive) {
            (false, _) => self.timeouts.request,
            (true, Nanos::ZERO) => SILENT_MAX,
            (true, keep_alive) => Nanos(keep_alive.0 * SILENCE_PERCENT / 100),
        };
        self.conns.set_deadline(index, silence);
    }
}
