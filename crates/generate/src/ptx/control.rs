//! Branches, loops, and control flow without structure.

use super::Writer;
use super::vocabulary::Class;

impl Writer {
    /// A branch or loop with about so many statements inside.
    pub(super) fn structure(&mut self, statements: usize, depth: usize) {
        if self.options.rich && self.rich_structure(statements, depth) {
            return;
        }
        match self.rng.below(8) {
            0..=2 => self.branch(statements, depth),
            3 => self.counted_loop(statements, depth),
            4..=5 => self.divergent_loop(statements, depth),
            6 => self.switch(statements, depth),
            _ => self.tangle(statements),
        }
    }

    /// A new predicate that depends on values.
    pub(super) fn condition(&mut self) -> String {
        let predicate = self.temporary(Class::Pred);
        match self.rng.below(4) {
            0 => {
                let bit = 1 << self.rng.below(5);
                let value = self.temporary(Class::B32);
                let register = self.register(Class::B32);
                self.line(format!("xor.b32 {value}, {register}, %lane;"));
                self.line(format!("and.b32 {value}, {value}, {bit};"));
                self.line(format!("setp.ne.u32 {predicate}, {value}, 0;"));
            }
            1 => {
                let (a, b) = (self.register(Class::F32), self.operand(Class::F32));
                self.line(format!("setp.lt.f32 {predicate}, {a}, {b};"));
            }
            2 => {
                let register = self.register(Class::Pred);
                self.line(format!("mov.pred {predicate}, {register};"));
            }
            _ => {
                let (a, b) = (self.register(Class::B32), self.operand(Class::B32));
                self.line(format!("setp.lt.s32 {predicate}, {a}, {b};"));
            }
        }
        predicate
    }

    /// The members for whom a predicate is true, and those for whom it is false, in new registers.
    pub(super) fn split_members(&mut self, predicate: &str) -> Option<[String; 2]> {
        let members = self.members.clone()?;
        let (yes, no) = (self.temporary(Class::B32), self.temporary(Class::B32));
        self.line(format!(
            "vote.sync.ballot.b32 {yes}, {predicate}, {members};"
        ));
        self.line(format!(
            "vote.sync.ballot.b32 {no}, !{predicate}, {members};"
        ));
        Some([yes, no])
    }

    /// Writes `body` where only `members` are, and comes back to those who were here before.
    pub(super) fn among(&mut self, members: Option<String>, body: impl FnOnce(&mut Self)) {
        let members = std::mem::replace(&mut self.members, members);
        let before = (members, self.uniform, self.together);
        (self.uniform, self.together) = (false, false);
        self.indent += 1;
        body(self);
        self.indent -= 1;
        (self.members, self.uniform, self.together) = before;
    }

    fn branch(&mut self, statements: usize, depth: usize) {
        let predicate = self.condition();
        let [yes, no] = match self.split_members(&predicate) {
            Some([yes, no]) => [Some(yes), Some(no)],
            None => [None, None],
        };
        let (other, end) = (self.label(), self.label());
        let both = self.rng.one_in(2);
        self.line(format!("@!{predicate} bra {other};"));
        let size = if both { statements / 2 + 1 } else { statements };
        self.among(yes, |it| it.block(size, depth + 1));
        if both {
            self.line(format!("bra {end};"));
        }
        self.place(&other);
        if both {
            self.among(no, |it| it.block(size, depth + 1));
        }
        self.place(&end);
    }

    /// A loop of a constant number of rounds: everyone stays together.
    fn counted_loop(&mut self, statements: usize, depth: usize) {
        let (counter, predicate) = (self.temporary(Class::B32), self.temporary(Class::Pred));
        let (head, rounds) = (self.label(), 1 + self.rng.below(4));
        self.line(format!("mov.u32 {counter}, {rounds};"));
        self.place(&head);
        self.indent += 1;
        self.block(statements, depth + 1);
        self.indent -= 1;
        self.line(format!("sub.u32 {counter}, {counter}, 1;"));
        self.line(format!("setp.ne.u32 {predicate}, {counter}, 0;"));
        self.line(format!("@{predicate} bra {head};"));
    }

    /// A loop that threads leave at different rounds. Either those who stay agree on who they are in every round, or
    /// threads may also leave in the middle.
    fn divergent_loop(&mut self, statements: usize, depth: usize) {
        let (counter, predicate) = (self.temporary(Class::B32), self.temporary(Class::Pred));
        let (head, end) = (self.label(), self.label());
        let register = self.register(Class::B32);
        self.line(format!("and.b32 {counter}, {register}, 7;"));
        let members = match self.members.clone() {
            Some(members) if self.rng.one_in(2) => {
                let mask = self.temporary(Class::B32);
                self.line(format!("mov.b32 {mask}, {members};"));
                Some(mask)
            }
            _ => None,
        };
        self.place(&head);
        self.line(format!("setp.eq.u32 {predicate}, {counter}, 0;"));
        if let Some(mask) = &members {
            let stay = self.temporary(Class::B32);
            self.line(format!(
                "vote.sync.ballot.b32 {stay}, !{predicate}, {mask};"
            ));
            self.line(format!("@{predicate} bra {end};"));
            self.line(format!("mov.b32 {mask}, {stay};"));
        } else {
            self.line(format!("@{predicate} bra {end};"));
        }
        self.line(format!("sub.u32 {counter}, {counter}, 1;"));
        let leaves = members.is_none();
        self.among(members, |it| {
            it.block(statements / 2 + 1, depth + 1);
            if leaves {
                let early = it.condition();
                let target = if it.rng.one_in(3) { &head } else { &end };
                it.line(format!("@{early} bra {target};"));
            }
            it.block(statements / 2, depth + 1);
        });
        self.line(format!("bra {head};"));
        self.place(&end);
    }

    /// A table of targets.
    fn switch(&mut self, statements: usize, depth: usize) {
        let cases: Vec<String> = (0..4).map(|_| self.label()).collect();
        let end = self.label();
        let (index, register) = (self.temporary(Class::B32), self.register(Class::B32));
        self.line(format!("and.b32 {index}, {register}, 3;"));
        self.branch_by_table(&index, &cases);
        for case in &cases {
            self.place(case);
            self.among(None, |it| it.block(statements / 4 + 1, depth + 2));
            // Now and then a case runs into the next.
            if !self.rng.one_in(4) {
                self.line(format!("bra {end};"));
            }
        }
        self.place(&end);
    }

    fn branch_by_table(&mut self, index: &str, targets: &[String]) {
        let table = format!("T{}", self.tables);
        self.tables += 1;
        self.line(format!("{table}: .branchtargets {};", targets.join(", ")));
        self.line(format!("brx.idx {index}, {table};"));
    }

    /// Blocks that branch to one another in any way. Branches back are counted, so it comes to an end.
    fn tangle(&mut self, statements: usize) {
        let fuel = self.temporary(Class::B32);
        let rounds = 3 + self.rng.below(8);
        self.line(format!("mov.u32 {fuel}, {rounds};"));
        let blocks = 3 + self.rng.below(4);
        let labels: Vec<String> = (0..=blocks).map(|_| self.label()).collect();
        self.among(None, |it| {
            for at in 0..blocks {
                it.place(&labels[at]);
                for _ in 0..statements / blocks + 1 {
                    it.simple();
                }
                let later = at + 1 + it.rng.below(blocks - at);
                match it.rng.below(5) {
                    0 => it.line(format!("bra {};", labels[later])),
                    1 => {
                        let earlier = it.rng.below(at + 1);
                        let again = it.temporary(Class::Pred);
                        let wanted = it.condition();
                        it.line(format!("sub.u32 {fuel}, {fuel}, 1;"));
                        it.line(format!("setp.gt.s32 {again}, {fuel}, 0;"));
                        it.line(format!("and.pred {again}, {again}, {wanted};"));
                        it.line(format!("@{again} bra {};", labels[earlier]));
                    }
                    2 => {
                        let targets: Vec<String> = (0..4)
                            .map(|_| labels[at + 1 + it.rng.below(blocks - at)].clone())
                            .collect();
                        let (index, register) = (it.temporary(Class::B32), it.register(Class::B32));
                        it.line(format!("and.b32 {index}, {register}, 3;"));
                        it.branch_by_table(&index, &targets);
                    }
                    _ => {
                        let condition = it.condition();
                        it.line(format!("@{condition} bra {};", labels[later]));
                    }
                }
            }
        });
        self.place(&labels[blocks]);
    }
}
