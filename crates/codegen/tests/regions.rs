//! Convergence regions, run by lanes: nobody waits for ever, and where the analysis says that the whole warp runs, it does.
//!
//! Groups of lanes run through the function after the phase, each lane choosing its way at branches that may part lanes. A group
//! splits where its lanes choose differently and comes together only where a region meets, as on the chip.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
use orias_generate::ori::{Size, function};
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest};
use orias_ori::{
    AbstractOp, Block, Function, Inst, Level, Opcode, Value, print_function, verify_function,
};
use orias_random::Rng;
use std::collections::BTreeMap;

const LANES: usize = 4;
type Mask = u32;

fn run_phase(func: &mut Function, name: &str) {
    let row = find_phase(PHASES, name).expect("the phase");
    let pipeline = Pipeline {
        first: row,
        end: row + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let context = Context {
        opt_level: 1,
        knobs: &Knobs::default(),
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let before = print_function(func);
    let outcome = pipeline.run(func, &context, &mut |_| {});
    assert_eq!(outcome, Ok(()), "{before}");
}

fn divergence(func: &Function) -> Divergence {
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    Divergence::new(func, &graph, &walk, &nest, &DefUse::new(func))
}

/// Only control flow: everything that is no terminator goes, conditions stay.
fn strip_tokens(func: &mut Function) {
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .collect();
    for inst in insts {
        let Opcode::Abstract(op) = func.opcode(inst) else {
            continue;
        };
        let names = op.row().name;
        // Random updates of memory may be ones nobody can do.
        if !names.starts_with("region_") && !matches!(names, "atom" | "red") {
            continue;
        }
        let results: Vec<Value> = func.value_defs(inst).collect();
        for value in results {
            let mods = orias_ori::AbstractMods::NONE;
            let undef = func.create_abstract(AbstractOp::Undef, mods, 1, &[value.into()]);
            func.layout.insert_inst_before(undef, inst);
        }
        func.remove_inst(inst);
    }
}

struct Group {
    lanes: Mask,
    at: Inst,
}

struct Warp<'a> {
    func: &'a Function,
    parts: &'a dyn Fn(Block) -> bool,
    whole: &'a dyn Fn(Block) -> bool,
    rng: Rng,
    running: Vec<Group>,
    /// Lanes that wait at a meeting: lane, instruction behind it, which opening.
    waiting: Vec<(usize, Inst, usize)>,
    /// The lanes of each opening that have not left.
    openings: Vec<Mask>,
    /// The opening a token stands for, by lane.
    tokens: BTreeMap<(usize, Value), usize>,
    alive: Mask,
}

impl Warp<'_> {
    fn lanes(mask: Mask) -> impl Iterator<Item = usize> {
        (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
    }

    fn end(&mut self, lanes: Mask) {
        self.alive &= !lanes;
        for opening in &mut self.openings {
            *opening &= !lanes;
        }
    }

    /// Lets lanes go on whose region is complete.
    fn release(&mut self) {
        let ready: Vec<usize> = self
            .waiting
            .iter()
            .map(|&(.., opening)| opening)
            .filter(|&opening| {
                let here = self.waiting.iter().filter(|(.., at)| *at == opening);
                let here = here.fold(0, |mask, &(lane, ..)| mask | 1 << lane);
                here & self.openings[opening] == self.openings[opening]
            })
            .collect();
        for opening in ready {
            let mut groups: BTreeMap<Inst, Mask> = BTreeMap::new();
            for &(lane, at, _) in self.waiting.iter().filter(|(.., at)| *at == opening) {
                *groups.entry(at).or_default() |= 1 << lane;
            }
            self.waiting.retain(|(.., at)| *at != opening);
            for (at, lanes) in groups {
                self.running.push(Group { lanes, at });
            }
        }
    }

    /// Runs until everybody has ended, or for so many steps.
    fn run(&mut self, steps: usize) -> Result<bool, String> {
        for _ in 0..steps {
            self.release();
            if self.running.is_empty() {
                return match self.waiting.is_empty() {
                    true => Ok(true),
                    false => Err(format!("lanes wait for ever: {:?}", self.waiting)),
                };
            }
            let which = self.rng.below(self.running.len());
            let group = self.running.swap_remove(which);
            self.step(group)?;
        }
        Ok(false)
    }

    fn step(&mut self, group: Group) -> Result<(), String> {
        let func = self.func;
        let Group { lanes, at } = group;
        let block = func.layout.inst_block(at).expect("a block");
        let starts = func.layout.first_inst(block) == Some(at);
        let meets = func.opcode(at) == Opcode::Abstract(AbstractOp::RegionMeet);
        let after_meeting = func
            .layout
            .prev_inst(at)
            .is_some_and(|inst| func.opcode(inst) == Opcode::Abstract(AbstractOp::RegionMeet));
        if (starts && !meets || after_meeting) && (self.whole)(block) && lanes != self.alive {
            return Err(format!(
                "{block} runs with {lanes:b} of {:b}, not the whole warp",
                self.alive
            ));
        }
        let next = |inst| func.layout.next_inst(inst).expect("a terminator follows");
        let Opcode::Abstract(op) = func.opcode(at) else {
            panic!("abstract code only")
        };
        match op {
            AbstractOp::RegionOpen => {
                let token = func.operands(at)[0].as_value().expect("a token");
                let opening = self.openings.len();
                self.openings.push(lanes);
                for lane in Self::lanes(lanes) {
                    self.tokens.insert((lane, token), opening);
                }
                self.running.push(Group {
                    lanes,
                    at: next(at),
                });
            }
            AbstractOp::RegionMeet | AbstractOp::RegionLeave => {
                let place = func.result_count(at);
                let token = func.operands(at)[place].as_value().expect("a token");
                for lane in Self::lanes(lanes) {
                    let opening = self.tokens[&(lane, token)];
                    if op == AbstractOp::RegionMeet {
                        self.waiting.push((lane, next(at), opening));
                    } else {
                        self.openings[opening] &= !(1 << lane);
                    }
                }
                if op == AbstractOp::RegionLeave {
                    self.running.push(Group {
                        lanes,
                        at: next(at),
                    });
                }
            }
            _ if func.opcode(at).is_terminator() => {
                let edges = func.edges(at);
                if edges.is_empty() {
                    self.end(lanes);
                    return Ok(());
                }
                let parts = (self.parts)(block);
                let together = self.rng.below(edges.len());
                let mut ways: BTreeMap<usize, Mask> = BTreeMap::new();
                for lane in Self::lanes(lanes) {
                    let way = match parts {
                        true => self.rng.below(edges.len()),
                        false => together,
                    };
                    *ways.entry(way).or_default() |= 1 << lane;
                }
                for (way, lanes) in ways {
                    let block = func.edge_target(edges[way]);
                    let at = func.layout.first_inst(block).expect("an instruction");
                    self.running.push(Group { lanes, at });
                }
            }
            _ => self.running.push(Group {
                lanes,
                at: next(at),
            }),
        }
        Ok(())
    }
}

#[test]
fn lanes_meet_where_they_should_and_never_wait_for_ever() {
    let (mut ended, mut with_regions, mut leaving) = (0, 0, 0);
    for seed in 0..4000 {
        let size = Size {
            blocks: 3 + seed as usize % 12,
            insts: 2,
        };
        let mut func = function(seed, Level::Abstract, size);
        strip_tokens(&mut func);
        assert!(verify_function(&func).is_ok(), "seed {seed}");
        run_phase(&mut func, "ExpandForSelection");
        let before = divergence(&func);
        let original: Vec<Block> = func.blocks().collect();
        let text = print_function(&func);
        run_phase(&mut func, "ConvergenceRegions");
        let count = |func: &Function, op: AbstractOp| {
            func.blocks()
                .flat_map(|block| func.block_insts(block))
                .filter(|&inst| func.opcode(inst) == Opcode::Abstract(op))
                .count()
        };
        with_regions += usize::from(count(&func, AbstractOp::RegionOpen) > 0);
        leaving += usize::from(count(&func, AbstractOp::RegionLeave) > 0);
        let parts = |block: Block| original.contains(&block) && before.is_divergent_branch(block);
        // A loop that can be entered at different places has no iterations in which lanes could be together.
        let graph = FlowGraph::of(&func);
        let nest = LoopNest::new(&graph, &DepthFirst::new(&graph));
        let irreducible = |block: Block| {
            let mut around = nest.innermost(block);
            while let Some(each) = around {
                if nest.is_irreducible(each) {
                    return true;
                }
                around = nest.parent(each);
            }
            false
        };
        // Lanes need not meet to end.
        let ends = |block: Block| {
            let first = func.layout.first_inst(block);
            first.is_some_and(|inst| {
                func.edges(inst).is_empty() && func.opcode(inst).is_terminator()
            })
        };
        let whole = |block: Block| {
            original.contains(&block)
                && !before.is_partial(block)
                && !ends(block)
                && !irreducible(block)
        };
        let entry = func.entry().expect("an entry");
        for run in 0..4 {
            let mut warp = Warp {
                func: &func,
                parts: &parts,
                whole: &whole,
                rng: Rng::new(seed << 8 | run),
                running: vec![Group {
                    lanes: (1 << LANES) - 1,
                    at: func.layout.first_inst(entry).expect("an instruction"),
                }],
                waiting: Vec::new(),
                openings: Vec::new(),
                tokens: BTreeMap::new(),
                alive: (1 << LANES) - 1,
            };
            match warp.run(2000) {
                Ok(done) => ended += usize::from(done),
                Err(error) => panic!(
                    "seed {seed}: {error}\n{text}\nbecame\n{}",
                    print_function(&func)
                ),
            }
        }
    }
    assert!(ended > 1000, "{ended} runs ended");
    assert!(with_regions > 300, "{with_regions} functions have regions");
    assert!(leaving > 0, "{leaving} functions have lanes that leave");
}
