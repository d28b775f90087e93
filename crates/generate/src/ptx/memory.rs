//! Loads, stores and atomics in slots that belong to the thread, reductions whose order does not matter, and exchanges
//! through shared memory between barriers.
//!
//! The first half of a thread's memory holds integers, the second floating point: four singles and two doubles.

use super::Writer;
use super::vocabulary::Class;

/// A space, how its slots are addressed, and how many bytes of integers there are.
const SPACES: [(&str, &str, usize); 3] = [
    (".global", "%scratch", 32),
    (".local", "depot", 32),
    (".shared", "%own", 16),
];

/// Reductions of all threads: the operation, its type and the word they go to, which starts as zero.
const REDUCTIONS: [(&str, Class, usize); 9] = [
    ("add.u32", Class::B32, 0),
    ("max.u32", Class::B32, 4),
    ("or.b32", Class::B32, 8),
    ("xor.b32", Class::B32, 12),
    ("min.s32", Class::B32, 16),
    ("max.s32", Class::B32, 20),
    ("add.u64", Class::B64, 24),
    ("max.u64", Class::B64, 32),
    ("xor.b64", Class::B64, 40),
];

impl Writer {
    pub(super) fn memory_statement(&mut self) {
        match self.rng.below(11) {
            0..=1 => self.store(),
            2..=3 => self.load(),
            4 => self.store_and_load_vector(),
            5 => self.floating_slot(),
            6 => self.indexed(),
            7 => self.reduction(),
            8 => self.atomic(),
            9 => self.neighbours(),
            _ if self.uniform => self.exchange(),
            _ => self.load(),
        }
    }

    /// A space and the address of a slot of `bytes` in it.
    fn slot(&mut self, bytes: usize) -> (&'static str, String) {
        let (space, base, size) = *self.rng.pick(&SPACES);
        let at = self.rng.below(size / bytes) * bytes;
        if space != ".shared" && self.rng.one_in(5) {
            // The same by a generic address.
            let address = self.temporary(Class::B64);
            self.line(format!("mov.u64 {address}, {base};"));
            self.line(format!("cvta{space}.u64 {address}, {address};"));
            return ("", format!("[{address}+{at}]"));
        }
        (space, format!("[{base}+{at}]"))
    }

    fn store(&mut self) {
        let (class, types): (Class, &[(&str, usize)]) = match self.rng.below(3) {
            0 => (Class::B16, &[("u8", 1), ("b16", 2)]),
            1 => (Class::B32, &[("s8", 1), ("u16", 2), ("b32", 4), ("s32", 4)]),
            _ => (Class::B64, &[("b8", 1), ("u32", 4), ("b64", 8), ("u64", 8)]),
        };
        let &(ty, bytes) = self.rng.pick(types);
        let (space, address) = self.slot(bytes);
        let (value, guard) = (self.register(class), self.guard());
        self.line(format!("{guard}st{space}.{ty} {address}, {value};"));
    }

    fn load(&mut self) {
        let (class, types): (Class, &[(&str, usize)]) = match self.rng.below(3) {
            0 => (Class::B16, &[("u8", 1), ("s8", 1), ("b16", 2)]),
            1 => (
                Class::B32,
                &[("s8", 1), ("u8", 1), ("s16", 2), ("u16", 2), ("b32", 4)],
            ),
            _ => (
                Class::B64,
                &[("s8", 1), ("s16", 2), ("u32", 4), ("s32", 4), ("b64", 8)],
            ),
        };
        let &(ty, bytes) = self.rng.pick(types);
        let (space, address) = self.slot(bytes);
        let (value, guard) = (self.register(class), self.guard());
        let volatile = if space == ".global" && self.rng.one_in(8) {
            ".volatile"
        } else {
            ""
        };
        self.line(format!(
            "{guard}ld{volatile}{space}.{ty} {value}, {address};"
        ));
    }

    fn store_and_load_vector(&mut self) {
        let (class, ty, count, bytes) = *self.rng.pick(&[
            (Class::B32, "u32", 2, 8),
            (Class::B32, "b32", 4, 16),
            (Class::B64, "u64", 2, 16),
            (Class::B16, "u16", 4, 8),
        ]);
        let list = |it: &mut Self| -> String {
            let names: Vec<String> = (0..count).map(|_| it.register(class)).collect();
            names.join(", ")
        };
        let (space, address) = self.slot(bytes);
        let values = list(self);
        self.line(format!("st{space}.v{count}.{ty} {address}, {{{values}}};"));
        // The registers of a vector that is loaded differ from one another.
        let first = self.rng.below(self.counts[class as usize]);
        let names: Vec<String> = (0..count)
            .map(|at| {
                let number = (first + at) % self.counts[class as usize];
                format!("{}{number}", class.prefix())
            })
            .collect();
        let (space, address) = self.slot(bytes);
        self.line(format!(
            "ld{space}.v{count}.{ty} {{{}}}, {address};",
            names.join(", ")
        ));
    }

    fn floating_slot(&mut self) {
        let (class, ty, first, bytes) = *self
            .rng
            .pick(&[(Class::F32, "f32", 32, 4), (Class::F64, "f64", 48, 8)]);
        let at = first + bytes * self.rng.below(16 / bytes);
        let (space, base) = *self
            .rng
            .pick(&[(".global", "%scratch"), (".local", "depot")]);
        let register = self.register(class);
        match self.rng.below(3) {
            0 => self.line(format!("st{space}.{ty} [{base}+{at}], {register};")),
            1 if space == ".global" => {
                let operand = self.register(class);
                self.line(format!(
                    "atom.global.add.{ty} {register}, [{base}+{at}], {operand};"
                ));
            }
            _ => self.line(format!("ld{space}.{ty} {register}, [{base}+{at}];")),
        }
    }

    /// A slot chosen by a value.
    fn indexed(&mut self) {
        let (index, register) = (self.temporary(Class::B32), self.register(Class::B32));
        let address = self.temporary(Class::B64);
        let (space, base) = *self
            .rng
            .pick(&[(".global", "%scratch"), (".local", "depot")]);
        let value = self.register(Class::B32);
        self.line(format!("and.b32 {index}, {register}, 7;"));
        self.line(format!("mov.u64 {address}, {base};"));
        self.line(format!("mad.wide.u32 {address}, {index}, 4, {address};"));
        if self.rng.one_in(2) {
            self.line(format!("st{space}.u32 [{address}], {value};"));
        } else {
            self.line(format!("ld{space}.u32 {value}, [{address}];"));
        }
    }

    fn reduction(&mut self) {
        let &(operation, class, at) = self.rng.pick(&REDUCTIONS);
        let (value, guard) = (self.register(class), self.guard());
        self.line(format!(
            "{guard}red.global.{operation} [%sums+{at}], {value};"
        ));
    }

    /// An atomic on the thread's own slot, so that the old value is known.
    fn atomic(&mut self) {
        let (space, base) = *self
            .rng
            .pick(&[(".global", "%scratch"), (".shared", "%own")]);
        let (operation, class) = *self.rng.pick(&[
            ("add.u32", Class::B32),
            ("min.s32", Class::B32),
            ("max.u32", Class::B32),
            ("and.b32", Class::B32),
            ("or.b32", Class::B32),
            ("xor.b32", Class::B32),
            ("exch.b32", Class::B32),
            ("inc.u32", Class::B32),
            ("dec.u32", Class::B32),
            ("cas.b32", Class::B32),
            ("add.u64", Class::B64),
            ("max.s64", Class::B64),
            ("min.u64", Class::B64),
            ("exch.b64", Class::B64),
            ("cas.b64", Class::B64),
        ]);
        let bytes = class.bits() as usize / 8;
        let at = self.rng.below(16 / bytes) * bytes;
        let (old, value) = (self.register(class), self.register(class));
        let swap = if operation.starts_with("cas") {
            format!(", {}", self.register(class))
        } else {
            String::new()
        };
        self.line(format!(
            "atom{space}.{operation} {old}, [{base}+{at}], {value}{swap};"
        ));
    }

    /// Every thread of the CTA leaves a value and takes another's.
    fn exchange(&mut self) {
        let (value, result) = (self.register(Class::B64), self.register(Class::B64));
        let (other, distance) = (self.temporary(Class::B32), 1 + self.rng.below(63));
        self.line(format!("st.shared.u64 [%own], {value};"));
        self.line("bar.sync 0;");
        self.line(format!("add.u32 {other}, %tid32, {distance};"));
        self.line(format!("and.b32 {other}, {other}, 63;"));
        self.line(format!("shl.b32 {other}, {other}, 4;"));
        let address = self.temporary(Class::B32);
        self.line(format!("mov.u32 {address}, exchange;"));
        self.line(format!("add.u32 {address}, {address}, {other};"));
        self.line(format!("ld.shared.u64 {result}, [{address}];"));
        self.line("bar.sync 0;");
    }
}
