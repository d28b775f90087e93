//! Atomic updates that memory cannot do by itself, as compare-and-swap loops: floats and most 64-bit numbers in shared memory, single halves everywhere.
//! Memory beyond the thread block adds floats and 64-bit numbers, shared memory does not, so generic addresses of those are told apart by where
//! they point: to this block, to another one of the cluster, or beyond. Another block's memory adds 64-bit numbers and no floats.

use super::loops::BlockWriter;
use super::refused;
use crate::pipeline::PhaseError;
use orias_ori::builder::Cursor;
use orias_ori::operation::{Order, Reduce, Scalar, Scope, SourceType, Space, Vector};
use orias_ori::{
    AbstractOp, Address, Block, Function, Guard, Inst, Operand, Reg, SourceMods, Type, Value,
};

/// An atomic update, taken apart.
pub(super) struct Update {
    pub(super) reduce: Reduce,
    pub(super) scalar: Scalar,
    pub(super) space: Space,
    pub(super) order: Order,
    pub(super) scope: Scope,
    pub(super) address: Address,
    pub(super) value: Operand,
    pub(super) compared: Option<Operand>,
    pub(super) result: Option<Value>,
    pub(super) guard: Guard,
    pub(super) kept: Option<Value>,
}

/// How an update is done that memory cannot do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expansion {
    /// The chip has it.
    Memory,
    /// A loop.
    Loop,
    /// Depending on where the address points.
    ByWindow,
}

fn is_float(update: &Update) -> bool {
    use Scalar::{Bf16, Bf16x2, F16, F16x2, F32, F64};
    matches!(update.scalar, F16 | Bf16 | F16x2 | Bf16x2 | F32 | F64)
}

fn expansion(update: &Update) -> Expansion {
    use Scalar::{B16, B64, Bf16, F16, S64, U64};
    let float = is_float(update);
    let exchanges = matches!(update.reduce, Reduce::Exch | Reduce::Cas);
    match (update.space, update.scalar) {
        (Space::Shared, _) if float => Expansion::Loop,
        (Space::Shared, U64 | S64 | B64) if !exchanges => Expansion::Loop,
        (Space::Shared | Space::Global | Space::Generic, F16 | Bf16 | B16) => Expansion::Loop,
        (Space::Generic, _) if float => Expansion::ByWindow,
        (Space::Generic, U64 | S64 | B64) if !exchanges => Expansion::ByWindow,
        _ => Expansion::Memory,
    }
}

/// Makes a loop of `inst`, if it needs one.
pub(super) fn expand(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let Some(update) = update_of(func, inst) else {
        return Ok(());
    };
    match expansion(&update) {
        Expansion::Memory => return Ok(()),
        Expansion::Loop | Expansion::ByWindow => {}
    }
    let Some(block) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    let span = func.inst(inst).span();
    // What follows the update, with its result as a parameter.
    let tail = func.split_block(inst);
    func.remove_inst(inst);
    let result = update.result.map(|result| {
        let ty = func.value_type(result);
        (result, func.append_block_param(tail, ty))
    });
    let start = match update.guard.reg() {
        None => block,
        Some(predicate) => {
            let start = func.create_block();
            func.layout.insert_block_after(start, block);
            let mods = match update.guard.is_negated() {
                true => SourceMods::NOT,
                false => SourceMods::NONE,
            };
            let kept: Vec<Value> = result.and(update.kept).into_iter().collect();
            let mut cursor = Cursor::at_end(func, block);
            cursor.set_span(span);
            cursor
                .build(AbstractOp::CondBr)
                .operand(Operand::Reg {
                    reg: predicate,
                    mods,
                })
                .edge(start, &[])
                .edge(tail, &kept)
                .finish()
                .map_err(refused)?;
            start
        }
    };
    let mut maker = BlockWriter {
        func,
        at: start,
        span,
    };
    if expansion(&update) == Expansion::ByWindow {
        maker.by_window(&update, tail)?;
    } else {
        let old = maker.update(&update, &update.address, update.space)?;
        maker.leave(&update, tail, old)?;
    }
    if let Some((result, param)) = result {
        func.map_all_uses(|reg| match reg.value() {
            Some(value) if value == result => Reg::from(param),
            _ => reg,
        });
    }
    Ok(())
}

fn update_of(func: &Function, inst: Inst) -> Option<Update> {
    let atom = func.opcode(inst).as_abstract() == Some(AbstractOp::Atom);
    if func.modifier::<Vector>(inst) != Some(Vector::V1) {
        return None;
    }
    let results = func.result_count(inst);
    let sources = &func.operands(inst)[results..];
    let Operand::Address(address) = sources[0] else {
        return None;
    };
    Some(Update {
        reduce: func.modifier(inst)?,
        scalar: func.modifier(inst)?,
        space: func.modifier(inst)?,
        order: func.modifier(inst)?,
        scope: func.modifier(inst)?,
        address: *func.address(address),
        value: sources[1],
        compared: (atom && sources[2] != Operand::None).then_some(sources[2]),
        result: func.operands(inst)[..results]
            .first()
            .and_then(|result| result.as_value()),
        guard: func.inst(inst).guard(),
        kept: func.kept(inst).first().and_then(|kept| kept.as_value()),
    })
}

impl BlockWriter<'_> {
    /// Shared addresses go to the loop, others to memory.
    fn by_window(&mut self, update: &Update, tail: Block) -> Result<(), PhaseError> {
        let (start, ty) = self.start_of(&update.address, Space::Generic)?;
        if ty != Type::R2 {
            return Err(PhaseError::Unsupported(
                "an update at a generic address of 32 bits".to_owned(),
            ));
        }
        let offset = Operand::imm(i64::from(update.address.offset) as u64);
        let address = self.binary(AbstractOp::Add, Scalar::U64, start.into(), offset)?;
        let inside = self
            .cursor()
            .build(AbstractOp::Isspacep)
            .with(Space::Shared)
            .operand(address)
            .value()
            .map_err(refused)?;
        let far = self.block();
        let near = self.block();
        self.cursor()
            .build(AbstractOp::CondBr)
            .operand(inside)
            .edge(near, &[])
            .edge(far, &[])
            .finish()
            .map_err(refused)?;
        self.at = far;
        let float = is_float(update);
        if float {
            // Memory of other blocks of the cluster has no operations on floats either.
            let elsewhere = self
                .cursor()
                .build(AbstractOp::Isspacep)
                .with(Space::SharedCluster)
                .operand(address)
                .value()
                .map_err(refused)?;
            let (global, cluster) = (self.block(), self.block());
            self.branch(elsewhere, (cluster, &[]), (global, &[]))?;
            self.at = cluster;
            let old = self.update(update, &Address::base(address, 0), Space::Generic)?;
            self.leave(update, tail, old)?;
            self.at = global;
        }
        let place = self.func.create_address(Address::base(address, 0));
        let mut cursor = self.cursor();
        let mut builder = match update.result {
            Some(_) => cursor.build(AbstractOp::Atom),
            None => cursor.build(AbstractOp::Red),
        };
        builder = builder
            .with(update.order)
            .with(update.scope)
            .with(if float { Space::Global } else { Space::Generic })
            .with(update.reduce)
            .with(update.scalar)
            .operand(place)
            .operand(update.value);
        match update.result {
            Some(_) => {
                let old = builder.value().map_err(refused)?;
                self.jump(tail, &[old])?;
            }
            None => {
                builder.finish().map_err(refused)?;
                self.jump(tail, &[])?;
            }
        }
        self.at = near;
        let word = self
            .cursor()
            .build(AbstractOp::Cvt)
            .with(Scalar::U32)
            .with(SourceType::U64)
            .operand(address)
            .value()
            .map_err(refused)?;
        let old = self.update(update, &Address::base(word, 0), Space::Shared)?;
        self.leave(update, tail, old)
    }
}
