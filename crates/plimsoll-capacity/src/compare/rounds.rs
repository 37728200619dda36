//! The order in which each round measures the servers.

use fastrand::Rng;

/// Returns the places of several values, 0 to `values`, for each round. They are random, and reversed in every second
/// round, so that slow changes (heat, other tenants) favour none.
pub fn turns(values: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut rng = Rng::with_seed(seed);
    let mut turns = Vec::with_capacity(rounds + 1);
    while turns.len() < rounds {
        let mut turn: Vec<usize> = (0..values).collect();
        rng.shuffle(&mut turn);
        let back = turn.iter().rev().copied().collect();
        turns.extend([turn, back]);
    }
    turns.truncate(rounds);
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_seeded_and_every_second_goes_back() {
        let many = turns(4, 9, 3);
        assert_eq!((many.len(), many.clone()), (9, turns(4, 9, 3)));
        assert_ne!(many, turns(4, 9, 4));
        for two in many.chunks_exact(2) {
            assert!(two[0].iter().eq(two[1].iter().rev()), "{two:?}");
            let mut sorted = two[0].clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert!(many.chunks_exact(2).any(|two| two[0] != many[0]));
    }

    #[test]
    fn two_values_are_each_first_as_often_as_the_other() {
        let many = turns(2, 40, 7);
        assert_eq!(many, turns(2, 40, 7));
        assert_ne!(many, turns(2, 40, 8));
        assert!(many.chunks(2).all(|two| two[0] != two[1]));
        assert_eq!(turns(2, 7, 1).len(), 7);
        // At random: a strict alternation would follow a rhythm of the host.
        assert!(many.windows(2).any(|next| next[0] == next[1]));
    }
}
