//! In which order each round measures the two.

use fastrand::Rng;
use plimsoll_model::compare::Order;

/// One order per round: by chance, but each as often as the other in every two rounds, so that
/// what changes slowly (heat, other tenants) favours neither.
pub fn orders(rounds: usize, seed: u64) -> Vec<Order> {
    let mut rng = Rng::with_seed(seed);
    let mut orders = Vec::with_capacity(rounds + 1);
    while orders.len() < rounds {
        let two = [Order::Ab, Order::Ba];
        orders.extend(if rng.bool() { two } else { [two[1], two[0]] });
    }
    orders.truncate(rounds);
    orders
}

/// The places of several values, 0 to `values`, for each round: by chance, and every second round the
/// other way round, so that what changes evenly favours none.
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
    fn orders_are_seeded_and_balanced() {
        let many = orders(40, 7);
        assert_eq!(many, orders(40, 7));
        assert_ne!(many, orders(40, 8));
        assert!(many.chunks(2).all(|two| two[0] != two[1]));
        assert_eq!(orders(7, 1).len(), 7);
        // By chance: a strict alternation would follow a rhythm of the host.
        assert!(many.windows(2).any(|next| next[0] == next[1]));
    }
}
