//! OriDoSyncronization (99) and ApplyPostSyncronizationWars (100): what the chosen order makes necessary.
//!
//! **99** inserts nothing: whatever orders memory is in the code since selection, and the scheduler's graph keeps it in place ([`crate::schedule`]), so no order makes more of it necessary. ptxas's code has none
//! that PTX does not ask for either. What the phase does is to look: errors of accesses are reported by ERRBAR behind the MEMBAR that waited for them, then by CGAERRBAR, and an access that came to
//! lie between them, or a report that lost its fence, is a broken order. It is an error, not something to repair.
//!
//! **100** is for targets on which something that 71, 72 or 99 insert reads a register: that would be overwritten too early in spite of all stalls and barriers that 115 computes only later.
//! Whether there is such an instruction is read off the tables ([`reads_registers`]); on sm_90 there is none, and the row says so.
//!
//! Cost: one walk.

use crate::knobs::registry::GEN_ERRBAR_AT_EXIT;
use crate::pipeline::{Context, PhaseError};
use orias_ori::{Effects, Function, Inst};
use orias_sass::{Op, Space, Target};

/// What the phases of synchronisation insert.
const INSERTED: [Op; 2] = [Op::ERRBAR, Op::CGAERRBAR];

/// Runs phase 99.
pub fn check_sync(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    // Those before an exit belong to no fence.
    let alone = context.knobs.bool(&GEN_ERRBAR_AT_EXIT);
    for block in func.blocks() {
        // What a report may follow: nothing that touches memory came since.
        let mut last: Option<Op> = None;
        for inst in func.block_insts(block) {
            let Some(op) = func.opcode(inst).as_machine() else {
                continue;
            };
            match op {
                Op::ERRBAR if last != Some(Op::MEMBAR) && !alone => {
                    return Err(broken(func, inst, "no MEMBAR before it"));
                }
                Op::CGAERRBAR if last != Some(Op::ERRBAR) => {
                    return Err(broken(func, inst, "no ERRBAR before it"));
                }
                Op::MEMBAR | Op::ERRBAR => last = Some(op),
                _ if touches(op) => last = None,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether an operation touches memory or synchronises. Constants are nobody's to write, and their loads report nothing.
fn touches(op: Op) -> bool {
    let memory = op.row().memory;
    let constants = memory.iter().all(|it| it.space == Space::Constant);
    if constants && !memory.is_empty() {
        return false;
    }
    let effects = orias_ori::Opcode::Machine(op).effects();
    effects.intersects(
        Effects::READS
            .with(Effects::WRITES)
            .with(Effects::BARRIER)
            .with(Effects::CALL),
    )
}

fn broken(func: &Function, inst: Inst, what: &str) -> PhaseError {
    PhaseError::Broken {
        at: orias_ori::print_inst(func, inst),
        what: what.to_owned(),
    }
}

/// Whether something that the phases insert reads or writes a register on `target`.
pub fn reads_registers(target: Target) -> bool {
    let mut inserted = INSERTED.iter().filter(|op| op.exists_on(target));
    inserted.any(|op| !op.row().slots.is_empty())
}

/// Runs phase 100, on a target that needs it.
pub fn apply_sync_wars(_: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    Err(PhaseError::Unsupported(
        "synchronisation that reads registers".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: &str) -> Result<(), PhaseError> {
        let text = format!("entry k machine sm_90a {{\nblock0:\n{body}    EXIT PT\n}}\n");
        let mut func = orias_ori::parse_function(&text).expect("a good function");
        let knobs = crate::knobs::Knobs::default();
        let machine = orias_machine::Machine::of(func.target);
        let context = Context {
            opt_level: 3,
            knobs: &knobs,
            machine,
        };
        check_sync(&mut func, &context)
    }

    #[test]
    fn a_report_that_an_access_came_before_is_an_error() {
        let access = "    LDS v0:r, [RZ+0x10]\n";
        let sum = "    IADD3 v1:r, PT, PT, RZ, 1, RZ\n";
        let fence = "    MEMBAR.SC.GPU\n";
        let reports = "    ERRBAR\n    CGAERRBAR\n";
        let constant = "    LDC v2:r, c[0x0][RZ+0x210]\n";
        assert_eq!(checked(&format!("{access}{fence}{sum}{reports}")), Ok(()));
        assert_eq!(checked(&format!("{fence}{constant}{reports}")), Ok(()));
        for broken in [
            format!("{fence}{access}{reports}"),
            format!("{access}{reports}"),
            format!("{fence}    CGAERRBAR\n"),
        ] {
            let found = checked(&broken);
            assert!(matches!(found, Err(PhaseError::Broken { .. })), "{found:?}");
        }
    }

    #[test]
    fn the_late_expansion_of_regions_is_refused_in_so_many_words() {
        let text = "entry k machine sm_90a {\nblock0:\n    EXIT PT\n}\n";
        let mut func = orias_ori::parse_function(text).expect("a good function");
        let mut knobs = crate::knobs::Knobs::default();
        knobs.set("ExpandSyncInstLate=true").expect("a good knob");
        let machine = orias_machine::Machine::of(func.target);
        let context = Context {
            opt_level: 3,
            knobs: &knobs,
            machine,
        };
        let refused = crate::phases::late_expand_sync(&mut func, &context);
        assert_eq!(
            refused.map_err(|error| error.to_string()),
            Err("ExpandSyncInstLate option is not supported on this architecture.".into())
        );
    }

    #[test]
    fn nothing_that_is_inserted_touches_a_register_on_hopper() {
        for target in [Target::Sm90, Target::Sm90a] {
            assert!(INSERTED.iter().all(|op| op.exists_on(target)));
            assert!(!reads_registers(target));
        }
        assert!(!Op::BAR_SYNC.row().slots.is_empty());
    }
}
