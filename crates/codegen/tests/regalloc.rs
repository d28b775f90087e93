//! Register allocation on random functions: every result verifies and is proved against the code before it.

use orias_codegen::knobs::Knobs;
use orias_codegen::knobs::registry::KNOBS;
use orias_codegen::pipeline::{Context, Failure, PHASES, PhaseError, Pipeline, find_phase};
use orias_generate::ori::{Size, function};
use orias_ori::builder::Cursor;
use orias_ori::{
    AbstractOp, Block, Class, Function, FunctionKind, Guard, Inst, Level, Opcode, PhysReg, Type,
    Value, print_function, verify_function,
};
use orias_random::Rng;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

/// Allocates with the proof on; what the allocator does not take yet is the error.
fn allocate(func: &mut Function) -> Result<(), String> {
    let row = find_phase(PHASES, "AllocateRegisters").unwrap();
    let pipeline = Pipeline {
        first: row,
        end: row + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let mut knobs = Knobs::new(KNOBS);
    knobs.set("VerifyRegisterAllocation=true").unwrap();
    let context = Context {
        opt_level: 1,
        knobs: &knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let before = print_function(func);
    match pipeline.run(func, &context, &mut |_| ()) {
        Ok(()) => Ok(()),
        Err(Failure::Phase {
            error: PhaseError::Unsupported(what),
            ..
        }) => Err(what),
        Err(failure) => panic!("{failure}\n{before}\n{func:?}"),
    }
}

/// Registers an instruction touches without encoding them belong to calls, which the generator sprinkles anywhere.
fn remove_implicit_registers(func: &mut Function) {
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .collect();
    for inst in insts {
        func.set_implicit(inst, &[], &[]);
    }
}

#[test]
fn functions_of_all_operations_are_allocated_as_they_mean_or_refused_by_name() {
    let mut done = 0;
    for seed in 0..800 {
        let size = Size {
            blocks: 12,
            insts: 10,
        };
        let mut func = function(seed, Level::Machine, size);
        remove_implicit_registers(&mut func);
        done += usize::from(allocate(&mut func).is_ok());
    }
    assert!(done > 60, "only {done} functions could be allocated");
}

/// A kernel of arithmetic on words, pairs and longer tuples, with guards, loops and many values live at once.
struct Draw {
    func: Function,
    rng: Rng,
    /// Values defined in the entry block, which reach every block.
    common: Vec<Value>,
}

/// What blocks take as parameters; uniform registers do not cross branches.
const TYPES: [(Class, u8); 6] = [
    (Class::R, 1),
    (Class::R, 1),
    (Class::R, 2),
    (Class::R, 4),
    (Class::R, 8),
    (Class::P, 1),
];

impl Draw {
    fn kernel(seed: u64, live: usize) -> Function {
        let mut draw = Draw {
            func: Function::new(
                "k",
                FunctionKind::Entry,
                Level::Machine,
                orias_sass::Target::Sm90a,
            ),
            rng: Rng::new(seed),
            common: Vec::new(),
        };
        let blocks: Vec<Block> = (0..2 + draw.rng.below(8))
            .map(|_| draw.func.append_block())
            .collect();
        for &block in &blocks[1..] {
            for _ in 0..draw.rng.below(6) {
                let ty = draw.some_type();
                draw.func.append_block_param(block, ty);
            }
        }
        for (index, &block) in blocks.iter().enumerate() {
            draw.fill(block, index == 0, live);
            draw.end(block, &blocks);
        }
        draw.func
    }

    fn some_type(&mut self) -> Type {
        let &(class, len) = self.rng.pick(&TYPES);
        Type::tuple(class, len).unwrap()
    }

    fn fill(&mut self, block: Block, is_entry: bool, live: usize) {
        let mut own: Vec<Value> = self.func.block_params(block).to_vec();
        let count = if is_entry {
            live
        } else {
            3 + self.rng.below(12)
        };
        for _ in 0..count {
            let made = self.inst(block, &own);
            own.extend(made);
        }
        if is_entry {
            self.common = own;
        } else {
            // Something reads what was made.
            for &value in &own {
                if self.func.value_type(value) == Type::R4 && self.rng.one_in(2) {
                    let base = self.pick(block, &own, Type::R);
                    Cursor::at_end(&mut self.func, block)
                        .build(Op::STS)
                        .modifier(name::SIZE, value::_128)
                        .address(orias_ori::Address::base(base, 16))
                        .operand(value)
                        .finish()
                        .unwrap();
                }
            }
        }
    }

    /// A value of type `ty`: one at hand, or a new one.
    fn pick(&mut self, block: Block, own: &[Value], ty: Type) -> Value {
        let at_hand: Vec<Value> = own
            .iter()
            .chain(&self.common)
            .copied()
            .filter(|&value| {
                self.func.value_type(value) == ty
                    && (ty.class() != Class::UR || self.func.defining_block(value) == Some(block))
            })
            .collect();
        if !at_hand.is_empty() && !self.rng.one_in(20) {
            return *self.rng.pick(&at_hand);
        }
        let seed = self.rng.below(1000) as u64;
        let mut at = Cursor::at_end(&mut self.func, block);
        match (ty.class(), ty.len()) {
            (Class::R, 1) => at.build(Op::MOV).define(ty).imm(seed).imm(15).value(),
            (Class::UR, 1) => at.build(Op::UMOV).define(ty).imm(seed).value(),
            (Class::P, 1) => at
                .build(Op::PLOP3)
                .define(ty)
                .operand(PhysReg::PT)
                .operand(PhysReg::PT)
                .operand(PhysReg::PT)
                .operand(PhysReg::PT)
                .imm(seed & 0xff)
                .imm(0)
                .value(),
            _ => {
                let single = Type::single(ty.class());
                let parts: Vec<Value> = (0..ty.len())
                    .map(|_| self.pick(block, own, single))
                    .collect();
                Cursor::at_end(&mut self.func, block)
                    .build(AbstractOp::Collect)
                    .define(ty)
                    .operands(parts)
                    .value()
            }
        }
        .unwrap()
    }

    /// A random instruction at the end of `block`, and what it defines.
    fn inst(&mut self, block: Block, own: &[Value]) -> Vec<Value> {
        let inst = match self.rng.below(10) {
            0 | 1 => {
                let operands: Vec<Value> = (0..3).map(|_| self.pick(block, own, Type::R)).collect();
                let kept = self.rng.one_in(3).then(|| self.pick(block, own, Type::R));
                let guard = self.pick(block, own, Type::P);
                let mut at = Cursor::at_end(&mut self.func, block);
                let sum = at
                    .build(Op::IADD3)
                    .define(Type::R)
                    .none()
                    .none()
                    .operands(operands);
                match kept {
                    Some(kept) => sum.guard(Guard::when(guard)).kept(kept).finish(),
                    None => sum.finish(),
                }
            }
            2 => {
                let (a, b) = (
                    self.pick(block, own, Type::R),
                    self.pick(block, own, Type::R),
                );
                let c = self.pick(block, own, Type::R2);
                Cursor::at_end(&mut self.func, block)
                    .build(Op::IMAD_WIDE)
                    .define(Type::R2)
                    .none()
                    .operand(a)
                    .operand(b)
                    .operand(c)
                    .finish()
            }
            3 => {
                let base = self.pick(block, own, Type::R);
                let (ty, size) = *self
                    .rng
                    .pick(&[(Type::R2, value::_64), (Type::R4, value::_128)]);
                Cursor::at_end(&mut self.func, block)
                    .build(Op::LDS)
                    .modifier(name::SIZE, size)
                    .define(ty)
                    .address(orias_ori::Address::base(base, 0))
                    .finish()
            }
            4 => {
                let (a, b) = (
                    self.pick(block, own, Type::R),
                    self.pick(block, own, Type::R),
                );
                Cursor::at_end(&mut self.func, block)
                    .build(Op::ISETP)
                    .modifier(name::CMP, value::LT)
                    .define(Type::P)
                    .operand(PhysReg::PT)
                    .operand(a)
                    .operand(b)
                    .operand(PhysReg::PT)
                    .finish()
            }
            5 | 6 => {
                let ty = Type::tuple(Class::R, *self.rng.pick(&[2, 4, 8])).unwrap();
                let tuple = self.pick(block, own, ty);
                let len = *self.rng.pick(&[1, 2]);
                let mut at = Cursor::at_end(&mut self.func, block);
                let mut split = at.build(AbstractOp::Split);
                for _ in 0..ty.len() / len {
                    split = split.define(Type::tuple(Class::R, len).unwrap());
                }
                split.operand(tuple).finish()
            }
            7 => {
                let ty = Type::tuple(Class::R, *self.rng.pick(&[2, 4, 8])).unwrap();
                let parts: Vec<Value> = (0..ty.len())
                    .map(|_| self.pick(block, own, Type::R))
                    .collect();
                Cursor::at_end(&mut self.func, block)
                    .build(AbstractOp::Collect)
                    .define(ty)
                    .operands(parts)
                    .finish()
            }
            8 => {
                let (a, p) = (
                    self.pick(block, own, Type::R),
                    self.pick(block, own, Type::P),
                );
                let b = self.pick(block, own, Type::UR);
                Cursor::at_end(&mut self.func, block)
                    .build(Op::SEL)
                    .define(Type::R)
                    .operand(a)
                    .operand(b)
                    .operand(p)
                    .finish()
            }
            _ => {
                let ty = self.some_type();
                let source = self.pick(block, own, ty);
                Cursor::at_end(&mut self.func, block)
                    .build(AbstractOp::ParCopy)
                    .define(ty)
                    .operand(source)
                    .finish()
            }
        };
        let inst = inst.unwrap();
        self.func.value_defs(inst).collect()
    }

    fn end(&mut self, block: Block, blocks: &[Block]) {
        let own: Vec<Value> = self
            .func
            .block_insts(block)
            .flat_map(|inst| self.func.value_defs(inst).collect::<Vec<_>>())
            .chain(self.func.block_params(block).iter().copied())
            .collect();
        if Some(&block) == blocks.last() {
            let mut at = Cursor::at_end(&mut self.func, block);
            at.build(Op::EXIT).operand(PhysReg::PT).finish().unwrap();
            return;
        }
        let guard = self.pick(block, &own, Type::P);
        let mut edges = Vec::new();
        for _ in 0..2 {
            let target = *self.rng.pick(&blocks[1..]);
            let types: Vec<Type> = self
                .func
                .block_params(target)
                .iter()
                .map(|&param| self.func.value_type(param))
                .collect();
            let args: Vec<Value> = types.iter().map(|&ty| self.pick(block, &own, ty)).collect();
            edges.push((target, args));
        }
        Cursor::at_end(&mut self.func, block)
            .build(Op::BRA)
            .guard(Guard::when(guard))
            .operand(PhysReg::PT)
            .target(edges[0].0, &edges[0].1)
            .edge(edges[1].0, &edges[1].1)
            .finish()
            .unwrap();
    }
}

fn count(func: &Function, op: Op) -> usize {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| func.opcode(inst) == Opcode::Machine(op))
        .count()
}

#[test]
fn arithmetic_kernels_are_allocated_as_they_mean() {
    for seed in 0..300 {
        let mut func = Draw::kernel(seed, 30);
        assert_eq!(verify_function(&func), Ok(()));
        let before = func.clone();
        if let Err(what) = allocate(&mut func) {
            panic!("{what}\n{before:?}");
        }
        assert_eq!(count(&func, Op::STL), 0, "a spill without need\n{before:?}");
    }
}

#[test]
fn few_registers_make_spills_that_change_nothing() {
    let mut spilled = 0;
    for seed in 0..150 {
        let mut func = Draw::kernel(seed, 120);
        func.attributes.max_registers = 56;
        let before = func.clone();
        if let Err(what) = allocate(&mut func) {
            panic!("{what}\n{before:?}");
        }
        spilled += usize::from(count(&func, Op::STL) > 0);
    }
    assert!(spilled > 75, "only {spilled} functions spilled");
}
