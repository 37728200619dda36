//! A set of ports, kept as runs: a host's range with a few holes needs a few words.

use std::ops::RangeInclusive;

/// Ports in ascending order, each found by its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSet {
    runs: Vec<Run>,
}

/// Neighbouring ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u16,
    last: u16,
    /// Ports in the runs before this one.
    before: u32,
}

impl Run {
    const fn len(self) -> u32 {
        self.last as u32 - self.first as u32 + 1
    }
}

impl PortSet {
    /// Creates the set of the ports of `range` that are in none of `holes`.
    pub fn new(range: RangeInclusive<u16>, holes: &[RangeInclusive<u16>]) -> Self {
        let mut holes: Vec<_> = holes.iter().filter(|hole| !hole.is_empty()).collect();
        holes.sort_unstable_by_key(|hole| *hole.start());
        let mut runs = Self::default();
        let last = u32::from(*range.end());
        let mut next = u32::from(*range.start());
        for hole in holes {
            runs.push(next, u32::from(*hole.start()).min(last + 1));
            next = next.max(u32::from(*hole.end()) + 1);
        }
        runs.push(next, last + 1);
        runs
    }

    /// Appends the ports from `first` to before `end`, if any.
    fn push(&mut self, first: u32, end: u32) {
        if let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(end.saturating_sub(1)))
            && u32::from(first) < end
        {
            self.runs.push(Run { first, last, before: self.len() });
        }
    }

    /// Returns the number of ports, at most 65,536.
    pub fn len(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.before + run.len())
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the port at `place`, which is below [`Self::len`]; else `None`.
    pub fn nth(&self, place: u32) -> Option<u16> {
        let after = self.runs.partition_point(|run| run.before <= place);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let offset = place - run.before;
        (offset < run.len()).then(|| run.first + offset as u16)
    }

    /// Reports whether `port` is in the set.
    pub fn contains(&self, port: u16) -> bool {
        let after = self.runs.partition_point(|run| run.first <= port);
        after.checked_sub(1).and_then(|at| self.runs.get(at)).is_some_and(|run| port <= run.last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn holes_at_the_edges_and_over_each_other() {
        let ports = PortSet::new(10..=20, &[5..=10, 12..=14, 13..=15, 20..=30]);
        let all: Vec<_> = (0..ports.len()).map(|place| ports.nth(place).unwrap()).collect();
        assert_eq!(all, [11, 16, 17, 18, 19]);
        assert_eq!(ports.nth(5), None);
        assert_eq!(PortSet::new(0..=u16::MAX, &[]).len(), 65_536);
        assert_eq!(PortSet::new(0..=u16::MAX, &[]).nth(65_535), Some(u16::MAX));
        assert!(PortSet::new(10..=20, &[0..=u16::MAX]).is_empty());
        #[expect(clippy::reversed_empty_ranges, reason = "a host may be set up wrongly")]
        let reversed = PortSet::new(20..=10, &[]);
        assert!(reversed.is_empty());
    }

    proptest! {
        #[test]
        fn a_set_is_its_range_without_its_holes(
            (first, last) in (0_u16.., 0_u16..),
            holes in proptest::collection::vec((0_u16.., 0_u16..300), 0..8),
        ) {
            let holes: Vec<_> = holes.iter().map(|(at, len)| *at..=at.saturating_add(*len)).collect();
            let ports = PortSet::new(first..=last, &holes);
            let model: Vec<u16> = (first..=last)
                .filter(|port| !holes.iter().any(|hole| hole.contains(port)))
                .collect();
            prop_assert_eq!(ports.len() as usize, model.len());
            for (place, port) in model.iter().enumerate() {
                prop_assert_eq!(ports.nth(place as u32), Some(*port));
            }
            for port in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                prop_assert_eq!(ports.contains(port), model.binary_search(&port).is_ok());
            }
        }
    }
}
