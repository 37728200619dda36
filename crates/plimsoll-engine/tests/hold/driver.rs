//! The client's side of a test: a hold, steered step by step.

use std::net::SocketAddr;

use plimsoll_engine::load::Load;
use plimsoll_model::Nanos;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::plan::{
    HoldPlan, LoadPlan, Pacing, ServerName, Steer, Timeouts, TlsOptions, Trust,
};
use plimsoll_model::tally::Tally;
use plimsoll_sys::clock;

/// A test that waits longer than this has failed.
pub(crate) const PATIENCE: Nanos = Nanos::from_secs(30);

/// A hold of at most 5000 connections to `address` in two workers.
pub(crate) fn plan(address: SocketAddr, hold: HoldPlan) -> LoadPlan {
    LoadPlan {
        connections: 5000,
        timeouts: Timeouts { deadline: None, linger: PATIENCE, connect: PATIENCE },
        tls: TlsOptions { trust: Trust::Insecure, ..TlsOptions::default() },
        threads: 2,
        ..LoadPlan::plain(&[&[address]], Pacing::Hold(hold))
    }
}

/// Turns a plan into one over TLS.
pub(crate) trait OverTls {
    fn over_tls(self) -> Self;
}

impl OverTls for LoadPlan {
    fn over_tls(mut self) -> Self {
        self.destinations[0].tls = Some(ServerName("localhost".to_owned()));
        self
    }
}

pub(crate) fn ramp(connections: u64) -> Steer {
    Steer::Ramp { connections }
}

pub(crate) fn trim(connections: u64) -> Steer {
    Steer::Trim { connections }
}

pub(crate) fn sweep(over: Nanos) -> Steer {
    Steer::Sweep { over }
}

/// A load that has been started, and its events so far.
pub(crate) struct Driver {
    load: Load,
    pub(crate) whole: Tally,
    /// Whole seconds that the load has reported.
    pub(crate) seconds: u64,
    steered: Vec<u32>,
    steers: u32,
    ended: bool,
}

impl Driver {
    pub(crate) fn start(plan: LoadPlan) -> Self {
        let is_hold = matches!(plan.pacing, Pacing::Hold(_));
        let mut load = Load::prepare(plan).unwrap();
        match load.next_event() {
            Some(LoadEvent::Ready { opened, failed, .. }) if is_hold => {
                assert_eq!((opened, failed), (0, 0), "holds open nothing before their start");
            }
            Some(LoadEvent::Ready { .. }) => {}
            other => panic!("{other:?} instead of Ready"),
        }
        load.start(Nanos(clock::monotonic_ns()));
        let (whole, steered) = (Tally::default(), Vec::new());
        Self { load, whole, seconds: 0, steered, steers: 0, ended: false }
    }

    /// Gives the steer a number.
    pub(crate) fn steer(&mut self, steer: Steer) -> u32 {
        self.steers += 1;
        self.load.steer(self.steers, steer);
        self.steers
    }

    pub(crate) fn steer_and_wait(&mut self, steer: Steer) {
        let id = self.steer(steer);
        self.wait_for(id);
    }

    pub(crate) fn wait_for(&mut self, id: u32) {
        let begun = self.seconds;
        while !self.steered.contains(&id) {
            assert!(!self.ended, "the load has ended without an answer to steer {id}");
            assert!(self.seconds - begun <= PATIENCE.as_secs_f64() as u64, "{:?}", self.whole);
            self.take_event();
        }
    }

    /// Receives events until their sum satisfies `condition`.
    pub(crate) fn until(&mut self, condition: impl Fn(&Tally) -> bool) {
        let begun = self.seconds;
        while !condition(&self.whole) {
            assert!(!self.ended, "the load has ended: {:?}", self.whole);
            assert!(self.seconds - begun <= PATIENCE.as_secs_f64() as u64, "{:?}", self.whole);
            self.take_event();
        }
    }

    /// Stops the load without waiting for anything.
    pub(crate) fn stop_now(&self) {
        self.load.stop_now();
    }

    /// Stops the load, waits for what is in flight, and checks the sum.
    pub(crate) fn end(self) -> Tally {
        self.end_expecting(&[])
    }

    /// Stops the load; each of these steers must be answered before its end.
    pub(crate) fn end_expecting(mut self, ids: &[u32]) -> Tally {
        self.load.stop(PATIENCE);
        while !self.ended {
            self.take_event();
        }
        for id in ids {
            assert!(self.steered.contains(id), "steer {id} was never answered");
        }
        let whole = self.whole;
        assert!(
            whole.balances(),
            "scheduled {} != ok {} + errors {} + unsent {}",
            whole.scheduled,
            whole.ok,
            whole.errors_total(),
            whole.unsent
        );
        let lost = whole.failures.lost_held.total() + whole.connections.held_end;
        assert!(lost <= whole.connections.opened, "{whole:?}");
        whole
    }

    fn take_event(&mut self) {
        match self.load.next_event() {
            Some(LoadEvent::Interval(interval)) => {
                self.seconds += 1;
                self.whole.merge_following(&interval.tally);
            }
            Some(LoadEvent::Steered { id, .. }) => {
                assert!(!self.steered.contains(&id), "steer {id} was answered twice");
                self.steered.push(id);
            }
            Some(LoadEvent::Ended { .. }) | None => self.ended = true,
            Some(
                LoadEvent::Ready { .. }
                | LoadEvent::Rows(_)
                | LoadEvent::Refused(_)
                | LoadEvent::Draining { .. },
            ) => {}
        }
    }
}
