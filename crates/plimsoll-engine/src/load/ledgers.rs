//! Counts that several parts of a worker keep, and that agree between two events. Only debug builds compare them.

use super::conn::State;
use super::worker::Worker;

impl Worker {
    /// Compares the counts with the slots, once per second and at the end of a load.
    ///
    /// # Panics
    ///
    /// If two of them differ.
    pub(super) fn compare_ledgers(&mut self) {
        self.compare_operations();
        self.compare_slots();
        if self.streams.are_shared() {
            self.compare_lanes();
        }
    }

    fn compare_operations(&self) {
        let slots = &self.conns.slab.hot;
        let attached = slots.iter().filter(|hot| hot.has_op).count();
        assert_eq!(attached as u64, self.pools.in_flight, "slots with an operation, in flight");
        let waiting: usize = self.pools.all.iter().map(|pool| pool.waiting.len()).sum();
        assert_eq!(waiting as u64, self.pools.waiting, "operations in queues, waiting");
        // The first request of a storm's client is no operation of the load.
        let foreign = slots.iter().filter(|hot| hot.has_op && hot.is_trying()).count();
        let outstanding = (attached + waiting - foreign) as i64;
        assert_eq!(self.meter.unended(), outstanding, "scheduled and not ended, outstanding");
    }

    fn compare_slots(&self) {
        let slab = &self.conns.slab;
        let slots = 0..slab.len() as u32;
        let is_free = |slot: &u32| self.conns[*slot].state == State::Free;
        assert_eq!(slots.clone().filter(is_free).count(), slab.free_slots(), "free slots, listed");
        let is_open =
            |slot: &u32| !is_free(slot) && !slab.is_lane(*slot) && !self.is_listener(*slot);
        let pools = &self.pools.all;
        assert!(pools.iter().all(|pool| pool.opening <= pool.open), "more is opening than open");
        let open: u32 = pools.iter().map(|pool| pool.open).sum();
        assert_eq!(slots.filter(is_open).count(), open as usize, "slots of connections, open");
        let opening: u32 = pools.iter().map(|pool| pool.opening).sum();
        assert_eq!(u64::from(open - opening), self.pools.held, "open and not opening, held");
        let armed = slab.hot.iter().filter(|hot| hot.timer_armed).count();
        assert_eq!(armed, self.conns.timers() as usize, "slots with a timer, timers in the wheel");
    }

    fn compare_lanes(&mut self) {
        let slab = &self.conns.slab;
        let mut open = vec![0; slab.len()];
        for lane in (0..slab.len() as u32).filter(|slot| slab.is_lane(*slot)) {
            open[slab.connection_of(lane) as usize] += 1;
        }
        // Clients have forgotten what nothing answers when it was sent.
        for sent in self.later.unanswered.iter().filter_map(|token| slab.index_of(*token)) {
            open[slab.connection_of(sent) as usize] -= 1;
        }
        for (connection, lanes) in open.into_iter().enumerate() {
            let has_client = self.conns.slab.hot[connection].parser != 0;
            let client = if has_client { self.client(connection as u32) } else { None };
            let flights = client.map_or(0, |client| client.open());
            assert_eq!(lanes, flights, "lanes of a connection, operations of its client");
        }
    }
}
