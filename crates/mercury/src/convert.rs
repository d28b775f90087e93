//! MercConverter (141): final Ori becomes a stream.
//!
//! 1. *Opcodes.* A machine instruction becomes a node with a form of the target's tables: the tables are asked here whether there
//!    is one. A copy of several registers at once (`parcopy`), which may stay abstract until encoding, becomes a pseudo-instruction.
//!    Anything else abstract is an error: afterwards every opcode is one of the target's or a pseudo-operation of this room.
//! 2. *Operands.* Pseudo-instructions name registers by lists. Each gets a conversion node, kept in a tree by block and place in the
//!    block. Its operands are sorted by their index, 32 times the register's number; where indices follow each other by 32 on both
//!    sides they form one run, and all others are gaps with places of their own. A list that belongs to one instruction keeps its
//!    order, which is that of memory.
//! 3. *Validation.* A list fits if it is one run that starts where a tuple may start, and the operation has a form of that size. If
//!    not, it falls back to its two halves, and so on down to single registers: what comes out are the pieces that expansion makes
//!    an instruction of each.
//!
//! Steps 2 and 3 are skipped where step 1 left no pseudo-instruction. Linear, but for the sorting of single lists.

use crate::error::EmitError;
use crate::stream::{
    Body, Fixup, Node, NodeData, Origin, Pseudo, Reference, Run, Schedule, Segment, Stream,
};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};
use orias_ori::{
    AbstractOp, Block, Function, Inst, Level, Opcode, Operand, PhysReg, Symbol, SymbolPart,
    machine, print_inst,
};
use orias_sass::{
    self as sass, Guard, Instruction, Register, RegisterClass, Target, ValueName,
    modifier_names as name, modifier_values as value,
};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Makes a stream of a function of the final level.
pub fn convert(func: &Function) -> Result<Stream, EmitError> {
    if func.level != Level::Final {
        return Err(EmitError::Level {
            function: func.name.clone(),
            level: func.level,
        });
    }
    let target = func.target;
    let mut segments = SecondaryMap::new();
    let mut stream = Stream::new(&func.name, func.kind, target);
    let nodes = func.blocks().map(|block| func.block_insts(block).count());
    stream.reserve(func.blocks().count(), nodes.sum());
    for block in func.blocks() {
        segments[block] = PackedOption::from(stream.add_segment());
    }
    let mut converter = Converter {
        func,
        target,
        segments,
        names: SecondaryMap::new(),
        pseudo: false,
    };
    for (number, block) in func.blocks().enumerate() {
        let segment = Segment::new(number);
        for inst in func.block_insts(block) {
            converter.opcode(&mut stream, segment, inst)?;
        }
        let successors = func
            .successors(block)
            .filter_map(|to| converter.segments[to].expand());
        stream.set_successors(segment, successors.collect());
    }
    if converter.pseudo {
        reorganize(&mut stream)?;
    }
    Ok(stream)
}

struct Converter<'f> {
    func: &'f Function,
    target: Target,
    segments: SecondaryMap<Block, PackedOption<Segment>>,
    names: SecondaryMap<Symbol, PackedOption<crate::stream::Name>>,
    pseudo: bool,
}

impl Converter<'_> {
    fn opcode(
        &mut self,
        stream: &mut Stream,
        segment: Segment,
        inst: Inst,
    ) -> Result<(), EmitError> {
        let func = self.func;
        let node = match func.opcode(inst) {
            Opcode::Machine(op) => self.machine(stream, segment, inst, op)?,
            Opcode::Abstract(AbstractOp::FallThrough) => return Ok(()),
            Opcode::Abstract(AbstractOp::ParCopy) => {
                self.pseudo = true;
                let copy = copies(func, inst).ok_or_else(|| no_encoding(func, inst))?;
                stream.append(segment, NodeData::new(Body::Pseudo(copy), Origin::Source))
            }
            Opcode::Abstract(_) => return Err(no_encoding(func, inst)),
        };
        let data = stream.node_mut(node);
        data.inst = inst.into();
        data.span = func.inst(inst).span().into();
        self.indirect(stream, node, inst);
        Ok(())
    }

    fn machine(
        &mut self,
        stream: &mut Stream,
        segment: Segment,
        inst: Inst,
        op: sass::Op,
    ) -> Result<Node, EmitError> {
        let func = self.func;
        let mut waiting: SmallVec<[(usize, Operand); 1]> = SmallVec::new();
        let mut resolve = |slot: usize, operand: Operand| {
            waiting.push((slot, operand));
            match operand {
                Operand::Symbol { .. } if !machine::takes_target(op, slot) => {
                    sass::Operand::Immediate(0)
                }
                Operand::Address(_) => sass::Operand::Immediate(0),
                _ => sass::Operand::Target(0),
            }
        };
        let made = machine::instruction(func, inst, self.target, &mut resolve)
            .ok_or_else(|| no_encoding(func, inst))?;
        let node = match made {
            Ok(made) => stream.append(segment, NodeData::new(Body::Machine(made), Origin::Source)),
            Err(error) => {
                return Err(EmitError::Encode {
                    function: func.name.clone(),
                    offset: 0,
                    inst: print_inst(func, inst),
                    error,
                });
            }
        };
        stream.node_mut(node).schedule = Schedule {
            known: func.inst(inst).control().is_some(),
            ..Schedule::default()
        };
        for (slot, operand) in waiting {
            if let Some(to) = self.reference(stream, inst, operand) {
                stream.node_mut(node).fixups.push(Fixup {
                    slot: slot as u8,
                    to,
                });
            }
        }
        Ok(node)
    }

    fn reference(
        &mut self,
        stream: &mut Stream,
        inst: Inst,
        operand: Operand,
    ) -> Option<Reference> {
        let func = self.func;
        let (symbol, part, addend) = match operand {
            Operand::Edge(edge) => {
                let edge = *func.edges(inst).get(edge as usize)?;
                let to = self.segments[func.edge_target(edge)].expand()?;
                return Some(Reference::Block(to));
            }
            Operand::Block(block) => {
                return self.segments[block].expand().map(Reference::Block);
            }
            Operand::Symbol {
                symbol,
                part,
                addend,
            } => (symbol, part, i64::from(addend)),
            Operand::Address(id) => {
                let address = func.address(id);
                let symbol = address.symbol.expand()?;
                (symbol, SymbolPart::Whole, i64::from(address.offset))
            }
            _ => return None,
        };
        let name = match self.names[symbol].expand() {
            Some(name) => name,
            None => {
                let name = stream.names.push(func.symbol_name(symbol).to_owned());
                self.names[symbol] = name.into();
                name
            }
        };
        Some(Reference::Symbol { name, part, addend })
    }

    /// Lists where an indirect branch may go.
    fn indirect(&self, stream: &mut Stream, node: Node, inst: Inst) {
        let func = self.func;
        let Some(instruction) = stream.node(node).instruction() else {
            return;
        };
        let ends = sass::Effects::TERMINATOR | sass::Effects::BRANCH;
        let operands = func.operands(inst);
        if !instruction.op().row().effects.contains(ends)
            || operands.iter().any(|at| matches!(at, Operand::Edge(_)))
        {
            return;
        }
        let fall = machine::falls_through(func, inst);
        let targets = func.edges(inst).iter().filter(|&&edge| Some(edge) != fall);
        let targets = targets.filter_map(|&edge| self.segments[func.edge_target(edge)].expand());
        stream.indirect.push((node, targets.collect()));
    }
}

fn no_encoding(func: &Function, inst: Inst) -> EmitError {
    EmitError::Abstract {
        function: func.name.clone(),
        inst: print_inst(func, inst),
    }
}

/// A parallel copy of physical registers.
fn copies(func: &Function, inst: Inst) -> Option<Pseudo> {
    let (to, from) = func.operands(inst).split_at(func.result_count(inst));
    let mut runs = Vec::new();
    for (to, from) in to.iter().zip(from) {
        let to: PhysReg = to.reg()?.phys()?;
        let from: PhysReg = from.reg()?.phys()?;
        runs.push(Run {
            to: Register::new(to.class().into(), to.index()),
            from: Register::new(from.class().into(), from.index()),
            count: to.len(),
        });
    }
    let uniform = runs
        .first()
        .is_some_and(|run| matches!(run.to.class, RegisterClass::UR | RegisterClass::UP));
    let guard = if uniform {
        Guard::ALWAYS_UNIFORM
    } else {
        Guard::ALWAYS
    };
    Some(Pseudo::Copy { guard, runs })
}

/// The distance between the indices of registers that follow each other.
const STRIDE: u32 = 32;

/// The operands of one pseudo-instruction, sorted out.
struct Conversion {
    node: Node,
    /// Copies of several registers that follow each other on both sides.
    contiguous: Vec<Run>,
    /// Copies of single registers.
    gaps: Vec<Run>,
}

/// Step 2 and 3, on a stream that may have pseudo-instructions. Streams that were read from text come here, too.
pub fn reorganize(stream: &mut Stream) -> Result<(), EmitError> {
    let mut tree: BTreeMap<(Segment, u32), Conversion> = BTreeMap::new();
    for segment in stream.segments() {
        let nodes: Vec<Node> = stream.nodes(segment).collect();
        for (place, node) in nodes.into_iter().enumerate() {
            match &stream.node(node).body {
                Body::Pseudo(Pseudo::Copy { runs, .. }) => {
                    let (contiguous, gaps) = partition(runs);
                    tree.insert(
                        (segment, place as u32),
                        Conversion {
                            node,
                            contiguous,
                            gaps,
                        },
                    );
                    stream.note("CONVERTING", node);
                }
                Body::Pseudo(Pseudo::Group { .. }) => {
                    stream.note("CONVERTING", node);
                    validate_group(stream, node)?;
                }
                _ => {}
            }
        }
        let here = (segment, 0)..=(segment, u32::MAX);
        for (_, conversion) in tree.range(here) {
            let node = conversion.node;
            let mut sorted = conversion.contiguous.clone();
            sorted.extend(&conversion.gaps);
            sorted.sort_by_key(|run| index(run.to));
            if let Body::Pseudo(Pseudo::Copy { runs, .. }) = &mut stream.node_mut(node).body {
                *runs = sorted;
            }
        }
    }
    Ok(())
}

/// The canonical index of an operand: registers of a class follow each other by [`STRIDE`].
fn index(register: Register) -> u32 {
    ((register.class as u32) << 16) | (u32::from(register.index) * STRIDE)
}

/// Sorts copies by destination and joins those that follow each other on both sides.
fn partition(runs: &[Run]) -> (Vec<Run>, Vec<Run>) {
    let mut units: Vec<(Register, Register)> = runs.iter().flat_map(|run| run.units()).collect();
    units.sort_by_key(|&(to, _)| index(to));
    let mut joined: Vec<Run> = Vec::new();
    for (to, from) in units {
        if let Some(last) = joined.last_mut() {
            let next = |register: Register| {
                index(register)
                    + if register.is_constant() {
                        0
                    } else {
                        u32::from(last.count) * STRIDE
                    }
            };
            if next(last.to) == index(to) && next(last.from) == index(from) {
                last.count += 1;
                continue;
            }
        }
        joined.push(Run { to, from, count: 1 });
    }
    joined.into_iter().partition(|run| run.count > 1)
}

/// Finds the pieces of a group.
fn validate_group(stream: &mut Stream, node: Node) -> Result<(), EmitError> {
    let text = stream.print_node(node);
    let (name, target) = (stream.name.clone(), stream.target);
    if let Body::Pseudo(Pseudo::Group {
        instruction,
        slot,
        registers,
        pieces,
    }) = &mut stream.node_mut(node).body
    {
        pieces.clear();
        // An operation without sizes cannot be split; expansion says so where it must be.
        let mut rest = match instruction.op().row().modifier(name::SIZE) {
            Some(_) => vec![&registers[..]],
            None => Vec::new(),
        };
        while let Some(part) = rest.pop() {
            if part.is_empty() {
                continue;
            }
            if encoding(instruction, usize::from(*slot), part, target).is_some() {
                pieces.push(part.len() as u8);
            } else if part.len() == 1 {
                return Err(EmitError::Pseudo {
                    function: name,
                    inst: text,
                    why: format!("no form takes {} alone", part[0]),
                });
            } else {
                let (low, high) = part.split_at(part.len().next_power_of_two() / 2);
                rest.push(high);
                rest.push(low);
            }
        }
    }
    Ok(())
}

/// `instruction` with `part` of a group in `slot`, if the tables have a form for it; nothing where the registers have gaps, start
/// where no tuple may start, or are as many as no size of the operation has.
pub(crate) fn encoding(
    instruction: &Instruction,
    slot: usize,
    part: &[Register],
    target: Target,
) -> Option<Instruction> {
    let first = *part.first()?;
    let follows = part
        .windows(2)
        .all(|pair| index(pair[1]) == index(pair[0]) + STRIDE);
    if !follows || !usize::from(first.index).is_multiple_of(part.len()) {
        return None;
    }
    let size = instruction.op().row().modifier(name::SIZE)?;
    let mods = if usize::from(instruction.width(slot)) == part.len() {
        instruction.mods()
    } else {
        let (_, name) = SIZES.iter().find(|(count, _)| *count == part.len())?;
        instruction.mods().with(size, size.value_of(*name)?.value)
    };
    let mut operands: Vec<sass::Operand> = instruction.operands().to_vec();
    operands[slot] = sass::Operand::register(first);
    let (op, guard) = (instruction.op(), instruction.guard());
    let mut made = Instruction::new(op, guard, mods, operands, target).ok()?;
    made.control = instruction.control;
    (usize::from(made.width(slot)) == part.len()).then_some(made)
}

/// What memory operations call the sizes of so many registers.
const SIZES: [(usize, ValueName); 3] = [(1, value::_32), (2, value::_64), (4, value::_128)];
