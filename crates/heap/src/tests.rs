//! What an allocator owes to everybody: room that is aligned, nobody else's, and holds what was written until it is freed. The allocator
//! serves these tests themselves, too.

use super::*;
use orias_random::Rng;
use std::sync::mpsc;

/// Steps of a random test: miri takes a thousand times longer.
const STEPS: usize = if cfg!(miri) { 200 } else { 20_000 };

/// A size: small ones are the most frequent, as in a compiler.
fn size(numbers: &mut Rng) -> usize {
    let log = *numbers.pick(&[4, 6, 8, 10, 12, 14, if cfg!(miri) { 14 } else { 19 }]);
    1 + numbers.below(1 << log)
}

/// A block that knows what it must hold.
struct Block {
    place: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: a block is used by the thread that has it.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, align: usize, mark: u8) -> Self {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the size is not zero.
        let place = unsafe { Memory.alloc(layout) };
        assert!(
            !place.is_null() && place.addr().is_multiple_of(align),
            "{layout:?}: {place:p}"
        );
        // SAFETY: that much was asked for.
        unsafe { place.write_bytes(mark, size) };
        Self {
            place,
            layout,
            mark,
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: all of the block was written.
        unsafe { std::slice::from_raw_parts(self.place, self.layout.size()) }
    }

    fn check(&self) {
        let wrong = self.bytes().iter().position(|&byte| byte != self.mark);
        assert_eq!(wrong, None, "{:?} at {:p}", self.layout, self.place);
    }

    fn resize(&mut self, size: usize) {
        self.check();
        // SAFETY: the block is ours.
        let place = unsafe { Memory.realloc(self.place, self.layout, size) };
        assert!(!place.is_null() && place.addr().is_multiple_of(self.layout.align()));
        let kept = self.layout.size().min(size);
        self.place = place;
        self.layout = Layout::from_size_align(kept, self.layout.align()).expect("a layout");
        self.check();
        // SAFETY: that much was asked for.
        unsafe { place.write_bytes(self.mark, size) };
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: the block is ours, and nobody uses it after this.
        unsafe { Memory.dealloc(self.place, self.layout) };
    }
}

/// Asks, resizes and frees at random, and hands some blocks to `others`.
fn churn(seed: u64, mut others: impl FnMut(Block) -> Option<Block>) {
    let mut numbers = Rng::new(seed);
    let mut blocks: Vec<Block> = Vec::new();
    for step in 0..STEPS {
        let chosen = numbers.below(400);
        if chosen >= blocks.len() {
            let align = if numbers.below(8) == 0 {
                1 << numbers.below(13)
            } else {
                8
            };
            blocks.push(Block::new(size(&mut numbers), align, step as u8));
            continue;
        }
        match numbers.below(4) {
            0 => blocks[chosen].resize(size(&mut numbers)),
            1 => {
                let block = blocks.swap_remove(chosen);
                blocks.extend(others(block));
            }
            _ => drop(blocks.swap_remove(chosen)),
        }
    }
}

#[test]
fn blocks_hold_what_was_written_whatever_is_asked_for_and_freed() {
    churn(1, Some);
}

#[test]
fn blocks_may_be_freed_by_other_threads_and_arenas_are_used_again() {
    let rounds = if cfg!(miri) { 2 } else { 4 };
    for round in 0..rounds {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..3).map(|_| mpsc::channel::<Block>()).unzip();
        std::thread::scope(|scope| {
            for (number, receiver) in receivers.into_iter().enumerate() {
                let next = senders[(number + 1) % 3].clone();
                scope.spawn(move || {
                    churn(round * 3 + number as u64, |block| {
                        // A thread that has finished frees nothing any more.
                        let _ = next.send(block);
                        receiver.try_recv().ok()
                    });
                });
            }
            drop(senders);
        });
    }
}

#[test]
fn a_thread_that_ends_still_frees_what_its_destructors_hold() {
    struct Late(Cell<Option<Vec<Block>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let mut blocks = self.0.take().expect("blocks");
            blocks.push(Block::new(100, 8, 3));
            blocks[0].resize(9_000);
        }
    }
    thread_local! { static LATE: Late = const { Late(Cell::new(None)) }; }
    for _ in 0..4 {
        let thread = std::thread::spawn(|| {
            // Destructors run in no known order: this one may come before or behind that of the arena.
            LATE.with(|late| {
                late.0
                    .set(Some(vec![Block::new(48, 8, 1), Block::new(5000, 8, 2)]))
            });
        });
        thread.join().expect("the thread ends");
    }
}

#[test]
fn what_is_asked_for_as_zero_is_zero_in_fresh_and_in_used_memory() {
    let sizes = [1, 48, 1000, 5000, 70_000, 3 << 20, LARGEST + 1];
    for size in sizes
        .into_iter()
        .filter(|&size| !cfg!(miri) || size < 10_000)
    {
        for align in [1, 16, 64, 8192] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            for _ in 0..3 {
                // SAFETY: the size is not zero.
                let place = unsafe { Memory.alloc_zeroed(layout) };
                assert!(!place.is_null() && place.addr().is_multiple_of(align));
                let mut block = Block {
                    place,
                    layout,
                    mark: 0,
                };
                block.check();
                block.mark = 0xff;
                // SAFETY: the block is ours.
                unsafe { place.write_bytes(block.mark, size) };
            }
        }
    }
}

#[test]
fn a_table_grows_to_any_size_and_shrinks_again() {
    let mut block = Block::new(24, 8, 7);
    let sizes = [
        48,
        1 << 10,
        3 << 10,
        1 << 20,
        LARGEST,
        LARGEST + 1,
        3 * LARGEST,
        LARGEST + PAGE,
    ];
    let sizes = sizes.into_iter().chain([LARGEST, 5 << 10, 100, 8]);
    for size in sizes.filter(|&size| !cfg!(miri) || size < 1 << 20) {
        block.resize(size);
    }
}

#[test]
#[cfg_attr(miri, ignore = "miri ends when there is no memory")]
fn more_than_there_is_gives_null_and_keeps_what_there_was() {
    let most = isize::MAX as usize;
    for (size, align) in [(most - 16, 8), (most & !4095, 4096), (1 << 62, 1 << 30)] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the size is not zero.
        assert!(unsafe { Memory.alloc(layout) }.is_null());
        // SAFETY: the size is not zero.
        assert!(unsafe { Memory.alloc_zeroed(layout) }.is_null());
    }
    for size in [100, LARGEST + 1] {
        let block = Block::new(size, 8, 5);
        // SAFETY: the block is ours, and stays so as it cannot grow.
        assert!(unsafe { Memory.realloc(block.place, block.layout, most - 16) }.is_null());
        block.check();
    }
}

#[test]
fn freed_tables_are_joined_before_fresh_memory_is_used() {
    let arena = Arena::new(0);
    assert!(!arena.is_null());
    // SAFETY: the arena is this test's own.
    let arena = unsafe { &*arena };
    let (piece, whole) = (class_of(128 << 10), class_of(4 << 20));
    let pieces: Vec<*mut u8> = (0..64).map(|_| arena.take(piece)).collect();
    // Something behind them, so that they do not just move the end back.
    let last = arena.take(piece);
    for &one in pieces
        .iter()
        .step_by(2)
        .chain(pieces.iter().skip(1).step_by(2))
    {
        // SAFETY: the block was taken above.
        unsafe { arena.give(one, piece) };
    }
    let table = arena.take(whole);
    assert!(pieces[0] <= table && table < last, "{table:p} is fresh");
}
