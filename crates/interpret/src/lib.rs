//! The interpreter of abstract Ori, test tooling: one thread of one function, on the CPU.
//!
//! **For:** tests. They run lowered PTX with it, and every expansion of phase 5 against the operation it stands for.
//!
//! **May know:** `ori`, and `codegen`, whose constant folding says what an operation computes.
//!
//! **Must never know:** the judges. Nothing that is handed out depends on it.
//!
//! What depends on other lanes is refused; barriers, fences and hints do nothing. Two things make it stricter than a machine: bits that the
//! IR calls unspecified (above a narrow result, in `undef`) are filled with a pattern that is no sensible number, and the approximate
//! functions, whose last bits no document fixes, come from the caller, who may make them as inaccurate as the chip could be.

mod memory;

pub use memory::Memory;
pub use orias_codegen::fold::Approximation;

use cranelift_entity::SecondaryMap;
use orias_codegen::fold::{Operands, UNSPECIFIED, narrow, reduce as fold_reduction};
use orias_ori::operation::{AbstractOp, Reduce, Scalar, Space, Special, Vector};
use orias_ori::{
    Block, Function, Imm, Inst, Opcode, Operand, Operation, SourceMods, Type, Value, print_inst,
};

/// What a run is given.
pub struct Run<'a> {
    /// Memory, read and written.
    pub memory: &'a mut Memory,
    /// What special registers hold.
    pub special: &'a dyn Fn(Special) -> u64,
    /// Where names are.
    pub symbol: &'a dyn Fn(&str) -> u64,
    /// The approximate functions.
    pub approximate: &'a dyn Fn(Approximation, u64) -> u64,
    /// The most instructions to run.
    pub limit: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The thread ended.
    Exit,
    /// The function returned these values.
    Return(Vec<u128>),
    /// The grid ended with an error.
    Trap,
}

/// Why a run could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{inst}: {why}")]
pub struct Stuck {
    /// The instruction, as the text form writes it.
    pub inst: String,
    /// What is wrong.
    pub why: String,
}

/// Runs `func` with the given values of its entry block's parameters.
pub fn run(func: &Function, arguments: &[u128], run: Run<'_>) -> Result<End, Stuck> {
    let mut thread = Thread {
        func,
        values: SecondaryMap::new(),
        run,
    };
    let Some(entry) = func.entry() else {
        return Ok(End::Exit);
    };
    for (&parameter, &argument) in func.block_params(entry).iter().zip(arguments) {
        thread.values[parameter] = argument;
    }
    thread.walk(entry)
}

struct Thread<'f, 'a> {
    func: &'f Function,
    values: SecondaryMap<Value, u128>,
    run: Run<'a>,
}

/// What an instruction does to control.
enum Next {
    On,
    To(usize),
    End(End),
}

impl Thread<'_, '_> {
    fn walk(&mut self, entry: Block) -> Result<End, Stuck> {
        let func = self.func;
        let mut block = entry;
        let mut left = self.run.limit;
        'blocks: loop {
            for inst in func.block_insts(block) {
                if left == 0 {
                    return self.stuck(inst, "the limit of instructions is reached");
                }
                left -= 1;
                match self.step(inst)? {
                    Next::On => {}
                    Next::End(end) => return Ok(end),
                    Next::To(edge) => {
                        let Some(&edge) = func.edges(inst).get(edge) else {
                            return self.stuck(inst, "there is no such edge");
                        };
                        let to = func.edge_target(edge);
                        let arguments: Vec<u128> = func
                            .edge_args(edge)
                            .iter()
                            .map(|&value| self.values[value])
                            .collect();
                        for (&parameter, argument) in func.block_params(to).iter().zip(arguments) {
                            self.values[parameter] = argument;
                        }
                        block = to;
                        continue 'blocks;
                    }
                }
            }
            return Ok(End::Exit);
        }
    }

    fn stuck<T>(&self, inst: Inst, why: impl Into<String>) -> Result<T, Stuck> {
        Err(Stuck {
            inst: print_inst(self.func, inst),
            why: why.into(),
        })
    }

    fn step(&mut self, inst: Inst) -> Result<Next, Stuck> {
        let func = self.func;
        let Opcode::Abstract(op) = func.opcode(inst) else {
            return self.stuck(inst, "not an abstract operation");
        };
        let results = func.result_count(inst);
        let (defined, sources) = func.operands(inst).split_at(results);
        if !self.holds(inst) {
            let kept: Vec<u128> = func
                .kept(inst)
                .iter()
                .map(|&it| self.read(it, Type::R4))
                .collect();
            let defined = defined.iter().filter_map(|operand| operand.as_value());
            for (value, kept) in defined.zip(kept) {
                self.values[value] = kept;
            }
            return Ok(Next::On);
        }
        match op {
            AbstractOp::Br => return Ok(Next::To(0)),
            AbstractOp::CondBr => {
                let taken = self.read(sources[0], Type::P) != 0;
                return Ok(Next::To(usize::from(!taken)));
            }
            AbstractOp::Switch => {
                let index = self.read(sources[0], Type::R) as usize;
                return Ok(Next::To(index));
            }
            AbstractOp::Exit => return Ok(Next::End(End::Exit)),
            AbstractOp::Trap => return Ok(Next::End(End::Trap)),
            AbstractOp::Ret => {
                let values = sources.iter().map(|&it| self.read(it, Type::R4)).collect();
                return Ok(Next::End(End::Return(values)));
            }
            _ => {}
        }
        let computed = self.compute(inst, op, sources)?;
        for (&operand, bits) in defined.iter().zip(computed) {
            if let Some(value) = operand.as_value() {
                self.values[value] = bits & mask_of(func.value_type(value));
            }
        }
        Ok(Next::On)
    }

    /// Whether the guard lets the instruction act.
    fn holds(&self, inst: Inst) -> bool {
        let guard = self.func.inst(inst).guard();
        match guard.reg().and_then(|reg| reg.value()) {
            Some(value) => (self.values[value] != 0) != guard.is_negated(),
            None => true,
        }
    }

    /// An operand's bits, where a register of type `ty` is wanted.
    fn read(&self, operand: Operand, ty: Type) -> u128 {
        let bits = match operand {
            Operand::Imm(bits) => {
                let signed = Imm::bits(bits);
                return u128::from(signed) & mask_of(ty);
            }
            other => match other.as_value() {
                Some(value) => self.values[value],
                None => 0,
            },
        };
        if operand.mods().contains(SourceMods::NOT) {
            bits ^ 1
        } else {
            bits
        }
    }

    /// The results of an instruction that is no terminator.
    fn compute(
        &mut self,
        inst: Inst,
        op: AbstractOp,
        sources: &[Operand],
    ) -> Result<Vec<u128>, Stuck> {
        let func = self.func;
        match op {
            AbstractOp::Undef => return Ok(vec![UNSPECIFIED]),
            AbstractOp::Collect => {
                let mut bits = 0;
                let mut at = 0;
                for &source in sources {
                    let Some(value) = source.as_value() else {
                        return self.stuck(inst, "a part is no value");
                    };
                    if at >= 128 {
                        return self.stuck(inst, "a tuple of more than four registers");
                    }
                    bits |= self.values[value] << at;
                    at += 32 * u32::from(func.value_type(value).len());
                }
                return Ok(vec![bits]);
            }
            AbstractOp::Split => {
                let mut bits = self.read(sources[0], Type::R4);
                let mut parts = Vec::new();
                for operand in &func.operands(inst)[..func.result_count(inst)] {
                    let length = operand
                        .as_value()
                        .map_or(1, |value| func.value_type(value).len());
                    parts.push(bits);
                    bits = bits.checked_shr(32 * u32::from(length)).unwrap_or(0);
                }
                return Ok(parts);
            }
            AbstractOp::Sreg | AbstractOp::Sreg64 => {
                let Some(special) = func.modifier::<Special>(inst) else {
                    return self.stuck(inst, "no special register");
                };
                return Ok(vec![u128::from((self.run.special)(special))]);
            }
            AbstractOp::AddressOf => {
                let Operand::Symbol { symbol, addend, .. } = sources[0] else {
                    return self.stuck(inst, "no symbol");
                };
                let base = (self.run.symbol)(func.symbol_name(symbol));
                return Ok(vec![u128::from(base.wrapping_add_signed(addend.into()))]);
            }
            AbstractOp::StackSave => return Ok(vec![0]),
            AbstractOp::Ld | AbstractOp::Ldu => return self.load(inst, sources),
            AbstractOp::St => return self.store(inst, sources),
            AbstractOp::Atom | AbstractOp::Red => return self.update(inst, op, sources),
            AbstractOp::Bar
            | AbstractOp::Fence
            | AbstractOp::FenceProxy
            | AbstractOp::PrefetchLine
            | AbstractOp::PrefetchU
            | AbstractOp::Nanosleep
            | AbstractOp::PmEvent
            | AbstractOp::RegionMeet
            | AbstractOp::GridDepWait
            | AbstractOp::GridDepLaunch => return Ok(Vec::new()),
            AbstractOp::RegionOpen | AbstractOp::RegionLeave => return Ok(vec![0]),
            _ => {}
        }
        let Operation::Abstract(_, mods) = func.inst(inst).operation() else {
            return self.stuck(inst, "not an abstract operation");
        };
        let row = op.row();
        let operands: Vec<u128> = sources
            .iter()
            .enumerate()
            .map(|(index, &source)| {
                let slot = row.operands.get(index).or(row.operands.last());
                let ty = slot.and_then(|slot| row.register_type(slot.kind, mods));
                self.read(source, ty.unwrap_or(Type::R4))
            })
            .collect();
        let missing: Vec<bool> = sources.iter().map(|it| *it == Operand::None).collect();
        let values = Operands {
            op,
            mods,
            values: &operands,
            missing: &missing,
            approximate: self.run.approximate,
        };
        match values.compute() {
            Some(results) => Ok(results),
            None => self.stuck(inst, "the interpreter does not know this operation"),
        }
    }

    /// The address an operand names in `space`. Those of shared memory are words.
    fn address(&self, space: Space, operand: Operand) -> u64 {
        let Operand::Address(id) = operand else {
            return 0;
        };
        let address = self.func.address(id);
        let base = address.base.get().and_then(|reg| reg.value());
        let base = base.map_or(0, |value| self.values[value] as u64);
        let symbol = address.symbol.expand();
        let symbol = symbol.map_or(0, |symbol| (self.run.symbol)(self.func.symbol_name(symbol)));
        let sum = base
            .wrapping_add(symbol)
            .wrapping_add_signed(address.offset.into());
        match space {
            Space::Shared => u64::from(sum as u32),
            _ => sum,
        }
    }

    /// Space and bytes of an access.
    fn access(&self, inst: Inst) -> (Space, Scalar, usize) {
        let func = self.func;
        let space = func.modifier::<Space>(inst).unwrap_or(Space::Generic);
        let scalar = func.modifier::<Scalar>(inst).unwrap_or(Scalar::B32);
        let count = match func.modifier::<Vector>(inst) {
            Some(Vector::V2) => 2,
            Some(Vector::V4) => 4,
            Some(Vector::V8) => 8,
            _ => 1,
        };
        (space, scalar, count * usize::from(scalar.bits()) / 8)
    }

    fn load(&mut self, inst: Inst, sources: &[Operand]) -> Result<Vec<u128>, Stuck> {
        let (space, scalar, bytes) = self.access(inst);
        let address = self.address(space, sources[0]);
        let bits = self.run.memory.load(space, address, bytes);
        Ok(vec![match scalar {
            Scalar::S8 if bytes == 1 => bits as u8 as i8 as u128,
            Scalar::S16 if bytes == 2 => bits as u16 as i16 as u128,
            Scalar::B8 | Scalar::B16 if bytes < 4 => narrow(bits, 8 * bytes as u32),
            _ => bits,
        }])
    }

    fn store(&mut self, inst: Inst, sources: &[Operand]) -> Result<Vec<u128>, Stuck> {
        let (space, _, bytes) = self.access(inst);
        let value = self.read(sources[1], Type::R4);
        let address = self.address(space, sources[0]);
        self.run.memory.store(space, address, value, bytes);
        Ok(Vec::new())
    }

    fn update(
        &mut self,
        inst: Inst,
        op: AbstractOp,
        sources: &[Operand],
    ) -> Result<Vec<u128>, Stuck> {
        let (space, scalar, bytes) = self.access(inst);
        let address = self.address(space, sources[0]);
        let old = self.run.memory.load(space, address, bytes);
        let given = self.read(sources[1], Type::R4);
        let third = match op {
            AbstractOp::Atom => self.read(sources[2], Type::R4),
            _ => 0,
        };
        let Some(reduce) = self.func.modifier::<Reduce>(inst) else {
            return self.stuck(inst, "no reduction");
        };
        if bytes * 8 != usize::from(scalar.bits()) {
            return self.stuck(inst, "a vector of updates");
        }
        let Some(new) = fold_reduction(reduce, scalar, old, given, third) else {
            return self.stuck(inst, "the interpreter does not know this reduction");
        };
        self.run.memory.store(space, address, new, bytes);
        let mask = u128::MAX >> (128 - 8 * bytes);
        Ok(vec![match reduce {
            Reduce::Cast => u128::from(old & mask == given & mask),
            _ => old,
        }])
    }
}

/// The bits that registers of a type have.
fn mask_of(ty: Type) -> u128 {
    match (ty, ty.len()) {
        (Type::P, _) => 1,
        (_, length) if length < 4 => (1 << (32 * u32::from(length))) - 1,
        _ => u128::MAX,
    }
}
