//! The dependence graph: which instructions stay in order, why, and for how long.

use orias_codegen::knobs::WhenList;
use orias_codegen::schedule::build::{Builder, Exits, Fences};
use orias_codegen::schedule::graph::{EdgeClass, Graph, Kinds, Reasons, Timeline};
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph, Liveness, RegisterLiveness};
use orias_ori::{Class, Function, Level, parse_function, verify_function};
use orias_sass::{Op, Target};

/// What is typical of an operation's latency.
fn typical(op: Op) -> u32 {
    let timing = Machine::of(Target::DEFAULT).timing(op).expect("a timing");
    u32::from(timing.typical.expect("a variable latency").cycles)
}

fn parsed(text: &str) -> Function {
    let func = parse_function(text).unwrap_or_else(|error| panic!("{error}"));
    if let Err(errors) = verify_function(&func) {
        panic!("{errors:?}");
    }
    func
}

fn graph_with(func: &Function, fences: Fences<'_>) -> Graph {
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let block = func.entry().expect("an entry");
    if func.level >= Level::Physical {
        let live = RegisterLiveness::new(func, &flow, &walk);
        Builder::new(func, Exits::Registers(&live), fences).build(block)
    } else {
        let live = Liveness::new(func, &flow);
        Builder::new(func, Exits::Values(&live), fences).build(block)
    }
}

fn graph(text: &str) -> Graph {
    graph_with(&parsed(text), Fences::none())
}

fn physical(lines: &[&str]) -> Graph {
    graph(&format!(
        "entry k physical sm_90a {{\n  fixed R1\nblock0:\n    {}\n    EXIT PT\n}}\n",
        lines.join("\n    ")
    ))
}

/// The edges between instructions before the tail, as `from->to kinds latency`.
fn edges(graph: &Graph) -> Vec<String> {
    let tail = graph.tail().start as u32;
    graph
        .edges()
        .iter()
        .filter(|edge| edge.to < tail)
        .map(|edge| {
            format!(
                "{}->{} {} {}",
                edge.from,
                edge.to,
                edge.kinds.name(),
                edge.latency
            )
        })
        .collect()
}

#[test]
fn values_are_read_after_they_are_there() {
    let graph = graph(
        "entry k machine sm_90a {
block0:
    S2R v0:r, SR_TID.X
    IADD3 v1:r, PT, PT, v0, 1, RZ
    FADD v2:r, v1, v0
    STS [v1], v2
    EXIT PT
}
",
    );
    let special = typical(Op::S2R);
    assert_eq!(
        edges(&graph),
        [
            format!("0->1 RAW {special}"),
            "1->2 RAW 5".to_owned(),
            format!("0->2 RAW {special}"),
            "1->3 RAW 5".to_owned(),
            "2->3 RAW 5".to_owned(),
        ]
    );
    let edge = graph.preds(1)[0];
    assert_eq!(edge.class, EdgeClass::Register(Class::R));
    assert_eq!(edge.reasons.slots().collect::<Vec<_>>(), [3]);
}

#[test]
fn physical_registers_have_all_three_hazards() {
    let graph = physical(&[
        "FADD R0, R2, R3",
        "FMUL R4, R0, R0",
        "MOV R0, 0x1, 0xf",
        "@P0 MOV R0, 0x2, 0xf",
        "IADD3 R5, PT, PT, R0, R0, RZ",
    ]);
    let listed = edges(&graph);
    assert!(listed.contains(&"0->1 RAW 4".to_owned()), "{listed:?}");
    assert!(listed.iter().any(|edge| edge.starts_with("1->2 WAR")));
    assert!(listed.iter().any(|edge| edge.starts_with("0->2 WAW")));
    // A guarded write leaves what was there.
    assert!(listed.contains(&"2->4 RAW 4".to_owned()), "{listed:?}");
    assert!(listed.contains(&"3->4 RAW 4".to_owned()), "{listed:?}");
}

#[test]
fn a_late_reader_holds_its_sources() {
    let graph = physical(&[
        "STG.E [R2..R3], R4",
        "MOV R4, 0x1, 0xf",
        "STG.E [R6..R7], R8",
        "LDG.E PT, R8, [R6..R7], PT",
    ]);
    let listed = edges(&graph);
    assert!(listed.contains(&"0->1 WAR 14".to_owned()), "{listed:?}");
    // The memory queue reads in order.
    assert!(
        listed
            .iter()
            .any(|edge| edge.starts_with("2->3 WAR") && edge.ends_with(" 1")),
        "{listed:?}"
    );
}

#[test]
fn memory_is_kept_in_order_only_where_it_may_overlap() {
    let graph = physical(&[
        "STL [R2], R3",
        "LDL R4, [R2+0x4]",
        "LDL R5, [R2]",
        "LDG.E PT, R6, [R8..R9], PT",
        "LDL R7, [R10]",
        "STG.E [R8..R9+0x4], R3",
        "LDG.E.CONSTANT PT, R11, [R8..R9+0x4], PT",
        "LDG.E PT, R12, [R8..R9+0x4], PT",
    ]);
    let memory: Vec<String> = edges(&graph)
        .into_iter()
        .filter(|edge| edge.contains("memory"))
        .map(|edge| edge.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    // Offsets tell local accesses apart, but not those that other lanes may share.
    assert_eq!(memory, ["0->2", "0->4", "3->5", "5->7"]);
}

#[test]
fn a_base_that_was_written_again_is_another_base() {
    let graph = physical(&[
        "STL [R2], R3",
        "IADD3 R2, PT, PT, R2, 4, RZ",
        "LDL R4, [R2+0x4]",
    ]);
    assert!(
        edges(&graph)
            .iter()
            .any(|edge| edge.starts_with("0->2 memory")),
        "{:?}",
        edges(&graph)
    );
}

#[test]
fn a_sum_with_a_constant_has_the_base_of_its_summand() {
    let graph = graph(
        "entry k machine sm_90a {
block0:
    S2R v0:r, SR_TID.X
    VIADD v1:r, v0, 16
    STL [v0+0x10], v0
    LDL v2:r, [v1+0x4]
    LDL v3:r, [v1]
    STL [v1+0x8], v2
    EXIT PT
}
",
    );
    let memory: Vec<(u32, u32)> = graph
        .edges()
        .iter()
        .filter(|edge| edge.kinds.contains(Kinds::MEMORY))
        .map(|edge| (edge.from, edge.to))
        .collect();
    assert_eq!(memory, [(2, 4)]);
}

#[test]
fn a_barrier_holds_memory_and_lanes_but_not_arithmetic() {
    let graph = physical(&[
        "STS [R2], R3",
        "IADD3 R4, PT, PT, R4, 1, RZ",
        "BAR.SYNC 0x0, 0x0",
        "LDS R5, [R6]",
        "FADD R7, R8, R9",
        "LDC R10, c[0x0][RZ+0x210]",
    ]);
    let barriers: Vec<(u32, u32, u16)> = graph
        .edges()
        .iter()
        .filter(|edge| edge.kinds.contains(Kinds::BARRIER) && edge.to < 6)
        .map(|edge| (edge.from, edge.to, edge.latency))
        .collect();
    assert_eq!(barriers, [(0, 2, 0), (2, 3, 6)]);
}

#[test]
fn clocks_calls_and_knobs_hold_everything() {
    let text = "entry k physical sm_90a {
block0:
    FADD R0, R2, R3
    CS2R R4, SR_CLOCKLO
    FADD R6, R2, R3
    CS2R R8, SRZ
    FADD R10, R2, R3
    EXIT PT
}
";
    let text = text
        .replace("CS2R R4,", "CS2R.32 R4,")
        .replace("CS2R R8,", "CS2R.32 R8,");
    let func = parsed(&text);
    let order = |graph: &Graph| -> Vec<(u32, u32)> {
        graph
            .edges()
            .iter()
            .filter(|edge| edge.kinds.contains(Kinds::BARRIER) && edge.to < 5)
            .map(|edge| (edge.from, edge.to))
            .collect()
    };
    assert_eq!(
        order(&graph_with(&func, Fences::none())),
        [(0, 1), (1, 2), (1, 3), (1, 4)]
    );
    let code = WhenList::parse("WHEN=op:CS2R*").expect("a list");
    let fenced = Fences {
        code: &code,
        ..Fences::none()
    };
    assert_eq!(
        order(&graph_with(&func, fenced)),
        [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)]
    );
    let preserve = WhenList::parse("WHEN=op:FADD").expect("a list");
    let preserved = Fences {
        preserve: &preserve,
        ..Fences::none()
    };
    assert!(order(&graph_with(&func, preserved)).contains(&(2, 4)));
}

#[test]
fn readers_of_a_value_that_is_taken_over_stay_before() {
    let graph = graph(
        "entry k machine sm_90a {
block0:
    S2R v0:r, SR_TID.X
    ISETP.GE.U32.AND v1:p, PT, v0, 4, PT
    IADD3 v2:r, PT, PT, v0, 7, RZ
    @v1 IADD3 v3:r~v0, PT, PT, v2, 1, RZ
    STS [v3], v2
    EXIT PT
}
",
    );
    let taken: Vec<(u32, u32)> = graph
        .edges()
        .iter()
        .filter(|edge| edge.kinds.contains(Kinds::WAR))
        .map(|edge| (edge.from, edge.to))
        .collect();
    assert_eq!(taken, [(1, 3), (2, 3)]);
}

#[test]
fn what_replaces_a_loop_parameter_stays_behind_its_readers() {
    let func = parsed(
        "entry k machine sm_90a {
block0:
    S2R v0:r, SR_TID.X
    next -> block1(v0)
block1(v1:r):
    STS [v1], v1
    IADD3 v2:r, PT, PT, v1, 4, RZ
    ISETP.LT.U32.AND v3:p, PT, v2, 64, PT
    @v3 BRA PT, block1(v2) -> block2
block2:
    EXIT PT
}
",
    );
    let flow = FlowGraph::of(&func);
    let live = Liveness::new(&func, &flow);
    let block = func.blocks().nth(1).expect("a loop");
    let graph = Builder::new(&func, Exits::Values(&live), Fences::none()).build(block);
    let edge = graph.preds(1).iter().find(|edge| edge.from == 0);
    let edge = edge.expect("the store comes first");
    assert!(edge.kinds.contains(Kinds::WAR) && edge.reasons.contains(Reasons::ARGUMENT));
    assert_eq!(graph.tail(), 3..4);
}

#[test]
fn runs_stay_together_and_wait_for_all_their_members() {
    let graph = physical(&[
        "MOV R4, 0x1, 0xf",
        "@!PT LDS RZ, [RZ]",
        "@!PT LDS RZ, [RZ]",
        "STS [R2], R4",
        "FADD R6, R7, R8",
    ]);
    let together: Vec<bool> = graph.nodes.iter().map(|node| node.with_previous).collect();
    assert_eq!(together[..5], [false, false, true, true, false]);
    assert!(graph.preds(1).iter().any(|edge| edge.from == 0));
    assert_eq!(graph.illegal(&[0, 4, 1, 2, 3, 5]), None);
    assert!(graph.illegal(&[0, 1, 4, 2, 3, 5]).is_some());
    assert!(graph.illegal(&[1, 2, 3, 0, 4, 5]).is_some());
    assert!(graph.illegal(&[0, 1, 2, 3, 5, 4]).is_some());
}

#[test]
fn the_critical_path_names_its_causes() {
    let graph = graph(
        "entry k machine sm_90a {
block0:
    S2R v0:r, SR_TID.X
    IADD3 v1:r, PT, PT, v0, 1, RZ
    FADD v2:r, v0, 1.0
    LDS v3:r, [v1]
    FADD v4:r, v3, v2
    STS [v1], v4
    EXIT PT
}
"
        .replace("1.0", "0x3f800000")
        .as_str(),
    );
    let timeline = Timeline::new(&graph);
    let path: Vec<u32> = timeline
        .critical_path(&graph)
        .iter()
        .map(|(node, _)| *node)
        .collect();
    assert_eq!(path, [0, 1, 3, 4, 5]);
    let (special, shared) = (typical(Op::S2R), typical(Op::LDS));
    let loaded = special + 5 + shared;
    assert_eq!(
        timeline.earliest[..6],
        [0, special, special, special + 5, loaded, loaded + 5]
    );
    assert_eq!(timeline.latest[2], loaded - 4);
}

#[test]
fn building_is_linear() {
    let count = |instructions: usize| {
        let mut lines = vec!["S2R v0:r, SR_TID.X".to_owned()];
        for index in 1..=instructions {
            lines.push(match index % 4 {
                0 => format!("STS [v{}+0x4], v{}", index - 1, index - 1),
                1 => format!("LDS v{index}:r, [v0]"),
                _ => format!("IADD3 v{index}:r, PT, PT, v{}, v0, RZ", index - 1),
            });
        }
        let text = format!(
            "entry k machine sm_90a {{\nblock0:\n{}\nEXIT PT\n}}\n",
            lines.join("\n")
        );
        graph(&text).edges().len()
    };
    let (small, large) = (count(4000), count(32000));
    assert!(large < small * 9, "{small} edges, then {large}");
}
