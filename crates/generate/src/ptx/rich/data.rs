//! Constant data, and reads of it through addresses that are data themselves.

use super::super::Writer;
use super::super::vocabulary::{Class, INTEGERS};
use orias_random::Rng;
use std::fmt::Write as _;

/// Words of a table.
const WORDS: usize = 32;
/// Addresses of a table of addresses; each points to at least sixteen words.
const ADDRESSES: usize = 4;

fn word(rng: &mut Rng) -> u32 {
    match rng.below(3) {
        0 => *rng.pick(INTEGERS) as u32,
        _ => {
            let length = rng.below(32);
            (rng.next_u64() as u32) >> length
        }
    }
}

fn words(rng: &mut Rng, count: usize) -> String {
    let all: Vec<String> = (0..count).map(|_| word(rng).to_string()).collect();
    all.join(", ")
}

/// The tables of a module.
///
/// `numbers` and `far_numbers` are words of constant and of global memory. `near` holds addresses of constant memory in constant memory,
/// `generics` generic ones in constant memory, `far` generic ones in global memory.
pub(super) fn tables(rng: &mut Rng) -> String {
    let mut text = String::new();
    for declared in [
        ".const .align 16 .b32 numbers",
        ".global .align 16 .b32 far_numbers",
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{declared}[{WORDS}] = {{{}}};", words(rng, WORDS));
    }
    let address = |rng: &mut Rng, name: &str| match rng.below(3) {
        0 => name.to_owned(),
        _ => format!("{name}+{}", 4 * rng.below(WORDS - 16)),
    };
    for (declared, generic) in [
        (".const .u64 near", false),
        (".const .u64 generics", true),
        (".global .u64 far", true),
    ] {
        let list: Vec<String> = (0..ADDRESSES)
            .map(|_| match (generic, rng.one_in(2)) {
                (false, _) => address(rng, "numbers"),
                (true, true) => address(rng, "generic(numbers)"),
                (true, false) => address(rng, "generic(far_numbers)"),
            })
            .collect();
        let _ = writeln!(text, "{declared}[{ADDRESSES}] = {{{}}};", list.join(", "));
    }
    text
}

/// A module of nothing but variables, and perhaps a function that nobody calls.
pub(super) fn without_kernels(rng: &mut Rng) -> String {
    let mut text = String::new();
    for number in 0..1 + rng.below(5) {
        let count = 1 + rng.below(12);
        let align = *rng.pick(&["", ".align 16 ", ".align 32 "]);
        let linkage = *rng.pick(&[".visible ", ".visible ", ".weak ", ""]);
        let name = format!("data{number}");
        let _ = match rng.below(6) {
            0 => writeln!(text, "{linkage}.global {align}.b32 {name}[{count}];"),
            1 => writeln!(
                text,
                "{linkage}.const {align}.b32 {name}[{count}] = {{{}}};",
                words(rng, count)
            ),
            2 => writeln!(
                text,
                "{linkage}.global {align}.u64 {name}[{count}] = {{{}}};",
                words(rng, count)
            ),
            3 => writeln!(
                text,
                "{linkage}.global {align}.v4 .u32 {name} = {{{}}};",
                words(rng, 4)
            ),
            4 => writeln!(
                text,
                "{linkage}.global {align}.f64 {name}[{}] = {{1.5, 0d3FF8000000000001}};",
                count + 1
            )
            .and_then(|()| {
                writeln!(
                    text,
                    ".visible .global .u64 to_{name}[1] = {{0x{:x}}};",
                    rng.next_u64()
                )
            }),
            _ => writeln!(
                text,
                "{linkage}.global {align}.b32 {name}[{count}] = {{{}}};",
                words(rng, count)
            ),
        };
    }
    if rng.one_in(3) {
        text += ".visible .func (.reg .b32 %o) unused(.reg .b32 %i)\n{\n    add.u32 %o, %i, 1;\n    ret;\n}\n";
    }
    text
}

impl Writer {
    /// Reads a word of constant data: by name, by an index, or through an address that is read first.
    pub(super) fn constant_data(&mut self) {
        self.note("constant data");
        let to = self.register(Class::B32);
        let (index, other) = (self.temporary(Class::B32), self.temporary(Class::B32));
        let address = self.temporary(Class::B64);
        let (a, b) = (self.register(Class::B32), self.register(Class::B32));
        match self.rng.below(6) {
            0 => {
                let at = 4 * self.rng.below(WORDS);
                self.line(format!("ld.const.b32 {to}, [numbers+{at}];"));
            }
            1 => {
                let (count, size) = *self.rng.pick(&[(2, 8), (4, 16)]);
                let at = size * self.rng.below(4 * WORDS / size);
                let first = self.rng.below(self.counts[Class::B32 as usize]);
                let names: Vec<String> = (0..count)
                    .map(|n| format!("%r{}", (first + n) % self.counts[Class::B32 as usize]))
                    .collect();
                self.line(format!(
                    "ld.const.v{count}.b32 {{{}}}, [numbers+{at}];",
                    names.join(", ")
                ));
            }
            2 => {
                self.line(format!("and.b32 {index}, {a}, {};", WORDS - 1));
                self.line(format!("mov.u64 {address}, numbers;"));
                self.line(format!("mad.wide.u32 {address}, {index}, 4, {address};"));
                self.line(format!("ld.const.b32 {to}, [{address}];"));
            }
            kind => {
                let (table, space, through) = match kind {
                    3 => ("near", ".const", ".const"),
                    4 => ("generics", ".const", ""),
                    _ => ("far", ".global", ""),
                };
                self.line(format!("and.b32 {index}, {a}, {};", ADDRESSES - 1));
                self.line(format!("mov.u64 {address}, {table};"));
                self.line(format!("mad.wide.u32 {address}, {index}, 8, {address};"));
                self.line(format!("ld{space}.u64 {address}, [{address}];"));
                self.line(format!("and.b32 {other}, {b}, 15;"));
                self.line(format!("mad.wide.u32 {address}, {other}, 4, {address};"));
                self.line(format!("ld{through}.b32 {to}, [{address}];"));
            }
        }
    }
}
