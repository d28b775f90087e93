//! The statements of a kernel, in order.
//!
//! A [`Body`] writes one function. It walks the kernel's statements; a call of a function that the module defines pushes a
//! [`Frame`] and goes on with the callee's statements, whose registers are variables of their own, so inlining needs no
//! recursion and copies no tree. Parameters of callees are words held in variables, unless something takes their address:
//! then they have a place in the frame in local memory.
//!
//! A guard on an instruction stays on the operation that has the effect or makes the result, which names the value it
//! keeps; what is computed on the way is not guarded. Guarded branches, returns, exits, traps and calls become `cbr`.

mod finish;
mod head;
mod values;

pub(super) use values::Destination;

use super::data::{Symbols, alignment};
use super::debug::{Debugging, Watches};
use super::graph::CallGraph;
use super::lines::{At, Lines};
use super::rules;
use super::{Caches, LowerOptions};
use crate::emit::Emit;
use crate::module::{DeviceFunction, Extern, INCOMING, Kernel, near_name};
use crate::ssa::{Ssa, Variable};
use orias_ori::builder::BuildError;
use orias_ori::operation::{AbstractMods, AbstractOp};
use orias_ori::{Block, Function, FunctionKind, Level, Operand, SourceMods, Span, Type, Value};
use orias_ptx::Diagnostic;
use orias_ptx::ast::{self, FunctionId, LabelId, OpcodeId, RegisterId, VariableId};
use orias_ptx::grammar::Op;
use orias_ptx::opcode::{Form, Pattern};
use orias_ptx::types::Type as PtxType;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::rc::Rc;

/// How often `.pragma "frequency n"` says that the block it stands in runs. More than a register holds is as much as one does.
fn stated_frequency(text: &str) -> Option<u64> {
    let number = text.trim_matches('"').strip_prefix("frequency ")?.trim();
    let (digits, radix) = match number.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    digits.chars().try_fold(0_u64, |number, digit| {
        let digit = u64::from(digit.to_digit(radix)?);
        Some(number.saturating_mul(radix.into()).saturating_add(digit))
    })
}

/// The pragma that lets spilled registers lie in shared memory.
const SHARED_SPILLS: &str = "enable_smem_spilling";

/// Whether a list of pragmas, each in quotes, has that one.
fn asks_for_shared_spills(pragmas: &str) -> bool {
    quoted(pragmas).any(|it| it.split(' ').next() == Some(SHARED_SPILLS))
}

/// The strings in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// The pragma that keeps loops from being unrolled.
pub(super) const NO_UNROLLING: &str = "nounroll";

/// Why an instruction was not lowered.
pub(super) enum Refusal {
    /// It is not supported; what exactly, and where if not all of it is to blame.
    Unsupported(String),
    /// What lowering made of it is no legal instruction.
    Broken(BuildError),
}

impl From<BuildError> for Refusal {
    fn from(error: BuildError) -> Refusal {
        Refusal::Broken(error)
    }
}

/// What lowering something gives.
pub(super) type Lowered<T = ()> = Result<T, Refusal>;

/// "Not supported yet".
pub(super) fn unsupported<T>(what: impl Into<String>) -> Lowered<T> {
    Err(Refusal::Unsupported(what.into()))
}

/// An instruction of the PTX, looked up.
pub(super) struct Statement<'m> {
    /// The instruction's name.
    pub op: Op,
    /// The row it fits, with its modifiers.
    pub form: &'m Form,
    /// What its operands are like.
    pub patterns: &'m [Pattern],
    /// Its operands.
    pub operands: &'m [ast::Operand],
    /// The body it stands in.
    pub body: &'m ast::Body,
    /// The spelling of its opcode, and the form's number: the same for the same modifiers.
    pub key: (OpcodeId, u8),
    /// Where it stands.
    pub span: orias_ptx::Span,
}

/// Where something is kept that PTX calls a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Storage {
    /// In the kernel's parameter space, from that byte on.
    Kernel(u32),
    /// In variables, four bytes each, from that one on.
    Words(Variable, u32),
    /// In the frame, from that byte on.
    Frame(u32),
}

/// What a PTX function looks like before it is lowered: the same for every call of it.
pub(super) struct Scan {
    /// The first variable of each register, relative to the frame's, and one past the last.
    variables: Vec<u32>,
    /// The types of all variables.
    types: Vec<Type>,
    /// Parameters whose address is used as a number.
    taken: Vec<VariableId>,
    /// Whether something branches to each label: the others end no block.
    targets: Vec<bool>,
}

/// A function being lowered into the kernel.
pub(super) struct Frame<'m> {
    pub function: &'m ast::Function,
    pub body: &'m ast::Body,
    scan: Rc<Scan>,
    /// The statement to go on with.
    next: usize,
    first: Variable,
    labels: Vec<Option<Block>>,
    /// Where control goes when the function returns; `None` for the kernel itself.
    pub after: Option<Block>,
    /// Where control goes on behind a guarded call, whether the call was made or not.
    pub on: Option<Block>,
    /// The variables that the call's results go to.
    pub returns: Vec<ast::Operand>,
    /// The top of the frame memory before the call.
    pub memory: u32,
    /// The call's source location.
    pub called_from: Option<Span>,
}

impl Frame<'_> {
    /// The variable of a register.
    pub fn variable(&self, register: RegisterId) -> Variable {
        Variable(self.first.0 + self.scan.variables[register.index()])
    }

    /// The register and the component of it that a variable is.
    pub fn register_of(&self, variable: Variable) -> Option<(RegisterId, u8)> {
        let number = variable.0.checked_sub(self.first.0)?;
        if number as usize >= self.scan.types.len() {
            return None;
        }
        let after = self.scan.variables.partition_point(|&it| it <= number);
        let register = after.checked_sub(1)?;
        let component = number - self.scan.variables[register];
        Some((RegisterId(register as u32), component as u8))
    }
}

/// The most statements one kernel may have, inlined ones included.
const MAX_STATEMENTS: usize = 4_000_000;

/// The most bytes of a parameter that are kept in variables.
const MAX_PARAMETER_WORDS: u64 = 1024;

/// The most bytes of a frame: sizes and offsets are signed words in attributes and code. What a launch can have is less (512 KB a thread) and
/// the driver's to say.
const MAX_FRAME: u64 = i32::MAX as u64;

/// Writes one kernel.
pub(super) struct Body<'m, 'a> {
    pub module: &'m orias_ptx::Module<'a>,
    pub symbols: &'m Symbols,
    pub func: Function,
    pub ssa: Ssa,
    /// The block being written; none after a terminator, until a label.
    pub block: Option<Block>,
    /// The guard of the instruction being lowered: a predicate, maybe turned round.
    pub guard: Option<Operand>,
    pub frames: Vec<Frame<'m>>,
    /// The carry flag.
    pub carry: Variable,
    /// Where parameters and local variables are kept.
    pub storage: FxHashMap<VariableId, Storage>,
    /// Top, highest top and alignment of the frame in local memory.
    pub memory: (u32, u32, u32),
    /// The value of the frame's base, once needed.
    pub frame_base: Option<Value>,
    /// Symbols of shared memory in use.
    pub shared: BTreeSet<usize>,
    pub externs: Vec<Extern>,
    /// Who calls whom in the module.
    pub graph: &'m CallGraph,
    /// The address that the caller wants the result at, if it lies in memory.
    pub result_pointer: Option<Variable>,
    /// Whether the stack grows at run time.
    pub alloca: bool,
    /// Bytes at the stack pointer for arguments of calls.
    pub outgoing: u32,
    /// How many named barriers are in use.
    pub barriers: u32,
    /// Whether the kernel is launched with clusters, whatever the launch says (`.explicitcluster`).
    pub explicit_cluster: bool,
    /// Modifiers of operations, by opcode.
    pub packed: FxHashMap<((OpcodeId, u8), AbstractOp), AbstractMods>,
    scans: FxHashMap<FunctionId, Rc<Scan>>,
    lines: &'m Lines<'m>,
    pub at: At,
    /// What debuggers are told, if there are to be any.
    pub debugging: Option<Debugging>,
    pub caches: Caches,
    pragmas: Vec<String>,
    statements: usize,
    problems: Vec<Diagnostic>,
}

/// The type of values of a PTX register.
pub(super) fn register_type(ty: PtxType) -> Type {
    match ty {
        PtxType::Pred => Type::P,
        other => match other.bits().div_ceil(32) {
            0 | 1 => Type::R,
            2 => Type::R2,
            _ => Type::R4,
        },
    }
}

/// What the functions of a module are lowered with.
pub(super) struct Surroundings<'m, 'a> {
    pub module: &'m orias_ptx::Module<'a>,
    pub symbols: &'m Symbols,
    pub lines: &'m Lines<'m>,
    pub graph: &'m CallGraph,
    pub watches: Option<&'m Watches>,
    pub options: &'m LowerOptions,
}

/// Lowers one kernel, which calls `functions`; the functions it calls that are not here come with it.
pub(super) fn lower_kernel(
    around: &Surroundings<'_, '_>,
    id: FunctionId,
    functions: &[&DeviceFunction],
) -> Result<(Kernel, Vec<Extern>), Vec<Diagnostic>> {
    let function = around.module.function(id);
    let name = around.module.name(function.name);
    let mut body = body(around, id, name, FunctionKind::Entry);
    let parameters = body.parameters(function);
    body.directives(function);
    body.run(id);
    let mut body = finished(body, function, around.options)?;
    for called in functions {
        body.shared.extend(&called.shared);
        body.barriers = body.barriers.max(called.code.attributes.barriers);
    }
    let (mut kernel, externs) = body.into_kernel(function, parameters);
    kernel.callees = functions.iter().map(|it| it.code.name.clone()).collect();
    Ok((kernel, externs))
}

/// Lowers a function that is called.
pub(super) fn lower_function(
    around: &Surroundings<'_, '_>,
    id: FunctionId,
) -> Result<(DeviceFunction, Vec<Extern>), Vec<Diagnostic>> {
    let function = around.module.function(id);
    let plain = around.module.name(function.name);
    let name = match around.options.relocatable {
        true => plain.to_owned(),
        false => near_name(plain),
    };
    let mut body = body(around, id, &name, FunctionKind::Device);
    body.run(id);
    let body = finished(body, function, around.options)?;
    Ok(body.into_function(function))
}

/// Completes what was lowered, if nothing was refused.
fn finished<'m, 'a>(
    mut body: Body<'m, 'a>,
    function: &ast::Function,
    options: &LowerOptions,
) -> Result<Body<'m, 'a>, Vec<Diagnostic>> {
    if body.problems.is_empty()
        && let Err(refusal) = body.finish(options)
    {
        body.report(function.span, refusal);
    }
    match body.problems.is_empty() {
        true => Ok(body),
        false => Err(body.problems),
    }
}

fn body<'m, 'a>(
    around: &Surroundings<'m, 'a>,
    id: FunctionId,
    name: &str,
    kind: FunctionKind,
) -> Body<'m, 'a> {
    let &Surroundings {
        module,
        symbols,
        lines,
        graph,
        watches,
        options,
    } = around;
    let mut ssa = Ssa::default();
    let carry = ssa.declare(Type::P);
    let outgoing = graph.outgoing(id);
    let mut func = Function::new(name, kind, Level::Abstract, options.target);
    func.attributes.relocatable = options.relocatable;
    Body {
        module,
        symbols,
        func,
        ssa,
        block: None,
        guard: None,
        frames: Vec::new(),
        carry,
        storage: FxHashMap::default(),
        memory: (outgoing, outgoing, 1),
        frame_base: None,
        shared: BTreeSet::new(),
        externs: Vec::new(),
        graph,
        result_pointer: None,
        alloca: false,
        outgoing,
        barriers: 0,
        explicit_cluster: false,
        packed: FxHashMap::default(),
        scans: FxHashMap::default(),
        lines,
        at: At::default(),
        debugging: watches.and_then(|watches| Debugging::new(module, id, lines, watches)),
        caches: options.caches,
        pragmas: Vec::new(),
        statements: 0,
        problems: Vec::new(),
    }
}

impl<'m> Body<'m, '_> {
    /// Lowers the kernel or the function and what is inlined into it.
    fn run(&mut self, id: FunctionId) {
        let entry = self.func.append_block();
        self.block = Some(entry);
        let called = self.func.kind == FunctionKind::Device;
        let after = called.then(|| self.func.create_block());
        self.enter(id, after, Vec::new());
        if called && let Err(refusal) = self.take_parameters(id) {
            self.report(self.module.function(id).span, refusal);
            return;
        }
        let named = self.name_written();
        self.report_refused(named);
        while let Some(frame) = self.frames.last_mut() {
            let at = frame.next;
            let Some(&statement) = frame.body.statements.get(at) else {
                self.leave();
                continue;
            };
            frame.next += 1;
            let named = self.come_to(at);
            self.report_refused(named);
            self.statements += 1;
            if self.statements > MAX_STATEMENTS {
                let message = format!(
                    "not supported yet: more than {MAX_STATEMENTS} statements, inlined ones included"
                );
                let span = self.module.function(id).span;
                self.problems.push(Diagnostic::error(span, message));
                return;
            }
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: ast::Statement) {
        let Some(frame) = self.frames.last() else {
            return;
        };
        let body = frame.body;
        match statement {
            ast::Statement::Instruction(id) => {
                if self.block.is_some() {
                    self.instruction(body, &body.instructions[id.index()]);
                }
            }
            ast::Statement::Label(label) => {
                if frame.scan.targets[label.index()] {
                    let block = self.label(label);
                    self.open(block);
                    let named = self.name_merged();
                    self.report_refused(named);
                }
            }
            ast::Statement::Variable(id) => self.declare(id),
            ast::Statement::Location(at) => self.locate(&body.locations[at as usize]),
            ast::Statement::Pragma(at) => {
                let text = self.module.text(body.pragmas[at as usize]).into_owned();
                // It speaks of the loop whose first block it stands in.
                if quoted(&text).any(|it| it == NO_UNROLLING)
                    && let Some(block) = self.block
                {
                    self.func.attributes.rolled.push(block);
                }
                if let (Some(times), Some(block)) = (stated_frequency(&text), self.block) {
                    self.func.attributes.frequencies.insert(block, times);
                }
                self.pragmas.push(text);
            }
            ast::Statement::Open
            | ast::Statement::Close
            | ast::Statement::Registers(_)
            | ast::Statement::List(_) => {}
        }
    }

    /// Starts to lower a function: the kernel, or one that is called.
    pub fn enter(&mut self, id: FunctionId, after: Option<Block>, returns: Vec<ast::Operand>) {
        let function = self.module.function(id);
        let Some(body) = &function.body else { return };
        let scan = self.scan(id, body);
        let first = Variable(self.ssa.declared());
        self.ssa.expect(body.instructions.len());
        for &ty in &scan.types {
            self.ssa.declare(ty);
        }
        self.frames.push(Frame {
            function,
            body,
            scan,
            next: 0,
            first,
            labels: vec![None; body.labels.len()],
            after,
            on: None,
            returns,
            memory: self.memory.0,
            called_from: self.at.span,
        });
    }

    /// Ends the function being lowered: what it returns goes to the caller.
    fn leave(&mut self) {
        if self.block.is_some() {
            self.return_from();
        }
        let Some(frame) = self.frames.pop() else {
            return;
        };
        self.memory.0 = frame.memory;
        self.at.resume(&self.func, frame.called_from);
        if let Some(after) = frame.after {
            self.open(after);
            let taken = match self.frames.is_empty() {
                true => self.give_results(&frame),
                false => self.take_results(&frame),
            };
            if let Err(refusal) = taken {
                self.report(frame.function.span, refusal);
            }
            if let Some(on) = frame.on {
                self.open(on);
            }
        }
    }

    fn scan(&mut self, id: FunctionId, body: &ast::Body) -> Rc<Scan> {
        if let Some(scan) = self.scans.get(&id) {
            return Rc::clone(scan);
        }
        let mut scan = Scan {
            variables: Vec::with_capacity(body.registers.len() + 1),
            types: Vec::new(),
            taken: Vec::new(),
            targets: vec![false; body.labels.len()],
        };
        for register in &body.registers {
            scan.variables.push(scan.types.len() as u32);
            let ty = register_type(register.ty);
            scan.types
                .extend(std::iter::repeat_n(ty, usize::from(register.vector.max(1))));
        }
        for instruction in &body.instructions {
            if self.module.opcode(instruction).op == Some(Op::Call) {
                continue;
            }
            for operand in body.operands(instruction) {
                match operand.kind {
                    ast::OperandKind::Variable(id)
                    | ast::OperandKind::Offset(id, _)
                    | ast::OperandKind::Element(id, _)
                        if self.module.variable(id).space == ast::Space::Param =>
                    {
                        scan.taken.push(id);
                    }
                    ast::OperandKind::Label(label) => scan.targets[label.index()] = true,
                    _ => {}
                }
            }
        }
        for list in &body.lists {
            if let ast::TargetListKind::Branch(labels) = &list.kind {
                for label in labels {
                    scan.targets[label.index()] = true;
                }
            }
        }
        let scan = Rc::new(scan);
        self.scans.insert(id, Rc::clone(&scan));
        scan
    }

    /// A variable comes into being.
    fn declare(&mut self, id: VariableId) {
        let variable = self.module.variable(id);
        match variable.space {
            // What the frame has no room for is refused where it is used.
            ast::Space::Local | ast::Space::Param if variable.bytes() > MAX_FRAME => {}
            ast::Space::Local => {
                if let Err(refusal) = self.place_in_frame(id, variable.bytes()) {
                    self.report(variable.span, refusal);
                }
            }
            ast::Space::Param => {
                if let Err(refusal) = self.place_parameter(id, variable.bytes()) {
                    self.report(variable.span, refusal);
                }
            }
            // Symbols, and registers, which are variables already.
            _ => {}
        }
    }

    /// Gives a variable a place in the frame, from now until the function being lowered ends.
    pub fn place_in_frame(&mut self, id: VariableId, bytes: u64) -> Lowered<u32> {
        let variable = self.module.variable(id);
        let offset = self.frame_space(bytes, alignment(variable))?;
        if let Some(debugging) = &mut self.debugging {
            debugging.place(self.module.name(variable.name), offset);
        }
        self.storage.insert(id, Storage::Frame(offset));
        Ok(offset)
    }

    /// So many bytes of the frame, from now until the function being lowered ends.
    pub fn frame_space(&mut self, bytes: u64, align: u32) -> Lowered<u32> {
        let (top, highest, most) = self.memory;
        let offset = u64::from(top).next_multiple_of(u64::from(align));
        let end = offset.saturating_add(bytes);
        if end > MAX_FRAME {
            return unsupported("a frame of 2 GB or more");
        }
        if end > u64::from(INCOMING) && self.func.kind == FunctionKind::Device {
            return unsupported("a frame of more than 4 MB in a function that is not inlined");
        }
        self.memory = (end as u32, highest.max(end as u32), most.max(align));
        Ok(offset as u32)
    }

    /// Gives a parameter of a call or of a function that is inlined a place of so many bytes.
    pub fn place_parameter(&mut self, id: VariableId, bytes: u64) -> Lowered<Storage> {
        let words = bytes.div_ceil(4);
        let taken = self
            .frames
            .iter()
            .any(|frame| frame.scan.taken.contains(&id));
        let storage = if taken || words > MAX_PARAMETER_WORDS {
            Storage::Frame(self.place_in_frame(id, bytes)?)
        } else {
            let first = Variable(self.ssa.declared());
            for _ in 0..words {
                self.ssa.declare(Type::R);
            }
            Storage::Words(first, words as u32)
        };
        self.storage.insert(id, storage);
        Ok(storage)
    }

    fn instruction(&mut self, body: &'m ast::Body, instruction: &'m ast::Instruction) {
        let opcode = self.module.opcode(instruction);
        let (Some(op), Some(form)) = (opcode.op, opcode.forms.get(usize::from(instruction.form)))
        else {
            return;
        };
        let Some(shape) = form.shapes.get(usize::from(instruction.shape)) else {
            return;
        };
        let statement = Statement {
            op,
            form,
            patterns: &shape.operands,
            operands: body.operands(instruction),
            body,
            key: (instruction.opcode, instruction.form),
            span: instruction.span(),
        };
        self.at
            .instruction(&mut self.func, self.lines, statement.span.start);
        self.guard = instruction.guard.get().map(|(register, negated)| {
            let value = self.read(self.variable(register, 0));
            let mods = if negated {
                SourceMods::NOT
            } else {
                SourceMods::NONE
            };
            Operand::from(value).with_mods(mods).unwrap_or(value.into())
        });
        let named = self.name_left(op, statement.operands);
        self.report_refused(named);
        let lowered = rules::apply(self, &statement);
        if let Err(refusal) = lowered.and_then(|()| self.name_written()) {
            let refusal = match refusal {
                Refusal::Unsupported(what) if what.is_empty() => {
                    Refusal::Unsupported(self.module.name(opcode.name).to_owned())
                }
                other => other,
            };
            self.report(statement.span, refusal);
        }
        self.guard = None;
    }

    /// Reports what was refused outside of instructions.
    fn report_refused(&mut self, lowered: Lowered) {
        if let (Err(refusal), Some(frame)) = (lowered, self.frames.last()) {
            self.report(frame.function.span, refusal);
        }
    }

    /// Reports that something was not lowered.
    pub fn report(&mut self, span: orias_ptx::Span, refusal: Refusal) {
        let message = match refusal {
            Refusal::Unsupported(what) => format!("not supported yet: {what}"),
            Refusal::Broken(error) => format!("internal error: lowering made {error}"),
        };
        self.problems.push(Diagnostic::error(span, message));
    }

    fn locate(&mut self, location: &ast::Location) {
        let called_from = self.frames.last().and_then(|frame| frame.called_from);
        self.at
            .locate(&mut self.func, self.lines, location, called_from);
    }

    /// The block of a label of the function being lowered.
    pub fn label(&mut self, label: LabelId) -> Block {
        let func = &mut self.func;
        match self.frames.last_mut() {
            Some(frame) => *frame.labels[label.index()].get_or_insert_with(|| func.create_block()),
            None => func.create_block(),
        }
    }

    /// Goes on in `block`, which comes next in the layout.
    pub fn open(&mut self, block: Block) {
        if self.block.is_some() {
            self.end(AbstractOp::Br, &[], &[block]);
        }
        if !self.func.layout.contains_block(block) {
            self.func.layout.append_block(block);
        }
        self.block = Some(block);
    }

    /// Ends the block being written.
    pub fn end(&mut self, op: AbstractOp, operands: &[Operand], targets: &[Block]) {
        let Some(block) = self.block.take() else {
            return;
        };
        let mut emit = Emit::at_end(&mut self.func, block, self.at.span);
        let targets: Vec<(Block, &[Value])> =
            targets.iter().map(|&block| (block, &[][..])).collect();
        emit.end(op, operands, &targets);
        if let Err(error) = emit.finish() {
            let span = self
                .frames
                .first()
                .map_or_else(Default::default, |frame| frame.function.span);
            self.report(span, error.into());
        }
    }

    /// Does something where the guard holds, by a branch around it; also for what ends the block.
    pub fn branch_if_guarded(&mut self, leave: impl FnOnce(&mut Self) -> Lowered) -> Lowered {
        let Some(guard) = self.guard.take() else {
            return leave(self);
        };
        let taken = self.func.create_block();
        let on = self.func.create_block();
        self.end(AbstractOp::CondBr, &[guard], &[taken, on]);
        self.open(taken);
        leave(self)?;
        self.open(on);
        Ok(())
    }
}
