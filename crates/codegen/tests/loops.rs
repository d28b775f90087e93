//! The loop phases leave what programs with loops compute as it is.
//!
//! Programs are drawn, run by the interpreter, taken through a phase (or several), and run again with the same inputs: what they leave in memory must be the same, and so must how they
//! end. The programs have counted loops of every kind (up, down, by more than one, with and without sign, of 32 and 64 bits, tested before and after the body, with bounds that are known,
//! that are not, and that wrap), loops in loops, breaks, gotos between any two blocks, so that loops have several entries, invariant and varying sums, loads and stores.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
use orias_interpret::{End, Memory, Run, run};
use orias_machine::Machine;
use orias_ori::operation::Space;
use orias_ori::{Function, parse_function, print_function, verify_function};
use orias_random::Rng;
use std::fmt::Write;

/// Random numbers of the width programs are made of.
struct Random(Rng);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end as usize) as u64
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        self.0.pick(list)
    }
}

/// How many words a program works on, and how many pairs. All are parameters of every block.
const WORDS: u64 = 5;
const PAIRS: u64 = 2;

/// A program in the making: blocks of text, each with all variables as parameters.
struct Program {
    random: Random,
    blocks: Vec<String>,
    /// What comes before everything else.
    first: String,
    /// The current names of the variables, and the next free name.
    names: Vec<u64>,
    next: u64,
    /// Variables that count a loop around here: nothing else changes them.
    counters: Vec<usize>,
    gotos: bool,
}

impl Program {
    fn draw(seed: u64) -> String {
        let mut program = Program {
            random: Random(Rng::new(seed)),
            blocks: Vec::new(),
            first: String::new(),
            names: Vec::new(),
            next: 0,
            counters: Vec::new(),
            gotos: seed % 4 == 3,
        };
        let mut text = String::new();
        for index in 0..WORDS {
            let name = program.fresh();
            writeln!(text, "    v{name}:r = ld.param.b32 [{:#x}]", 8 * index).unwrap();
            program.names.push(name);
        }
        for index in 0..PAIRS {
            let name = program.fresh();
            writeln!(
                text,
                "    v{name}:rx2 = ld.param.b64 [{:#x}]",
                64 + 8 * index
            )
            .unwrap();
            program.names.push(name);
        }
        program.blocks.push(text);
        program.statements(3);
        let names = program.names.clone();
        for (index, name) in names.into_iter().enumerate() {
            let ty = if (index as u64) < WORDS { "b32" } else { "b64" };
            program.line(format!(
                "st.global.{ty} [{:#x}], v{name}",
                0x9000 + 8 * index
            ));
        }
        program.line("exit".to_owned());
        program.finish()
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn line(&mut self, line: String) {
        writeln!(self.blocks.last_mut().unwrap(), "    {line}").unwrap();
    }

    /// The arguments every edge passes.
    fn arguments(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("v{name}")).collect();
        names.join(", ")
    }

    /// A block to come; it is placed by `place`.
    fn place(&mut self) -> usize {
        self.blocks.push(String::new());
        for index in 0..self.names.len() {
            self.names[index] = self.fresh();
        }
        let params: Vec<String> = self
            .names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let ty = if (index as u64) < WORDS { "r" } else { "rx2" };
                format!("v{name}:{ty}")
            })
            .collect();
        let number = self.blocks.len() - 1;
        writeln!(self.blocks[number], "block{number}({}):", params.join(", ")).unwrap();
        number
    }

    fn word(&mut self) -> u64 {
        let index = self.random.below(WORDS) as usize;
        self.names[index]
    }

    /// A word to be changed.
    fn target(&mut self) -> Option<usize> {
        let index = self.random.below(WORDS) as usize;
        (!self.counters.contains(&index)).then_some(index)
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(10) {
                0..=3 => self.arithmetic(),
                4 => self.load(),
                5 => self.store(),
                6 => self.branch(depth),
                _ if depth > 0 => self.counted(depth),
                _ => self.arithmetic(),
            }
        }
    }

    fn arithmetic(&mut self) {
        let Some(index) = self.target() else { return };
        let (a, b) = (self.word(), self.word());
        let name = self.fresh();
        let number = *self.random.one_of(&[1_u64, 3, 4, 16, 0x1000, 0xffff_fffc]);
        let right = match self.random.below(2) {
            0 => format!("v{b}"),
            _ => format!("{number:#x}"),
        };
        let op = *self.random.one_of(&[
            "add.u32",
            "add.s32",
            "sub.u32",
            "mul.lo.u32",
            "and.b32",
            "or.b32",
            "xor.b32",
            "min.s32",
            "max.u32",
        ]);
        self.line(format!("v{name}:r = {op} v{a}, {right}"));
        self.names[index] = name;
    }

    /// An address of one of 64 words, by a sum with a known term in one of several places.
    fn address(&mut self, shared: bool) -> String {
        let word = self.word();
        let index = self.fresh();
        self.line(format!("v{index}:r = and.b32 v{word}, 0x1f"));
        let moved = self.fresh();
        let number = self.random.below(4);
        self.line(format!("v{moved}:r = add.u32 v{index}, {number}"));
        let scaled = self.fresh();
        self.line(format!("v{scaled}:r = shl.b32 v{moved}, 2"));
        if shared {
            let base = self.fresh();
            self.line(format!("v{base}:r = addressof.b32 &table"));
            let sum = self.fresh();
            self.line(format!("v{sum}:r = add.u32 v{base}, v{scaled}"));
            return format!("[v{sum}+0x{:x}]", 4 * self.random.below(3));
        }
        let wide = self.fresh();
        self.line(format!("v{wide}:rx2 = cvt.u64.u32 v{scaled}"));
        let far = self.fresh();
        self.line(format!("v{far}:rx2 = add.u64 v{wide}, 0x8000"));
        format!("[v{far}+0x{:x}]", 4 * self.random.below(3))
    }

    fn load(&mut self) {
        let Some(index) = self.target() else { return };
        let shared = self.random.below(2) == 0;
        let address = self.address(shared);
        let name = self.fresh();
        let space = if shared { "shared" } else { "global" };
        self.line(format!("v{name}:r = ld.{space}.b32 {address}"));
        self.names[index] = name;
    }

    fn store(&mut self) {
        let shared = self.random.below(2) == 0;
        let address = self.address(shared);
        let value = self.word();
        let space = if shared { "shared" } else { "global" };
        self.line(format!("st.{space}.b32 {address}, v{value}"));
    }

    /// A predicate about two words.
    fn condition(&mut self) -> u64 {
        let (a, b) = (self.word(), self.word());
        let name = self.fresh();
        let compare = *self
            .random
            .one_of(&["lt.s32", "ge.u32", "eq.u32", "ne.s32"]);
        self.line(format!("v{name}:p = setp.{compare} v{a}, v{b}"));
        name
    }

    /// An if, or a goto.
    fn branch(&mut self, depth: u32) {
        let condition = self.condition();
        let arguments = self.arguments();
        let from = self.blocks.len() - 1;
        if self.gotos && self.random.below(2) == 0 {
            // Anywhere: the number is settled when all blocks are known.
            let next = self.place();
            let far = self.random.next();
            let line =
                format!("    cbr v{condition} -> goto{far}({arguments}), block{next}({arguments})");
            writeln!(self.blocks[from], "{line}").unwrap();
            return;
        }
        let side = self.place();
        self.statements(depth.saturating_sub(1));
        let end = self.blocks.len() - 1;
        let leave = self.arguments();
        let met = self.place();
        writeln!(self.blocks[end], "    br -> block{met}({leave})").unwrap();
        let line =
            format!("    cbr v{condition} -> block{side}({arguments}), block{met}({arguments})");
        writeln!(self.blocks[from], "{line}").unwrap();
    }

    /// A loop that counts.
    fn counted(&mut self, depth: u32) {
        let wide = self.random.below(4) == 0;
        let index = match wide {
            true => (WORDS + self.random.below(PAIRS)) as usize,
            false => self.random.below(WORDS) as usize,
        };
        if self.counters.contains(&index) {
            return;
        }
        let (ty, bits, mask) = match wide {
            true => ("rx2", "64", u64::MAX),
            false => ("r", "32", u64::from(u32::MAX)),
        };
        let step = *self.random.one_of(&[1_i64, 1, 1, -1, 2, -2, 3, 4, -4]);
        let times = self.random.below(24) as i64;
        let start =
            *self
                .random
                .one_of(&[0_i64, 1, 5, -3, 100, i64::from(i32::MAX) - 7, i64::MIN / 2]);
        let compare = match (step > 0, self.random.below(4)) {
            (_, 0) => "ne",
            (true, 1) => "le",
            (true, _) => "lt",
            (false, 1) => "ge",
            (false, _) => "gt",
        };
        let sign = *self.random.one_of(&["s", "u"]);
        let bound = start.wrapping_add(step.wrapping_mul(times)) as u64 & mask;
        // The start is known, or hidden from the compiler.
        let known = self.random.below(2) == 0;
        let name = self.fresh();
        self.line(format!(
            "v{name}:{ty} = mov.b{bits} {:#x}",
            start as u64 & mask
        ));
        self.names[index] = name;
        if !known {
            let zero = self.fresh();
            self.line(format!("v{zero}:{ty} = ld.param.b{bits} [0x100]"));
            let hidden = self.fresh();
            self.line(format!("v{hidden}:{ty} = add.u{bits} v{name}, v{zero}"));
            self.names[index] = hidden;
        }
        let limit = match self.random.below(2) {
            0 => format!("{bound:#x}"),
            _ => {
                // Defined first of all: a goto may come from anywhere.
                let (zero, number, limit) = (self.fresh(), self.fresh(), self.fresh());
                for line in [
                    format!("v{zero}:{ty} = ld.param.b{bits} [0x100]"),
                    format!("v{number}:{ty} = mov.b{bits} {bound:#x}"),
                    format!("v{limit}:{ty} = add.u{bits} v{number}, v{zero}"),
                ] {
                    writeln!(self.first, "    {line}").unwrap();
                }
                format!("v{limit}")
            }
        };
        let first = self.random.below(2) == 0;
        let entry = self.blocks.len() - 1;
        let arguments = self.arguments();
        let header = self.place();
        writeln!(self.blocks[entry], "    br -> block{header}({arguments})").unwrap();
        self.counters.push(index);
        let mut leaves: Vec<(usize, String)> = Vec::new();
        if first {
            let (at, test) = (self.names[index], self.fresh());
            self.line(format!(
                "v{test}:p = setp.{compare}.{sign}{bits} v{at}, {limit}"
            ));
            let (from, arguments) = (self.blocks.len() - 1, self.arguments());
            let body = self.place();
            leaves.push((
                from,
                format!("    cbr v{test} -> block{body}({arguments}), out({arguments})"),
            ));
        }
        self.statements(depth - 1);
        if self.random.below(3) == 0 {
            let test = self.condition();
            let (from, arguments) = (self.blocks.len() - 1, self.arguments());
            let body = self.place();
            leaves.push((
                from,
                format!("    cbr v{test} -> out({arguments}), block{body}({arguments})"),
            ));
        }
        let (at, next) = (self.names[index], self.fresh());
        self.line(format!(
            "v{next}:{ty} = add.s{bits} v{at}, {:#x}",
            step as u64 & mask
        ));
        self.names[index] = next;
        let (from, arguments) = (self.blocks.len() - 1, self.arguments());
        if first {
            writeln!(self.blocks[from], "    br -> block{header}({arguments})").unwrap();
        } else {
            let tested = *self.random.one_of(&[at, next]);
            let test = self.fresh();
            self.line(format!(
                "v{test}:p = setp.{compare}.{sign}{bits} v{tested}, {limit}"
            ));
            leaves.push((
                from,
                format!("    cbr v{test} -> block{header}({arguments}), out({arguments})"),
            ));
        }
        self.counters.pop();
        let out = self.place();
        for (from, line) in leaves {
            let line = line.replace("out(", &format!("block{out}("));
            writeln!(self.blocks[from], "{line}").unwrap();
        }
    }

    /// The text, with every goto settled.
    fn finish(self) -> String {
        let mut text = String::from("entry k abstract sm_90a {\nblock0:\n");
        text.push_str(&self.first);
        let count = self.blocks.len() as u64;
        for block in &self.blocks {
            for line in block.lines() {
                match line.split_once("goto") {
                    None => text.push_str(line),
                    Some((before, rest)) => {
                        let end = rest.find('(').unwrap();
                        let far: u64 = rest[..end].parse().unwrap();
                        let to = match count {
                            1 => 1,
                            _ => 1 + far % (count - 1),
                        };
                        text.push_str(&format!("{before}block{to}{}", &rest[end..]));
                    }
                }
                text.push('\n');
            }
        }
        text.push_str("}\n");
        text
    }
}

/// What is left: how it ended, the results, and memory.
type Left = (End, Vec<u128>);

fn execute(function: &Function, seed: u64) -> Option<Left> {
    let mut memory = Memory::default();
    let mut random = Random(Rng::new(seed));
    for index in 0..(64 + 8 * PAIRS) / 4 {
        let word = match random.below(2) {
            0 => random.below(40),
            _ => random.next() & 0xffff_ffff,
        };
        memory.store(Space::Param, 4 * index, u128::from(word), 4);
    }
    memory.store(Space::Param, 0x100, 0, 8);
    for index in 0..80 {
        memory.store(
            Space::Global,
            0x8000 + 4 * index,
            u128::from(random.below(100)),
            4,
        );
        memory.store(
            Space::Shared,
            0x400 + 4 * index,
            u128::from(random.below(100)),
            4,
        );
    }
    let end = run(
        function,
        &[],
        Run {
            memory: &mut memory,
            special: &|_| 0,
            symbol: &|_| 0x400,
            approximate: &|_, _| 0,
            limit: 60_000,
        },
    )
    .ok()?;
    let mut left: Vec<u128> = (0..WORDS + PAIRS)
        .map(|index| memory.load(Space::Global, 0x9000 + 8 * index, 8))
        .collect();
    for index in 0..80 {
        left.push(memory.load(Space::Global, 0x8000 + 4 * index, 4));
        left.push(memory.load(Space::Shared, 0x400 + 4 * index, 4));
    }
    Some((end, left))
}

fn through(function: &mut Function, phases: &[&str]) {
    let knobs = Knobs::default();
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: Machine::of(function.target),
    };
    for name in phases {
        let row = find_phase(PHASES, name).unwrap();
        let pipeline = Pipeline {
            first: row,
            end: row + 1,
            verify_each: true,
            ..Pipeline::default()
        };
        let before = print_function(function);
        let outcome = pipeline.run(function, &context, &mut |_| {});
        assert_eq!(outcome, Ok(()), "{name}\n{before}");
    }
}

/// How many programs are drawn.
fn count() -> u64 {
    let given = std::env::var("ORIAS_LOOP_PROGRAMS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(1500)
}

#[test]
fn loop_phases_keep_what_programs_compute() {
    let rows: [&[&str]; 7] = [
        &["RotateLoops"],
        &["FoldAddresses"],
        &["HoistInvariants"],
        &["LoopUnrolling"],
        &[
            "RotateLoops",
            "FoldAddresses",
            "HoistInvariants",
            "MergeInductions",
            "LoopUnrolling",
        ],
        &[
            "IfConversion",
            "LoopUnrolling",
            "HoistInvariants",
            "RotateLoops",
            "LoopUnrolling",
        ],
        &["LoopUnrolling", "PredicateChoices", "HoistLoads"],
    ];
    let (mut compared, mut changed) = (0, [0; 7]);
    for seed in 0..count() {
        let text = Program::draw(seed);
        let mut function = parse_function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        if let Err(errors) = verify_function(&function) {
            panic!("the generator made something broken from {seed}: {errors:?}\n{text}");
        }
        through(
            &mut function,
            &["GeneralOptimize", "EliminateCommonSubexpressions"],
        );
        let Some(meant) = execute(&function, seed) else {
            continue;
        };
        compared += 1;
        let before = print_function(&function);
        for (number, row) in rows.iter().enumerate() {
            let mut after = function.clone();
            through(&mut after, row);
            changed[number] += u64::from(print_function(&after) != before);
            let found = execute(&after, seed);
            assert_eq!(
                found.as_ref(),
                Some(&meant),
                "{row:?} on the program of seed {seed}:\n{before}\nbecame\n{}",
                print_function(&after)
            );
        }
    }
    println!("{compared} compared, changed {changed:?}");
    assert!(compared > count() / 3, "{compared}");
    // Each phase found something to do often enough to be judged.
    assert!(
        changed.iter().all(|&changed| changed > compared / 10),
        "{changed:?} of {compared}"
    );
}
