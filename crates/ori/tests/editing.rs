//! Phases change functions; every change keeps values, definitions and edges in step.

use orias_ori::builder::Cursor;
use orias_ori::operation::{AbstractMods, AbstractOp, Scalar};
use orias_ori::{
    Block, Class, Function, Inst, Operand, PhysReg, Reg, RegKind, Type, Value, ValueDef,
    parse_function, print_function, verify_function,
};

fn read(text: &str) -> Function {
    let func = parse_function(text).expect("a valid text");
    assert_eq!(verify_function(&func), Ok(()), "{func:?}");
    func
}

fn inst(func: &Function, block: u32, number: usize) -> Inst {
    func.block_insts(Block::from_u32(block))
        .nth(number)
        .expect("an instruction of that number")
}

fn value(number: u32) -> Value {
    Value::from_u32(number)
}

const LOOP: &str = "\
func f abstract sm_90a -> r {
block0(v0:r, v1:p):
    v2:r = mov.b32 0
    br -> block1(v2)
block1(v3:r):
    v4:r = add.s32 v3, v0
    @v1 v5:r~v4 = ld.shared.b32 [v3+0x4]
    cbr v1 -> block1(v5), block2
block2:
    ret v4
}
";

#[test]
fn uses_and_definitions_of_an_instruction_are_complete() {
    let func = read(LOOP);
    let regs =
        |regs: &mut dyn Iterator<Item = Reg>| regs.map(|reg| reg.to_string()).collect::<Vec<_>>();
    let load = inst(&func, 1, 1);
    assert_eq!(regs(&mut func.defs(load)), ["v5"]);
    assert_eq!(regs(&mut func.uses(load)), ["v1", "v3", "v4"]);
    let branch = inst(&func, 1, 2);
    assert_eq!(regs(&mut func.uses(branch)), ["v1", "v5"]);
}

#[test]
fn physical_reads_and_writes_include_tuples_guards_and_implicit_registers() {
    let func = read(
        "entry k physical sm_90a {
block0:
    @!P1 LDS.64 R4..R5, [R2+UR4]
    CALL.REL.NOINC PT, &f uses(R4, R20..R21) defs(R4..R7)
    EXIT PT
}
",
    );
    let text = |inst: Inst| {
        let uses: Vec<String> = func.uses(inst).map(|reg| reg.to_string()).collect();
        let defs: Vec<String> = func.defs(inst).map(|reg| reg.to_string()).collect();
        (uses.join(" "), defs.join(" "))
    };
    assert_eq!(
        text(inst(&func, 0, 0)),
        ("P1 R2 UR4".to_owned(), "R4..R5".to_owned())
    );
    assert_eq!(
        text(inst(&func, 0, 1)),
        ("R4 R20..R21".to_owned(), "R4..R7".to_owned())
    );
}

#[test]
fn a_block_is_split_before_an_instruction() {
    let mut func = read(LOOP);
    let load = inst(&func, 1, 1);
    let block = func.layout.inst_block(load).expect("a block");
    let tail = func.split_block(load);
    Cursor::at_end(&mut func, block)
        .build(AbstractOp::Br)
        .edge(tail, &[])
        .finish()
        .expect("a branch");
    assert_eq!(verify_function(&func), Ok(()), "{func:?}");
    assert_eq!(func.layout.next_block(block), Some(tail));
    assert_eq!(func.block_insts(tail).next(), Some(load));
    assert_eq!(parse_function(&print_function(&func)), Ok(func));
}

#[test]
fn an_edge_is_split_with_its_arguments_on_the_second_half() {
    let mut func = read(LOOP);
    let back = func.successor_edges(Block::from_u32(1))[0];
    let (middle, leaving) = func.split_edge(back);
    let jump = func.create_abstract(AbstractOp::Br, AbstractMods::NONE, 0, &[]);
    func.set_edges(jump, &[leaving]);
    func.layout.append_inst(jump, middle);
    assert_eq!(func.edge_args(back), []);
    assert_eq!(func.edge_args(leaving), [value(5)]);
    assert_eq!(verify_function(&func), Ok(()), "{func:?}");
}

#[test]
fn a_parameter_goes_with_its_arguments() {
    let mut func = read(
        "func f abstract sm_90a {
block0(v0:r, v1:p):
    br -> block1(v1, v0, v0)
block1(v2:p, v3:r, v4:r):
    v5:r = add.s32 v4, 1
    ret
}
",
    );
    let target = Block::from_u32(1);
    let edges = func.successor_edges(Block::from_u32(0)).to_vec();
    func.remove_block_param(target, 1, &edges);
    assert_eq!(func.block_params(target), [value(2), value(4)]);
    assert_eq!(func.value_def(value(3)), ValueDef::None);
    assert_eq!(func.value_def(value(4)), ValueDef::Param(target, 1));
    assert_eq!(func.edge_args(edges[0]), [value(1), value(0)]);
    assert_eq!(verify_function(&func), Ok(()), "{func:?}");
}

#[test]
fn uses_are_renamed_everywhere_and_definitions_are_not() {
    let mut func = read(LOOP);
    func.map_all_uses(|reg| match reg.kind() {
        RegKind::Value(v) if v == value(3) => Reg::from(value(0)),
        _ => reg,
    });
    assert_eq!(
        print_function(&func),
        LOOP.replace("add.s32 v3, v0", "add.s32 v0, v0")
            .replace("[v3+0x4]", "[v0+0x4]")
    );
}

#[test]
fn a_copied_instruction_has_parts_of_its_own() {
    let mut func = read(LOOP);
    let load = inst(&func, 1, 1);
    let copy = func.copy_inst(load);
    let fresh = func.create_value(Type::R);
    func.map_defs(copy, |_| fresh.into());
    func.map_uses(copy, |reg| match reg.kind() {
        RegKind::Value(v) if v == value(3) => Reg::from(value(0)),
        _ => reg,
    });
    func.layout.insert_inst_after(copy, load);
    assert_eq!(func.defining_inst(value(5)), Some(load));
    assert_eq!(func.defining_inst(fresh), Some(copy));
    assert_eq!(verify_function(&func), Ok(()), "{func:?}");
    let text = print_function(&func);
    assert!(text.contains("v5:r~v4 = ld.shared.b32 [v3+0x4]"), "{text}");
    assert!(text.contains("v6:r~v4 = ld.shared.b32 [v0+0x4]"), "{text}");
}

#[test]
fn an_instruction_is_replaced_in_place() {
    let mut func = read(LOOP);
    let add = inst(&func, 1, 0);
    let row = AbstractOp::Sub.row();
    let mods = row
        .with_modifier(AbstractMods::NONE, Scalar::S32)
        .expect("a typed operation");
    let operands = [4, 0, 3].map(|number| Operand::value(value(number)));
    func.replace_with_abstract(add, AbstractOp::Sub, mods, 1, &operands);
    assert_eq!(func.defining_inst(value(4)), Some(add));
    assert_eq!(
        print_function(&func),
        LOOP.replace("add.s32 v3, v0", "sub.s32 v0, v3")
    );
}

#[test]
fn what_is_removed_leaves_no_definition() {
    let mut func = read(LOOP);
    let load = inst(&func, 1, 1);
    func.remove_inst(load);
    assert_eq!(func.value_def(value(5)), ValueDef::None);
    let errors = verify_function(&func).expect_err("v5 is still an argument");
    assert!(
        errors[0].message.contains("v5 is not defined"),
        "{errors:?}"
    );
}

#[test]
fn groups_of_operands_grow_wherever_the_instruction_lies() {
    let mut func = read(
        "entry k physical sm_90a {
block0:
    CALL.REL.NOINC PT, &f
    LDS R4, [R2]
    EXIT PT
}
",
    );
    let call = inst(&func, 0, 0);
    let regs: Vec<Operand> = (4..8)
        .filter_map(|index| PhysReg::new(Class::R, index))
        .map(Operand::from)
        .collect();
    func.set_implicit(call, &regs[..1], &regs);
    assert_eq!(func.implicit_uses(call), &regs[..1]);
    assert_eq!(func.implicit_defs(call), regs);
    assert_eq!(func.operands(call).len(), 2);
    func.set_implicit(call, &[], &regs[1..2]);
    assert_eq!(verify_function(&func), Ok(()), "{func:?}");
    assert!(print_function(&func).contains("CALL.REL.NOINC PT, &f defs(R5)\n    LDS R4, [R2]"));
}
