//! Mercury's rows of the table: the phases of `orias-mercury`, and MercGenerateOpex (120), which is the control-word pass again.
//!
//! Opex has something to do only where expansion made instructions: everything else has its control word from 115 or 116. New
//! instructions change what the old ones must wait for, so the pass runs on the whole function: the stream is encoded as it stands,
//! lifted, given control words, and the words are copied back, node by node. Fillers that the pass puts in become nodes of opex.
//! Order and registers are final here; nothing is scheduled, so the knobs of scheduling are not read.

use crate::knobs::registry as knobs;
use crate::pipeline::{Context, PhaseError};
use crate::scoreboard;
use orias_mercury::stream::{Body, Node, NodeData, Origin, Stream};
use orias_mercury::wars::{self, Fields};
use orias_mercury::{Code, EmitError, Patch, TextSection};
use orias_ori::{Function, Inst, Opcode, machine};
use orias_sass::Effects;
use std::collections::BTreeMap;

/// A function in Mercury's form, and what its phases know of it.
#[derive(Clone, Debug)]
pub struct Mercury {
    /// The nodes.
    pub stream: Stream,
    /// Its bytes, after the last phase.
    pub code: Option<Code>,
    /// Whether expansion made instructions.
    expanded: bool,
}

impl Mercury {
    /// A stream before its first phase.
    pub fn new(stream: Stream) -> Mercury {
        let expanded = stream.has_made(&[Origin::Expansion]);
        Mercury {
            stream,
            code: None,
            expanded,
        }
    }

    fn prepare(&mut self, context: &Context<'_>) {
        if context.knobs.bool(&knobs::MERC_TRACE) {
            self.stream.trace.get_or_insert_default();
        }
    }
}

/// What is printed after a phase on Mercury: the names of its stages that ptxas's own traces have.
pub const TRACES: [(u16, &[&str]); 7] = [
    (141, &["After MercConverter"]),
    (117, &["After EncodeAndDecode", "After Decode"]),
    (118, &["After Expansion", "After MercExpand"]),
    (119, &["After WAR post-expansion", "After MercWARs"]),
    (120, &["After Opex", "After MercOpex"]),
    (121, &["After WAR post-opexing", "After MercWARs"]),
    (122, &[]),
];

fn broken(error: EmitError) -> PhaseError {
    PhaseError::Broken {
        at: "the code".to_owned(),
        what: error.to_string(),
    }
}

/// MercConverter (141).
pub fn convert_function(func: &Function, context: &Context<'_>) -> Result<Mercury, PhaseError> {
    let mut mercury = Mercury::new(orias_mercury::convert(func).map_err(broken)?);
    mercury.prepare(context);
    Ok(mercury)
}

/// The converter's second half, for streams that were read.
pub(crate) fn reorganize(mercury: &mut Mercury, context: &Context<'_>) -> Result<(), PhaseError> {
    mercury.prepare(context);
    orias_mercury::reorganize(&mut mercury.stream).map_err(broken)
}

/// MercEncodeAndDecode (117).
pub fn encode_and_decode(mercury: &mut Mercury, context: &Context<'_>) -> Result<(), PhaseError> {
    mercury.prepare(context);
    let keep = context.knobs.bool(&knobs::MERC_ENCODING_CACHE);
    orias_mercury::encode_and_decode(&mut mercury.stream, keep).map_err(broken)
}

/// MercExpandInstructions (118).
pub fn expand_instructions(mercury: &mut Mercury, context: &Context<'_>) -> Result<(), PhaseError> {
    mercury.prepare(context);
    orias_mercury::expand(&mut mercury.stream).map_err(broken)?;
    mercury.expanded |= mercury.stream.has_made(&[Origin::Expansion]);
    Ok(())
}

/// MercGenerateWARs1 (119): only where expansion made something.
pub fn resolve_before_opex(mercury: &mut Mercury, _: &Context<'_>) -> Result<(), PhaseError> {
    if mercury.expanded {
        wars::resolve(&mut mercury.stream, Fields::Missing).map_err(broken)?;
    }
    Ok(())
}

/// MercGenerateWARs2 (121): only where opex did something.
pub fn resolve_after_opex(mercury: &mut Mercury, _: &Context<'_>) -> Result<(), PhaseError> {
    if mercury.expanded {
        wars::resolve(&mut mercury.stream, Fields::Known).map_err(broken)?;
    }
    Ok(())
}

/// MercGenerateSassUCode (122).
pub fn generate_code(mercury: &mut Mercury, context: &Context<'_>) -> Result<(), PhaseError> {
    mercury.prepare(context);
    let code = orias_mercury::generate(&mercury.stream).map_err(broken)?;
    mercury.code = Some(code);
    Ok(())
}

/// MercGenerateOpex (120).
pub fn generate_opex(mercury: &mut Mercury, context: &Context<'_>) -> Result<(), PhaseError> {
    if !mercury.expanded {
        return Ok(());
    }
    let stream = &mut mercury.stream;
    let mut func = lift(stream)?;
    let order = machine_code(&func);
    scoreboard::drop_control_words(&mut func);
    if context.opt_level == 0 {
        scoreboard::assign_plain_control_words(&mut func, context)?;
    } else {
        scoreboard::assign_control_words(&mut func, context)?;
    }
    copy_back(stream, &func, &order)?;
    if !context.knobs.bool(&knobs::MERC_OPEX_CLEAR_PENALTIES) {
        keep_penalties(stream);
    }
    for node in nodes(stream) {
        let schedule = &mut stream.node_mut(node).schedule;
        schedule.barrier_needed = false;
        schedule.penalty = 0;
    }
    Ok(())
}

fn nodes(stream: &Stream) -> Vec<Node> {
    let segments = stream.segments();
    segments.flat_map(|segment| stream.nodes(segment)).collect()
}

fn machine_code(func: &Function) -> Vec<Inst> {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| matches!(func.opcode(inst), Opcode::Machine(_)))
        .collect()
}

/// The stream as a function: encoded with whatever control fields it has, and lifted.
fn lift(stream: &Stream) -> Result<Function, PhaseError> {
    let mut shadow = stream.clone();
    for node in nodes(&shadow) {
        shadow.node_mut(node).schedule.known = true;
    }
    let code = orias_mercury::generate(&shadow).map_err(broken)?;
    let mut indirect = BTreeMap::new();
    for branch in &code.indirect {
        let targets = branch.targets.iter().map(|&to| to as usize);
        indirect.insert(branch.offset as usize, targets.collect());
    }
    let branches = code.relocations.iter();
    let named: BTreeMap<usize, String> = branches
        .filter(|one| matches!(one.patch, Patch::Branch | Patch::Distance))
        .map(|one| (one.offset as usize, one.symbol.clone()))
        .collect();
    let subroutines = subroutines(stream);
    orias_mercury::lift(&TextSection {
        name: &stream.name,
        kind: stream.kind,
        code: &code.bytes,
        target: stream.target,
        indirect: &indirect,
        subroutines: &subroutines,
        named: &named,
    })
    .map_err(|error| PhaseError::Broken {
        at: "the code".to_owned(),
        what: error.to_string(),
    })
}

/// Offsets of the blocks that calls name.
fn subroutines(stream: &Stream) -> Vec<usize> {
    let mut starts = BTreeMap::new();
    let mut offset = 0;
    for segment in stream.segments() {
        starts.insert(segment, offset);
        offset += stream.nodes(segment).count() * orias_mercury::WORD;
    }
    let mut found = Vec::new();
    for node in nodes(stream) {
        let data = stream.node(node);
        let Some(instruction) = data.instruction() else {
            continue;
        };
        if !instruction.op().row().effects.contains(Effects::CALL) {
            continue;
        }
        for fixup in &data.fixups {
            if let orias_mercury::stream::Reference::Block(segment) = fixup.to
                && let Some(&start) = starts.get(&segment)
                && !found.contains(&start)
            {
                found.push(start);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Gives every node the control field of its instruction; instructions the pass added become nodes.
fn copy_back(stream: &mut Stream, func: &Function, order: &[Inst]) -> Result<(), PhaseError> {
    let nodes = nodes(stream);
    if nodes.len() != order.len() {
        return Err(PhaseError::Broken {
            at: func.name.clone(),
            what: format!(
                "{} nodes were lifted as {} instructions",
                nodes.len(),
                order.len()
            ),
        });
    }
    let mut left = order.iter().zip(&nodes).peekable();
    for block in func.blocks() {
        let mut last: Option<Node> = None;
        for inst in func.block_insts(block) {
            let Some(made) = machine::placeless(func, inst, stream.target) else {
                continue;
            };
            let made = made.map_err(|error| PhaseError::Broken {
                at: func.name.clone(),
                what: error.to_string(),
            })?;
            if left.peek().is_some_and(|(known, _)| **known == inst) {
                if let Some((_, &node)) = left.next() {
                    let data = stream.node_mut(node);
                    if let Body::Machine(instruction) = &mut data.body {
                        instruction.control = made.control;
                    }
                    data.schedule.known = true;
                    last = Some(node);
                }
                continue;
            }
            let mut filler = NodeData::new(Body::Machine(made), Origin::Opex);
            filler.schedule.known = true;
            last = match (last, left.peek()) {
                (Some(last), _) => Some(stream.insert_after(last, filler)),
                (None, Some((_, next))) => Some(stream.insert_before(**next, filler)),
                (None, None) => None,
            };
        }
    }
    Ok(())
}

/// Lets instructions stall for at least as long as the resolver asked.
fn keep_penalties(stream: &mut Stream) {
    for node in nodes(stream) {
        let data = stream.node_mut(node);
        let penalty = data.schedule.penalty;
        if let Body::Machine(instruction) = &mut data.body
            && instruction.control.stall() > 0
            && instruction.control.stall() < penalty
            && let Some(longer) = instruction.control.with_stall(penalty)
        {
            instruction.control = longer;
        }
    }
}
