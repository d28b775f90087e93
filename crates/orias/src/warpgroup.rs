//! What is said where a pipeline of warp-group products (`wgmma`) is not as the source has it: ptxas's words, and besides the line, the register, the reason and what to change.
//!
//! What the source lacks is found on lowered code ([`orias_codegen::warpgroup_pipeline`]). Where it lacks nothing and the finished code waits all the same, registers were too few.

use crate::diagnostics::{Diagnostic, Severity};
use orias_codegen::LoweredModule;
use orias_codegen::pipeline::Event;
use orias_codegen::warpgroup_pipeline::{Part, Remark, Taken, pipeline_remarks};
use orias_ori::{Function, Inst};
use orias_ptx::diagnostic::LineIndex;
use orias_ptx::grammar::Op as PtxOp;
use orias_sass::Op;
use std::collections::BTreeMap;

/// Whether the module has products of warp groups.
pub(crate) fn has_products(ptx: &orias_ptx::Module<'_>) -> bool {
    products(ptx).next().is_some()
}

fn products<'m>(
    ptx: &'m orias_ptx::Module<'_>,
) -> impl Iterator<Item = &'m orias_ptx::ast::Instruction> {
    let bodies = ptx
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref());
    bodies
        .flat_map(|body| &body.instructions)
        .filter(|instruction| ptx.opcode(instruction).op == Some(PtxOp::WgmmaMmaAsync))
}

/// What is missing in the pipelines of a module, of which `before` lines precede the first.
pub(crate) fn missing(
    ptx: &orias_ptx::Module<'_>,
    module: &LoweredModule,
    before: u32,
) -> Vec<Diagnostic> {
    if !has_products(ptx) {
        return Vec::new();
    }
    let names = Names::of(ptx, before);
    let is_defined = |name: &str| {
        let mut functions = ptx.functions.iter();
        functions.any(|function| function.body.is_some() && ptx.name(function.name) == name)
    };
    let kernels = module.kernels.iter().map(|kernel| &kernel.code);
    let functions = module.functions.iter().map(|function| &function.code);
    kernels
        .chain(functions)
        .flat_map(|code| {
            let remarks = pipeline_remarks(code, &is_defined);
            remarks_of(&code.name, &remarks, &names)
        })
        .collect()
}

/// Whether a wait that the source lacks was announced for the function of that name.
pub(crate) fn announces_wait(said: &[Diagnostic], name: &str) -> bool {
    let end = format!("'{name}'");
    said.iter().any(|it| {
        let waits = ["(C7509)", "(C7510)", "(C7517)"];
        waits.iter().any(|code| it.message.starts_with(code)) && it.message.ends_with(&end)
    })
}

/// The texts of products, by the line they start at.
struct Names {
    texts: BTreeMap<u32, String>,
    before: u32,
}

impl Names {
    fn of(ptx: &orias_ptx::Module<'_>, before: u32) -> Names {
        let lines = LineIndex::new(ptx.source);
        let texts = products(ptx).filter_map(|instruction| {
            let span = instruction.span();
            let text = ptx.source.get(span.start as usize..span.end as usize)?;
            let (line, _) = lines.position(span.start);
            Some((line as u32, String::from_utf8_lossy(text).into_owned()))
        });
        Names {
            texts: texts.collect(),
            before,
        }
    }

    fn line(&self, line: u32) -> u32 {
        line.saturating_sub(self.before)
    }

    /// What the source calls a register of a product.
    fn register(&self, taken: Taken) -> String {
        let line = self.line(taken.product);
        // Several statements may share a line; the last that starts at or before it has the operand.
        let text = self
            .texts
            .range(..=line)
            .next_back()
            .map(|(_, text)| text.as_str());
        let which = match taken.part {
            Part::Sum => 0,
            Part::Left => 1,
        };
        let named = text.and_then(|text| {
            let list = text.split('{').nth(which + 1)?.split('}').next()?;
            list.split(',').nth(taken.place).map(str::trim)
        });
        match named {
            Some(name) => name.to_owned(),
            None => format!("register {} of its operand", taken.place),
        }
    }
}

fn info(message: String, hint: String) -> Diagnostic {
    Diagnostic {
        hint: Some(hint),
        ..Diagnostic::new(Severity::Info, message)
    }
}

fn loss(code: &str, why: &str, name: &str) -> String {
    format!(
        "({code}) Potential Performance Loss: wgmma.mma_async instructions are serialized due to {why} the function '{name}'"
    )
}

/// The remarks of one function, in ptxas's order: fences, waits, what serialises.
fn remarks_of(name: &str, remarks: &[Remark], names: &Names) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    let mut serialized = BTreeMap::new();
    for &remark in remarks {
        match remark {
            Remark::Fence {
                register,
                made,
                parted,
            } => {
                let line = names.line(register.product);
                let register = names.register(register);
                let since = match names.line(made) {
                    0 => String::new(),
                    made => format!(" since line {made}"),
                };
                let hint = format!(
                    "the product at line {line} takes {register}, which no wgmma.fence covers{since}; put wgmma.fence.sync.aligned behind the last instruction that writes it and before the product"
                );
                if parted {
                    let why = "program dependence on compiler-inserted WG.AR in divergent path in";
                    let entry = serialized.entry("C7520");
                    entry.or_insert_with(|| info(loss("C7520", why, name), hint));
                    continue;
                }
                let message = format!(
                    "(C7519) warpgroup.arrive is injected in around line {line} by compiler to allow use of registers in GMMA in function '{name}'"
                );
                said.push(info(message, hint));
            }
            Remark::Wait {
                register,
                reader,
                waits_for_fewer,
                mixes,
            } => {
                let product = names.line(register.product);
                let reader = names.line(reader);
                let register = names.register(register);
                let (touches, remedy) = match mixes {
                    false => (
                        "reads",
                        "put wgmma.commit_group and a wgmma.wait_group that covers that product before it, or read it later",
                    ),
                    true => (
                        "takes, together with registers that other instructions wrote,",
                        "write accumulators before the first product or behind a wgmma.wait_group that covers the last",
                    ),
                };
                let hint = format!(
                    "line {reader} {touches} {register}, which the product at line {product} may still write; {remedy}"
                );
                let message = format!(
                    "(C7517) warpgroup.wait is injected in around line {reader} by compiler to allow use of registers defined by GMMA in function '{name}'"
                );
                said.push(info(message, hint.clone()));
                let which = match (mixes, waits_for_fewer) {
                    (true, _) => Some((
                        "C7515",
                        "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage in",
                    )),
                    (false, true) => Some((
                        "C7514",
                        "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage in",
                    )),
                    (false, false) => None,
                };
                if let Some((code, why)) = which {
                    let entry = serialized.entry(code);
                    entry.or_insert_with(|| info(loss(code, why, name), hint));
                }
            }
            Remark::Call {
                product,
                call,
                external,
            } => {
                let hint = format!(
                    "the call at line {} comes while the product at line {} is under way, and may move any register; put wgmma.wait_group.sync.aligned 0 before it, or let it be inlined",
                    names.line(call),
                    names.line(product)
                );
                let (code, why) = match external {
                    true => ("C7509", "the presence of Extern calls in"),
                    false => (
                        "C7510",
                        "wgmma pipeline crossing function boundary at a function call in",
                    ),
                };
                let entry = serialized.entry(code);
                entry.or_insert_with(|| info(loss(code, why, name), hint));
            }
        }
    }
    said.extend(serialized.into_values());
    said
}

/// A wait that the finished code has and the source has not.
#[derive(Clone, Debug)]
pub(crate) struct AddedWait {
    /// The line of the PTX that is waited at; 0 if unknown.
    line: u32,
    /// The instruction that is waited at.
    instruction: String,
}

/// Watches the phase that adds waits.
#[derive(Default)]
pub(crate) struct Watch {
    before: Vec<Inst>,
    pub(crate) added: Option<AddedWait>,
}

/// The phase that adds waits.
const WARPGROUP_WAITS: u16 = 10008;

impl Watch {
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Before(phase, function) if phase.number == WARPGROUP_WAITS => {
                self.before = waits(function).collect();
            }
            Event::After(phase, function, _) if phase.number == WARPGROUP_WAITS => {
                let mut new = waits(function).filter(|wait| !self.before.contains(wait));
                self.added = new.next().map(|wait| describe(function, wait));
            }
            _ => {}
        }
    }
}

fn waits(function: &Function) -> impl Iterator<Item = Inst> {
    let all = function
        .blocks()
        .flat_map(|block| function.block_insts(block));
    all.filter(|&inst| function.opcode(inst).as_machine() == Some(Op::WARPGROUP_DEPBAR))
}

fn describe(function: &Function, wait: Inst) -> AddedWait {
    let next = function.layout.next_inst(wait);
    let span = next.and_then(|next| function.inst(next).span());
    AddedWait {
        line: span.map_or(0, |span| function.locations[span].ptx),
        instruction: next.map_or_else(String::new, |next| printed(function, next)),
    }
}

/// The instruction, without its number in the table of locations.
fn printed(function: &Function, inst: Inst) -> String {
    let text = orias_ori::print_inst(function, inst);
    let end = text.rfind("  #").unwrap_or(text.len());
    text[..end].to_owned()
}

/// What is said of a wait that nothing in the source asks for.
pub(crate) fn too_few_registers(name: &str, wait: &AddedWait) -> Diagnostic {
    let place = match wait.line {
        0 => String::new(),
        line => format!(" (around line {line})"),
    };
    let hint = format!(
        "the code waits before `{}`{place}, which moves what products work on; smaller accumulators, fewer values kept beside them or a larger limit of registers spare it",
        wait.instruction
    );
    let why = "insufficient register resources for the wgmma pipeline in";
    info(loss("C7511", why, name), hint)
}
