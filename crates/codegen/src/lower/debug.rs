//! Code that a debugger can follow: registers of the source are found where they are looked for.
//!
//! DWARF names PTX registers, by the letters of their names as a number (`DW_OP_regx`). Whoever lays out the code says where they lie. Two
//! things are done for it here. What an instruction gives a register is copied once more by a `name` operation, whose
//! location says which register that is: where the copy lies, the register lies. And a register that holds a variable is read by one more
//! `name` where control leaves the range in which it does, so that it lives as long as the variable.
//!
//! Ranges come from `.debug_loc`, which gives two labels each. Of a location in `.debug_info` the range is the function whose labels stand
//! before it: scopes are not told apart, so a variable may live longer than its scope. Nothing else of DWARF is read. At a label that is
//! branched to, a register that holds a variable and is written in several places is named again, as it may lie elsewhere from
//! there on.
//!
//! Cost: linear in the code and the sections, and a `name` for each watched register at each branch out of its range and, if several
//! instructions write it, each label in it.

use super::body::{Body, Lowered};
use super::lines::Lines;
use crate::module::{DebugRecord, SourceRegister};
use crate::ssa::Variable;
use orias_ori::operation::{AbstractOp, Scalar};
use orias_ori::{Guard, Operand, Span, Type, Value};
use orias_ptx::ast::{
    self, FunctionId, LabelId, OperandKind, RegisterId, Section, SectionTerm, Statement,
};
use orias_ptx::grammar::Op;
use orias_ptx::name::Name;
use rustc_hash::FxHashMap;

/// Reads a register whose number follows.
const DW_OP_REGX: u8 = 0x90;

/// Where a register holds a variable: from one statement of its function to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watch {
    register: RegisterId,
    from: usize,
    to: usize,
}

/// The watched registers of a module, by function.
#[derive(Default)]
pub(super) struct Watches(FxHashMap<FunctionId, Vec<Watch>>);

/// Where a label of code stands: its function, and the number of the statement there.
type Places = FxHashMap<Name, (FunctionId, usize)>;

impl Watches {
    /// Those that the sections of a module ask for.
    pub fn of(module: &orias_ptx::Module<'_>) -> Watches {
        let mut places = Places::default();
        for (number, function) in module.functions.iter().enumerate() {
            let Some(body) = &function.body else { continue };
            for (at, statement) in body.statements.iter().enumerate() {
                if let Statement::Label(label) = *statement {
                    let name = body.labels[label.index()].name;
                    let id = FunctionId(number as u32);
                    places.entry(name).or_insert((id, at));
                }
            }
        }
        let mut watches = Watches::default();
        for section in &module.sections {
            match &*module.text(section.name) {
                ".debug_info" => watches.of_functions(module, section, &places),
                ".debug_loc" => watches.of_ranges(module, section, &places),
                _ => {}
            }
        }
        for list in watches.0.values_mut() {
            list.sort_by_key(|watch| (watch.from, watch.to, watch.register));
            list.dedup();
        }
        watches
    }

    fn of_functions(&mut self, module: &orias_ptx::Module<'_>, section: &Section, places: &Places) {
        let mut labels = section.references.iter().filter_map(|reference| {
            let (function, _) = places.get(&reference.name)?;
            Some((reference.offset as usize, *function))
        });
        let mut next = labels.next();
        let mut function = None;
        for at in 0..section.bytes.len() {
            while let Some((offset, of)) = next.filter(|(offset, _)| *offset <= at) {
                let _ = offset;
                function = Some(of);
                next = labels.next();
            }
            if let (Some(id), Some(name)) = (function, register_at(&section.bytes[at..])) {
                let body = module.function(id).body.as_ref();
                let end = body.map_or(0, |body| body.statements.len());
                self.add(module, id, &name, 0, end);
            }
        }
    }

    fn of_ranges(&mut self, module: &orias_ptx::Module<'_>, section: &Section, places: &Places) {
        for pair in section.references.windows(2) {
            let [from, to] = pair else { continue };
            let plain = |and| matches!(and, SectionTerm::Plus(_));
            if to.offset != from.offset + 8 || !plain(from.and) || !plain(to.and) {
                continue;
            }
            let (Some(&(id, from)), Some(&(end_id, end))) =
                (places.get(&from.name), places.get(&to.name))
            else {
                continue;
            };
            let start = to.offset as usize + 8;
            let Some(&[low, high]) = section.bytes.get(start..start + 2) else {
                continue;
            };
            let length = usize::from(u16::from_le_bytes([low, high]));
            let expression = section.bytes.get(start + 2..start + 2 + length);
            for at in 0..expression.map_or(0, <[u8]>::len) {
                if let Some(name) = expression.and_then(|bytes| register_at(&bytes[at..]))
                    && id == end_id
                {
                    self.add(module, id, &name, from, end);
                }
            }
        }
    }

    fn add(
        &mut self,
        module: &orias_ptx::Module<'_>,
        id: FunctionId,
        name: &str,
        from: usize,
        to: usize,
    ) {
        let Some(body) = &module.function(id).body else {
            return;
        };
        let list = self.0.entry(id).or_default();
        for (number, register) in body.registers.iter().enumerate() {
            if module.name(register.name) == name && register.vector <= 1 {
                list.push(Watch {
                    register: RegisterId(number as u32),
                    from,
                    to,
                });
            }
        }
    }
}

/// The name of the register that the expression at the start of `bytes` reads.
fn register_at(bytes: &[u8]) -> Option<String> {
    let (&op, rest) = bytes.split_first()?;
    if op != DW_OP_REGX {
        return None;
    }
    let mut number = 0_u128;
    for (digit, &byte) in rest.iter().enumerate() {
        number |= u128::from(byte & 0x7f).checked_shl(7 * digit as u32)?;
        if byte < 0x80 {
            let letters = number.to_be_bytes();
            let letters = letters.iter().skip_while(|letter| **letter == 0);
            let name: String = letters.map(|&letter| char::from(letter)).collect();
            let known = name.starts_with('%') && name.bytes().all(|byte| byte.is_ascii_graphic());
            return known.then_some(name);
        }
        if digit >= 17 {
            return None;
        }
    }
    None
}

/// What is gathered while a function is lowered for debuggers.
pub(super) struct Debugging {
    record: DebugRecord,
    /// The first number of each component of a register.
    numbers: FxHashMap<(RegisterId, u8), u32>,
    /// Registers that the instruction at hand has written.
    written: Vec<(RegisterId, u8)>,
    watches: Vec<Watch>,
    /// How many of `watches` have begun.
    begun: usize,
    active: Vec<Watch>,
    /// By register: whether more than one instruction writes it.
    several: Vec<bool>,
    /// By label: where it stands.
    labels: Vec<usize>,
}

impl Debugging {
    pub fn new(
        module: &orias_ptx::Module<'_>,
        id: FunctionId,
        lines: &Lines<'_>,
        watches: &Watches,
    ) -> Option<Debugging> {
        let body = module.function(id).body.as_ref()?;
        let mut writers = vec![0_u8; body.registers.len()];
        for instruction in &body.instructions {
            for operand in body.operands(instruction).iter().take(2) {
                if let OperandKind::Register(register) = operand.kind {
                    let count = &mut writers[register.index()];
                    *count = count.saturating_add(1);
                }
            }
        }
        let mut labels = vec![0; body.labels.len()];
        for (at, statement) in body.statements.iter().enumerate() {
            if let Statement::Label(label) = *statement {
                labels[label.index()] = at;
            }
        }
        let record = DebugRecord {
            labels: (body.labels.iter())
                .map(|label| {
                    let line = lines.line_of(label.span.start, &mut 0);
                    (module.name(label.name).to_owned(), line)
                })
                .collect(),
            ..DebugRecord::default()
        };
        Some(Debugging {
            record,
            numbers: FxHashMap::default(),
            written: Vec::new(),
            watches: watches.0.get(&id).cloned().unwrap_or_default(),
            begun: 0,
            active: Vec::new(),
            several: writers.into_iter().map(|count| count > 1).collect(),
            labels,
        })
    }

    /// What was gathered.
    pub fn into_record(self) -> DebugRecord {
        self.record
    }

    /// Takes the place of a variable in the frame.
    pub fn place(&mut self, name: &str, offset: u32) {
        self.record.locals.push((name.to_owned(), offset));
    }

    /// The number of a component of a register, the first of its words'.
    fn number(
        &mut self,
        module: &orias_ptx::Module<'_>,
        body: &ast::Body,
        register: RegisterId,
        component: u8,
        words: u8,
    ) -> u32 {
        let record = &mut self.record;
        *self
            .numbers
            .entry((register, component))
            .or_insert_with(|| {
                let first = record.registers.len() as u32;
                let of = &body.registers[register.index()];
                for word in 0..words {
                    record.registers.push(SourceRegister {
                        name: module.name(of.name).to_owned(),
                        ty: of.ty,
                        vector: of.vector.max(1),
                        word: component * words + word,
                    });
                }
                first
            })
    }

    /// Whether `register` is watched where a branch to `target` leaves what it is watched for.
    fn left(&self, watch: &Watch, target: Option<LabelId>) -> bool {
        target.is_none_or(|label| {
            let at = self.labels[label.index()];
            at < watch.from || at >= watch.to
        })
    }
}

impl<'m> Body<'m, '_> {
    /// Whether what is lowered now is the function itself, and a debugger is to follow it.
    fn is_debugged(&self) -> bool {
        self.debugging.is_some() && self.frames.len() == 1
    }

    /// Takes note of a variable that was given a value.
    pub fn note_written(&mut self, variable: Variable) {
        if !self.is_debugged() {
            return;
        }
        let Some(frame) = self.frames.last() else {
            return;
        };
        if let (Some(of), Some(debugging)) = (frame.register_of(variable), &mut self.debugging)
            && !debugging.written.contains(&of)
        {
            debugging.written.push(of);
        }
    }

    /// Names the registers that were written since the last time.
    pub fn name_written(&mut self) -> Lowered {
        let Some(debugging) = &mut self.debugging else {
            return Ok(());
        };
        let written = std::mem::take(&mut debugging.written);
        for (register, component) in written {
            self.name_register(register, component)?;
        }
        // Naming writes, too.
        if let Some(debugging) = &mut self.debugging {
            debugging.written.clear();
        }
        Ok(())
    }

    /// Comes to the statement of that number.
    pub fn come_to(&mut self, at: usize) -> Lowered {
        if !self.is_debugged() {
            return Ok(());
        }
        let Some(debugging) = &mut self.debugging else {
            return Ok(());
        };
        let ended: Vec<Watch> = (debugging.active.iter().copied())
            .filter(|watch| watch.to <= at)
            .collect();
        debugging.active.retain(|watch| watch.to > at);
        while let Some(&watch) = debugging.watches.get(debugging.begun)
            && watch.from <= at
        {
            debugging.begun += 1;
            if watch.to > at {
                debugging.active.push(watch);
            }
        }
        for watch in ended {
            self.name_register(watch.register, 0)?;
        }
        Ok(())
    }

    /// Comes to a label that something branches to.
    pub fn name_merged(&mut self) -> Lowered {
        if !self.is_debugged() {
            return Ok(());
        }
        let Some(debugging) = &self.debugging else {
            return Ok(());
        };
        let merged = debugging.active.iter().map(|watch| watch.register);
        let merged = merged.filter(|register| debugging.several[register.index()]);
        for register in merged.collect::<Vec<_>>() {
            self.name_register(register, 0)?;
        }
        Ok(())
    }

    /// Comes to an instruction that may go elsewhere: what it leaves the range of lives until here.
    pub fn name_left(&mut self, op: Op, operands: &[ast::Operand]) -> Lowered {
        if !self.is_debugged() {
            return Ok(());
        }
        let target = match op {
            Op::Bra => match operands.first().map(|operand| operand.kind) {
                Some(OperandKind::Label(label)) => Some(label),
                _ => None,
            },
            Op::BrxIdx | Op::Ret | Op::Exit | Op::Trap => None,
            _ => return Ok(()),
        };
        let Some(debugging) = &self.debugging else {
            return Ok(());
        };
        let watches = debugging.active.iter();
        let left = watches.filter(|watch| debugging.left(watch, target));
        for register in left.map(|watch| watch.register).collect::<Vec<_>>() {
            self.name_register(register, 0)?;
        }
        Ok(())
    }

    /// Says that what a register has now is what it has.
    fn name_register(&mut self, register: RegisterId, component: u8) -> Lowered {
        if self.block.is_none() {
            return Ok(());
        }
        let (Some(body), module) = (self.frames.last().map(|frame| frame.body), self.module) else {
            return Ok(());
        };
        let variable = self.variable(register, component);
        let value = self.read(variable);
        let ty = self.ssa.ty(variable);
        let words = if ty == Type::P { 1 } else { ty.len() };
        let Some(debugging) = &mut self.debugging else {
            return Ok(());
        };
        let first = debugging.number(module, body, register, component, words);
        let named = if ty == Type::P {
            self.name_value(Scalar::Pred, value, first)?
        } else {
            let parts = self.with(|emit| emit.words(value))?;
            let mut named = Vec::with_capacity(parts.len());
            for (number, part) in (first..).zip(parts) {
                named.push(self.name_value(Scalar::B32, part, number)?);
            }
            match named[..] {
                [one] => one,
                _ => self.with(|emit| emit.collect(&named))?,
            }
        };
        self.set(variable, named);
        Ok(())
    }

    fn name_value(&mut self, scalar: Scalar, value: Value, number: u32) -> Lowered<Value> {
        let span = self.named_span(number);
        let ty = self.func.value_type(value);
        let named = self.func.create_value(ty);
        let results = [Operand::from(named)];
        let at = self.at.span.replace(span);
        let put = self.with(|emit| {
            let operands = [value.into()];
            let mods = (scalar,);
            emit.put(
                AbstractOp::Name,
                mods,
                &results,
                &operands,
                Guard::ALWAYS,
                &[],
            )
        });
        self.at.span = at;
        put.map(|_| named)
    }

    /// The place that lowering is at, with the number of a register.
    fn named_span(&mut self, number: u32) -> Span {
        let location = self.at.location(&self.func);
        self.func.locations.push(orias_ori::Location {
            register: Some(number),
            ..location
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_with_a_variable_lives_until_the_function_ends() {
        let source = b".version 8.0\n.target sm_90a, debug\n.address_size 64\n
            .visible .entry k(.param .u64 p) {
                .reg .b64 %rd<2>; .reg .f32 %f<3>;
            $begin:
                ld.param.u64 %rd1, [p];
                mov.f32 %f1, 0f3F800000;
                st.global.f32 [%rd1], %f1;
                mov.f32 %f2, 0f40000000;
                ret;
            }
            .section .debug_info { .b64 $begin\n .b8 144, 177, 204, 149, 1 }";
        let (ptx, said) = orias_ptx::parse(source);
        assert!(!said.has_errors(), "{said:?}");
        let options = crate::lower::LowerOptions {
            debug: true,
            ptx_lines: Some(0),
            ..crate::lower::LowerOptions::default()
        };
        let module = crate::lower::lower(&ptx, &options).unwrap_or_else(|_| panic!("not lowered"));
        let text = orias_ori::print_function(&module.kernels[0].code);
        // Two words of %rd1, %f1 where it is written and at the end, %f2.
        assert_eq!(text.matches("= name.").count(), 5, "{text}");
    }

    #[test]
    fn a_register_is_known_by_the_letters_of_its_name() {
        let name = |bytes: &[u8]| register_at(bytes);
        assert_eq!(name(&[144, 177, 204, 149, 1]).as_deref(), Some("%f1"));
        assert_eq!(name(&[144, 183, 226, 152, 171, 2]).as_deref(), Some("%f17"));
        assert_eq!(name(&[144, 177, 204]), None);
        assert_eq!(name(&[144, 5]), None);
        assert_eq!(name(&[145, 177, 204, 149, 1]), None);
        assert_eq!(name(&[144; 40]), None);
    }
}
