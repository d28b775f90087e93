//! Control words in words.

use orias_sass::{Control, Instruction};

/// What the control word of an instruction tells the scheduler: a sentence a field, in the order the text form has them.
///
/// ```
/// use orias::view::explain_control;
/// use orias_sass::{Target, text::parse_instruction};
///
/// let line = "[B0-----:R-:W-:-:S04] FADD R4, R4, R5 ;";
/// let parsed = parse_instruction(line, 0, Target::DEFAULT).unwrap();
/// let said = explain_control(&parsed.instruction);
/// assert!(said[0].contains("barrier 0"), "{said:?}");
/// assert!(said[1].contains("4 cycles"), "{said:?}");
/// ```
pub fn explain_control(instruction: &Instruction) -> Vec<String> {
    let control: Control = instruction.control;
    let mut said = Vec::new();
    let waits: Vec<String> = control
        .wait
        .iter()
        .map(|it| it.index().to_string())
        .collect();
    match &waits[..] {
        [] => {}
        [one] => said.push(format!(
            "Waits until barrier {one} is released before it issues."
        )),
        several => said.push(format!(
            "Waits until barriers {} are released before it issues.",
            several.join(", ")
        )),
    }
    if let Some(barrier) = control.read_barrier {
        said.push(format!(
            "Holds barrier {} until its sources have been read: then they may be overwritten.",
            barrier.index()
        ));
    }
    if let Some(barrier) = control.write_barrier {
        said.push(format!(
            "Holds barrier {} until its result is there.",
            barrier.index()
        ));
    }
    if control.yields {
        said.push(match control.reuse() {
            0 => "Bit 109, yield: the scheduler may go on with another warp.".to_owned(),
            _ => "Bit 109, yield: set because operands are kept for reuse.".to_owned(),
        });
    }
    said.push(match control.stall() {
        0 => "Stall 0: the next instruction issues when all results of fixed latency are there."
            .to_owned(),
        1 => "Stall 1: the next instruction may issue in the next cycle.".to_owned(),
        cycles => format!("Stall {cycles}: the next instruction may issue {cycles} cycles later."),
    });
    if control.reuse() != 0 {
        let positions: Vec<String> = (0..4)
            .filter(|at| control.reuse() >> at & 1 == 1)
            .map(|at| at.to_string())
            .collect();
        said.push(format!(
            "Reuse: the operand cache keeps source position {} for the next instruction.",
            positions.join(", ")
        ));
    }
    said
}
