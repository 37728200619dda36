//! The client CPU of plimsoll and of its peers in one scenario, over all rounds.

use std::fmt::Write;

use crate::bench::claim::Outcome;
use crate::bench::client::Sample;
use crate::bench::spread::Spread;
use crate::bench::target::{Reading, Target};
use crate::bench::tool::Tool;

/// What plimsoll must reach in a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) target: Target,
    /// Over the best peer's figure.
    pub(crate) ratio_max: f64,
    /// The peer without which nothing is decided: one of those known to be cheapest.
    pub(crate) yardstick: Tool,
}

/// One tool in one scenario.
struct Entrant {
    tool: Tool,
    /// One per round; `None` where it failed.
    samples: Vec<Option<Sample>>,
    /// Why it takes no part.
    excuse: Option<String>,
}

impl Entrant {
    fn cpu_us(&self) -> Spread {
        Spread::of(self.samples.iter().flatten().map(Sample::cpu_us_per_op))
    }

    fn failed(&self) -> u64 {
        self.samples.iter().flatten().map(|sample| sample.failed).sum()
    }

    /// What mostly fails costs something else. A hundredth may.
    fn is_sound(&self) -> bool {
        let ops: u64 = self.samples.iter().flatten().map(|sample| sample.ops).sum();
        ops > 0 && self.failed() * 100 <= ops
    }
}

/// All rounds of one scenario.
pub(crate) struct Comparison {
    name: &'static str,
    goal: Option<Goal>,
    /// plimsoll first.
    entrants: Vec<Entrant>,
}

impl Comparison {
    /// `excuse` says of a tool why it takes no part.
    pub(crate) fn new(
        name: &'static str,
        goal: Option<Goal>,
        excuse: impl Fn(Tool) -> Option<String>,
    ) -> Self {
        let entrant = |tool| Entrant { tool, samples: Vec::new(), excuse: excuse(tool) };
        let mut entrants = vec![entrant(Tool::Plimsoll)];
        // Nobody else is asked for what is plimsoll's own.
        if goal.is_some() {
            entrants.extend(Tool::PEERS.map(entrant));
        }
        Self { name, goal, entrants }
    }

    /// Those that take part in a round. Who goes first changes, because the next one finds a warm
    /// machine.
    pub(crate) fn order(&self, round: u32) -> Vec<Tool> {
        let able = self.entrants.iter().filter(|entrant| entrant.excuse.is_none());
        let mut order: Vec<Tool> = able.map(|entrant| entrant.tool).collect();
        let first = round as usize % order.len().max(1);
        order.rotate_left(first);
        order
    }

    /// Adds what `tool` did in a round; each round adds once per tool that takes part.
    pub(crate) fn add(&mut self, tool: Tool, sample: Option<Sample>) {
        let entrant = self.entrants.iter_mut().find(|entrant| entrant.tool == tool);
        entrant.into_iter().for_each(|entrant| entrant.samples.push(sample));
    }

    /// Each round's own ratio: what slowed both tools in a round cancels out.
    fn ratio(&self, peer: &Entrant) -> Spread {
        let pairs = self.entrants[0].samples.iter().zip(&peer.samples);
        let both = pairs.filter_map(|(ours, theirs)| Some(((*ours)?, (*theirs)?)));
        Spread::of(both.map(|(ours, theirs)| ours.cpu_us_per_op() / theirs.cpu_us_per_op()))
    }

    fn best_peer(&self) -> Option<&Entrant> {
        let sound = self.entrants[1..].iter().filter(|entrant| entrant.is_sound());
        sound.min_by(|a, b| a.cpu_us().median.total_cmp(&b.cpu_us().median))
    }

    /// How the goal fared, if there is one.
    pub(crate) fn reading(&self) -> Option<Reading> {
        let Goal { target, ratio_max, yardstick } = self.goal?;
        let Some(best) = self.best_peer().filter(|_| self.entrants[0].is_sound()) else {
            return Some(Reading::not_measured(target, "no figures"));
        };
        let ratio = self.ratio(best);
        let has_yardstick =
            self.entrants.iter().any(|entrant| entrant.tool == yardstick && entrant.is_sound());
        let outcome = match has_yardstick {
            true if ratio.median <= ratio_max => Outcome::Reached,
            // What is not reached beside some peers is not reached beside all.
            _ if ratio.median > ratio_max => Outcome::NotReached,
            _ => Outcome::NotMeasured,
        };
        Some(Reading {
            target,
            peer: format!("{}: {}", best.tool.name(), best.cpu_us()),
            ours: self.entrants[0].cpu_us().to_string(),
            ratio: ratio.to_string(),
            outcome,
        })
    }

    fn rows(&self, text: &mut String) {
        for entrant in &self.entrants {
            let (name, tool) = (self.name, entrant.tool.name());
            let Entrant { excuse: None, .. } = entrant else {
                let excuse = entrant.excuse.as_deref().unwrap_or_default();
                let _ = writeln!(text, "| {name} | {tool} | {excuse} | - | - |");
                continue;
            };
            let ratio = match (entrant.tool, entrant.is_sound()) {
                (Tool::Plimsoll, _) => "-".to_owned(),
                (_, false) => "not comparable: too much failed".to_owned(),
                (_, true) => self.ratio(entrant).to_string(),
            };
            let (cpu_us, failed) = (entrant.cpu_us(), entrant.failed());
            let _ = writeln!(text, "| {name} | {tool} | {cpu_us} | {ratio} | {failed} |");
        }
    }
}

/// All scenarios, for the page.
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut text = String::from(
        "User and system time of the client and its children, in microseconds per successful \
         operation;\na ratio below 1 means that plimsoll needs less.\n\n\
         | per | tool | CPU, us | plimsoll over it | failed |\n|---|---|---|---|---|\n",
    );
    comparisons.iter().for_each(|comparison| comparison.rows(&mut text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Goal = Goal { target: Target::RequestPlain, ratio_max: 0.8, yardstick: Tool::Wrk };

    fn sample(cpu_s: f64) -> Option<Sample> {
        Some(Sample { cpu_s, ops: 1_000_000, failed: 1 })
    }

    /// Without all peers but `tools`.
    fn comparison(tools: &[Tool]) -> Comparison {
        let is_here = |tool| tool == Tool::Plimsoll || tools.contains(&tool);
        Comparison::new("request", Some(GOAL), |tool| (!is_here(tool)).then(|| tool.missing()))
    }

    #[test]
    fn ratios_are_paired_by_round_and_the_best_peer_counts() {
        let mut comparison = comparison(&[Tool::Wrk, Tool::Ab]);
        // The second round was slow for all; the ratio does not show it.
        for (ours, wrk, ab) in [(6.0, 8.0, 9.0), (12.0, 16.0, 18.0)] {
            comparison.add(Tool::Plimsoll, sample(ours));
            comparison.add(Tool::Wrk, sample(wrk));
            comparison.add(Tool::Ab, sample(ab));
        }
        let reading = comparison.reading().unwrap();
        assert_eq!(reading.peer, "wrk: 12.00 (8.00 - 16.00)");
        assert_eq!(reading.ratio, "0.75 (0.75 - 0.75)");
        assert_eq!(reading.outcome, Outcome::Reached);
        let table = table(&[comparison]);
        let row = "| request | ab | 13.50 (9.00 - 18.00) | 0.67 (0.67 - 0.67) | 2 |\n";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("| request | oha | oha: missing (cargo install oha) | - | - |\n"));
    }

    #[test]
    fn nothing_is_reached_without_the_yardstick() {
        for (tools, ab_s, expected) in [
            (&[Tool::Ab][..], 10.0, Outcome::NotMeasured),
            (&[Tool::Ab], 7.0, Outcome::NotReached),
            (&[Tool::Ab, Tool::Wrk], 10.0, Outcome::Reached),
        ] {
            let mut comparison = comparison(tools);
            comparison.add(Tool::Plimsoll, sample(6.0));
            comparison.add(Tool::Ab, sample(ab_s));
            if tools.contains(&Tool::Wrk) {
                comparison.add(Tool::Wrk, sample(11.0));
            }
            assert_eq!(comparison.reading().unwrap().outcome, expected, "{tools:?}");
        }
    }

    #[test]
    fn a_round_without_one_of_the_two_has_no_ratio() {
        let mut comparison = comparison(&[Tool::Wrk]);
        comparison.add(Tool::Plimsoll, sample(6.0));
        comparison.add(Tool::Wrk, None);
        let none = comparison.reading().unwrap();
        assert_eq!((none.ours.as_str(), none.outcome), ("no figures", Outcome::NotMeasured));
        comparison.add(Tool::Plimsoll, sample(9.0));
        comparison.add(Tool::Wrk, sample(10.0));
        assert_eq!(comparison.reading().unwrap().ratio, "0.90 (0.90 - 0.90)");
        // One that mostly failed is no peer.
        let broken = Sample { cpu_s: 1.0, ops: 1_000_000, failed: 500_000 };
        comparison.add(Tool::Wrk, Some(broken));
        assert_eq!(comparison.reading().unwrap().ours, "no figures");
    }

    #[test]
    fn each_takes_its_turn_to_be_first() {
        let comparison = comparison(&[Tool::Wrk, Tool::Ab]);
        assert_eq!(comparison.order(0), [Tool::Plimsoll, Tool::Wrk, Tool::Ab]);
        assert_eq!(comparison.order(4), [Tool::Wrk, Tool::Ab, Tool::Plimsoll]);
        let own = Comparison::new("own", None, |_| None);
        assert_eq!(own.order(1), [Tool::Plimsoll]);
        assert_eq!(own.reading(), None);
    }
}
