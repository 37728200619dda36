//! Holds connections: opened at a rate, kept open, polled by heartbeats.
//!
//! Openings follow from the steers: a ramp states how many connections this worker shall have
//! tried in all; with `replace`, each one lost or not opened is replaced by another attempt. One
//! pace and one bound on openings hold for both. Heartbeats are in time with the load's epoch and not with
//! the ramp, so that they stay evenly spread whatever the ramp did.

use std::collections::VecDeque;

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::HoldPlan;

use super::conn::Purpose;
use super::pacer::Pacer;
use super::storm::StormRun;
use super::sweep::SweepRun;

/// Connections opened, or sweep requests sent, before the poller is called again: 64 connects take
/// about 1 ms.
pub(super) const BATCH: usize = 64;
/// 2^64 divided by the golden ratio: multiples of it, modulo 2^64, are spread as evenly as any
/// sequence without an end can be (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A trim in progress, or waiting for its turn.
#[derive(Debug)]
pub(super) struct TrimRun {
    pub(super) id: u32,
    /// Connections that stay.
    pub(super) keep: u64,
    /// Every slot from here on has been checked; `None` before the first one.
    pub(super) cursor: Option<u32>,
}

/// One worker's part of a hold.
pub(super) struct Hold {
    plan: HoldPlan,
    pub(super) shard: Shard,
    epoch: Nanos,
    pacer: Pacer,
    /// This worker's share of the plan's connections: no more are held.
    conns_max: u64,
    /// This worker's share of the plan's openings at once; at least 1.
    opening_max: u64,
    /// Connections that the latest ramp wants to have been tried.
    target: u64,
    /// Connections that ramps have tried; replacements are not among them.
    pub(super) tried: u64,
    /// Ended attempts: they failed or were lost, and make room for as many more. If they are
    /// replaced, none do.
    ended: u64,
    /// Connections being opened; opening <= opening_max.
    opening: u64,
    /// Connections of `opening` that a ramp wants; ramp_opening <= opening.
    ramp_opening: u64,
    /// Replacements to be tried.
    replacements_due: u64,
    /// Connections that have become usable, for the next one's place in the period.
    usable: u64,
    /// Reason for the current attempt.
    pub(super) purpose: Purpose,
    /// Ramps that wait to be done: all of them when the latest is.
    ramps: Vec<u32>,
    /// The latest ramp that was done.
    ramped: u32,
    /// `true` if other workers have joined: the ramp in progress pauses until its new target is known.
    is_spreading: bool,
    /// Trims that wait for their turn, the one in progress first.
    pub(super) trims: VecDeque<TrimRun>,
    /// Sweeps that wait for their turn: their numbers and lengths.
    pub(super) sweeps: VecDeque<(u32, Nanos)>,
    /// The sweep in progress.
    pub(super) sweep: Option<SweepRun>,
    /// The storm in progress.
    pub(super) storm: Option<Box<StormRun>>,
}

impl Hold {
    /// Creates the part of `shard`, which is one worker among all workers of the load.
    pub(super) fn new(plan: HoldPlan, shard: Shard, conns_max: u64) -> Self {
        Self {
            plan,
            shard,
            epoch: Nanos::MAX,
            pacer: Pacer::new(Nanos::MAX, plan.connections_per_s, shard),
            conns_max: shard.share(conns_max),
            opening_max: shard.share(u64::from(plan.opening_max)).max(1),
            target: 0,
            tried: 0,
            ended: 0,
            opening: 0,
            ramp_opening: 0,
            replacements_due: 0,
            usable: 0,
            purpose: Purpose::Ramp,
            ramps: Vec::new(),
            ramped: 0,
            is_spreading: false,
            trims: VecDeque::new(),
            sweeps: VecDeque::new(),
            sweep: None,
            storm: None,
        }
    }

    /// Starts at the load's epoch, from which all workers take their turns.
    pub(super) fn start(&mut self, epoch: Nanos) {
        self.epoch = epoch;
        self.pacer = Pacer::new(epoch, self.plan.connections_per_s, self.shard);
    }

    /// Sets the number of workers to at least `of`; a ramp in progress pauses until it is ordered again.
    pub(super) fn spread_over(&mut self, of: u32) {
        self.shard.of = of.max(self.shard.of);
        self.pacer = Pacer::new(self.epoch, self.plan.connections_per_s, self.shard);
        self.is_spreading = !self.ramps.is_empty();
        self.target = self.target.min(self.tried);
    }

    /// Returns this worker's position among all workers, 0 <= turn < 1.
    pub(super) fn turn(&self) -> f64 {
        f64::from(self.shard.index) / f64::from(self.shard.of)
    }

    pub(super) fn begin_ramp(&mut self, id: u32, connections: u64) {
        self.target = self.shard.share(connections).min(self.conns_max + self.ended);
        self.is_spreading = false;
        // One in progress comes again with another target when others have joined.
        if id > self.ramped && !self.ramps.contains(&id) {
            self.ramps.push(id);
        }
    }

    pub(super) fn begin_trim(&mut self, id: u32, connections: u64) {
        // A ramp in progress stops first.
        self.target = self.target.min(self.tried);
        self.replacements_due = 0;
        let keep = self.shard.share(connections);
        self.trims.push_back(TrimRun { id, keep, cursor: None });
    }

    /// Counts, after a trim, only the held connections as attempts.
    pub(super) fn forget_attempts(&mut self, held: u64) {
        self.tried = held;
        self.target = held;
        self.ended = 0;
    }

    /// Reports whether to open a connection now.
    pub(super) fn poll_open(&mut self, now: Nanos) -> bool {
        let is_ramping = self.tried < self.target;
        if !is_ramping && self.replacements_due == 0 {
            self.pacer.rest();
            return false;
        }
        if !self.pacer.poll_open(now, self.opening < self.opening_max) {
            return false;
        }
        // A ramp first: it must end also where every replacement fails.
        self.purpose = if is_ramping { Purpose::Ramp } else { Purpose::Replacement };
        self.opening += 1;
        debug_assert!(self.opening <= self.opening_max, "more is being opened than allowed");
        if is_ramping {
            self.tried += 1;
            self.ramp_opening += 1;
        } else {
            self.replacements_due -= 1;
        }
        true
    }

    pub(super) fn next_open(&self) -> Option<Nanos> {
        if self.tried >= self.target && self.replacements_due == 0 {
            return None;
        }
        self.pacer.next_due()
    }

    /// Notes the end of an attempt, well or not. The storm counts its own attempts.
    pub(super) const fn end_opening(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Ramp => {
                self.opening -= 1;
                self.ramp_opening -= 1;
            }
            Purpose::Replacement => self.opening -= 1,
            Purpose::Storm => {}
        }
    }

    /// Counts a connection that was lost, or could not be opened.
    pub(super) fn count_loss(&mut self) {
        self.replacements_due += u64::from(self.plan.replace);
        self.ended += u64::from(!self.plan.replace);
    }

    pub(super) const fn heartbeat(&self) -> Option<Nanos> {
        self.plan.heartbeat
    }

    /// Returns the ramps that have ended since the last call.
    pub(super) fn take_ramps_done(&mut self) -> Vec<u32> {
        if self.is_spreading || !self.ramp_is_done() {
            return Vec::new();
        }
        self.ramped = self.ramps.iter().fold(self.ramped, |latest, id| latest.max(*id));
        std::mem::take(&mut self.ramps)
    }

    /// Drops everything unfinished; returns the steers that were not carried out.
    pub(super) fn end(&mut self) -> Vec<u32> {
        let mut ids = std::mem::take(&mut self.ramps);
        ids.extend(self.trims.drain(..).map(|trim| trim.id));
        ids.extend(self.sweeps.drain(..).map(|(id, _)| id));
        ids.extend(self.sweep.take().map(|sweep| sweep.id));
        ids.extend(self.storm.take().map(|storm| storm.id));
        ids
    }

    /// Reports whether the latest ramp has been made; a lower one than what was tried has.
    const fn ramp_is_done(&self) -> bool {
        self.tried > self.target || (self.tried == self.target && self.ramp_opening == 0)
    }

    /// Returns the time of the first heartbeat of the next connection that becomes usable.
    pub(super) fn first_beat(&mut self, now: Nanos) -> Nanos {
        let Some(period) = self.plan.heartbeat.filter(|period| *period > Nanos::ZERO) else {
            return Nanos::MAX;
        };
        let serial = self.usable * u64::from(self.shard.of) + u64::from(self.shard.index);
        self.usable += 1;
        // The upper 64 bits of the product: period * place, where place is below 1.
        let place = (u128::from(period.0) * u128::from(serial.wrapping_mul(GOLDEN))) >> 64;
        let first = self.epoch + Nanos(place as u64);
        // The first such instant after now.
        let periods = (now.since(first).0 / period.0) + u64::from(now >= first);
        first + Nanos(period.0.saturating_mul(periods))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(shard: Shard, heartbeat: Option<Nanos>) -> Hold {
        let plan =
            HoldPlan { connections_per_s: 1000.0, opening_max: 10, heartbeat, replace: false };
        let mut hold = Hold::new(plan, shard, 1_000_000);
        hold.start(Nanos::from_secs(7));
        hold
    }

    /// Opens what is due up to `until` in steps of 0.1 ms; each attempt ends after `life`.
    fn ramp(hold: &mut Hold, until: Nanos, life: Nanos) -> (u64, u64) {
        let mut ends = VecDeque::new();
        let (mut opened, mut most) = (0, 0);
        let mut now = hold.epoch;
        while now < until {
            while ends.front().is_some_and(|end| *end <= now) {
                ends.pop_front();
                hold.end_opening(Purpose::Ramp);
            }
            while hold.poll_open(now) {
                opened += 1;
                ends.push_back(now + life);
            }
            most = most.max(hold.opening);
            now = now + Nanos(100_000);
        }
        (opened, most)
    }

    #[test]
    fn a_ramp_keeps_its_pace_and_stops_at_its_target() {
        let mut hold = hold(Shard::WHOLE, None);
        hold.begin_ramp(1, 50);
        // 1000/s: 20 in the first 20 ms, all 50 after 50 ms.
        assert_eq!(ramp(&mut hold, Nanos::from_millis(7_020), Nanos(1)), (20, 1));
        assert!(!hold.ramp_is_done());
        hold.epoch = Nanos::from_millis(7_020);
        assert_eq!(ramp(&mut hold, Nanos::from_millis(7_200), Nanos(1)), (30, 1));
        assert!(hold.ramp_is_done());
        // Lower than what was tried: done, and nothing more is opened.
        hold.begin_ramp(2, 10);
        assert!(hold.ramp_is_done() && !hold.poll_open(Nanos::from_secs(8)));
    }

    #[test]
    fn attempts_that_ended_make_room_for_others_and_a_trim_forgets_them() {
        let mut hold = hold(Shard::WHOLE, None);
        hold.conns_max = 50;
        hold.begin_ramp(1, 60);
        assert_eq!(ramp(&mut hold, Nanos::from_secs(8), Nanos(1)).0, 50);
        // Ten were refused: the same ramp again opens ten more.
        hold.ended = 10;
        hold.epoch = Nanos::from_secs(8);
        hold.begin_ramp(2, 60);
        assert_eq!(ramp(&mut hold, Nanos::from_secs(9), Nanos(1)).0, 10);
        // Held 50, of which 20 are kept; what the ramps tried counts no more.
        hold.begin_trim(3, 20);
        hold.forget_attempts(20);
        assert!(hold.ramp_is_done());
        hold.epoch = Nanos::from_secs(9);
        hold.begin_ramp(4, 25);
        assert_eq!(ramp(&mut hold, Nanos::from_secs(10), Nanos(1)).0, 5);
    }

    #[test]
    fn a_ramp_stands_still_when_others_join_and_goes_on_slower_to_a_lower_target() {
        let mut hold = hold(Shard::WHOLE, None);
        hold.begin_ramp(1, 100);
        assert_eq!(ramp(&mut hold, Nanos::from_millis(7_020), Nanos(1)), (20, 1));
        hold.spread_over(4);
        hold.epoch = Nanos::from_millis(7_020);
        assert_eq!(ramp(&mut hold, Nanos::from_millis(7_040), Nanos(1)).0, 0);
        assert_eq!((hold.tried, hold.take_ramps_done()), (20, Vec::new()));
        // A quarter of 200, at a quarter of 1000/s.
        hold.begin_ramp(1, 200);
        hold.epoch = Nanos::from_millis(7_040);
        assert_eq!(ramp(&mut hold, Nanos::from_millis(7_080), Nanos(1)).0, 10);
        hold.epoch = Nanos::from_millis(7_080);
        assert_eq!(ramp(&mut hold, Nanos::from_secs(9), Nanos(1)).0, 20);
        assert_eq!(hold.take_ramps_done(), [1]);
        // One that was done is not done twice, and less than is held opens nothing.
        hold.begin_ramp(1, 100);
        assert_eq!(
            (hold.take_ramps_done(), hold.poll_open(Nanos::from_secs(9))),
            (Vec::new(), false)
        );
        hold.spread_over(5);
        hold.begin_ramp(2, 300);
        hold.epoch = Nanos::from_secs(9);
        assert_eq!(ramp(&mut hold, Nanos::from_secs(10), Nanos(1)).0, 10);
        assert_eq!(hold.take_ramps_done(), [2]);
    }

    #[test]
    fn slow_openings_are_bounded_and_not_made_up_for() {
        let mut hold = hold(Shard::WHOLE, None);
        hold.begin_ramp(1, 1000);
        // Each takes 100 ms and 10 may be under way: 10 in each 100 ms, and not 100.
        let (opened, most) = ramp(&mut hold, Nanos::from_secs(8), Nanos::from_millis(100));
        assert_eq!(most, 10);
        assert!((91..=100).contains(&opened), "{opened}");
    }

    #[test]
    fn shares_add_up_to_what_was_asked_for() {
        let total: u64 = (0..7)
            .map(|index| {
                let mut hold = hold(Shard { index, of: 7 }, None);
                hold.begin_ramp(1, 100);
                ramp(&mut hold, Nanos::from_secs(8), Nanos(1)).0
            })
            .sum();
        assert_eq!(total, 100);
    }

    #[test]
    fn heartbeats_are_evenly_spread_over_the_period() {
        let period = Nanos::from_secs(60);
        let mut places = Vec::new();
        for index in 0..4 {
            let mut hold = hold(Shard { index, of: 4 }, Some(period));
            for nth in 0..250u64 {
                // Usable at any time, some of them after several periods.
                let now = hold.epoch + Nanos(nth * 1_234_567_891);
                let first = hold.first_beat(now);
                assert!(first > now && first <= now + period);
                places.push(first.since(hold.epoch).0 % period.0);
            }
        }
        places.sort_unstable();
        // 1000 of them: the mean gap is 60 ms, and the golden ratio keeps each below 2.7 times it.
        let around = places[0] + period.0 - places[999];
        let widest = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap().max(around);
        assert!(widest < 162_000_000, "{widest} ns without a beat");
    }

    #[test]
    fn a_silent_hold_has_no_beats() {
        for heartbeat in [None, Some(Nanos::ZERO)] {
            assert_eq!(hold(Shard::WHOLE, heartbeat).first_beat(Nanos(9)), Nanos::MAX);
        }
    }
}
