//! The coordinator above a relay: its orders to a part of the load, and the reports that it gets of that part.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use plimsoll_model::Nanos;
use plimsoll_model::event::{Event, LoadEvent};

use super::load_run::LoadRun;
use super::outcome::Opened;
use crate::message::{FromAgent, ToAgent};

/// Passes on what goes between the coordinator above and the agents below.
#[derive(Debug)]
pub(super) struct Above<'a> {
    orders: &'a Receiver<(ToAgent, u32)>,
    events: &'a Sender<FromAgent>,
    is_ready_told: bool,
    /// Lost agents below that were reported.
    lost: u32,
    /// Orders to a hold that are not done: their numbers below and above.
    given: VecDeque<(u32, u32)>,
}

impl<'a> Above<'a> {
    pub(super) fn new(orders: &'a Receiver<(ToAgent, u32)>, events: &'a Sender<FromAgent>) -> Self {
        Self { orders, events, is_ready_told: false, lost: 0, given: VecDeque::new() }
    }

    fn tell(&self, event: FromAgent) {
        // The end of this process is noticed elsewhere.
        let _ = self.events.send(event);
    }

    /// Reports an event of the load below.
    pub(super) fn handle_event(&self, event: Event) {
        self.tell(FromAgent::Load(match event {
            Event::Interval(interval) => LoadEvent::Interval(interval),
            Event::Rows(batch) => LoadEvent::Rows(batch),
            Event::Draining { in_flight } => LoadEvent::Draining { in_flight },
            Event::Note(line) => return self.tell(FromAgent::Note(line)),
            // The coordinator above says these itself.
            _ => return,
        }));
    }

    /// Reports the progress of the load below: ready, lost agents and completed orders.
    pub(super) fn tell_state(&mut self, run: &mut LoadRun) {
        if !self.is_ready_told
            && let Some(Opened { connections: opened, failed, first_error }) = run.ready()
        {
            self.is_ready_told = true;
            self.tell(FromAgent::Load(LoadEvent::Ready { opened, failed, first_error }));
        }
        while self.lost < run.lost() {
            self.lost += 1;
            self.tell(FromAgent::PartLost);
        }
        while let Some((_, above)) = self.given.front().filter(|(below, _)| *below <= run.done()) {
            self.tell(FromAgent::Load(LoadEvent::Steered { id: *above, tried: run.tried() }));
            self.given.pop_front();
        }
    }

    /// Carries out an order; `false` where there is none.
    pub(super) fn poll(&mut self, run: &mut LoadRun, now: Nanos) -> bool {
        self.tell_state(run);
        match self.orders.try_recv() {
            Ok((ToAgent::Start { epoch_monotonic }, _)) => run.start(epoch_monotonic),
            Ok((ToAgent::Steer { id, steer }, _)) => {
                let below = run.steer(steer).unwrap_or_default();
                self.given.push_back((below, id));
            }
            Ok((ToAgent::Stop { grace }, _)) => run.stop(grace, now),
            Ok(_) => {}
            Err(TryRecvError::Empty) => return false,
            // This process ends.
            Err(TryRecvError::Disconnected) => {
                run.stop(Nanos::ZERO, now);
                return false;
            }
        }
        true
    }
}
