//! The timer of a connection.
//!
//! A connection has one timer, for whatever comes first: giving up what it waits for, the next
//! heartbeat of a hold, or the next ping of MQTT. It is lazy: see [`super::conn::ConnHot::timer_armed`].

use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::http2::StreamFault;

use super::classify::opening_error;
use super::conn::State;
use super::exchange::Until;
use super::phases::Phase;
use super::session::FIN_WAIT;
use super::worker::Worker;

/// The most turns of reading for one socket, 16 MiB: then more is still coming.
pub(super) const TURNS_MAX: u32 = 64;

impl Worker {
    /// Returns the time for which an answer is waited for.
    pub(super) fn answer_timeout(&self) -> Nanos {
        self.plan.timeouts.deadline.unwrap_or_default() + self.plan.timeouts.linger
    }

    /// Returns the time at which the connection stops waiting; `None` if it waits for nothing.
    fn gives_up_at(&self, index: u32) -> Option<Nanos> {
        let hot = &self.conns[index];
        match hot.state {
            State::Free => None,
            State::Idle if self.protocol.is_scripted && hot.beat_due > Nanos::ZERO => {
                // Of a hold it is the next heartbeat, which has a timer anyway.
                Some(hot.beat_due).filter(|_| !self.demand.is_hold())
            }
            State::Idle if self.streams.are_shared() && hot.beat_due > Nanos::ZERO => {
                Some(hot.beat_due)
            }
            State::Idle => self.tickets_due(index),
            State::Connecting | State::Handshaking | State::Greeting => {
                Some(hot.since + self.plan.timeouts.connect)
            }
            State::Closing => Some(hot.since + FIN_WAIT),
            State::Busy => {
                if self.protocol.is_scripted
                    && let Some(wakes) =
                        self.conns.slab.script(index).and_then(|script| script.sleeps_until())
                {
                    return Some(wakes);
                }
                if let Some(ends) = self.storm_patience_ends(index) {
                    return Some(ends);
                }
                Some(hot.request_began() + self.answer_timeout())
            }
        }
    }

    /// Handles a timer of the connection's slot, which may have fired too early.
    pub(super) fn handle_timer(&mut self, index: u32, now: Nanos) {
        if self.protocol.is_scripted && self.end_sleep(index, now) {
            return;
        }
        let hot = &mut self.conns[index];
        let is_usable = matches!(hot.state, State::Idle | State::Busy);
        if self.demand.is_hold() && is_usable {
            self.beat(index, now);
        }
        // A beat that was sent has armed the timer, or has lost the connection.
        let Some(gave_up) = self.gives_up_at(index).filter(|at| *at <= now) else {
            if self.keep_connection_alive(index, now) {
                self.arm_next(index);
            }
            return;
        };
        if self.look_before_giving_up(index, gave_up, now) {
            return;
        }
        match self.conns[index].state {
            State::Free => {}
            State::Idle
                if self.streams.are_shared() && self.conns[index].beat_due > Nanos::ZERO =>
            {
                self.give_up_starved(index, now);
            }
            State::Idle => self.handle_tickets(index, now),
            State::Greeting => {
                let why = self.protocol.unanswered;
                self.fail_opening(index, ErrorClass::Timeout, &why, now);
            }
            State::Connecting | State::Handshaking => {
                let why = "not usable within --connect-timeout";
                self.fail_opening(index, ErrorClass::Timeout, &why, now);
            }
            State::Busy => {
                self.note_blocked(index, now);
                let class = match self.awaits_stream(index) {
                    true => self.note_fault(index, StreamFault::NoneAllowed, now),
                    false => ErrorClass::Timeout,
                };
                self.fail_op_and_close(index, class, now);
            }
            State::Closing => self.close_and_refill(index, None, now),
        }
    }

    /// Reads what the connection waits for, which may have come before its timer was due without being
    /// looked. Returns whether that, or the connection's end, is now handled.
    fn look_before_giving_up(&mut self, index: u32, gave_up: Nanos, now: Nanos) -> bool {
        let token = self.conns.slab.token(index);
        let source = self.conns.slab.connection_of(index);
        let was = self.conns[index].state;
        match was {
            State::Free | State::Idle | State::Closing => return false,
            State::Connecting => match self.conns.is_connected(index) {
                Ok(true) => self.handle_connected(index, now),
                Ok(false) => return false,
                Err(errno) => self.fail_opening(index, opening_error(errno), &errno, now),
            },
            State::Handshaking | State::Greeting | State::Busy => {
                let mut turns_left = TURNS_MAX;
                while turns_left > 0 && self.read_until(source, Until::Arrived(gave_up), now) {
                    turns_left -= 1;
                }
            }
        }
        if self.conns.slab.index_of(token).is_none() {
            return true;
        }
        if self.gives_up_at(index).is_none_or(|at| now < at) {
            self.arm_next(index);
            return true;
        }
        // Established in time, and the handshake begins only now.
        let begins = was == State::Connecting && self.conns[index].state == State::Handshaking;
        if begins {
            self.conns.rearm(index, now + self.plan.timeouts.connect);
        }
        begins
    }

    /// Arms the timer for whatever comes first.
    pub(super) fn arm_next(&mut self, index: u32) {
        let hot = &self.conns[index];
        let is_usable = matches!(hot.state, State::Idle | State::Busy);
        let is_beating = is_usable && self.demand.is_hold() && self.phases.is(Phase::Running);
        let beat_due = if is_beating { hot.beat_due } else { Nanos::MAX };
        let ping_due = if is_usable { self.keep_alive.next(index) } else { Nanos::MAX };
        let next = self.gives_up_at(index).unwrap_or(Nanos::MAX).min(beat_due).min(ping_due);
        if next < Nanos::MAX {
            self.conns.rearm(index, next);
        }
    }

    /// Arms again what a new wheel has lost.
    pub(super) fn renew_timers(&mut self, now: Nanos) {
        for index in self.conns.renew_wheel(now) {
            self.arm_next(index);
        }
    }
}
