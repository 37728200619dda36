//! Keep-alive of MQTT: pings beside operations.
//!
//! A broker may end a connection on which nothing came for one and a half times the keep-alive: the one of CONNECT, or
//! the one that the broker states instead (MQTT 5.0, 3.1.2.10 and 3.2.2.3.14). So a connection that has sent nothing
//! for most of that time sends a PINGREQ, whatever it awaits, and one whose PINGREQ is not answered within the
//! keep-alive is closed. Only sends are noted; the connection's timer does the rest.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing};

use crate::slots::slot_mut;

/// One worker's part in it.
pub(super) struct KeepAlive {
    /// The keep-alive of CONNECT, s; 0 for none.
    asked_s: u16,
    /// Time between the heartbeats of a hold, which are pings themselves.
    pub(super) heartbeat: Option<Nanos>,
    /// The zero of times in ms.
    began: Nanos,
    /// By slot; empty as long as no connection needs pings.
    watched: Vec<Watched>,
}

/// A connection that may need pings.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    /// Time of the latest send, ms.
    sent_ms: u32,
    /// Time at which the oldest unanswered PINGREQ was sent, ms.
    pinged_ms: u32,
    /// The keep-alive, s; 0 if the slot needs no pings.
    period_s: u16,
    /// Pings that are not answered.
    pub(super) pings: u16,
}

const _: () = assert!(size_of::<Watched>() == 12);

impl Watched {
    pub(super) const fn period_ms(self) -> u64 {
        self.period_s as u64 * 1_000
    }
}

impl KeepAlive {
    pub(super) fn new(plan: &LoadPlan, now: Nanos) -> Self {
        let heartbeat = match &plan.pacing {
            Pacing::Hold(hold) => hold.heartbeat.filter(|beat| *beat > Nanos::ZERO),
            Pacing::Open { .. } | Pacing::Closed { .. } => None,
        };
        let asked_s = plan.mqtt.as_ref().map_or(0, |mqtt| mqtt.keep_alive_s);
        Self { asked_s, heartbeat, began: now, watched: Vec::new() }
    }

    fn ms(&self, now: Nanos) -> u32 {
        u32::try_from(now.since(self.began).0 / 1_000_000).unwrap_or(u32::MAX)
    }

    fn get(&self, index: u32) -> Option<Watched> {
        self.watched.get(index as usize).copied().filter(|one| one.period_s > 0)
    }

    /// Starts to watch the usable connection in a slot, whose broker states this keep-alive, if any. Returns whether it
    /// needs pings.
    pub(super) fn begin(&mut self, index: u32, stated_s: Option<u16>, now: Nanos) -> bool {
        let period_s = stated_s.unwrap_or(self.asked_s);
        // Beats that are no further apart are enough.
        let beats = self.heartbeat.is_some_and(|beat| beat <= Nanos::from_secs(period_s.into()));
        if period_s == 0 || beats {
            return false;
        }
        let sent_ms = self.ms(now);
        let watched = slot_mut(&mut self.watched, index, Watched::default);
        *watched = Watched { sent_ms, period_s, ..Watched::default() };
        true
    }

    /// Forgets the connection of a slot.
    pub(super) fn forget(&mut self, index: u32) {
        if let Some(one) = self.watched.get_mut(index as usize) {
            *one = Watched::default();
        }
    }

    /// Notes a send on the connection in a slot.
    #[inline]
    pub(super) fn note_sent(&mut self, index: u32, now: Nanos) {
        if self.watched.is_empty() {
            return;
        }
        let sent_ms = self.ms(now);
        if let Some(one) = self.watched.get_mut(index as usize) {
            one.sent_ms = sent_ms;
        }
    }

    pub(super) fn note_ping(&mut self, index: u32, now: Nanos) {
        let now_ms = self.ms(now);
        let Some(one) = self.watched.get_mut(index as usize) else { return };
        if one.pings == 0 {
            one.pinged_ms = now_ms;
        }
        (one.pings, one.sent_ms) = (one.pings.saturating_add(1), now_ms);
    }

    pub(super) fn note_answer(&mut self, index: u32, now: Nanos) {
        let now_ms = self.ms(now);
        if let Some(one) = self.watched.get_mut(index as usize) {
            one.pings = one.pings.saturating_sub(1);
            one.pinged_ms = now_ms;
        }
    }

    /// Returns the time at which the silence of the connection in a slot requires a ping: well before the end of the
    /// keep-alive, because the ping takes time to arrive.
    pub(super) fn pings_at(&self, index: u32) -> Option<Nanos> {
        let one = self.get(index)?;
        Some(self.began + Nanos::from_millis(u64::from(one.sent_ms) + one.period_ms() / 8 * 7))
    }

    /// Returns the time at which an unanswered ping of the connection in a slot is given up.
    pub(super) fn gives_up_at(&self, index: u32) -> Option<Nanos> {
        let one = self.get(index).filter(|one| one.pings > 0)?;
        Some(self.began + Nanos::from_millis(u64::from(one.pinged_ms) + one.period_ms()))
    }

    /// Returns the time at which a timer must fire for the connection in a slot; [`Nanos::MAX`] for never.
    pub(super) fn next(&self, index: u32) -> Nanos {
        let both = self.pings_at(index).into_iter().chain(self.gives_up_at(index));
        both.min().unwrap_or(Nanos::MAX)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::plan::HoldPlan;

    use super::*;

    fn keep_alive(asked_s: u16, heartbeat: Option<Nanos>) -> KeepAlive {
        let hold = HoldPlan { connections_per_s: 1.0, opening_max: 1, heartbeat, replace: false };
        let plan = LoadPlan::plain(&[], Pacing::Hold(hold));
        let began = Nanos::from_secs(5);
        KeepAlive { asked_s, ..KeepAlive::new(&plan, began) }
    }

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(5_000 + ms)
    }

    #[test]
    fn silence_is_broken_before_the_keep_alive_ends() {
        let mut kept = keep_alive(8, None);
        assert!(kept.begin(3, None, at(100)));
        assert_eq!(kept.next(3), at(7_100));
        kept.note_sent(3, at(2_000));
        assert_eq!(kept.next(3), at(9_000));
        kept.note_ping(3, at(9_000));
        assert_eq!(kept.next(3), at(16_000));
        assert_eq!(kept.gives_up_at(3), Some(at(17_000)));
        kept.note_ping(3, at(16_000));
        assert_eq!(kept.next(3), at(17_000));
        kept.note_answer(3, at(16_500));
        assert_eq!(kept.gives_up_at(3), Some(at(24_500)));
        kept.note_answer(3, at(16_600));
        assert_eq!((kept.gives_up_at(3), kept.next(3)), (None, at(23_000)));
        kept.forget(3);
        assert_eq!(kept.next(3), Nanos::MAX);
        // Of a slot that was never one of a connection.
        assert_eq!(kept.next(9), Nanos::MAX);
    }

    #[test]
    fn the_keep_alive_of_the_broker_comes_before_that_of_the_client() {
        let beat = |seconds| Some(Nanos::from_secs(seconds));
        for (asked_s, heartbeat, stated_s, is_watched) in [
            (0, None, None, false),
            (0, None, Some(1), true),
            (1, None, Some(0), false),
            (10, beat(10), None, false),
            (10, beat(10), Some(20), false),
            (10, beat(10), Some(9), true),
            (0, beat(10), None, false),
        ] {
            let mut kept = keep_alive(asked_s, heartbeat);
            let begun = kept.begin(0, stated_s, at(0));
            assert_eq!(begun, is_watched, "{asked_s} {heartbeat:?} {stated_s:?}");
            let period_s = u64::from(stated_s.unwrap_or(asked_s));
            let next = if is_watched { at(period_s * 875) } else { Nanos::MAX };
            assert_eq!(kept.next(0), next);
        }
    }
}
