//! Operations of a warp among exactly the threads that are here.

use super::Writer;
use super::vocabulary::Class;

impl Writer {
    pub(super) fn warp_statement(&mut self) {
        let Some(members) = self.members.clone() else {
            return;
        };
        match self.rng.below(8) {
            0..=1 if members.starts_with("0x") => self.shuffle(&members),
            0..=1 => self.shuffle_from_first(&members),
            2 => {
                let mode = *self.rng.pick(&["all", "any", "uni"]);
                let (to, from) = (self.register(Class::Pred), self.register(Class::Pred));
                let not = if self.rng.one_in(3) { "!" } else { "" };
                self.line(format!(
                    "vote.sync.{mode}.pred {to}, {not}{from}, {members};"
                ));
            }
            3 => {
                let (to, from) = (self.register(Class::B32), self.register(Class::Pred));
                self.line(format!("vote.sync.ballot.b32 {to}, {from}, {members};"));
            }
            4 => {
                let (bits, class) = *self.rng.pick(&[("b32", Class::B32), ("b64", Class::B64)]);
                let (to, from) = (self.register(Class::B32), self.register(class));
                self.line(format!("match.any.sync.{bits} {to}, {from}, {members};"));
            }
            5 => {
                let (to, from) = (self.register(Class::B32), self.register(Class::B32));
                let predicate = self.register(Class::Pred);
                self.line(format!(
                    "match.all.sync.b32 {to}|{predicate}, {from}, {members};"
                ));
            }
            6 => {
                let operation = *self.rng.pick(&[
                    "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32",
                    "or.b32", "xor.b32",
                ]);
                let (to, from) = (self.register(Class::B32), self.register(Class::B32));
                self.line(format!("redux.sync.{operation} {to}, {from}, {members};"));
            }
            _ => self.line(format!("bar.warp.sync {members};")),
        }
    }

    /// All lanes are here: any lane may be read.
    fn shuffle(&mut self, members: &str) {
        let mode = *self.rng.pick(&["up", "down", "bfly", "idx"]);
        let width = *self.rng.pick(&[32, 16, 8, 4]);
        let segment = (32 - width) << 8;
        let control = if mode == "up" {
            segment
        } else {
            segment | (width - 1)
        };
        let (to, from) = (self.register(Class::B32), self.register(Class::B32));
        let lane = if self.rng.one_in(3) {
            self.register(Class::B32)
        } else {
            self.rng.below(32).to_string()
        };
        // With segments narrower than the warp the last lane is within its segment, whatever the mode.
        let to = if self.rng.one_in(2) {
            let predicate = self.register(Class::Pred);
            format!("{to}|{predicate}")
        } else {
            to
        };
        self.line(format!(
            "shfl.sync.{mode}.b32 {to}, {from}, {lane}, {control:#x}, {members};"
        ));
    }

    /// Some lanes are here: the lowest of them is read.
    fn shuffle_from_first(&mut self, members: &str) {
        let (reversed, first) = (self.temporary(Class::B32), self.temporary(Class::B32));
        let (to, from) = (self.register(Class::B32), self.register(Class::B32));
        self.line(format!("brev.b32 {reversed}, {members};"));
        self.line(format!("bfind.shiftamt.u32 {first}, {reversed};"));
        self.line(format!(
            "shfl.sync.idx.b32 {to}, {from}, {first}, 0x1f, {members};"
        ));
    }
}
