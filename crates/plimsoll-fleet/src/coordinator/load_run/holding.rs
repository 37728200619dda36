//! The coordinator's part in a running hold: orders to all agents, and agents that join it.

use plimsoll_model::Nanos;
use plimsoll_model::plan::Steer;

use super::{Action, LoadRun, Member, Part, SECOND, Stage};
use crate::coordinator::hold_controller::HoldView;
use crate::message::ToAgent;

impl LoadRun {
    /// Steers every agent of a running hold; the number of the order, where it is one.
    pub(in crate::coordinator) fn steer(&mut self, steer: Steer) -> Option<u32> {
        if !self.takes_orders() {
            return None;
        }
        let asked = steer;
        let steer = match steer {
            Steer::Ramp { connections } => Steer::Ramp { connections: self.fitted(connections) },
            steer => steer,
        };
        let running = |(index, part): (usize, &Part)| (!part.is_over()).then_some(index);
        let agents: Vec<_> = self.parts.iter().enumerate().filter_map(running).collect();
        let id = self.steering.give(agents.iter().copied());
        if let Steer::Ramp { connections } = asked {
            self.ramp = Some((id, connections));
        }
        let orders =
            agents.into_iter().map(|index| Action::Send(index, ToAgent::Steer { id, steer }));
        self.actions.extend(orders);
        Some(id)
    }

    /// Returns the ramp after which all agents together have tried `connections` connections. After others have joined,
    /// some agents may have more than their share: they open none, and the others open fewer.
    fn fitted(&mut self, connections: u64) -> u64 {
        let has_joined = self.parts.iter().any(|part| part.first_second > 0);
        let all = |ramp| -> u64 {
            self.parts.iter().map(|part| part.ramped_to.max(part.share(ramp))).sum()
        };
        let mut ramp = connections;
        if has_joined && all(connections) > connections {
            let mut too_many = connections;
            ramp = 0;
            while too_many - ramp > 1 {
                let between = ramp + (too_many - ramp) / 2;
                if all(between) > connections { too_many = between } else { ramp = between }
            }
        }
        for part in &mut self.parts {
            part.ramped_to = part.ramped_to.max(part.share(ramp));
        }
        ramp
    }

    /// Adds an agent to a running hold, in which it starts with second `first`. The others stop opening
    /// connections and say how many they have tried; then all go on with what is left of the ramp in progress.
    pub(in crate::coordinator) fn join(&mut self, member: Member, first: u32, now: Nanos) {
        let of = member.shard.of;
        self.spread = self.steer(Steer::Spread { of });
        if let Some((ramp, _)) = self.ramp {
            self.steering.add(self.parts.len(), ramp);
        }
        self.seconds.join(first);
        self.parts.push(Part::new(member, Stage::Running, first, now));
        for part in &mut self.parts {
            part.member.shard.of = of;
        }
        self.resume_ramp();
    }

    /// Continues the ramp in progress once all agents have paused for the agents that join.
    pub(super) fn resume_ramp(&mut self) {
        let Some(spread) = self.spread else { return };
        if !self.steering.waited_for(spread).is_empty() {
            return;
        }
        self.spread = None;
        for part in &mut self.parts {
            part.ramped_to = part.tried;
        }
        let Some((id, connections)) = self.ramp else { return };
        let agents = self.steering.waited_for(id);
        if !agents.is_empty() {
            let steer = Steer::Ramp { connections: self.fitted(connections) };
            let again = |index| Action::Send(index, ToAgent::Steer { id, steer });
            self.actions.extend(agents.into_iter().map(again));
        }
    }

    /// Returns the first second that begins at `at` or later, and its start; `None` while a hold accepts no orders.
    pub(in crate::coordinator) fn next_second(&self, at: Nanos) -> Option<(u32, Nanos)> {
        let epoch = self.epoch.filter(|_| self.takes_orders())?;
        let second = at.since(epoch).0.div_ceil(SECOND.0);
        let number = u32::try_from(second).ok()?;
        Some((number, epoch + Nanos(second * SECOND.0)))
    }

    /// Returns the number of agents that take part, or did.
    pub(in crate::coordinator) const fn agents(&self) -> usize {
        self.parts.len()
    }

    /// Returns the number of threads of all agents.
    pub(in crate::coordinator) fn threads(&self) -> u32 {
        self.parts.iter().map(|part| part.member.threads).sum()
    }

    /// Ends the hold: its connections are closed once open operations were answered or have timed out.
    pub(in crate::coordinator) fn finish(&mut self, now: Nanos) {
        self.stop(self.terms.answer_wait, now);
    }

    /// Reports whether the load is running and not being stopped.
    pub(in crate::coordinator) fn takes_orders(&self) -> bool {
        self.epoch.is_some() && self.stopped.is_none() && !self.is_over()
    }

    /// Returns the state of a hold; `None` while it accepts no orders.
    pub(in crate::coordinator) fn view(&self, now: Nanos) -> Option<HoldView<'_>> {
        let epoch = self.epoch.filter(|_| self.takes_orders())?;
        let running = || self.parts.iter().enumerate().filter(|(_, part)| !part.is_over());
        let second = |second: u32| epoch + Nanos(u64::from(second) * SECOND.0);
        Some(HoldView {
            now,
            epoch,
            total: &self.outcome.tally,
            covered: second(self.seconds.handed_out()),
            delivered: second(self.seconds.delivered()),
            held: running().map(|(index, _)| self.seconds.held(index)).sum(),
            given: self.steering.given(),
            done: self.steering.done(),
            agents: running().count() as u32,
        })
    }
}
