//! The orders of a running hold, and which agents have not carried them out yet.

use std::collections::{BTreeSet, VecDeque};

/// Orders by number, 1 for the first. One that every agent has carried out, or never will because
/// it ended, is done.
#[derive(Debug, Default)]
pub(super) struct Steering {
    given: u32,
    /// In ascending order; an order may be done before an earlier one.
    open: VecDeque<(u32, BTreeSet<usize>)>,
}

impl Steering {
    /// Gives the next order to `agents`; returns its number.
    pub(super) fn give(&mut self, agents: impl Iterator<Item = usize>) -> u32 {
        self.given += 1;
        let waiting: BTreeSet<_> = agents.collect();
        if !waiting.is_empty() {
            self.open.push_back((self.given, waiting));
        }
        self.given
    }

    /// Adds an agent to an order that is not done.
    pub(super) fn add(&mut self, agent: usize, id: u32) {
        if let Some((_, waiting)) = self.open.iter_mut().find(|(given, _)| *given == id) {
            waiting.insert(agent);
        }
    }

    /// Returns the agents that have not carried out an order.
    pub(super) fn waited_for(&self, id: u32) -> Vec<usize> {
        let order = self.open.iter().find(|(given, _)| *given == id);
        order.map_or_else(Vec::new, |(_, waiting)| waiting.iter().copied().collect())
    }

    /// Records that an agent has carried out an order; returns `false` if it had none of that number.
    pub(super) fn handle_answer(&mut self, agent: usize, id: u32) -> bool {
        let order = self.open.iter_mut().find(|(given, _)| *given == id);
        let was_waited_for = order.is_some_and(|(_, waiting)| waiting.remove(&agent));
        self.open.retain(|(_, waiting)| !waiting.is_empty());
        was_waited_for
    }

    /// Removes an agent, which will carry out no more orders.
    pub(super) fn handle_end(&mut self, agent: usize) {
        for (_, waiting) in &mut self.open {
            waiting.remove(&agent);
        }
        self.open.retain(|(_, waiting)| !waiting.is_empty());
    }

    /// Orders given so far.
    pub(super) const fn given(&self) -> u32 {
        self.given
    }

    /// Returns the highest number up to which all orders are done.
    pub(super) fn done(&self) -> u32 {
        self.open.front().map_or(self.given, |(id, _)| id - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_done_when_no_agent_has_it_open() {
        let mut steering = Steering::default();
        assert_eq!((steering.given(), steering.done()), (0, 0));
        assert_eq!(steering.give(0..3), 1);
        assert_eq!(steering.give(0..3), 2);
        assert!(steering.handle_answer(0, 1));
        assert!(steering.handle_answer(0, 2) && steering.handle_answer(1, 2));
        assert_eq!(steering.done(), 0);
        // Twice, or to an order that was never given.
        assert!(!steering.handle_answer(0, 1) && !steering.handle_answer(0, 3));
        assert!(steering.handle_answer(1, 1));
        assert_eq!((steering.waited_for(1), steering.waited_for(2)), (vec![2], vec![2]));
        // The third ends before it carried out either.
        steering.handle_end(2);
        assert_eq!((steering.given(), steering.done()), (2, 2));
        // What is done stays so.
        steering.add(7, 2);
        assert_eq!((steering.waited_for(2), steering.done()), (vec![], 2));
        // No agent is left to wait for.
        assert_eq!((steering.give(std::iter::empty()), steering.done()), (3, 3));
    }
}
