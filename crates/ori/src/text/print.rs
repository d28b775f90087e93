//! From function to text.
//!
//! Everything is pushed onto one string; nothing goes through the formatting machinery, which would be most of the time.

use super::mnemonic;
use crate::entity::{Block, Edge, Inst, Symbol};
use crate::function::{Function, FunctionKind, SharedSpills};
use crate::instruction::Opcode;
use crate::operand::{Address, Operand, SourceMods, SymbolPart};
use crate::operation::{Arity, Slot};
use crate::register::{PhysReg, Reg, RegKind, Type};
use orias_sass as sass;

/// The text form of a function.
pub fn print_function(func: &Function) -> String {
    let mut out = String::with_capacity(64 + 48 * func.inst_count());
    Printer {
        func,
        out: &mut out,
    }
    .function();
    out
}

/// The text form of one instruction, without the line's indentation.
pub fn print_inst(func: &Function, inst: Inst) -> String {
    let mut out = String::new();
    Printer {
        func,
        out: &mut out,
    }
    .inst(inst);
    out
}

/// Whether a name can be written without quotation marks.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
}

struct Printer<'a> {
    func: &'a Function,
    out: &'a mut String,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn decimal(&mut self, mut number: u64) {
        if number < 10 {
            self.out.push((b'0' + number as u8) as char);
            return;
        }
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        // Digits are ASCII: the check cannot fail.
        self.out
            .push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
    }

    fn hex(&mut self, number: u64) {
        self.text("0x");
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            let digit = (number >> (4 * place) & 0xf) as u8;
            let letter = if digit < 10 {
                b'0' + digit
            } else {
                b'a' + digit - 10
            };
            self.out.push(letter as char);
        }
    }

    fn name(&mut self, name: &str) {
        if is_plain_name(name) {
            return self.text(name);
        }
        self.out.push('"');
        for c in name.chars() {
            match c {
                '\n' => self.text("\\n"),
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    fn ty(&mut self, ty: Type) {
        self.text(ty.class().type_name());
        if ty.len() > 1 {
            self.out.push('x');
            self.decimal(u64::from(ty.len()));
        }
    }

    fn function(&mut self) {
        let func = self.func;
        self.text(match func.kind {
            FunctionKind::Entry => "entry ",
            FunctionKind::Device => "func ",
        });
        self.name(&func.name);
        self.out.push(' ');
        self.text(func.level.name());
        self.out.push(' ');
        self.name(func.target.name());
        for (index, &ty) in func.results.iter().enumerate() {
            self.text(if index == 0 { " -> " } else { ", " });
            self.ty(ty);
        }
        self.text(" {\n");
        self.header();
        for block in func.blocks() {
            self.block(block);
        }
        self.text("}\n");
    }

    fn header(&mut self) {
        let attributes = &self.func.attributes;
        let numbers = [
            ("shared", attributes.shared),
            ("local", attributes.local),
            ("local_align", attributes.local_align),
            ("min_blocks", attributes.min_blocks),
            ("max_registers", attributes.max_registers),
            ("barriers", attributes.barriers),
        ];
        for (name, number) in numbers {
            if number != 0 {
                self.attribute(name, &[number]);
            }
        }
        for (name, numbers) in [
            ("max_threads", attributes.max_threads),
            ("cluster", attributes.cluster),
        ] {
            if numbers != [0; 3] {
                self.attribute(name, &numbers);
            }
        }
        if attributes.required_threads {
            self.attribute("required_threads", &[]);
        }
        if attributes.override_registers {
            self.attribute("override_registers", &[]);
        }
        if attributes.relocatable {
            self.attribute("relocatable", &[]);
        }
        match attributes.shared_spills {
            SharedSpills::No => {}
            SharedSpills::Wanted => self.attribute("shared_spills", &[]),
            SharedSpills::From(reg, start) => {
                self.text("  spilled_from ");
                self.phys(reg);
                self.out.push(' ');
                self.decimal(u64::from(start));
                self.out.push('\n');
            }
        }
        for &reg in &attributes.fixed {
            self.text("  fixed ");
            self.phys(reg);
            self.out.push('\n');
        }
        for &header in &attributes.rolled {
            self.text("  rolled block");
            self.decimal(u64::from(header.as_u32()));
            self.out.push('\n');
        }
        // What is said of blocks that are gone has no use.
        let there = |block: &Block| self.func.layout.contains_block(*block);
        for &block in attributes.rare.iter().filter(|it| there(it)) {
            self.text("  rare block");
            self.decimal(u64::from(block.as_u32()));
            self.out.push('\n');
        }
        for (&block, &times) in attributes.frequencies.iter().filter(|it| there(it.0)) {
            self.text("  frequency block");
            self.decimal(u64::from(block.as_u32()));
            self.out.push(' ');
            self.decimal(times);
            self.out.push('\n');
        }
        for (name, &bytes) in &attributes.aligned {
            self.text("  aligned &");
            self.name(name);
            self.out.push(' ');
            self.decimal(u64::from(bytes));
            self.out.push('\n');
        }
        for param in &self.func.kernel_params {
            self.attribute("param", &[param.offset, param.size]);
        }
        for (span, location) in &self.func.locations {
            self.text("  loc #");
            self.decimal(u64::from(span.as_u32()));
            self.text(" = ");
            self.decimal(u64::from(location.file));
            self.out.push(':');
            self.decimal(u64::from(location.line));
            self.out.push(':');
            self.decimal(u64::from(location.column));
            if let Some(outer) = location.inlined_at.expand() {
                self.text(" inlined #");
                self.decimal(u64::from(outer.as_u32()));
            }
            if let Some(function) = location.function {
                self.text(" function ");
                self.decimal(u64::from(function));
            }
            if location.ptx != 0 {
                self.text(" ptx ");
                self.decimal(u64::from(location.ptx));
            }
            if let Some(register) = location.register {
                self.text(" register ");
                self.decimal(u64::from(register));
            }
            self.out.push('\n');
        }
    }

    fn attribute(&mut self, name: &str, numbers: &[u32]) {
        self.text("  ");
        self.text(name);
        for &number in numbers {
            self.out.push(' ');
            self.decimal(u64::from(number));
        }
        self.out.push('\n');
    }

    fn block_name(&mut self, block: Block) {
        self.text("block");
        self.decimal(u64::from(block.as_u32()));
    }

    fn block(&mut self, block: Block) {
        self.block_name(block);
        let params = self.func.block_params(block);
        for (index, &value) in params.iter().enumerate() {
            self.text(if index == 0 { "(" } else { ", " });
            self.definition(value.into());
        }
        self.text(if params.is_empty() { ":\n" } else { "):\n" });
        for inst in self.func.block_insts(block) {
            self.text("    ");
            self.inst(inst);
            self.out.push('\n');
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = self.func.inst(inst);
        if data.control.is_some() {
            data.control.write(self.out);
            self.out.push(' ');
        }
        if let Some(reg) = data.guard.reg() {
            self.text(if data.guard.is_negated() { "@!" } else { "@" });
            self.reg(reg);
            self.out.push(' ');
        }
        let mut edges_in_place = 0;
        let mut kept = Kept::new(self.func, inst);
        match data.operation.opcode() {
            Opcode::Abstract(op) => {
                let (results, sources) = self.func.operands(inst).split_at(data.results.into());
                let results = without_omitted(results, op.row().results);
                let sources = without_omitted(sources, op.row().operands);
                for (index, &operand) in results.iter().enumerate() {
                    if index > 0 {
                        self.text(", ");
                    }
                    self.defined(operand, kept.next(index));
                }
                if !results.is_empty() {
                    self.text(" = ");
                }
                mnemonic::print(self.out, data.operation);
                for (index, &operand) in sources.iter().enumerate() {
                    self.text(if index == 0 { " " } else { ", " });
                    self.source(operand, &[]);
                }
            }
            Opcode::Machine(op) => {
                if data.strong {
                    self.out.push('!');
                }
                mnemonic::print(self.out, data.operation);
                for (index, &operand) in self.func.operands(inst).iter().enumerate() {
                    self.text(if index == 0 { " " } else { ", " });
                    if self.func.is_def(inst, index) {
                        self.defined(operand, kept.next(index));
                    } else if let Operand::Edge(number) = operand {
                        edges_in_place += 1;
                        match self.func.edges(inst).get(number as usize) {
                            Some(&edge) => self.edge(edge),
                            None => self.text("_"),
                        }
                    } else {
                        let selects = op
                            .row()
                            .slots
                            .get(index)
                            .map_or(&[][..], |slot| slot.selects);
                        self.source(operand, selects);
                    }
                }
            }
        }
        let edges = self.func.edges(inst);
        for (index, &edge) in edges.iter().skip(edges_in_place).enumerate() {
            self.text(if index == 0 { " -> " } else { ", " });
            self.edge(edge);
        }
        self.implicit(" uses(", self.func.implicit_uses(inst), false);
        self.implicit(" defs(", self.func.implicit_defs(inst), true);
        if let Some(span) = data.span.expand() {
            self.text("  #");
            self.decimal(u64::from(span.as_u32()));
        }
    }

    fn implicit(&mut self, open: &str, operands: &[Operand], defined: bool) {
        for (index, &operand) in operands.iter().enumerate() {
            self.text(if index == 0 { open } else { ", " });
            if defined {
                self.defined(operand, None);
            } else {
                self.source(operand, &[]);
            }
        }
        if !operands.is_empty() {
            self.out.push(')');
        }
    }

    fn phys(&mut self, reg: PhysReg) {
        if reg.is_constant() {
            return self.text(reg.class().constant_name());
        }
        self.text(reg.class().name());
        self.decimal(u64::from(reg.index()));
        if reg.len() > 1 {
            self.text("..");
            self.text(reg.class().name());
            self.decimal(u64::from(reg.index()) + u64::from(reg.len()) - 1);
        }
    }

    fn reg(&mut self, reg: Reg) {
        match reg.kind() {
            RegKind::Value(value) => {
                self.out.push('v');
                self.decimal(u64::from(value.as_u32()));
            }
            RegKind::Phys(reg) => self.phys(reg),
        }
    }

    fn definition(&mut self, reg: Reg) {
        self.reg(reg);
        if let RegKind::Value(value) = reg.kind() {
            self.out.push(':');
            self.ty(self.func.value_type(value));
        }
    }

    /// An operand in a place that defines, with the value it keeps.
    fn defined(&mut self, operand: Operand, kept: Option<Operand>) {
        match operand {
            Operand::Reg { reg, .. } => self.definition(reg),
            other => self.source(other, &[]),
        }
        if let Some(kept) = kept {
            self.out.push('~');
            self.source(kept, &[]);
        }
    }

    fn edge(&mut self, edge: Edge) {
        self.block_name(self.func.edge_target(edge));
        let args = self.func.edge_args(edge);
        for (index, &value) in args.iter().enumerate() {
            self.text(if index == 0 { "(" } else { ", " });
            self.reg(value.into());
        }
        if !args.is_empty() {
            self.out.push(')');
        }
    }

    fn source(&mut self, operand: Operand, selects: &[Option<&str>]) {
        let mods = operand.mods();
        if !mods.is_empty() {
            return self.modified(operand, mods, selects);
        }
        self.plain(operand);
    }

    fn modified(&mut self, operand: Operand, mods: SourceMods, selects: &[Option<&str>]) {
        if mods.contains(SourceMods::NEGATE) {
            self.out.push('-');
        }
        if mods.contains(SourceMods::NOT) {
            self.out.push('!');
        }
        let absolute = mods.contains(SourceMods::ABSOLUTE);
        if absolute {
            self.out.push('|');
        }
        self.plain(operand);
        if mods.select() != 0 {
            self.out.push('.');
            match selects.get(usize::from(mods.select())) {
                Some(Some(name)) => self.text(name),
                _ => {
                    self.out.push('#');
                    self.decimal(u64::from(mods.select()));
                }
            }
        }
        if absolute {
            self.out.push('|');
        }
        if mods.contains(SourceMods::REUSE) {
            self.text(".reuse");
        }
    }

    /// An operand without its source modifiers.
    fn plain(&mut self, operand: Operand) {
        match operand {
            Operand::None | Operand::Edge(_) => self.out.push('_'),
            Operand::Reg { reg, .. } => self.reg(reg),
            Operand::Imm(imm) => self.immediate(imm.bits()),
            Operand::Const {
                bank,
                offset,
                index,
                ..
            } => {
                self.text("c[");
                self.hex(u64::from(bank));
                self.text("][");
                match index.get() {
                    Some(reg) => {
                        self.reg(reg);
                        self.offset(offset);
                    }
                    None => self.bare_offset(offset),
                }
                self.out.push(']');
            }
            Operand::Bindless {
                descriptor, offset, ..
            } => {
                self.text("cx[");
                self.reg(descriptor);
                self.text("][");
                self.bare_offset(offset);
                self.out.push(']');
            }
            Operand::Address(id) => self.address(self.func.address(id)),
            Operand::Descriptor(reg) => {
                self.text("gdesc[");
                self.reg(reg);
                self.out.push(']');
            }
            Operand::Special(number) => {
                match sass::special::name(number).filter(|name| name.starts_with("SR")) {
                    Some(name) => self.text(name),
                    None => {
                        self.text("SR");
                        self.decimal(u64::from(number));
                    }
                }
            }
            Operand::Symbol {
                symbol,
                part,
                addend,
            } => {
                let (open, close) = match part {
                    SymbolPart::Whole => ("", ""),
                    SymbolPart::Low => ("lo(", ")"),
                    SymbolPart::High => ("hi(", ")"),
                };
                self.text(open);
                self.symbol(symbol);
                self.offset(addend);
                self.text(close);
            }
            Operand::Block(block) => self.block_name(block),
        }
    }

    fn symbol(&mut self, symbol: Symbol) {
        self.out.push('&');
        self.name(self.func.symbol_name(symbol));
    }

    /// Small numbers in decimal, near-zero negative ones with a sign, patterns in hexadecimal.
    fn immediate(&mut self, bits: u64) {
        const SMALL: u64 = 10_000;
        if bits < SMALL {
            self.decimal(bits);
        } else if bits.wrapping_neg() < SMALL {
            self.out.push('-');
            self.decimal(bits.wrapping_neg());
        } else {
            self.hex(bits);
        }
    }

    /// `+0x10`, `-0x10`, or nothing for zero.
    fn offset(&mut self, offset: i32) {
        if offset != 0 {
            self.out.push(if offset < 0 { '-' } else { '+' });
            self.hex(u64::from(offset.unsigned_abs()));
        }
    }

    fn bare_offset(&mut self, offset: i32) {
        if offset < 0 {
            self.out.push('-');
        }
        self.hex(u64::from(offset.unsigned_abs()));
    }

    fn address(&mut self, address: &Address) {
        if let Some(descriptor) = address.descriptor.get() {
            self.text("desc[");
            self.reg(descriptor);
            self.out.push(']');
        }
        self.out.push('[');
        let mut empty = true;
        if let Some(base) = address.base.get() {
            self.reg(base);
            self.text(address.form.suffix());
            empty = false;
        }
        if let Some(uniform) = address.uniform.get() {
            self.text(if empty { "" } else { "+" });
            self.reg(uniform);
            empty = false;
        }
        if let Some(symbol) = address.symbol.expand() {
            self.text(if empty { "" } else { "+" });
            self.symbol(symbol);
            empty = false;
        }
        if empty {
            self.bare_offset(address.offset);
        } else {
            self.offset(address.offset);
        }
        self.out.push(']');
    }
}

/// Drops what the text form leaves out: places at the end that may be empty and are.
fn without_omitted<'a>(operands: &'a [Operand], slots: &[Slot]) -> &'a [Operand] {
    let mut len = operands.len();
    if len != slots.len() {
        return operands;
    }
    while len > 0 && operands[len - 1] == Operand::None && slots[len - 1].arity == Arity::Optional {
        len -= 1;
    }
    &operands[..len]
}

/// Deals out the kept values to the definitions they belong to.
struct Kept<'a> {
    func: &'a Function,
    inst: Inst,
    taken: usize,
    /// Whether some definition needs a kept value; if not, kept values that are there all the same go to the first ones.
    needed: bool,
}

impl Kept<'_> {
    fn new(func: &Function, inst: Inst) -> Kept<'_> {
        Kept {
            func,
            inst,
            taken: 0,
            needed: !func.kept(inst).is_empty() && func.kept_places(inst).next().is_some(),
        }
    }

    /// The value kept by the definition at `index`.
    fn next(&mut self, index: usize) -> Option<Operand> {
        let kept = *self.func.kept(self.inst).get(self.taken)?;
        self.func.operands(self.inst)[index].as_value()?;
        if self.needed && !self.func.keeps(self.inst, index) {
            return None;
        }
        self.taken += 1;
        Some(kept)
    }
}
