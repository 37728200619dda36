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

#[cfg(test)]
mod tests {
    use super::*;

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
