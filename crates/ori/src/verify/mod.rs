//! The verifier: what must hold of every function between any two phases.
//!
//! | invariant | what it says |
//! | --- | --- |
//! | [`Entry`](Invariant::Entry) | There is an entry block and no edge goes to it; a kernel's has no parameters. |
//! | [`Terminator`](Invariant::Terminator) | Every block ends with a terminator, and none stands earlier. |
//! | [`Edge`](Invariant::Edge) | A terminator has the edges its operation asks for, to blocks of the layout; nothing else has any. |
//! | [`EdgeArgs`](Invariant::EdgeArgs) | An edge has one argument for each parameter of its target, of the same type. |
//! | [`SingleDef`](Invariant::SingleDef) | A value in use has one definition, in a block of the layout. |
//! | [`Dominance`](Invariant::Dominance) | The definition of a value dominates its uses. |
//! | [`Modifier`](Invariant::Modifier) | Modifiers have values their operation knows, types are ones it takes. |
//! | [`Signature`](Invariant::Signature) | Operands are as many and of the kinds the operation's row says, with source modifiers it allows. |
//! | [`Type`](Invariant::Type) | A register operand has the class and the length its place asks for. |
//! | [`Tuple`](Invariant::Tuple) | `collect`, `split` and `parcopy` move whole registers of one class, none lost; physical tuples are aligned. |
//! | [`Encoding`](Invariant::Encoding) | A machine instruction has an encoding on the function's target. |
//! | [`Guard`](Invariant::Guard) | A guard is one predicate of the class its operation takes, if it takes one. |
//! | [`Kept`](Invariant::Kept) | Each value defined under a guard, or in a place both read and written, has a kept value of its type; no other has. |
//! | [`Level`](Invariant::Level) | Operations, virtual and physical registers, classes and parameters are those of the function's level. |
//! | [`Uniform`](Invariant::Uniform) | A uniform register written where only part of the warp may run does not live across a branch, and none is read where lanes may differ on it (machine level). |
//! | [`Control`](Invariant::Control) | In final code each machine instruction has a control word that exists, reuse flags stand where the encoding and the control word have them, and falling through goes to the next block; before, there are none of them. |
//! | [`Address`](Invariant::Address) | The parts of an address have the classes their places name, and belong to one operand. |
//! | [`Span`](Invariant::Span) | A source location is one the function lists. |
//! | [`Call`](Invariant::Call) | A return gives the function's results and is in a device function; only a call through a register lists its targets. |
//!
//! What an instruction must be by itself is checked in any order, everything is reported that is found (up to
//! [`MAX_ERRORS`]). Dominance is looked at only if blocks and edges are sound, uniform registers only if nothing else is wrong.

mod abstract_rows;
mod dominance;
mod instruction;
mod machine_rows;
mod structure;
mod uniform;

use crate::analysis::{DepthFirst, FlowGraph};
use crate::entity::{Block, Inst};
use crate::function::Function;
use crate::module::Module;
use crate::text::print_inst;
use std::fmt;

pub use instruction::check_instruction;

/// How many errors are collected before the verifier stops.
pub const MAX_ERRORS: usize = 100;

/// What a function broke; see the module's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // The table above is the documentation.
pub enum Invariant {
    Entry,
    Terminator,
    Edge,
    EdgeArgs,
    SingleDef,
    Dominance,
    Modifier,
    Signature,
    Type,
    Tuple,
    Encoding,
    Guard,
    Kept,
    Level,
    Uniform,
    Control,
    Address,
    Span,
    Call,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Invariant; 19] = [
        Invariant::Entry,
        Invariant::Terminator,
        Invariant::Edge,
        Invariant::EdgeArgs,
        Invariant::SingleDef,
        Invariant::Dominance,
        Invariant::Modifier,
        Invariant::Signature,
        Invariant::Type,
        Invariant::Tuple,
        Invariant::Encoding,
        Invariant::Guard,
        Invariant::Kept,
        Invariant::Level,
        Invariant::Uniform,
        Invariant::Control,
        Invariant::Address,
        Invariant::Span,
        Invariant::Call,
    ];
}

/// A broken invariant, in the names of the text form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// Which one.
    pub invariant: Invariant,
    /// The function.
    pub function: String,
    /// The block, where one is to blame.
    pub block: Option<Block>,
    /// The instruction, as the text form writes it.
    pub inst: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.function)?;
        if let Some(block) = self.block {
            write!(f, ", {block}")?;
        }
        if let Some(inst) = &self.inst {
            write!(f, ", `{inst}`")?;
        }
        write!(f, ": {} ({:?})", self.message, self.invariant)
    }
}

impl std::error::Error for VerifyError {}

/// Checks every invariant; the errors are in the order of the layout where they belong to a place.
pub fn verify_function(func: &Function) -> Result<(), Vec<VerifyError>> {
    let mut report = Report {
        func,
        errors: Vec::new(),
        block: None,
        inst: None,
    };
    let sound = structure::check(&mut report);
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            report.at(Some(block), Some(inst));
            instruction::check_instruction(func, inst, None, &mut |invariant, message| {
                report.add(invariant, message);
            });
        }
    }
    report.at(None, None);
    instruction::check_shared_addresses(&mut report);
    if sound {
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        dominance::check(&mut report, &graph, &walk);
        // What diverges is a question about values whose definitions are sound.
        if report.errors.is_empty() {
            uniform::check(&mut report, &graph, &walk);
        }
    }
    if report.errors.is_empty() {
        Ok(())
    } else {
        Err(report.errors)
    }
}

/// Checks every function of a module.
pub fn verify_module(module: &Module) -> Result<(), Vec<VerifyError>> {
    let errors: Vec<VerifyError> = module
        .functions
        .iter()
        .filter_map(|func| verify_function(func).err())
        .flatten()
        .take(MAX_ERRORS)
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Where the check is, and what it has found.
struct Report<'a> {
    func: &'a Function,
    errors: Vec<VerifyError>,
    block: Option<Block>,
    inst: Option<Inst>,
}

impl Report<'_> {
    fn at(&mut self, block: Option<Block>, inst: Option<Inst>) {
        self.block = block;
        self.inst = inst;
    }

    fn add(&mut self, invariant: Invariant, message: String) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(VerifyError {
                invariant,
                function: self.func.name.clone(),
                block: self.block,
                inst: self.inst.map(|inst| print_inst(self.func, inst)),
                message,
            });
        }
    }
}
