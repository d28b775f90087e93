//! `tex.grad` where the machine has no instruction for it: in three dimensions, on cubes, and with a depth to compare.
//!
//! The driver has a function for each such form, called by the ABI. It takes the texture's handle, that of a sampler in the independent mode,
//! coordinates, the two gradients and, where there are any, offsets, of four words each, and the depth; it gives back a word that is not zero
//! where all texels are resident, and behind it the texels. Halves come in pairs.

use super::body::{Body, Lowered};
use crate::module::Extern;
use orias_machine::Machine;
use orias_ori::operation::{AbstractOp, Scalar, Space, Vector};
use orias_ori::{Address, Guard, Operand, SymbolPart, Type, Value};
use orias_ptx::types::Type as PtxType;

/// Bytes of the stack that the arguments of such a call take: a gradient, offsets and a depth, aligned.
pub(super) const STACK: u32 = 48;

/// Words of a register group that is passed together.
const GROUP: usize = 4;

/// What is asked for.
pub(super) struct Gradient<'a> {
    /// How PTX calls the geometry.
    pub geometry: &'a str,
    /// The type of the texels.
    pub texel: PtxType,
    /// Whether it is asked which texels are resident.
    pub resident: bool,
    /// The handles: of the texture, and of the sampler in the independent mode.
    pub texture: Value,
    pub sampler: Option<Value>,
    /// Coordinates, with an array's index first, and gradients.
    pub coordinates: Vec<Operand>,
    pub dx: Vec<Operand>,
    pub dy: Vec<Operand>,
    /// Offsets in texels; empty where none are.
    pub offsets: Vec<Operand>,
    /// What to compare with.
    pub depth: Option<Operand>,
}

impl Gradient<'_> {
    /// The driver's function.
    fn callee(&self) -> String {
        let texel = match self.texel {
            PtxType::F16x2 => "f16",
            other => other.name(),
        };
        let part = |there: bool, text: &'static str| if there { text } else { "" };
        format!(
            "__cuda_syscall_tex_grad_{}{}_v4_{texel}_f32{}{}{}",
            part(self.resident, "pred_"),
            self.geometry,
            part(self.sampler.is_some(), "_texmode_independent"),
            part(!self.offsets.is_empty(), "_offset"),
            part(self.depth.is_some(), "_depth_compare"),
        )
    }
}

/// Calls the driver's function: the word that says whether all texels are resident, and the words of the texels.
pub(super) fn call(
    body: &mut Body<'_, '_>,
    gradient: &Gradient<'_>,
) -> Lowered<(Value, Vec<Value>)> {
    let abi = Machine::of(body.func.target).abi;
    let registers = usize::from(abi.arguments_end - abi.first_argument);
    let mut slots: Vec<Option<Value>> = vec![None; registers];
    let mut stack: Vec<(u32, Value)> = Vec::new();
    let words = |body: &mut Body<'_, '_>, value: Value| body.with(|emit| emit.words(value));
    let texture = words(body, gradient.texture)?;
    slots[0] = Some(texture[0]);
    slots[1] = Some(texture[1]);
    if let Some(sampler) = gradient.sampler {
        let sampler = words(body, sampler)?;
        slots[2] = Some(sampler[0]);
        slots[3] = Some(sampler[1]);
    }
    let mut sizes = vec![8; 1 + usize::from(gradient.sampler.is_some())];
    let mut next = GROUP;
    let mut end = 0;
    for group in [
        &gradient.coordinates,
        &gradient.dx,
        &gradient.dy,
        &gradient.offsets,
    ] {
        if group.is_empty() {
            continue;
        }
        sizes.push(4 * GROUP as u32);
        for (place, &operand) in group.iter().enumerate().take(GROUP) {
            let word = body.in_registers(operand, 32)?;
            match slots.get_mut(next + place) {
                Some(slot) => *slot = Some(word),
                None => stack.push((end + 4 * place as u32, word)),
            }
        }
        if next + GROUP > registers {
            end += 4 * GROUP as u32;
        }
        next += GROUP;
    }
    if let Some(depth) = gradient.depth {
        sizes.push(4);
        let depth = body.in_registers(depth, 32)?;
        // It takes the first register that is left.
        match gradient.sampler {
            None => slots[2] = Some(depth),
            Some(_) => stack.push((end, depth)),
        }
    }
    for (offset, word) in stack {
        body.with(|emit| {
            let address = Address {
                offset: offset as i32,
                ..Address::default()
            };
            let address = emit.func().create_address(address);
            let mods = (Space::Local, Vector::V1, Scalar::B32);
            let operands = [address, word.into()];
            emit.put(AbstractOp::St, mods, &[], &operands, Guard::ALWAYS, &[]);
        })?;
    }
    let name = gradient.callee();
    let texels = match gradient.texel {
        PtxType::F16 | PtxType::F16x2 => 2,
        _ => 4,
    };
    let record = Extern {
        name: name.clone(),
        parameters: sizes,
        results: vec![4 * (1 + texels)],
        no_return: false,
    };
    if !body.externs.contains(&record) {
        body.externs.push(record);
    }
    let mut operands = vec![Operand::Symbol {
        symbol: body.func.symbol(&name),
        part: SymbolPart::Whole,
        addend: 0,
    }];
    for slot in slots {
        operands.push(match slot {
            Some(value) => value.into(),
            None => body.undefined(Type::R)?.into(),
        });
    }
    let results: Vec<Value> = (0..=texels)
        .map(|_| body.func.create_value(Type::R))
        .collect();
    let defined: Vec<Operand> = results.iter().map(|&value| value.into()).collect();
    body.with(|emit| {
        emit.put(
            AbstractOp::Call,
            (),
            &defined,
            &operands,
            Guard::ALWAYS,
            &[],
        );
    })?;
    Ok((results[0], results[1..].to_vec()))
}
