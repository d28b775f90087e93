//! The calling convention: which parameter of a signature travels in which registers, and which on the stack.

use super::super::data::alignment;
use orias_machine::abi::Abi;
use orias_ptx::ast::VariableId;
use orias_ptx::types::Type as PtxType;

/// Bytes of a register.
pub(super) const WORD: u64 = 4;

/// Where something travels in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lower) enum Place {
    /// In registers: the first, counted from that of the first argument.
    Registers(u32),
    /// On the stack, from that byte on.
    Stack(u32),
}

/// How a call passes its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lower) struct Convention {
    /// Where the parameters are.
    pub parameters: Vec<Place>,
    /// Registers for arguments, gaps included.
    pub registers: u32,
    /// Bytes on the stack.
    pub stack: u32,
    /// Whether the result lies in memory, at the address in the first argument register.
    pub result_in_memory: bool,
    /// Registers for results.
    pub results: u32,
}

impl Convention {
    /// The convention of a signature; none for one that the ABI has no way for.
    pub fn new(
        module: &orias_ptx::Module<'_>,
        abi: &Abi,
        returns: &[VariableId],
        parameters: &[VariableId],
    ) -> Option<Convention> {
        let most = u32::from(abi.arguments_end - abi.first_argument);
        let shape = |id: &VariableId| {
            let variable = module.variable(*id);
            (variable.ty != PtxType::Pred)
                .then(|| (variable.bytes(), u64::from(alignment(variable))))
        };
        let results = match returns {
            [] => 0,
            [one] => u32::try_from(shape(one)?.0.div_ceil(WORD)).ok()?,
            _ => return None,
        };
        let result_in_memory = results > most;
        let mut free = vec![true; most as usize];
        if result_in_memory {
            free[0] = false;
        }
        let mut convention = Convention {
            parameters: Vec::with_capacity(parameters.len()),
            registers: u32::from(result_in_memory),
            stack: 0,
            result_in_memory,
            results: if result_in_memory { 0 } else { results },
        };
        for id in parameters {
            let (bytes, align) = shape(id)?;
            let words = u32::try_from(bytes.div_ceil(WORD)).ok()?;
            let step = (align / WORD).clamp(1, 4) as usize;
            let fits = |&first: &usize| {
                let run = free.get(first..first + words as usize);
                run.is_some_and(|run| run.iter().all(|&free| free))
            };
            let found = (0..free.len()).step_by(step).find(fits);
            convention.parameters.push(match found {
                Some(first) => {
                    free[first..first + words as usize].fill(false);
                    let end = first as u32 + words;
                    convention.registers = convention.registers.max(end);
                    Place::Registers(first as u32)
                }
                None => {
                    let align = u32::try_from(align.max(WORD)).ok()?;
                    let start = convention.stack.next_multiple_of(align);
                    convention.stack = start.checked_add(words * WORD as u32)?;
                    Place::Stack(start)
                }
            });
        }
        Some(convention)
    }
}
