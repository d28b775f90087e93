//! Finished SASS to Ori: blocks, edges, physical registers, control words.
//!
//! The words of one text section become one function at the `final` level, a subroutine that ptxas placed behind a kernel
//! included: it is a run of blocks that no edge reaches and that calls name. Three passes over the words:
//!
//! 1. Decode, and find where blocks start: at jump targets, at places an operand names (where lanes meet, what a call enters,
//!    what an indirect branch counts from), at the entries of subroutines, and behind each terminator.
//! 2. Make the blocks, one for each start, in the order of their addresses.
//! 3. Make the instructions. Registers become ranges of the length their slot has under the modifiers; distances become blocks
//!    and edges; a block that runs into the one behind it gets a `next`.
//!
//! The NOPs that fill the section's end are not part of the function: [`crate::emit`] writes them again. A function that
//! branches to its own first instruction gets an empty entry block in front, because no edge goes to the entry of an Ori
//! function.
//!
//! Where an indirect branch may go is not in the code: the container lists it. A branch that is not listed cannot be lifted,
//! because everything that follows from the control-flow graph would be wrong.

use crate::WORD;
use orias_ori::{
    Address, BaseForm, Block, Class, ControlWord, Function, FunctionKind, Guard, Level, Operand,
    OptReg, PhysReg, SourceMods, SymbolPart,
};
use orias_sass::{
    self as sass, DecodeError, Effects, Instruction, PlaceKind, Target, ValueName,
    modifier_names as name, modifier_values as value,
};
use std::collections::{BTreeMap, BTreeSet};

/// The code of one text section, and what its container says about it.
#[derive(Clone, Copy, Debug)]
pub struct TextSection<'a> {
    /// The function's name.
    pub name: &'a str,
    /// How it is entered.
    pub kind: FunctionKind,
    /// Its code.
    pub code: &'a [u8],
    /// The chip it is for.
    pub target: Target,
    /// Where indirect branches may go, by their offset: offsets in the same section.
    pub indirect: &'a BTreeMap<usize, Vec<usize>>,
    /// Offsets of the subroutines in the section.
    pub subroutines: &'a [usize],
    /// Names that a linker puts in the place of code addresses, by the offset of the instruction.
    pub named: &'a BTreeMap<usize, String>,
}

/// Code that cannot be lifted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}+{offset:#x}: {kind}")]
pub struct LiftError {
    /// The function.
    pub function: String,
    /// Offset of the instruction.
    pub offset: usize,
    /// What is wrong with it.
    pub kind: LiftErrorKind,
}

/// Why code cannot be lifted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiftErrorKind {
    /// The section is not a whole number of instructions.
    #[error("the code is not a whole number of instructions")]
    Length,
    /// There is no code.
    #[error("there is no code")]
    Empty,
    /// A word is no instruction.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A distance leads out of the section, or into the middle of an instruction.
    #[error("{0:#x} is not the address of an instruction of this function")]
    Outside(i64),
    /// An address by itself, without a relocation that says whose.
    #[error("an absolute code address that no relocation names")]
    Absolute,
    /// An indirect branch that the container does not list.
    #[error("the container does not say where this indirect branch may go")]
    Indirect,
    /// The last instruction is not one that ends a function.
    #[error("control runs over the end of the code")]
    RunsOver,
    /// Bits that Ori has no place for.
    #[error("the performance-monitor field is not supported yet")]
    Monitor,
    /// A tuple that goes over the end of its register file.
    #[error("{count} registers from {register} on do not exist")]
    Tuple {
        /// The first register.
        register: sass::Register,
        /// How many.
        count: u8,
    },
}

/// Lifts a text section to a function at the final level.
///
/// ```
/// use orias_mercury::{TextSection, emit, lift};
/// use orias_ori::FunctionKind;
/// use orias_sass::{Target, text};
///
/// let assembly = text::assemble(".kernel k\n  [B------:R-:W-:-:S05] EXIT ;\n", Target::Sm90a).unwrap();
/// let words = &assembly.functions[0].words;
/// let mut code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
/// let source = TextSection {
///     name: "k",
///     kind: FunctionKind::Entry,
///     code: &code,
///     target: Target::Sm90a,
///     indirect: &Default::default(),
///     subroutines: &[],
///     named: &Default::default(),
/// };
/// let func = lift(&source)?;
/// assert_eq!(
///     orias_ori::print_function(&func),
///     "entry k final sm_90a {\nblock0:\n    [B------:R-:W-:-:S05] EXIT PT\n}\n"
/// );
/// assert!(emit(&func).unwrap().bytes.starts_with(&code));
/// # Ok::<(), orias_mercury::LiftError>(())
/// ```
pub fn lift(source: &TextSection<'_>) -> Result<Function, LiftError> {
    let instructions = decode(source)?;
    let flow = Flow::new(source, &instructions)?;
    Lifter::new(source, &flow).run(&instructions, &flow)
}

fn error(source: &TextSection<'_>, offset: usize, kind: impl Into<LiftErrorKind>) -> LiftError {
    LiftError {
        function: source.name.to_owned(),
        offset,
        kind: kind.into(),
    }
}

/// Decodes every instruction but the padding.
fn decode(source: &TextSection<'_>) -> Result<Vec<Instruction>, LiftError> {
    let code = source.code;
    if !code.len().is_multiple_of(WORD) {
        return Err(error(source, code.len(), LiftErrorKind::Length));
    }
    let mut words: Vec<u128> = code
        .chunks_exact(WORD)
        .map(|bytes| {
            let low_first = bytes.iter().rev();
            low_first.fold(0, |word, byte| word << 8 | u128::from(*byte))
        })
        .collect();
    strip_padding(&mut words, source.target);
    if words.is_empty() {
        return Err(error(source, 0, LiftErrorKind::Empty));
    }
    let mut instructions = Vec::with_capacity(words.len());
    for (index, &word) in words.iter().enumerate() {
        let instruction = sass::decode(word, source.target)
            .map_err(|reason| error(source, index * WORD, reason))?;
        if instruction.control.monitor() != 0 {
            return Err(error(source, index * WORD, LiftErrorKind::Monitor));
        }
        instructions.push(instruction);
    }
    Ok(instructions)
}

/// Takes the NOPs off the end.
fn strip_padding(words: &mut Vec<u128>, target: Target) {
    if let Ok(padding) = crate::emit::padding(target) {
        let fill = words.iter().rev();
        let count = fill.take_while(|&&word| word == padding).count();
        words.truncate(words.len() - count);
    }
}

/// Where control goes from each instruction, by index.
struct Flow {
    /// Indices of the first instructions of blocks, in order.
    starts: Vec<usize>,
    /// Where terminators jump.
    jumps: BTreeMap<usize, Vec<usize>>,
    /// Whether an edge goes to the first instruction.
    loops_to_start: bool,
}

impl Flow {
    fn new(source: &TextSection<'_>, instructions: &[Instruction]) -> Result<Flow, LiftError> {
        let mut starts = BTreeSet::from([0]);
        let mut jumps = BTreeMap::new();
        let inside = |index: usize, address: i64| {
            place(address, instructions.len())
                .ok_or_else(|| error(source, index * WORD, LiftErrorKind::Outside(address)))
        };
        for &subroutine in source.subroutines {
            starts.insert(inside(subroutine / WORD, subroutine as i64)?);
        }
        for (index, instruction) in instructions.iter().enumerate() {
            let effects = instruction.op().row().effects;
            let ends = effects.contains(Effects::TERMINATOR);
            let mut targets = Vec::new();
            for (slot, distance) in distances(instruction) {
                if source.named.contains_key(&(index * WORD)) && !is_jump(instruction, slot) {
                    continue;
                }
                if is_absolute(instruction, slot) {
                    return Err(error(source, index * WORD, LiftErrorKind::Absolute));
                }
                let target = inside(index, ((index + 1) * WORD) as i64 + distance)?;
                starts.insert(target);
                if is_jump(instruction, slot) {
                    targets.push(target);
                }
            }
            if ends && effects.contains(Effects::BRANCH) && targets.is_empty() {
                let listed = source.indirect.get(&(index * WORD));
                let listed = listed
                    .filter(|listed| !listed.is_empty())
                    .ok_or_else(|| error(source, index * WORD, LiftErrorKind::Indirect))?;
                for &target in listed {
                    let target = inside(index, target as i64)?;
                    starts.insert(target);
                    targets.push(target);
                }
            }
            if ends {
                if index + 1 < instructions.len() {
                    starts.insert(index + 1);
                }
                jumps.insert(index, targets);
            }
        }
        Ok(Flow {
            starts: starts.into_iter().collect(),
            loops_to_start: jumps.values().flatten().any(|&target| target == 0),
            jumps,
        })
    }
}

/// The index of the instruction at an address, if there is one.
fn place(address: i64, count: usize) -> Option<usize> {
    let address = usize::try_from(address).ok()?;
    (address.is_multiple_of(WORD) && address / WORD < count).then_some(address / WORD)
}

/// The distances an instruction holds, by slot; not one that has its default, which stands for none.
fn distances(instruction: &Instruction) -> impl Iterator<Item = (usize, i64)> {
    let row = instruction.op().row();
    let operands = instruction.operands().iter().enumerate();
    operands.filter_map(|(slot, operand)| match operand {
        sass::Operand::Target(distance) if row.slots[slot].default_operand() != Some(*operand) => {
            Some((slot, *distance))
        }
        _ => None,
    })
}

fn is_absolute(instruction: &Instruction, slot: usize) -> bool {
    matches!(
        instruction.form().places[slot].kind,
        PlaceKind::Target { absolute: true, .. }
    )
}

/// Whether the distance in `slot` is where the instruction jumps, and not what an indirect branch counts from.
fn is_jump(instruction: &Instruction, slot: usize) -> bool {
    let row = instruction.op().row();
    row.effects.contains(Effects::TERMINATOR | Effects::BRANCH) && row.slots[slot].default.is_none()
}

/// Whether control may go on behind a terminator: under a guard, under another condition, or because it looks at the lanes.
fn may_fall(instruction: &Instruction) -> bool {
    /// The modes of a branch that is taken only if the lanes have parted, have not, or one of them wants to.
    const LOOKING: [ValueName; 3] = [value::DIV, value::CONV, value::U_ANY];
    let row = instruction.op().row();
    let condition =
        instruction
            .operands()
            .iter()
            .zip(row.slots)
            .any(|(operand, slot)| match operand {
                sass::Operand::Register(operand) => {
                    let class = Class::from(operand.register.class);
                    slot.access.reads()
                        && class.is_predicate()
                        && (!operand.register.is_constant() || operand.modifiers.invert)
                }
                _ => false,
            });
    let mode = instruction.modifier(name::MODE);
    let looks =
        row.effects.contains(Effects::BRANCH) && mode.is_some_and(|mode| LOOKING.contains(&mode));
    !instruction.guard().is_always() || condition || looks
}

struct Lifter<'a> {
    source: &'a TextSection<'a>,
    func: Function,
    /// The block of each start.
    blocks: Vec<Block>,
}

impl<'a> Lifter<'a> {
    fn new(source: &'a TextSection<'a>, flow: &Flow) -> Lifter<'a> {
        let mut func = Function::new(source.name, source.kind, Level::Final, source.target);
        if flow.loops_to_start {
            func.append_block();
        }
        let blocks: Vec<Block> = flow.starts.iter().map(|_| func.append_block()).collect();
        if let (true, Some(entry)) = (flow.loops_to_start, func.entry()) {
            fall(&mut func, entry, blocks[0]);
        }
        Lifter {
            source,
            func,
            blocks,
        }
    }

    fn run(mut self, instructions: &[Instruction], flow: &Flow) -> Result<Function, LiftError> {
        let ends = flow.starts.iter().skip(1).copied();
        let ends = ends.chain([instructions.len()]);
        for (number, (&start, end)) in flow.starts.iter().zip(ends).enumerate() {
            let block = self.blocks[number];
            for (index, instruction) in instructions.iter().enumerate().take(end).skip(start) {
                self.instruction(block, index, instruction, flow)?;
            }
            if flow.jumps.contains_key(&(end - 1)) {
                continue;
            }
            match self.blocks.get(number + 1) {
                Some(&next) => fall(&mut self.func, block, next),
                None => return Err(self.error(end - 1, LiftErrorKind::RunsOver)),
            }
        }
        Ok(self.func)
    }

    fn error(&self, index: usize, kind: impl Into<LiftErrorKind>) -> LiftError {
        error(self.source, index * WORD, kind)
    }

    /// The block that starts at an instruction.
    fn block_at(&self, flow: &Flow, index: usize) -> Option<Block> {
        let number = flow.starts.binary_search(&index).ok()?;
        Some(self.blocks[number])
    }

    fn instruction(
        &mut self,
        block: Block,
        index: usize,
        instruction: &Instruction,
        flow: &Flow,
    ) -> Result<(), LiftError> {
        let mut operands = Vec::with_capacity(instruction.operands().len());
        let mut jumps = 0;
        for slot in 0..instruction.operands().len() {
            let operand = match &instruction.operands()[slot] {
                sass::Operand::Target(_) if is_jump(instruction, slot) => {
                    jumps += 1;
                    Operand::Edge(jumps - 1)
                }
                sass::Operand::Target(_) if self.source.named.contains_key(&(index * WORD)) => {
                    let symbol = self.func.symbol(&self.source.named[&(index * WORD)]);
                    Operand::Symbol {
                        symbol,
                        part: SymbolPart::Whole,
                        addend: 0,
                    }
                }
                sass::Operand::Target(distance) => {
                    self.named(index, instruction, slot, *distance, flow)?
                }
                _ => self
                    .operand(instruction, slot)
                    .map_err(|kind| self.error(index, kind))?,
            };
            operands.push(operand);
        }
        let inst = self
            .func
            .create_machine(instruction.op(), instruction.mods(), &operands);
        let guard = instruction.guard();
        if !guard.is_always() {
            let reg = register(guard.predicate, 1).map_err(|kind| self.error(index, kind))?;
            let guard = if guard.negated {
                Guard::unless(reg)
            } else {
                Guard::when(reg)
            };
            self.func.set_guard(inst, guard);
        }
        self.func
            .set_control(inst, ControlWord::from(instruction.control));
        if let Some(targets) = flow.jumps.get(&index) {
            let mut successors: Vec<Block> = Vec::with_capacity(targets.len() + 1);
            for &target in targets {
                successors.extend(self.block_at(flow, target));
            }
            if may_fall(instruction) {
                let next = self.block_at(flow, index + 1);
                successors.push(next.ok_or_else(|| self.error(index, LiftErrorKind::RunsOver))?);
            }
            let edges: Vec<_> = successors
                .into_iter()
                .map(|to| self.func.create_edge(to, &[]))
                .collect();
            self.func.set_edges(inst, &edges);
        }
        self.func.layout.append_inst(inst, block);
        Ok(())
    }

    /// The block that a distance names without jumping there.
    fn named(
        &self,
        index: usize,
        instruction: &Instruction,
        slot: usize,
        distance: i64,
        flow: &Flow,
    ) -> Result<Operand, LiftError> {
        let default = instruction.op().row().slots[slot].default_operand();
        if default == Some(sass::Operand::Target(distance)) {
            return Ok(Operand::None);
        }
        let address = ((index + 1) * WORD) as i64 + distance;
        let block = place(address, usize::MAX).and_then(|target| self.block_at(flow, target));
        let block = block.ok_or_else(|| self.error(index, LiftErrorKind::Outside(address)))?;
        Ok(Operand::Block(block))
    }

    fn operand(
        &mut self,
        instruction: &Instruction,
        slot: usize,
    ) -> Result<Operand, LiftErrorKind> {
        let source = |modifiers: sass::SourceModifiers| {
            let mut mods = SourceMods::NONE
                .with_select(modifiers.select)
                .unwrap_or(SourceMods::NONE);
            for (set, flag) in [
                (modifiers.negate, SourceMods::NEGATE),
                (modifiers.absolute, SourceMods::ABSOLUTE),
                (modifiers.invert, SourceMods::NOT),
                (instruction.reuses(slot), SourceMods::REUSE),
            ] {
                if set {
                    mods = mods.with(flag);
                }
            }
            mods
        };
        Ok(match &instruction.operands()[slot] {
            sass::Operand::Register(operand) => Operand::Reg {
                // A slot that the modifiers leave unread still names a register.
                reg: register(operand.register, instruction.width(slot).max(1))?.into(),
                mods: source(operand.modifiers),
            },
            sass::Operand::Immediate(bits) => Operand::imm(*bits),
            sass::Operand::Constant(constant) => match constant.bank {
                sass::ConstantBank::Index(bank) => Operand::Const {
                    mods: source(constant.modifiers),
                    bank,
                    offset: constant.offset,
                    index: optional(constant.index, 1)?,
                },
                sass::ConstantBank::Bindless(descriptor) => Operand::Bindless {
                    mods: source(constant.modifiers),
                    descriptor: register(descriptor, 2)?.into(),
                    offset: constant.offset,
                },
            },
            sass::Operand::Address(address) => self.address(instruction, slot, address)?,
            sass::Operand::Descriptor(base) => {
                Operand::Descriptor(register(*base, instruction.width(slot).max(1))?.into())
            }
            sass::Operand::Special(number) => Operand::Special(*number),
            sass::Operand::Target(_) => Operand::None,
        })
    }

    fn address(
        &mut self,
        instruction: &Instruction,
        slot: usize,
        address: &sass::Address,
    ) -> Result<Operand, LiftErrorKind> {
        let widths = instruction.address_widths(slot);
        Ok(self.func.create_address(Address {
            base: optional(address.base, widths.base)?,
            uniform: optional(address.uniform, widths.uniform)?,
            descriptor: optional(address.descriptor, widths.descriptor)?,
            symbol: None.into(),
            offset: address.offset,
            form: match address.kind {
                sass::BaseKind::Plain => BaseForm::Plain,
                sass::BaseKind::Wide => BaseForm::Wide,
                sass::BaseKind::Zero => BaseForm::Unsigned,
            },
        }))
    }
}

/// Ends `block` by going on to the block behind it.
fn fall(func: &mut Function, block: Block, next: Block) {
    let edge = func.create_edge(next, &[]);
    let inst = func.create_abstract(
        orias_ori::AbstractOp::FallThrough,
        orias_ori::AbstractMods::NONE,
        0,
        &[],
    );
    func.set_edges(inst, &[edge]);
    func.layout.append_inst(inst, block);
}

/// A run of registers; a constant register stands for a run of any length.
fn register(register: sass::Register, count: u8) -> Result<PhysReg, LiftErrorKind> {
    let class = Class::from(register.class);
    let found = if register.is_constant() {
        class.constant()
    } else {
        PhysReg::tuple(class, register.index, count)
    };
    found.ok_or(LiftErrorKind::Tuple { register, count })
}

fn optional(reg: Option<sass::Register>, count: u8) -> Result<OptReg, LiftErrorKind> {
    match reg {
        None => Ok(OptReg::NONE),
        Some(reg) => Ok(OptReg::from(register(reg, count)?)),
    }
}
