//! Rows of accesses to neighbouring elements of the thread's memory: each under a guard of its own or all under one, in any order, from a base that is aligned to the element only.
//! Assemblers make wide accesses of them where guards and addresses allow.

use super::Writer;
use super::vocabulary::Class;

/// Bytes of integers in a thread's slots of global memory.
const BYTES: usize = 32;

/// Bytes of a row at most: it starts up to eight bytes behind the first one.
const LONGEST: usize = 24;

/// Elements: their bytes, and the class and the type that they are loaded and stored by.
const ELEMENTS: [(usize, Class, &str); 9] = [
    (1, Class::B16, "u8"),
    (1, Class::B32, "u8"),
    (1, Class::B32, "s8"),
    (2, Class::B16, "b16"),
    (2, Class::B32, "u16"),
    (2, Class::B32, "s16"),
    (4, Class::B32, "b32"),
    (8, Class::B64, "b64"),
    (8, Class::B64, "u64"),
];

impl Writer {
    pub(super) fn neighbours(&mut self) {
        let &(bytes, class, ty) = self.rng.pick(&ELEMENTS);
        let count = match bytes {
            8 => 2 + self.rng.below(2),
            _ => (*self.rng.pick(&[4, 5, 8, 12, 16])).min(LONGEST / bytes),
        };
        let register = self.register(Class::B32);
        let (moved, base) = (self.temporary(Class::B32), self.temporary(Class::B64));
        let mask = if bytes == 8 { 8 } else { 8 - bytes };
        self.line(format!("and.b32 {moved}, {register}, {mask};"));
        self.line(format!("mad.wide.u32 {base}, {moved}, 1, %scratch;"));
        let room = BYTES - mask - count * bytes;
        let first = self.rng.below(room / bytes + 1) * bytes;
        let guards = self.guards_of_row(&moved, count);
        let mut order: Vec<usize> = (0..count).collect();
        if self.rng.one_in(3) {
            for at in (1..count).rev() {
                order.swap(at, self.rng.below(at + 1));
            }
        }
        if self.rng.one_in(2) {
            for at in order {
                let value = self.register(class);
                let place = first + at * bytes;
                let guard = &guards[at];
                self.line(format!("{guard}st.global.{ty} [{base}+{place}], {value};"));
            }
            return;
        }
        // What is not loaded is what it was.
        let loaded: Vec<String> = (0..count).map(|_| self.temporary(class)).collect();
        for value in &loaded {
            let before = self.register(class);
            self.line(format!("mov.{} {value}, {before};", class.moved()));
        }
        for at in order {
            let (value, guard, place) = (&loaded[at], &guards[at], first + at * bytes);
            self.line(format!("{guard}ld.global.{ty} {value}, [{base}+{place}];"));
        }
        let sum = self.register(class);
        for value in &loaded {
            let bits = class.bits();
            self.line(format!("mad.lo.u{bits} {sum}, {sum}, 31, {value};"));
        }
    }

    /// The guards of a row: none, one for all, two in turns, or for each element whether its number is below a bound.
    fn guards_of_row(&mut self, first: &str, count: usize) -> Vec<String> {
        let one = |it: &mut Self| {
            let negated = if it.rng.one_in(2) { "!" } else { "" };
            format!("@{negated}{} ", it.register(Class::Pred))
        };
        match self.rng.below(4) {
            0 => vec![String::new(); count],
            1 => vec![one(self); count],
            2 => {
                let pair = [one(self), one(self)];
                (0..count).map(|at| pair[at % 2].clone()).collect()
            }
            _ => {
                let (bound, register) = (self.temporary(Class::B32), self.register(Class::B32));
                self.line(format!("and.b32 {bound}, {register}, 31;"));
                let below = |it: &mut Self, at: usize| {
                    let (number, holds) = (it.temporary(Class::B32), it.temporary(Class::Pred));
                    it.line(format!("add.u32 {number}, {first}, {at};"));
                    it.line(format!("setp.lt.s32 {holds}, {number}, {bound};"));
                    format!("@{holds} ")
                };
                (0..count).map(|at| below(self, at)).collect()
            }
        }
    }
}
