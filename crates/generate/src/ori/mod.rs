//! Random functions that are valid by construction: deterministic from a seed, at every level.
//!
//! First the shape is drawn: blocks, edges between them (loops, irreducible ones too, and blocks nothing reaches), block
//! parameters. Then each block is filled, dominators first, so that an operand can be picked from what dominates it; where
//! nothing of the wanted type is at hand, an `undef` makes it. Operations and modifiers are drawn from the tables, so every
//! row is met sooner or later. Tests of the text form, the verifier and the analyses, and the fuzz targets, share it.

mod abstract_code;
mod machine_code;
mod shape;

use cranelift_entity::SecondaryMap;
use orias_ori::ControlWord;
use orias_ori::Operand;
use orias_ori::operation::{AbstractMods, AbstractOp};
use orias_ori::{Block, Span, Value};
use orias_ori::{Class, PhysReg, Type};
use orias_ori::{Function, FunctionKind, KernelParam, Level, Location};
use orias_random::Rng;
use orias_sass::Barrier;

/// How large a function is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// At most so many blocks, at least one.
    pub blocks: usize,
    /// At most so many instructions in each, besides its terminator and what operands make necessary.
    pub insts: usize,
}

impl Default for Size {
    fn default() -> Size {
        Size {
            blocks: 6,
            insts: 5,
        }
    }
}

/// The random function of `seed` at `level`.
pub fn function(seed: u64, level: Level, size: Size) -> Function {
    let mut rng = Rng::new(seed ^ (level as u64) << 56);
    let kind = if rng.one_in(3) {
        FunctionKind::Device
    } else {
        FunctionKind::Entry
    };
    let name = *rng.pick(&[
        "kernel",
        "_Z3fooPf",
        "$odd$",
        "with space",
        "quo\"te",
        "naïve",
    ]);
    let mut generator = Generator {
        func: Function::new(name, kind, level, orias_sass::Target::DEFAULT),
        rng,
        values: SecondaryMap::new(),
        dominators: SecondaryMap::new(),
        block: None,
    };
    generator.header();
    generator.shape_and_fill(size);
    generator.func
}

/// A function under construction.
struct Generator {
    func: Function,
    rng: Rng,
    /// What each block has defined so far.
    values: SecondaryMap<Block, Vec<Value>>,
    /// The immediate dominator of each block that has one.
    dominators: SecondaryMap<Block, Option<Block>>,
    /// The block being filled.
    block: Option<Block>,
}

impl Generator {
    fn header(&mut self) {
        let rng = &mut self.rng;
        let attributes = &mut self.func.attributes;
        if rng.one_in(3) {
            attributes.shared = rng.below(1 << 16) as u32;
            attributes.local = rng.below(1 << 10) as u32;
            attributes.max_threads = [rng.below(1024) as u32, 1, 1];
            attributes.required_threads = rng.one_in(2);
        }
        if rng.one_in(5) {
            attributes.cluster = [2, 1, 1];
            attributes.barriers = rng.below(16) as u32;
            attributes.max_registers = rng.below(255) as u32;
            attributes.override_registers = attributes.max_registers % 2 == 1;
            attributes.min_blocks = rng.below(4) as u32;
            attributes.fixed.extend(PhysReg::new(Class::R, 1));
        }
        if self.func.kind == FunctionKind::Entry {
            for index in 0..rng.below(4) as u32 {
                self.func.kernel_params.push(KernelParam {
                    offset: 8 * index,
                    size: 8,
                });
            }
        }
        for index in 0..rng.below(4) as u32 {
            let inlined_at = (index > 0 && rng.one_in(3)).then(|| Span::from_u32(index - 1));
            self.func.locations.push(Location {
                file: 1,
                line: rng.below(1000) as u32,
                column: rng.below(80) as u32,
                inlined_at: inlined_at.into(),
                function: rng.one_in(4).then(|| rng.below(100) as u32),
                ptx: rng.below(50) as u32,
                register: None,
            });
        }
    }

    fn span(&mut self) -> Option<Span> {
        let count = self.func.locations.len();
        (count > 0 && self.rng.one_in(3)).then(|| Span::from_u32(self.rng.below(count) as u32))
    }

    /// A control word, in final code, for an instruction with reuse flags or without: they need the yield bit.
    fn control(&mut self, reuse: bool) -> ControlWord {
        if self.func.level != Level::Final {
            return ControlWord::NONE;
        }
        let rng = &mut self.rng;
        let mut barrier = || Barrier::new(rng.below(2 * usize::from(Barrier::COUNT)) as u8);
        let (read, write) = (barrier(), barrier());
        let yields = reuse || rng.one_in(2);
        let stall = if yields {
            1 + rng.below(11)
        } else {
            rng.below(16)
        };
        ControlWord::PLAIN
            .with_read_barrier(read)
            .with_write_barrier(write)
            .with_stall(stall as u8)
            .with_yield(yields)
            .with_wait_mask(rng.below(64) as u8)
    }

    fn current(&self) -> Block {
        self.block.expect("a block is being filled")
    }

    /// Notes what the instruction just placed defines.
    fn note(&mut self, inst: orias_ori::Inst) {
        let defined: Vec<Value> = self.func.value_defs(inst).collect();
        let block = self.current();
        self.values[block].extend(defined);
    }

    /// A value of type `ty` that dominates the end of the block being filled.
    ///
    /// Uniform registers stay in the block that made them: in divergent code they must not live across a branch.
    fn pick_value(&mut self, ty: Type) -> Value {
        let mut block = Some(self.current());
        // Looking further up would make large functions slow to draw.
        for _ in 0..8 {
            let Some(at) = block else {
                break;
            };
            let here = &self.values[at];
            if !here.is_empty() {
                // A few tries from a random place on find most types without scanning everything.
                let start = self.rng.below(here.len());
                let found = here
                    .iter()
                    .cycle()
                    .skip(start)
                    .take(here.len().min(16))
                    .find(|&&value| self.func.value_type(value) == ty);
                if let Some(&value) = found {
                    return value;
                }
            }
            if matches!(ty.class(), Class::UR | Class::UP) {
                break;
            }
            block = self.dominators[at];
        }
        self.undefined(ty)
    }

    fn undefined(&mut self, ty: Type) -> Value {
        let value = self.func.create_value(ty);
        let inst = self.func.create_abstract(
            AbstractOp::Undef,
            AbstractMods::NONE,
            1,
            &[Operand::value(value)],
        );
        let block = self.current();
        self.func.layout.append_inst(inst, block);
        self.note(inst);
        value
    }

    fn any_block(&mut self) -> Block {
        let index = self.rng.below(self.func.block_count());
        Block::from_u32(index as u32)
    }

    fn symbol(&mut self) -> orias_ori::Symbol {
        let name = *self.rng.pick(&["smem", "__assertfail", "$str", "a.b", "Ω"]);
        self.func.symbol(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_ori::Opcode;
    use orias_ori::{parse_function, print_function, verify_function};
    use orias_sass as sass;

    #[test]
    fn ten_thousand_random_functions_verify_and_read_back_equal() {
        for level in Level::ALL {
            for seed in 0..2500 {
                let func = function(seed, level, Size::default());
                let text = print_function(&func);
                if let Err(errors) = verify_function(&func) {
                    panic!("seed {seed}: {}\n{text}", errors[0]);
                }
                match parse_function(&text) {
                    Ok(read) => {
                        assert_eq!(print_function(&read), text, "seed {seed}");
                        assert!(read == func, "seed {seed} differs after reading\n{text}");
                        assert_eq!(verify_function(&read), Ok(()), "seed {seed}");
                    }
                    Err(error) => panic!("seed {seed}: {error}\n{text}"),
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_function() {
        for level in Level::ALL {
            let [a, b] = [0, 0].map(|_| function(7, level, Size::default()));
            assert_eq!(print_function(&a), print_function(&b));
        }
    }

    #[test]
    fn every_row_of_both_tables_is_generated() {
        let mut abstracts = [false; AbstractOp::ALL.len()];
        let mut machines = [false; sass::Op::COUNT];
        for level in [Level::Abstract, Level::Machine, Level::Final] {
            for seed in 0..400 {
                let size = Size {
                    blocks: 4,
                    insts: 30,
                };
                let func = function(seed, level, size);
                for block in func.blocks() {
                    for inst in func.block_insts(block) {
                        match func.opcode(inst) {
                            Opcode::Abstract(op) => abstracts[op as usize] = true,
                            Opcode::Machine(op) => machines[op.index()] = true,
                        }
                    }
                }
            }
        }
        let missing: Vec<&str> = AbstractOp::ALL
            .iter()
            .filter(|&&op| !abstracts[op as usize])
            .map(|op| op.row().name)
            .chain(
                sass::Op::all()
                    .filter(|op| !machines[op.index()])
                    .map(|op| op.name()),
            )
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
