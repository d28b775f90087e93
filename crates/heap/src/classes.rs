//! Size classes: every block has the size of its class, so that a freed one serves any later request of that class.
//!
//! Up to a kibibyte classes are [`GRAIN`] bytes apart; above, each doubling has four. A block is at most a quarter larger than what was
//! asked for, and the difference of two large classes is nearly always a class itself, which makes blocks easy to split.

/// What every block's size and address is a multiple of.
pub const GRAIN: usize = 16;

/// The largest size whose class is a multiple of [`GRAIN`] and nothing else.
pub const FINE: usize = 1024;

const FINE_CLASSES: usize = FINE / GRAIN;

/// The size of the largest class; what is larger is mapped for itself.
pub const LARGEST: usize = 16 << 20;

/// How many classes there are. Class 0 has no blocks.
pub const CLASSES: usize = class_of(LARGEST) + 1;

/// The smallest class whose blocks hold `size` bytes, which are at least one and at most [`LARGEST`].
#[inline]
pub const fn class_of(size: usize) -> usize {
    if size <= FINE {
        return size.div_ceil(GRAIN);
    }
    let last = size - 1;
    let log = last.ilog2() as usize;
    let quarter = (last >> (log - 2)) & 3;
    FINE_CLASSES + 1 + (log - FINE.ilog2() as usize) * 4 + quarter
}

/// How large a block of `class` is.
#[inline]
pub const fn block_size(class: usize) -> usize {
    if class <= FINE_CLASSES {
        return class * GRAIN;
    }
    let above = class - FINE_CLASSES - 1;
    let (doubling, quarter) = (above / 4, above % 4);
    (FINE + (quarter + 1) * (FINE / 4)) << doubling
}

/// The largest class whose blocks fit into `size` bytes; 0 if none does.
pub const fn class_within(size: usize) -> usize {
    if size >= LARGEST {
        return CLASSES - 1;
    }
    if size < GRAIN {
        return 0;
    }
    let class = class_of(size);
    if block_size(class) == size {
        class
    } else {
        class - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_it_is_chosen_for_and_wastes_at_most_a_quarter() {
        let sizes = (1..=8192).chain((13..=24).flat_map(|log| {
            let power = 1_usize << log;
            [power - 1, power, power + 1, power * 5 / 4 + 1]
        }));
        for size in sizes.filter(|&size| size <= LARGEST) {
            let block = block_size(class_of(size));
            assert!(
                block >= size && block.is_multiple_of(GRAIN),
                "{size}: {block}"
            );
            assert!(
                block - size < GRAIN.max(size.div_ceil(4)),
                "{size}: {block}"
            );
            let within = block_size(class_within(size));
            assert!(within <= size, "{size}: {within}");
            assert!(class_of(size) - class_within(size) <= 1, "{size}");
        }
    }

    #[test]
    fn classes_grow_and_are_found_by_their_own_size() {
        for class in 1..CLASSES {
            assert!(block_size(class) > block_size(class - 1));
            assert_eq!(class_of(block_size(class)), class);
            assert_eq!(class_within(block_size(class)), class);
        }
        assert_eq!(block_size(CLASSES - 1), LARGEST);
    }
}
