//! Rules for clients of MQTT, and the acknowledgements that wait for their time.

use std::collections::VecDeque;

use plimsoll_model::Nanos;
use plimsoll_model::plan::{DeliveryFaults, ServePlan};

/// PUBACK and PUBREC without properties.
const ACKNOWLEDGEMENT_BYTES: usize = 4;

/// A worker's rules for clients of MQTT.
pub(super) struct MqttRules {
    /// Publishes above QoS 0 that a client may leave open.
    pub(super) receive_maximum: u16,
    /// Faults of delivered messages.
    pub(super) faults: DeliveryFaults,
    /// Number of delivered messages, those left out included.
    pub(super) deliveries: u64,
}

impl MqttRules {
    pub(super) const fn new(plan: &ServePlan) -> Self {
        let (receive_maximum, faults) = (plan.receive_maximum, plan.delivery_faults);
        Self { receive_maximum, faults, deliveries: 0 }
    }
}

/// Acknowledgements that are sent later, each at its time.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    /// In the order of their times: each is delayed as long as the others.
    pub(super) waiting: VecDeque<(Nanos, [u8; ACKNOWLEDGEMENT_BYTES])>,
    /// Time at which the client has been silent for too long.
    pub(super) silent_until: Nanos,
}

impl Acknowledgements {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps one until `due`; whether it was one, and less than `most` waited.
    pub(super) fn put(&mut self, due: Nanos, bytes: &[u8], most: usize) -> bool {
        let Ok(bytes) = bytes.try_into() else { return false };
        if self.waiting.len() >= most {
            return false;
        }
        self.waiting.push_back((due, bytes));
        true
    }

    pub(super) fn due(&self) -> Option<Nanos> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Appends those that are due to `out`.
    pub(super) fn take_due(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let count = self.waiting.iter().take_while(|(due, _)| *due <= now).count();
        for (_, bytes) in self.waiting.drain(..count) {
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_wait_side_by_side_and_are_bounded() {
        let mut waiting = Acknowledgements::default();
        for id in 0..20 {
            assert!(waiting.put(Nanos::from_millis(10) + Nanos(id), &[0x40, 2, 0, id as u8], 20));
        }
        let mut out = Vec::new();
        waiting.take_due(Nanos::from_millis(9), &mut out);
        assert_eq!((out.len(), waiting.due()), (0, Some(Nanos::from_millis(10))));
        waiting.take_due(Nanos::from_millis(10) + Nanos(18), &mut out);
        assert_eq!((out.len(), out[75]), (19 * ACKNOWLEDGEMENT_BYTES, 18));
        waiting.take_due(Nanos::from_millis(11), &mut out);
        assert!(waiting.is_empty());
        while waiting.put(Nanos::ZERO, &[0x50, 2, 0, 1], 20) {}
        assert_eq!(waiting.waiting.len(), 20);
        assert!(
            !Acknowledgements::default().put(Nanos::ZERO, &[0x40, 2], 20),
            "no acknowledgement"
        );
    }
}
