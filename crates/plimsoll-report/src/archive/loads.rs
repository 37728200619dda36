//! The load that a second belongs to, and its time: a run may have many loads, and the lines of its seconds do not say.

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;

use super::IntervalLine;

/// The loads of a run, and how far its seconds have come.
pub(crate) struct Loads {
    /// The trial and the epoch of each, in order.
    loads: Vec<(Option<u32>, Nanos)>,
    /// The load and the second of the last line.
    last: Option<(usize, u32)>,
}

/// The place of a second in its run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of its load, from 0; one more than there are if no event says when that began.
    pub(crate) load: usize,
    /// Since the first operation of the run was due; since the load's own epoch if no event says when it began.
    pub(crate) since_begin: Nanos,
    /// Start of the load on CLOCK_MONOTONIC.
    pub(crate) began: Option<Nanos>,
}

impl Loads {
    pub(crate) fn of(events: &[Event]) -> Self {
        let load = |event: &Event| match event {
            Event::LoadStarted { trial, epoch, .. } => {
                Some((trial.map(|request| request.number), *epoch))
            }
            _ => None,
        };
        Self { loads: events.iter().filter_map(load).collect(), last: None }
    }

    /// Returns the time on CLOCK_MONOTONIC at which the first operation of load `number`, from 0, was due.
    pub(crate) fn epoch(&self, number: usize) -> Option<Nanos> {
        self.loads.get(number).map(|(_, epoch)| *epoch)
    }

    /// Returns the place of the next line.
    pub(crate) fn place(&mut self, line: &IntervalLine) -> Place {
        let second = line.interval.second;
        let load = match self.last {
            Some((load, last)) if second > last => load,
            last => {
                let next = last.map_or(0, |(load, _)| load + 1);
                // A load that was stopped before its first second has no line.
                let is_its = |(of, _): &(Option<u32>, Nanos)| of.is_none() || *of == line.trial;
                next + self.loads.iter().skip(next).position(is_its).unwrap_or(0)
            }
        };
        self.last = Some((load, second));
        let into = Nanos::from_secs(second.into());
        let began = self.epoch(load).map(|epoch| epoch + into);
        let since_begin =
            began.zip(self.epoch(0)).map_or(into, |(began, first)| began.since(first));
        Place { load, since_begin, began }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::tally::{Interval, Tally};
    use plimsoll_model::trial::{Phase, TrialRequest};

    use super::*;

    fn started(trial: Option<u32>) -> Event {
        let request = |number| TrialRequest {
            number,
            phase: Phase::Expand,
            rate: Rate::per_second(1.0).unwrap(),
            duration: Nanos::from_secs(1),
            split: 1,
        };
        Event::LoadStarted { trial: trial.map(request), planned: None, epoch: Nanos::ZERO }
    }

    fn placed(trials: &[Option<u32>], lines: &[(Option<u32>, u32)]) -> Vec<usize> {
        let events: Vec<Event> = trials.iter().copied().map(started).collect();
        let mut loads = Loads::of(&events);
        let line = |(trial, second): &(Option<u32>, u32)| IntervalLine {
            trial: *trial,
            asked: None,
            interval: Interval { second: *second, tally: Tally::default() },
        };
        lines.iter().map(|of| loads.place(&line(of)).load).collect()
    }

    #[test]
    fn a_second_that_is_not_later_begins_another_load() {
        let (one, two, three) = (Some(1), Some(2), Some(3));
        let lines = [(one, 0), (one, 1), (two, 0), (three, 0), (three, 1)];
        assert_eq!(placed(&[one, two, three], &lines), [0, 0, 1, 2, 2]);
        // The second was stopped at once, and one is not in the events.
        assert_eq!(placed(&[one, two, three], &[(one, 0), (three, 0), (Some(4), 0)]), [0, 2, 3]);
        // Levels of one load.
        assert_eq!(placed(&[None], &[(one, 0), (two, 1), (two, 2)]), [0, 0, 0]);
    }
}
