//! The length of the blocks that fill a budget.

use plimsoll_model::Nanos;

use super::ROUNDS_MIN;

/// Shortest and longest block. Longer ones would put more of the host's changes between A and B;
/// there are more rounds instead.
const BLOCK_MIN_S: f64 = 3.0;
const BLOCK_MAX_S: f64 = 8.0;
/// Starting servers, and the first loads, from which the blocks are planned.
const BEFORE_S: f64 = 20.0;
/// Opening the pools of a block's two loads, and the last answers of each.
const BETWEEN_S: f64 = 0.6;
/// Part of a block in which the server is saturated.
const SATURATED: f64 = 2.0 / 3.0;
const SATURATED_MIN_S: f64 = 2.0;

/// The shortest budget in which the fewest rounds fit.
pub const BUDGET_MIN: Nanos =
    Nanos::from_secs((BEFORE_S + (2 * ROUNDS_MIN) as f64 * (BLOCK_MIN_S + BETWEEN_S)) as u64 + 1);

/// The blocks of a comparison; each is a load below capacity, then one that saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Rounds of two blocks.
    pub rounds: usize,
    /// The load that both take: its latency is compared.
    pub equal: Nanos,
    /// The load that saturates: its goodput is compared. Whole seconds.
    pub saturated: Nanos,
}

impl Blocks {
    /// Plans at most `rounds` in the rest of the budget, `left`, if a block costs `between` beside its loads. Never
    /// fewer than eight rounds of the shortest blocks, even if they do not fit.
    pub fn within(left: Nanos, rounds: usize, between: Nanos) -> Self {
        let (left, between) = (left.as_secs_f64(), between.as_secs_f64());
        let per_block = |rounds: usize| left / (2 * rounds) as f64 - between;
        let fits = |rounds: &usize| per_block(*rounds) >= BLOCK_MIN_S;
        let rounds = (ROUNDS_MIN..=rounds).rev().find(fits).unwrap_or(ROUNDS_MIN);
        let block = per_block(rounds).clamp(BLOCK_MIN_S, BLOCK_MAX_S);
        let saturated = (block * SATURATED).floor().max(SATURATED_MIN_S);
        let equal = Nanos::from_millis(((block - saturated) * 1000.0) as u64);
        Self { rounds, equal, saturated: Nanos::from_secs(saturated as u64) }
    }

    /// Returns the duration of the fewest rounds of the shortest blocks, if a block costs `between` beside
    /// its loads.
    pub fn shortest(between: Nanos) -> Nanos {
        let block = BLOCK_MIN_S + between.as_secs_f64();
        Nanos::from_secs_f64((2 * ROUNDS_MIN) as f64 * block)
    }

    /// Returns the number of rounds in which the longest blocks fill `budget`; at least `rounds`.
    pub fn rounds_for(budget: Nanos, rounds: usize) -> usize {
        let of_round = 2.0 * (BLOCK_MAX_S + BETWEEN_S);
        rounds.max(((budget.as_secs_f64() - BEFORE_S) / of_round) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BETWEEN: Nanos = Nanos::from_millis(600);

    fn within(left_s: u64) -> (usize, u64, u64) {
        let blocks = Blocks::within(Nanos::from_secs(left_s), 24, BETWEEN);
        (blocks.rounds, blocks.equal.0 / 1_000_000, blocks.saturated.0 / 1_000_000_000)
    }

    #[test]
    fn blocks_fill_the_budget_and_stay_short() {
        for (left_s, rounds, equal_ms, saturated_s) in [
            (280, 24, 2_233, 3),
            (400, 24, 2_733, 5),
            (4_000, 24, 3_000, 5),
            (150, 20, 1_150, 2),
            (60, 8, 1_150, 2),
            // Too little, or no time at all.
            (20, 8, 1_000, 2),
            (0, 8, 1_000, 2),
        ] {
            assert_eq!(within(left_s), (rounds, equal_ms, saturated_s), "{left_s} s");
        }
    }

    #[test]
    fn the_shortest_budget_holds_the_fewest_rounds() {
        let left = BUDGET_MIN.since(Nanos::from_secs(20));
        let blocks = Blocks::within(left, 24, BETWEEN);
        let block = blocks.equal + blocks.saturated + BETWEEN;
        let all = Nanos(block.0 * (2 * blocks.rounds) as u64);
        assert!(blocks.rounds == ROUNDS_MIN && all <= left, "{blocks:?}");
    }

    #[test]
    fn the_fewest_rounds_fit_into_the_shortest_time() {
        let left = Blocks::shortest(BETWEEN);
        let blocks = Blocks::within(left, 24, BETWEEN);
        let block = blocks.equal + blocks.saturated + BETWEEN;
        assert_eq!(blocks.rounds, ROUNDS_MIN);
        assert!(left.0.abs_diff(block.0 * 2 * ROUNDS_MIN as u64) < 10_000_000, "{left} {blocks:?}");
    }

    #[test]
    fn more_time_is_more_rounds() {
        assert_eq!(Blocks::rounds_for(Nanos::from_secs(300), 24), 24);
        assert_eq!(Blocks::rounds_for(Nanos::from_secs(3_600), 24), 208);
    }
}
