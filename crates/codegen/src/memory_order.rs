//! The PTX memory model, as the fences that an order and a scope ask for: one table, which selection reads for accesses, fences, mbarriers and the
//! cluster's barrier alike.
//!
//! | order | before the access, or instead of the fence | after it |
//! | --- | --- | --- |
//! | weak, relaxed, volatile, mmio | nothing | nothing |
//! | acquire | nothing | drop the first-level cache, beyond the block |
//! | release | `MEMBAR.ALL`, as wide as the scope | nothing |
//! | acq_rel | as release | as acquire |
//! | sc | `MEMBAR.SC` | as acquire |
//!
//! A cluster is as wide as the GPU here: its blocks run on several multiprocessors. Beyond the block a `MEMBAR` is followed by
//! `ERRBAR` and `CGAERRBAR`, which report what went wrong with accesses before it (phase 72 adds them to fences that are marked). Within a block the first-level cache is common, so there is
//! nothing to drop.
//!
//! **What may pass what.** Optimisations on abstract operations move nothing across an access that is not weak, nor across an operation with
//! [`Effects::BARRIER`](orias_ori::Effects). Both schedulers ask `schedule::order`: machine operations with the effects of a barrier, a fence or a wait
//! hold everything back that others can see; a *strong* access holds accesses back. Which accesses are strong is in their modifiers; shared memory
//! has no such modifier, so selection marks its accesses ([`orias_ori::Function::set_strong`]).

use orias_ori::operation::{Order, Scope};
use orias_sass::ValueName;
use orias_sass::modifier_values as value;

/// A fence: what `MEMBAR` is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membar {
    /// `SC` or `ALL`.
    pub sem: ValueName,
    /// `CTA`, `GPU` or `SYS`.
    pub scope: ValueName,
    /// Whether what reports errors follows.
    pub reports: bool,
}

/// The fences around an access, or of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fences {
    /// What comes before the access.
    pub before: Option<Membar>,
    /// Whether what the first-level cache holds is dropped after it.
    pub drops_cache: bool,
}

/// The fence of a scope.
pub(crate) const fn membar(sem: ValueName, scope: Scope) -> Membar {
    let (scope, reports) = match scope {
        Scope::Cta => (value::CTA, false),
        Scope::Cluster | Scope::Gpu => (value::GPU, true),
        Scope::None | Scope::Sys => (value::SYS, true),
    };
    Membar {
        sem,
        scope,
        reports,
    }
}

/// The fences of an order and a scope.
pub(crate) const fn fences(order: Order, scope: Scope) -> Fences {
    let before = match order {
        Order::Release | Order::AcqRel => Some(membar(value::ALL, scope)),
        Order::Sc => Some(membar(value::SC, scope)),
        Order::Weak | Order::Volatile | Order::Mmio | Order::Relaxed | Order::Acquire => None,
    };
    let acquires = matches!(order, Order::Acquire | Order::AcqRel | Order::Sc);
    Fences {
        before,
        drops_cache: acquires && !matches!(scope, Scope::Cta),
    }
}

/// Whether other accesses must stay on their side of one with this order.
pub(crate) const fn is_strong(order: Order) -> bool {
    !matches!(order, Order::Weak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_releases_fences_before_and_who_acquires_drops_the_cache_after() {
        let release = fences(Order::Release, Scope::Cluster);
        assert_eq!(release.before, Some(membar(value::ALL, Scope::Gpu)));
        assert!(!release.drops_cache);
        let acquire = fences(Order::Acquire, Scope::Sys);
        assert!(acquire.before.is_none() && acquire.drops_cache);
        assert!(!fences(Order::AcqRel, Scope::Cta).drops_cache);
        let sc = fences(Order::Sc, Scope::Gpu).before;
        assert!(sc.is_some_and(|membar| membar.sem == value::SC && membar.reports));
        assert!(!is_strong(Order::Weak) && is_strong(Order::Volatile));
    }
}
