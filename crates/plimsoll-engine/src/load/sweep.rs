//! A sweep of a hold: one request on each connection that was held when it began.
//!
//! Every connection that it began with gives exactly one operation: sent at its turn, or at the
//! end of the operation that was in hand then, or unsent where the connection was lost before.

use std::collections::BTreeMap;

use plimsoll_model::Nanos;

use super::conn::State;
use super::conn::Sweep;
use super::hold::BATCH;
use super::worker::Worker;

/// A sweep in progress.
#[derive(Debug)]
pub(super) struct SweepRun {
    pub(super) id: u32,
    began: Nanos,
    gap_ns: f64,
    /// Before the first request, in gaps, so that workers take turns; 0 <= turn < 1.
    turn: f64,
    /// Every slot below it has had its turn.
    cursor: u32,
    /// Requests that have come due.
    due: u64,
    /// Connections whose turn is still to come.
    planned: u64,
    /// Connections whose operation has not ended; planned <= left.
    left: u64,
    /// Connections that were busy at their turn, and when that was.
    busy: BTreeMap<u32, Nanos>,
}

impl SweepRun {
    fn new(id: u32, began: Nanos, over: Nanos, conns: u64, turn: f64) -> Self {
        Self {
            id,
            began,
            gap_ns: over.0 as f64 / conns.max(1) as f64,
            turn,
            cursor: 0,
            due: 0,
            planned: conns,
            left: conns,
            busy: BTreeMap::new(),
        }
    }

    /// When the next request is due.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let gaps = self.due as f64 + self.turn;
        (self.planned > 0).then(|| self.began + Nanos((gaps * self.gap_ns) as u64))
    }

    /// Operations that came due and could not be sent yet.
    pub(super) fn waiting(&self) -> u64 {
        self.busy.len() as u64
    }
}

impl Worker {
    /// Sends the sweep's requests that are due and begins the next sweep when one is done; false
    /// when there may be more.
    pub(super) fn sweep_due(&mut self, now: Nanos) -> bool {
        for _ in 0..BATCH {
            let Some(hold) = &mut self.hold else { return true };
            let Some(sweep) = &mut hold.sweep else {
                let Some((id, over)) = hold.sweeps.pop_front() else { return true };
                self.begin_sweep(id, over, now);
                continue;
            };
            if sweep.left == 0 {
                let id = sweep.id;
                hold.sweep = None;
                self.say_steered(id);
                continue;
            }
            let Some(due) = sweep.next_due().filter(|due| *due <= now) else { return true };
            self.take_turn(due, now);
        }
        false
    }

    fn begin_sweep(&mut self, id: u32, over: Nanos, now: Nanos) {
        let mut conns = 0;
        for hot in &mut self.slab.hot {
            if matches!(hot.state, State::Idle | State::Busy) {
                hot.sweep = Sweep::Planned;
                conns += 1;
            }
        }
        if let Some(hold) = &mut self.hold {
            hold.sweep = Some(SweepRun::new(id, now, over, conns, hold.turn()));
        }
    }

    /// The next connection's request is due.
    fn take_turn(&mut self, due: Nanos, now: Nanos) {
        let Some(sweep) = self.hold.as_mut().and_then(|hold| hold.sweep.as_mut()) else { return };
        let slots = self.slab.hot.get(sweep.cursor as usize..).unwrap_or_default();
        let Some(ahead) = slots.iter().position(|hot| hot.sweep == Sweep::Planned) else {
            debug_assert!(false, "{} planned and none found", sweep.planned);
            sweep.planned = 0;
            return;
        };
        let index = sweep.cursor + ahead as u32;
        sweep.cursor = index + 1;
        sweep.due += 1;
        sweep.planned -= 1;
        self.meter.tally.tally.scheduled += 1;
        let hot = &mut self.slab.hot[index as usize];
        if hot.state == State::Idle {
            hot.sweep = Sweep::Sent;
            self.send_held(index, due, now);
        } else {
            hot.sweep = Sweep::Due;
            sweep.busy.insert(index, due);
        }
    }

    /// The connection has become free and the sweep has waited for it.
    pub(super) fn send_swept(&mut self, index: u32, now: Nanos) {
        let sweep = self.hold.as_mut().and_then(|hold| hold.sweep.as_mut());
        // None: the sweep was ended by a stop, which has counted the operation.
        let due = sweep.and_then(|sweep| sweep.busy.remove(&index));
        let hot = &mut self.slab.hot[index as usize];
        hot.sweep = if due.is_some() { Sweep::Sent } else { Sweep::No };
        if let Some(due) = due {
            self.send_held(index, due, now);
        }
    }

    /// The sweep's operation on the connection has ended.
    pub(super) fn end_swept(&mut self, index: u32, now: Nanos) {
        self.slab.hot[index as usize].sweep = Sweep::No;
        if let Some(sweep) = self.hold.as_mut().and_then(|hold| hold.sweep.as_mut()) {
            sweep.left -= 1;
            self.wake_hold(now);
        }
    }

    /// The connection is about to be closed: what the sweep still wants of it ends here.
    pub(super) fn leave_sweep(&mut self, index: u32, now: Nanos) {
        let tally = &mut self.meter.tally.tally;
        let Some(sweep) = self.hold.as_mut().and_then(|hold| hold.sweep.as_mut()) else { return };
        match self.slab.hot[index as usize].sweep {
            Sweep::No => return,
            Sweep::Planned => {
                sweep.planned -= 1;
                tally.scheduled += 1;
                tally.unsent += 1;
            }
            Sweep::Due => {
                sweep.busy.remove(&index);
                tally.unsent += 1;
            }
            Sweep::Sent => {}
        }
        self.end_swept(index, now);
    }
}
