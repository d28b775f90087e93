//! OptimizeSyncInstructions (71): redundant synchronisation elimination after selection, for MEMBARs, drops of the cache and waits for groups of copies that repeat one before them.
//!
//! Selection makes fences of accesses that release and acquire, so repetitions show up that phase 26 could not see: `fence.acq_rel.gpu` and `st.release.gpu` behind it. The obligation is that
//! of [`crate::sync`]. Facts:
//!
//! - the scopes for which a `MEMBAR` of the same kind has run; any access, barrier, wait or call undoes them, constant banks excepted;
//! - that the first-level cache was dropped and nothing was fetched since;
//! - that at most so many groups of copies (`LDGDEPBAR`) are under way, up to [`GROUPS`]: undone only where a copy is started, a group ends, or a function is called. A wait that allows at least as many
//!   waits for nothing: groups belong to the thread, so others cannot add any.
//!
//! Cost: the analysis of [`crate::sync::available`].

use crate::pipeline::{Context, PhaseError};
use crate::sync::available;
use orias_ori::{Effects, Function, Inst, Operand};
use orias_sass::{Op, Space, ValueName, modifier_names as name, modifier_values as value};

/// Kinds and scopes of `MEMBAR`, each kind from the narrowest scope on.
const KINDS: [ValueName; 2] = [value::SC, value::ALL];
const SCOPES: [ValueName; 3] = [value::CTA, value::GPU, value::SYS];

/// Facts about memory.
const MEMORY: u64 = (1 << DROPPED) | ((1 << DROPPED) - 1);
/// The cache was dropped.
const DROPPED: u32 = 6;
/// The first of the facts about groups.
const FIRST_GROUP: u32 = 8;
/// Groups that are told apart.
const GROUPS: u32 = 8;

/// Runs the phase.
pub fn optimize_sync(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let any = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .any(|inst| facts(func, inst) != 0);
    if !any {
        return Ok(());
    }
    let starts = available::at_starts(func, |inst, held| step(func, inst, held));
    let mut repeated = Vec::new();
    for block in func.blocks() {
        let Some(mut held) = starts[block.as_u32() as usize] else {
            continue;
        };
        for inst in func.block_insts(block) {
            let own = facts(func, inst);
            if own != 0 && held & own == own {
                repeated.push(inst);
            }
            held = step(func, inst, held);
        }
    }
    for inst in repeated {
        func.remove_inst(inst);
    }
    Ok(())
}

/// The facts that hold once `inst` has run.
fn facts(func: &Function, inst: Inst) -> u64 {
    if !func.inst(inst).guard().is_always() {
        return 0;
    }
    match func.opcode(inst).as_machine() {
        Some(Op::MEMBAR) => {
            let kind = func
                .machine_modifier(inst, name::SEM)
                .and_then(|it| KINDS.iter().position(|&kind| kind == it));
            let scope = func
                .machine_modifier(inst, name::SCOPE)
                .and_then(|it| SCOPES.iter().position(|&scope| scope == it));
            // Beyond the block, only fences that report errors stand for each other.
            let reports = func.inst(inst).is_strong() || scope == Some(0);
            match (kind, scope) {
                (Some(kind), Some(scope)) if reports => {
                    ((1 << (scope + 1)) - 1) << (kind * SCOPES.len())
                }
                _ => 0,
            }
        }
        Some(Op::CCTL_IVALL) if func.machine_modifier(inst, name::WHAT) == Some(value::IVALL) => {
            1 << DROPPED
        }
        Some(Op::DEPBAR_LE) => match group_wait(func, inst) {
            Some(left) if left < GROUPS => ((1 << (GROUPS - left)) - 1) << (FIRST_GROUP + left),
            _ => 0,
        },
        _ => 0,
    }
}

/// How many groups of copies a wait leaves under way, if it waits for them and for nothing else.
pub(super) fn group_wait(func: &Function, inst: Inst) -> Option<u32> {
    match func.operands(inst) {
        &[
            Operand::Imm(board),
            Operand::Imm(left),
            Operand::Imm(others),
        ] if func.opcode(inst).as_machine() == Some(Op::DEPBAR_LE)
            && board.bits() == 0
            && others.bits() == 0 =>
        {
            u32::try_from(left.bits()).ok()
        }
        _ => None,
    }
}

fn step(func: &Function, inst: Inst, held: u64) -> u64 {
    let own = facts(func, inst);
    if own != 0 && held & own == own {
        return held;
    }
    let Some(op) = func.opcode(inst).as_machine() else {
        let silent = func.opcode(inst).effects() == Effects::NONE;
        return if silent { held } else { 0 };
    };
    let kept = match op {
        Op::MEMBAR => held & !(1 << DROPPED),
        Op::CCTL_IVALL => held,
        _ if is_silent(op) => held,
        _ if moves_groups(op) => 0,
        _ => held & !MEMORY,
    };
    kept | own
}

/// Whether no other thread could see an operation, or be seen through it.
fn is_silent(op: Op) -> bool {
    let effects = orias_ori::Opcode::Machine(op).effects();
    let quiet = [
        Effects::NONE,
        Effects::VARIES,
        Effects::TERMINATOR.with(Effects::SIDE),
    ];
    let constant = op
        .row()
        .memory
        .iter()
        .all(|it| it.space == Space::Constant && !it.writes);
    quiet.contains(&effects) || effects == Effects::READS && constant
}

/// Whether an operation may change how many groups of copies are under way, other than by waiting.
fn moves_groups(op: Op) -> bool {
    let changing = orias_sass::Effects::ASYNC.union(orias_sass::Effects::CALL);
    op.row().effects.intersects(changing)
}
