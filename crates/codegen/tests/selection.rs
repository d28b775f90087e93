//! Random abstract functions are selected, or refused for an instruction that the error names; what comes out is sound.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, Failure, PHASES, PhaseError, Pipeline, Stage};
use orias_codegen::select::is_selectable;
use orias_generate::ori::{Size, function};
use orias_ori::{AbstractOp, Function, Inst, Level, Opcode, print_function, verify_function};
use std::collections::BTreeMap;

/// Takes instructions away that selection has no rule for; readers of their results read something undefined.
fn keep_selectable(func: &mut Function) {
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .collect();
    for inst in insts {
        let Opcode::Abstract(op) = func.opcode(inst) else {
            continue;
        };
        let tokens = [
            AbstractOp::RegionOpen,
            AbstractOp::RegionMeet,
            AbstractOp::RegionLeave,
        ];
        // Their numbers and tuples mean something that random ones do not.
        let particular = [
            AbstractOp::CpAsync,
            AbstractOp::Ldmatrix,
            AbstractOp::Stmatrix,
            AbstractOp::EnvReg,
            AbstractOp::Alloca,
            AbstractOp::Bar,
            AbstractOp::BarArrive,
            AbstractOp::BarRed,
            AbstractOp::BarRedPopc,
            AbstractOp::Mma,
            AbstractOp::MmaSparse,
            AbstractOp::Wgmma,
            AbstractOp::WgmmaSparse,
            AbstractOp::WgmmaWait,
            AbstractOp::MapInvalidate,
            AbstractOp::MultimemLd,
            AbstractOp::MultimemLdWide,
            AbstractOp::RedAsync,
            AbstractOp::RegistersTake,
            AbstractOp::SetMaxNReg,
            AbstractOp::Mbarrier,
            AbstractOp::MbarrierArrive,
            AbstractOp::MbarrierWait,
            AbstractOp::CpAsyncArrive,
            AbstractOp::ElectTurn,
            AbstractOp::AnyRunning,
            AbstractOp::TurnWord,
            AbstractOp::Tex,
            AbstractOp::Tld4,
            AbstractOp::Txq,
            AbstractOp::Suld,
            AbstractOp::Sust,
            AbstractOp::Sured,
        ];
        let switch = op == AbstractOp::Switch;
        let drawn_well = !tokens.contains(&op) && !particular.contains(&op);
        if switch || is_selectable(op) && drawn_well {
            continue;
        }
        let results: Vec<_> = func.value_defs(inst).collect();
        for value in results {
            let mods = orias_ori::AbstractMods::NONE;
            let undef = func.create_abstract(AbstractOp::Undef, mods, 1, &[value.into()]);
            func.layout.insert_inst_before(undef, inst);
        }
        func.remove_inst(inst);
    }
}

/// Runs the rows of the selection stage.
fn select(func: &mut Function) -> Result<(), Failure> {
    let first = PHASES.iter().position(|phase| phase.stage == Stage::Select);
    let end = PHASES
        .iter()
        .rposition(|phase| phase.stage == Stage::Select);
    let pipeline = Pipeline {
        first: first.expect("a row"),
        end: end.expect("a row") + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let context = Context {
        opt_level: 1,
        knobs: &Knobs::default(),
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    pipeline.run(func, &context, &mut |_| {})
}

#[test]
fn random_functions_are_selected_or_refused_by_name() {
    let mut refused: BTreeMap<String, u32> = BTreeMap::new();
    let mut selected = 0;
    let mut broken = Vec::new();
    for seed in 0..60_000 {
        let size = Size {
            blocks: 1 + seed as usize % 9,
            insts: 3,
        };
        let mut func = function(seed, Level::Abstract, size);
        keep_selectable(&mut func);
        assert!(verify_function(&func).is_ok(), "seed {seed}");
        let before = print_function(&func);
        match select(&mut func) {
            Ok(()) => {
                selected += 1;
                assert_eq!(func.level, Level::Machine);
            }
            Err(Failure::Phase {
                error: PhaseError::Unsupported(what),
                ..
            }) => *refused.entry(what).or_default() += 1,
            Err(other) => broken.push(format!("seed {seed}: {other}\n{before}")),
        }
    }
    let heads: Vec<&str> = broken
        .iter()
        .filter_map(|text| text.lines().next())
        .collect();
    assert!(broken.is_empty(), "{}\n{}", heads.join("\n"), broken[0]);
    if std::env::var_os("ORIAS_LIST_REFUSED").is_some() {
        println!("{selected} selected; refused: {refused:#?}");
    }
    assert!(selected > 300, "{selected} selected, refused: {refused:?}");
}
