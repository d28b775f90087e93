//! Loops with several exits, loops with several entries, and threads that end early.

use super::super::Writer;
use super::super::vocabulary::Class;

impl Writer {
    /// A counter of at most so many rounds that depends on a value, and lanes.
    fn rounds(&mut self, most: u32) -> String {
        let (counter, register) = (self.temporary(Class::B32), self.register(Class::B32));
        if self.rng.one_in(3) {
            self.line(format!("xor.b32 {counter}, {register}, %lane;"));
            self.line(format!("and.b32 {counter}, {counter}, {most};"));
        } else {
            self.line(format!("and.b32 {counter}, {register}, {most};"));
        }
        counter
    }

    /// Counts down and leaves for `end` when nothing is left.
    fn count_down(&mut self, counter: &str, end: &str) {
        let predicate = self.temporary(Class::Pred);
        self.line(format!("setp.eq.u32 {predicate}, {counter}, 0;"));
        self.line(format!("@{predicate} bra {end};"));
        self.line(format!("sub.u32 {counter}, {counter}, 1;"));
    }

    /// A loop that is left at several places for several places, and gone round again from the middle.
    pub(super) fn several_exits(&mut self, statements: usize, depth: usize) {
        self.note("a loop with several exits");
        let counter = self.rounds(7);
        let head = self.label();
        let exits: Vec<String> = (0..2 + self.rng.below(2)).map(|_| self.label()).collect();
        let end = self.label();
        let size = statements / (exits.len() + 1) + 1;
        self.place(&head);
        self.among(None, |it| {
            it.count_down(&counter, &end);
            for exit in &exits {
                it.block(size, depth + 1);
                let condition = it.condition();
                let not = if it.rng.one_in(2) { "!" } else { "" };
                it.line(format!("@{not}{condition} bra {exit};"));
                if it.rng.one_in(4) {
                    let again = it.condition();
                    it.line(format!("@{again} bra {head};"));
                }
            }
        });
        self.line(format!("bra {head};"));
        for exit in &exits {
            self.place(exit);
            self.among(None, |it| it.block(1, depth + 2));
            // Now and then one exit runs into the next.
            if !self.rng.one_in(3) {
                self.line(format!("bra {end};"));
            }
        }
        self.place(&end);
    }

    /// A loop in a loop: the inner one is left for its end, for the outer one's next round, and for the end of both.
    pub(super) fn exits_of_two_loops(&mut self, statements: usize, depth: usize) {
        self.note("a loop in a loop, with exits from both");
        let outer = self.rounds(3);
        let (outer_head, outer_end) = (self.label(), self.label());
        let (inner_head, inner_end) = (self.label(), self.label());
        let size = statements / 4 + 1;
        self.place(&outer_head);
        self.among(None, |it| {
            it.count_down(&outer, &outer_end);
            it.block(size, depth + 1);
            let inner = it.rounds(3);
            it.place(&inner_head);
            it.indent += 1;
            it.count_down(&inner, &inner_end);
            for target in [&outer_head, &outer_end] {
                it.block(size / 2 + 1, depth + 2);
                let condition = it.condition();
                it.line(format!("@{condition} bra {target};"));
            }
            it.block(size, depth + 2);
            it.line(format!("bra {inner_head};"));
            it.indent -= 1;
            it.place(&inner_end);
            it.block(size / 2 + 1, depth + 1);
        });
        self.line(format!("bra {outer_head};"));
        self.place(&outer_end);
    }

    /// A loop with two entries: some come in by its head, others by its middle.
    pub(super) fn two_entries(&mut self, statements: usize, depth: usize) {
        self.note("a loop with two entries");
        let counter = self.rounds(7);
        let (head, middle, end) = (self.label(), self.label(), self.label());
        let size = statements / 2 + 1;
        let inside = self.condition();
        self.line(format!("@{inside} bra {middle};"));
        self.place(&head);
        self.among(None, |it| {
            it.block(size, depth + 1);
            it.place(&middle);
            it.count_down(&counter, &end);
            it.block(size, depth + 1);
            let condition = it.condition();
            it.line(format!("@{condition} bra {middle};"));
        });
        self.line(format!("bra {head};"));
        self.place(&end);
    }

    /// The thread writes its result and ends.
    fn end_thread(&mut self) {
        let (bit, shift) = (self.temporary(Class::B32), self.temporary(Class::B32));
        let address = self.temporary(Class::B32);
        for _ in 0..2 {
            self.mix();
        }
        self.line(format!("and.b32 {shift}, %tid32, 31;"));
        self.line(format!("shl.b32 {bit}, 1, {shift};"));
        self.line(format!("not.b32 {bit}, {bit};"));
        self.line(format!("mov.u32 {address}, alive;"));
        self.line(format!("mad.lo.u32 {address}, %warp, 4, {address};"));
        self.line(format!("red.shared.and.b32 [{address}], {bit};"));
        self.line("st.global.v2.u32 [%out], {%check0, %check1};");
        let end = *self.rng.pick(&["ret", "exit"]);
        self.line(format!("{end};"));
    }

    /// A statement that ends some threads where nobody counts on them.
    pub(super) fn leave(&mut self) {
        self.note("threads that end");
        let condition = self.rare_condition();
        let stay = self.label();
        self.line(format!("@!{condition} bra {stay};"));
        self.among(None, Self::end_thread);
        self.place(&stay);
    }

    /// True for few threads.
    fn rare_condition(&mut self) -> String {
        let (value, predicate) = (self.temporary(Class::B32), self.temporary(Class::Pred));
        let register = self.register(Class::B32);
        let which = self.rng.below(8);
        self.line(format!("xor.b32 {value}, {register}, %lane;"));
        self.line(format!("and.b32 {value}, {value}, 7;"));
        self.line(format!("setp.eq.u32 {predicate}, {value}, {which};"));
        predicate
    }

    /// Some threads end; the others go on knowing who they are.
    pub(super) fn some_leave(&mut self, statements: usize, depth: usize) {
        self.note("some threads end, the others are known");
        let condition = if self.rng.one_in(3) {
            self.condition()
        } else {
            self.rare_condition()
        };
        let Some([yes, no]) = self.split_members(&condition) else {
            return;
        };
        let stay = self.label();
        self.line(format!("@!{condition} bra {stay};"));
        let size = 1 + statements / 3;
        self.among(Some(yes), |it| {
            it.block(size, depth + 1);
            it.end_thread();
        });
        self.place(&stay);
        self.members = Some(no);
        self.uniform = false;
    }

    /// Code that threads may end in anywhere. Behind it the others wait for one another and find out who they are.
    pub(super) fn leaving_region(&mut self, statements: usize, depth: usize) {
        self.note("threads may end anywhere in here");
        self.rich.leaving = true;
        self.among(None, |it| {
            it.block(statements / 2 + 1, depth + 1);
            it.leave();
            it.block(statements / 2, depth + 1);
        });
        self.rich.leaving = false;
        let (mask, address) = (self.temporary(Class::B32), self.temporary(Class::B32));
        self.line("bar.sync 0;");
        self.line(format!("mov.u32 {address}, alive;"));
        self.line(format!("mad.lo.u32 {address}, %warp, 4, {address};"));
        self.line(format!("ld.shared.b32 {mask}, [{address}];"));
        self.line("bar.sync 0;");
        self.members = Some(mask);
        self.uniform = false;
    }
}
