//! IdleLoads (10009): loads that never run, in front of asynchronous copies.
//!
//! On sm_90 ptxas writes three `@!PT LDS RZ, [RZ]` before copies to shared memory, and so do we: without them the chip may take the copies for something
//! else. They stand once before a run of copies. In the 60 modules with copies that were looked at, 3,000 copies of one block stand behind another
//! without them, whatever lies between (arithmetic, matrix products, LDGDEPBAR, local memory, constants, SHFL), and all that follow the start of a
//! block, a barrier, a fence or an access to shared memory have them. Here anything that touches memory or waits ends a run unless it is one of those.
//!
//! It comes when the order of instructions stands, so schedulers see copies as they are.
//!
//! Cost: one walk.

use crate::pipeline::{Context, PhaseError};
use crate::tail::group_start;
use orias_ori::builder::Cursor;
use orias_ori::{Address, Effects, Function, Guard, Inst, PhysReg, Reg};
use orias_sass::{Op, modifier_names as name, modifier_values as value};

/// Runs the phase.
pub fn add_idle_loads(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let mut firsts: Vec<Inst> = Vec::new();
    for block in func.blocks() {
        let mut in_run = false;
        for inst in func.block_insts(block) {
            if func.opcode(inst).as_machine() == Some(Op::LDGSTS) {
                if !in_run && group_start(func, inst) == inst {
                    firsts.push(inst);
                }
                in_run = true;
            } else if ends_run(func, inst) {
                in_run = false;
            }
        }
    }
    for inst in firsts {
        let span = func.inst(inst).span();
        let mut cursor = Cursor::before(func, inst);
        cursor.set_span(span);
        for _ in 0..context.machine.limits.idle_loads {
            let made = cursor
                .build(Op::LDS)
                .guard(Guard::unless(Reg::from(PhysReg::PT)))
                .modifier(name::SIZE, value::_32)
                .operand(PhysReg::RZ)
                .address(Address {
                    base: Reg::from(PhysReg::RZ).into(),
                    ..Address::default()
                })
                .finish();
            if let Err(error) = made {
                return Err(PhaseError::Broken {
                    at: error.inst.clone(),
                    what: error.to_string(),
                });
            }
        }
    }
    Ok(())
}

/// Whether a copy behind `inst` needs idle loads of its own.
fn ends_run(func: &Function, inst: Inst) -> bool {
    let quiet = matches!(
        func.opcode(inst).as_machine(),
        Some(Op::LDGDEPBAR | Op::LDL | Op::STL | Op::LDC | Op::ULDC | Op::SHFL)
    );
    let touches = Effects::READS
        .with(Effects::WRITES)
        .with(Effects::SIDE)
        .with(Effects::BARRIER)
        .with(Effects::CALL);
    !quiet && func.opcode(inst).effects().intersects(touches)
}
