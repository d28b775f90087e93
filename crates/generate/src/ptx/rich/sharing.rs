//! What threads do with one another: retry loops, locks, turns, and barriers where lanes have parted.
//!
//! A retry loop or a lock makes updates whose order does not matter, and no thread sees what it found there. Where turns are taken the order
//! is given, so everything may be seen. All waiting ends when others go on: nobody waits while holding a lock or a turn, and nothing
//! assumes that lanes of a warp go on together.

use super::super::Writer;
use super::super::vocabulary::Class;

/// What threads share.
///
/// - `cells`, of the CTA, starts as zeros: words that are added to (0), combined by xor (4) and max (8), a single (12), a lock (16) and what it
///   guards (20, 24), a double word (32), turn (56) and chain (60) of the CTA;
/// - `alive`, of the CTA: a mask for each warp;
/// - `turns`, of the CTA: turn and chain of the group of lanes whose lowest thread has this number;
/// - `tallies`, of all CTAs: as `cells`, without turns;
/// - `guarded`, of all CTAs: a lock, a count, a sum and a maximum, four times.
pub(super) const DECLARATIONS: &str = ".shared .align 16 .b8 cells[64];
.shared .align 8 .b32 alive[2];
.shared .align 8 .b64 turns[64];
.visible .global .align 16 .b32 tallies[16];
.visible .global .align 16 .b32 guarded[16];
";

/// A space of shared words, its name there and the scope that reaches everybody who uses it.
const PLACES: [(&str, &str, &str); 2] = [("shared", "cells", "cta"), ("global", "tallies", "gpu")];

impl Writer {
    /// An update by compare-and-swap, tried again until nobody came between.
    pub(super) fn retry_loop(&mut self) {
        self.note("a retry loop");
        let (space, base, scope) = *self.rng.pick(&PLACES);
        let (head, end) = (self.label(), self.label());
        let failed = self.temporary(Class::Pred);
        let (at, bits, class) = *self.rng.pick(&[
            (0, 32, Class::B32),
            (4, 32, Class::B32),
            (8, 32, Class::B32),
            (12, 32, Class::B32),
            (32, 64, Class::B64),
        ]);
        let (old, new, seen) = (
            self.temporary(class),
            self.temporary(class),
            self.temporary(class),
        );
        let value = self.register(class);
        let order = match self.rng.below(4) {
            0 => format!(".acq_rel.{scope}"),
            1 => format!(".relaxed.{scope}"),
            2 => format!(".acquire.{scope}"),
            _ => String::new(),
        };
        let load = match self.rng.below(3) {
            0 => format!("ld.relaxed.{scope}.{space}.b{bits}"),
            1 => format!("ld.volatile.{space}.b{bits}"),
            _ => format!("ld.{space}.b{bits}"),
        };
        let single = (at == 12).then(|| {
            // Small whole numbers: their sum is exact in any order.
            let (number, addend) = (self.temporary(Class::B32), self.temporary(Class::F32));
            self.line(format!("and.b32 {number}, {value}, 15;"));
            self.line(format!("cvt.rn.f32.u32 {addend}, {number};"));
            addend
        });
        self.line(format!("{load} {old}, [{base}+{at}];"));
        self.place(&head);
        match (at, single) {
            (_, Some(addend)) => {
                let sum = self.temporary(Class::F32);
                self.line(format!("mov.b32 {sum}, {old};"));
                self.line(format!("add.rn.f32 {sum}, {sum}, {addend};"));
                self.line(format!("mov.b32 {new}, {sum};"));
            }
            (4, _) => self.line(format!("xor.b32 {new}, {old}, {value};")),
            (8, _) => {
                // A maximum that is there already needs no update: a second exit.
                if self.rng.one_in(2) {
                    let enough = self.temporary(Class::Pred);
                    self.line(format!("setp.ge.u32 {enough}, {old}, {value};"));
                    self.line(format!("@{enough} bra {end};"));
                }
                self.line(format!("max.u32 {new}, {old}, {value};"));
            }
            _ => self.line(format!("add.u{bits} {new}, {old}, {value};")),
        }
        self.line(format!(
            "atom{order}.{space}.cas.b{bits} {seen}, [{base}+{at}], {old}, {new};"
        ));
        self.line(format!("setp.ne.b{bits} {failed}, {seen}, {old};"));
        if self.rng.one_in(3) {
            let again = load.replace(&format!("ld.{space}"), &format!("ld.volatile.{space}"));
            self.line(format!("{again} {old}, [{base}+{at}];"));
        } else {
            self.line(format!("mov.b{bits} {old}, {seen};"));
        }
        self.line(format!("@{failed} bra {head};"));
        self.place(&end);
    }

    /// Several words updated under a lock that lanes of a warp, warps and CTAs compete for.
    pub(super) fn locked(&mut self) {
        self.note("a lock");
        let shared = self.rng.one_in(2);
        let (space, scope) = if shared {
            ("shared", "cta")
        } else {
            ("global", "gpu")
        };
        let value = self.register(Class::B32);
        let address = if shared {
            let address = self.temporary(Class::B32);
            self.line(format!("mov.u32 {address}, cells;"));
            self.line(format!("add.u32 {address}, {address}, 16;"));
            address
        } else {
            let (index, address) = (self.temporary(Class::B32), self.temporary(Class::B64));
            let register = self.register(Class::B32);
            self.line(format!("and.b32 {index}, {register}, 3;"));
            self.line(format!("mov.u64 {address}, guarded;"));
            self.line(format!("mad.wide.u32 {address}, {index}, 16, {address};"));
            address
        };
        let fences = self.rng.one_in(2);
        let (taken, held) = (self.temporary(Class::B32), self.temporary(Class::Pred));
        let swap = if fences { "relaxed" } else { "acquire" };
        let take = format!("atom.{swap}.{scope}.{space}.cas.b32 {taken}, [{address}], 0, 1;");
        let head = self.label();
        if self.rng.one_in(2) {
            // Wait, then go on.
            self.place(&head);
            self.line(take);
            self.line(format!("setp.ne.u32 {held}, {taken}, 0;"));
            self.line(format!("@{held} bra {head};"));
            self.critical_section(space, scope, &address, &value, shared, fences);
        } else {
            // Try, and try again until it was done.
            let (done, next) = (self.temporary(Class::Pred), self.label());
            self.line(format!("mov.pred {done}, 0;"));
            self.place(&head);
            self.line(take);
            self.line(format!("setp.ne.u32 {held}, {taken}, 0;"));
            self.line(format!("@{held} bra {next};"));
            self.critical_section(space, scope, &address, &value, shared, fences);
            self.line(format!("mov.pred {done}, 1;"));
            self.place(&next);
            self.line(format!("@!{done} bra {head};"));
        }
    }

    /// Counts, adds, and lets the lock go.
    fn critical_section(
        &mut self,
        space: &str,
        scope: &str,
        address: &str,
        value: &str,
        shared: bool,
        fences: bool,
    ) {
        let (count, sum) = (self.temporary(Class::B32), self.temporary(Class::B32));
        if fences {
            self.line(format!("fence.acq_rel.{scope};"));
        }
        self.line(format!("ld.{space}.u32 {count}, [{address}+4];"));
        self.line(format!("ld.{space}.u32 {sum}, [{address}+8];"));
        self.line(format!("add.u32 {count}, {count}, 1;"));
        self.line(format!("add.u32 {sum}, {sum}, {value};"));
        self.line(format!("st.{space}.u32 [{address}+4], {count};"));
        self.line(format!("st.{space}.u32 [{address}+8], {sum};"));
        if !shared {
            let most = self.temporary(Class::B32);
            self.line(format!("ld.{space}.u32 {most}, [{address}+12];"));
            self.line(format!("max.u32 {most}, {most}, {value};"));
            self.line(format!("st.{space}.u32 [{address}+12], {most};"));
        }
        match (fences, self.rng.one_in(2)) {
            (true, true) => {
                self.line(format!("fence.acq_rel.{scope};"));
                self.line(format!("st.relaxed.{scope}.{space}.u32 [{address}], 0;"));
            }
            (true, false) => {
                let before = self.temporary(Class::B32);
                self.line(format!("fence.acq_rel.{scope};"));
                self.line(format!(
                    "atom.relaxed.{scope}.{space}.exch.b32 {before}, [{address}], 0;"
                ));
            }
            (false, true) => self.line(format!("st.release.{scope}.{space}.u32 [{address}], 0;")),
            (false, false) => {
                let before = self.temporary(Class::B32);
                self.line(format!(
                    "atom.release.{scope}.{space}.exch.b32 {before}, [{address}], 0;"
                ));
            }
        }
    }

    /// Waits for a turn, hands a chain of values on, and gives the turn to the next.
    fn take_turn(&mut self, slot: &str, turn: usize, chain: usize, rank: &str) {
        let (seen, passed) = (self.temporary(Class::B32), self.temporary(Class::B32));
        let waits = self.temporary(Class::Pred);
        let (value, result) = (self.register(Class::B32), self.register(Class::B32));
        let head = self.label();
        let fences = self.rng.one_in(3);
        self.place(&head);
        let load = if fences {
            "ld.relaxed.cta"
        } else {
            "ld.acquire.cta"
        };
        self.line(format!("{load}.shared.u32 {seen}, [{slot}+{turn}];"));
        self.line(format!("setp.ne.u32 {waits}, {seen}, {rank};"));
        self.line(format!("@{waits} bra {head};"));
        if fences {
            self.line("fence.acq_rel.cta;");
        }
        self.line(format!("ld.shared.u32 {passed}, [{slot}+{chain}];"));
        self.line(format!("mad.lo.u32 {passed}, {passed}, 31, {value};"));
        self.line(format!("st.shared.u32 [{slot}+{chain}], {passed};"));
        self.line(format!("add.u32 {seen}, {rank}, 1;"));
        if fences {
            self.line("fence.acq_rel.cta;");
            self.line(format!(
                "st.relaxed.cta.shared.u32 [{slot}+{turn}], {seen};"
            ));
        } else {
            self.line(format!(
                "st.release.cta.shared.u32 [{slot}+{turn}], {seen};"
            ));
        }
        self.line(format!("mov.b32 {result}, {passed};"));
    }

    /// The lanes that are here take turns, in their order.
    pub(super) fn turns_of_a_warp(&mut self, members: &str) {
        self.note("turns of lanes");
        let (reversed, first) = (self.temporary(Class::B32), self.temporary(Class::B32));
        let (slot, rank) = (self.temporary(Class::B32), self.temporary(Class::B32));
        let (leads, start) = (self.temporary(Class::Pred), self.register(Class::B32));
        self.line(format!("brev.b32 {reversed}, {members};"));
        self.line(format!("bfind.shiftamt.u32 {first}, {reversed};"));
        self.line(format!("mad.lo.u32 {slot}, %warp, 32, {first};"));
        self.line(format!("shl.b32 {slot}, {slot}, 3;"));
        self.line(format!("mov.u32 {rank}, turns;"));
        self.line(format!("add.u32 {slot}, {slot}, {rank};"));
        self.line(format!("mov.u32 {rank}, %lanemask_lt;"));
        self.line(format!("and.b32 {rank}, {rank}, {members};"));
        self.line(format!("popc.b32 {rank}, {rank};"));
        self.line(format!("setp.eq.u32 {leads}, {rank}, 0;"));
        self.line(format!(
            "@{leads} st.shared.v2.u32 [{slot}], {{0, {start}}};"
        ));
        self.line(format!("bar.warp.sync {members};"));
        self.take_turn(&slot, 0, 4, &rank);
        self.line(format!("bar.warp.sync {members};"));
    }

    /// All threads of the CTA take turns, in their order.
    pub(super) fn turns_of_a_cta(&mut self) {
        self.note("turns of a CTA");
        let (leads, slot) = (self.temporary(Class::Pred), self.temporary(Class::B32));
        self.line(format!("mov.u32 {slot}, cells;"));
        self.line(format!("setp.eq.u32 {leads}, %tid32, 0;"));
        self.line(format!("@{leads} st.shared.v2.u32 [{slot}+56], {{0, 0}};"));
        self.line("bar.sync 0;");
        self.take_turn(&slot, 56, 60, "%tid32");
        self.line("bar.sync 0;");
    }

    /// Everybody sees what everybody added, between two barriers.
    fn see_the_sum(&mut self, barrier: &str) {
        let result = self.register(Class::B32);
        self.line(format!("{barrier};"));
        self.line(format!("ld.shared.u32 {result}, [cells];"));
        self.line("bar.sync 0;");
    }

    /// A loop that threads leave at different rounds, and a barrier right behind it.
    pub(super) fn barrier_after_a_divergent_loop(&mut self, statements: usize, depth: usize) {
        self.note("a barrier after a divergent loop");
        let (counter, register) = (self.temporary(Class::B32), self.register(Class::B32));
        let most = *self.rng.pick(&[3, 7, 15]);
        let predicate = self.temporary(Class::Pred);
        let (head, end) = (self.label(), self.label());
        self.line(format!("xor.b32 {counter}, {register}, %lane;"));
        self.line(format!("and.b32 {counter}, {counter}, {most};"));
        self.place(&head);
        self.among(None, |it| {
            it.line(format!("setp.eq.u32 {predicate}, {counter}, 0;"));
            it.line(format!("@{predicate} bra {end};"));
            it.line(format!("sub.u32 {counter}, {counter}, 1;"));
            it.block(statements / 3 + 1, depth + 2);
            match it.rng.below(3) {
                0 => it.retry_loop(),
                1 => it.locked(),
                _ => {
                    let value = it.register(Class::B32);
                    it.line(format!("red.shared.add.u32 [cells], {value};"));
                }
            }
        });
        self.line(format!("bra {head};"));
        self.place(&end);
        let barrier = *self
            .rng
            .pick(&["bar.sync 0", "barrier.sync 0", "bar.sync 0, 64"]);
        // A count of threads holds only while all are there.
        let barrier = if self.uniform { barrier } else { "bar.sync 0" };
        self.see_the_sum(barrier);
    }

    /// A branch whose arms each have the barrier that all threads meet at.
    pub(super) fn barrier_in_both_arms(&mut self) {
        self.note("a barrier in both arms");
        let condition = self.condition();
        let (other, end) = (self.label(), self.label());
        let value = self.register(Class::B32);
        let result = self.register(Class::B32);
        self.line(format!("red.shared.add.u32 [cells], {value};"));
        self.line(format!("@!{condition} bra {other};"));
        self.among(None, |it| {
            it.scalar_statement();
            it.line("barrier.sync 0;");
            it.line(format!("ld.shared.u32 {result}, [cells];"));
        });
        self.line(format!("bra {end};"));
        self.place(&other);
        self.among(None, |it| {
            it.line("barrier.sync 0;");
            it.line(format!("ld.shared.u32 {result}, [cells];"));
            it.scalar_statement();
        });
        self.place(&end);
        self.line("bar.sync 0;");
    }
}
