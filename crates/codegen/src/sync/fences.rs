//! Which fence makes which other one needless.
//!
//! A fence *covers* another one if it orders at least as much (`sc` more than `acq_rel`, that more than `acquire` or `release`) for at least as many threads (block,
//! cluster, GPU, system). With nothing between the two, whatever the covered one orders the other does, too: it stands at the same place of the thread's order.

use orias_ori::operation::{Order, Scope};

/// How many facts [`covered`] needs.
pub(crate) const COUNT: u32 = 16;

const ORDERS: [Order; 4] = [Order::Acquire, Order::Release, Order::AcqRel, Order::Sc];
const SCOPES: [Scope; 4] = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];

/// The fences a fence covers, itself among them, one bit each; none if it is no fence.
pub(crate) fn covered(order: Order, scope: Scope) -> u64 {
    let weaker = |other: Order| match order {
        Order::Sc => true,
        Order::AcqRel => other != Order::Sc,
        Order::Acquire | Order::Release => other == order,
        _ => false,
    };
    let Some(widest) = SCOPES.iter().position(|&it| it == scope) else {
        return 0;
    };
    let mut bits = 0;
    for (row, &other) in ORDERS.iter().enumerate() {
        for column in 0..=widest {
            if weaker(other) {
                bits |= 1 << (row * SCOPES.len() + column);
            }
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_covers_what_orders_no_more_for_no_more_threads() {
        let covers = |a: (Order, Scope), b: (Order, Scope)| {
            let own = covered(b.0, b.1);
            own != 0 && covered(a.0, a.1) & own == own
        };
        assert!(covers((Order::Sc, Scope::Gpu), (Order::AcqRel, Scope::Gpu)));
        assert!(covers(
            (Order::AcqRel, Scope::Sys),
            (Order::AcqRel, Scope::Cta)
        ));
        assert!(covers(
            (Order::AcqRel, Scope::Gpu),
            (Order::Release, Scope::Cluster)
        ));
        assert!(!covers(
            (Order::AcqRel, Scope::Sys),
            (Order::Sc, Scope::Cta)
        ));
        assert!(!covers(
            (Order::Sc, Scope::Cta),
            (Order::AcqRel, Scope::Gpu)
        ));
        assert!(!covers(
            (Order::Acquire, Scope::Gpu),
            (Order::Release, Scope::Gpu)
        ));
        assert_eq!(covered(Order::Weak, Scope::Gpu), 0);
        assert_eq!(covered(Order::Sc, Scope::Sys).count_ones(), COUNT);
    }
}
