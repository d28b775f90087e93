//! Each expansion of phase 5 computes what the operation it stands for computes, as do the loops that stand for atomic updates.
//!
//! The operation is run by the interpreter before and after the phase, on special operands, on operands near the places
//! where rounding is hardest, and on random ones. The machine's approximate functions, whose last bits are not known, are off
//! by up to a unit in the last place on purpose, this way or that.

mod floats;

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
use orias_interpret::{Approximation, End, Memory, Run, run};
use orias_ori::operation::{AbstractOp, Scalar};
use orias_ori::{Function, Opcode, parse_function, print_function, verify_function};
use orias_random::Rng;
use std::cell::Cell;

/// Random numbers.
struct Random(Rng);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// How wrong the machine's functions may be.
#[derive(Clone, Copy, PartialEq)]
enum Machine {
    /// Rounded to nearest.
    Nearest,
    /// Off by up to a unit in the last place.
    Off,
}

/// The approximate functions.
fn approximate(machine: Machine, which: Approximation, bits: u64, step: i64) -> u64 {
    let function = |x: f64| match which.op {
        AbstractOp::Rcp => 1.0 / x,
        AbstractOp::Sqrt => x.sqrt(),
        AbstractOp::Rsqrt => 1.0 / x.sqrt(),
        AbstractOp::Sin => x.sin(),
        AbstractOp::Cos => x.cos(),
        AbstractOp::Lg2 => x.log2(),
        AbstractOp::Ex2 => x.exp2(),
        _ => x.tanh(),
    };
    let off = match machine {
        Machine::Nearest => 0,
        Machine::Off => step,
    };
    if which.scalar == Scalar::F64 {
        let upper = bits & !0xffff_ffff;
        let operand = f64::from_bits(upper);
        let operand = if operand.is_subnormal() {
            0.0_f64.copysign(operand)
        } else {
            operand
        };
        let result = function(operand);
        if !result.is_normal() {
            return if result.is_nan() {
                0x7fff_ffff_0000_0000
            } else {
                (if result.is_subnormal() {
                    0.0_f64.copysign(result)
                } else {
                    result
                })
                .to_bits()
            };
        }
        // Only the upper word comes out.
        return (result.to_bits() & !0xffff_ffff).wrapping_add_signed(off << 32);
    }
    let operand = f32::from_bits(bits as u32);
    let operand = if which.flush && operand.is_subnormal() {
        0.0_f32.copysign(operand)
    } else {
        operand
    };
    let result = function(f64::from(operand)) as f32;
    if result.is_nan() {
        return 0x7fff_ffff;
    }
    if !result.is_normal() {
        let result = if which.flush && result.is_subnormal() {
            0.0_f32.copysign(result)
        } else {
            result
        };
        return u64::from(result.to_bits());
    }
    u64::from(result.to_bits().wrapping_add_signed(off as i32))
}

fn evaluate(function: &Function, arguments: &[u128], machine: Machine, steps: u64) -> u128 {
    let mut memory = Memory::default();
    let random = Cell::new(steps);
    let end = run(
        function,
        arguments,
        Run {
            memory: &mut memory,
            special: &|_| 0,
            symbol: &|_| 0,
            approximate: &|which, bits| {
                let mut state = Random(Rng::new(random.get() ^ bits));
                random.set(state.next());
                let step = state.below(3) as i64 - 1;
                approximate(machine, which, bits, step)
            },
            limit: 10_000,
        },
    );
    match end {
        Ok(End::Return(values)) => values[0],
        other => panic!("{other:?} in\n{}", print_function(function)),
    }
}

/// A function of one operation: `types` of its operands, then of its result.
fn one_operation(operation: &str, operands: &[&str], result: &str) -> Function {
    let parameters: Vec<String> = operands
        .iter()
        .enumerate()
        .map(|(index, ty)| format!("v{index}:{ty}"))
        .collect();
    let names: Vec<String> = (0..operands.len())
        .map(|index| format!("v{index}"))
        .collect();
    let operation = if operation.contains("{}") {
        operation.replace("{}", &names.join(", "))
    } else {
        format!("{operation} {}", names.join(", "))
    };
    let count = operands.len();
    let text = format!(
        "func f abstract sm_90a -> {result} {{\nblock0({}):\n    v{count}:{result} = {operation}\n    ret v{count}\n}}\n",
        parameters.join(", ")
    );
    let function = parse_function(&text).unwrap_or_else(|error| panic!("{text}{error}"));
    assert_eq!(verify_function(&function), Ok(()), "{text}");
    function
}

/// The function after ConvertUnsupportedOps.
fn expanded(function: &Function) -> Function {
    after("ConvertUnsupportedOps", function)
}

/// The function after a phase.
fn after(phase: &str, function: &Function) -> Function {
    let mut function = function.clone();
    let row = find_phase(PHASES, phase).unwrap();
    let pipeline = Pipeline {
        first: row,
        end: row + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let knobs = Knobs::default();
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let outcome = pipeline.run(&mut function, &context, &mut |_| {});
    assert_eq!(outcome, Ok(()), "{}", print_function(&function));
    function
}

fn uses(function: &Function, op: AbstractOp) -> bool {
    function
        .blocks()
        .flat_map(|block| function.block_insts(block))
        .any(|inst| function.opcode(inst) == Opcode::Abstract(op))
}

/// Compares the operation with its expansion; `width` is how many bits of the result count.
fn compare(
    operation: &str,
    operands: &[&str],
    result: &str,
    width: u32,
    machine: Machine,
    cases: impl IntoIterator<Item = Vec<u128>>,
) {
    let plain = one_operation(operation, operands, result);
    let expanded = expanded(&plain);
    assert_ne!(plain, expanded, "{operation} is not expanded");
    let mask = u128::MAX >> (128 - width);
    let mut wrong = 0;
    let mut shown = String::new();
    let mut count = 0;
    for case in cases {
        count += 1;
        let want = evaluate(&plain, &case, Machine::Nearest, 1) & mask;
        let have = evaluate(&expanded, &case, machine, count) & mask;
        if want != have {
            wrong += 1;
            if wrong <= 5 {
                shown += &format!("{operation} of {case:x?} is {want:x}, not {have:x}\n");
            }
        }
    }
    assert!(wrong == 0, "{wrong} of {count} wrong:\n{shown}");
}

const COUNT: usize = 3000;

fn integers(width: u32, random: &mut Random) -> u128 {
    let mask = u64::MAX >> (64 - width);
    let value = match random.below(5) {
        0 => random.below(20),
        1 => mask.wrapping_sub(random.below(20)),
        2 => 1_u64 << random.below(width.into()),
        3 => (1_u64 << random.below(width.into())).wrapping_sub(1),
        _ => random.next() >> random.below(width.into()),
    };
    u128::from(value & mask)
}

/// Tuples of integers of those widths.
fn integer_cases(widths: &[u32]) -> Vec<Vec<u128>> {
    let mut random = Random(Rng::new(widths.len() as u64 + u64::from(widths[0])));
    (0..COUNT)
        .map(|_| {
            widths
                .iter()
                .map(|&width| integers(width, &mut random))
                .collect()
        })
        .collect()
}

fn register(width: u32) -> &'static str {
    match width {
        64 => "rx2",
        1 => "p",
        _ => "r",
    }
}

#[test]
fn integer_division() {
    for width in [16, 32, 64] {
        let ty = register(width);
        for sign in ["u", "s"] {
            for op in ["div", "rem"] {
                let cases = integer_cases(&[width, width])
                    .into_iter()
                    .filter(|case| case[1] != 0);
                let name = format!("{op}.{sign}{width}");
                // The machine's reciprocal may be off: the quotient is right all the same.
                compare(&name, &[ty, ty], ty, width, Machine::Off, cases);
            }
        }
    }
}

#[test]
fn integer_division_by_constants() {
    let mut random = Random(Rng::new(5));
    for width in [16, 32, 64] {
        let ty = register(width);
        let mask = u64::MAX >> (64 - width);
        let mut divisors = vec![
            1,
            2,
            3,
            5,
            7,
            10,
            641,
            mask,
            mask - 1,
            mask >> 1,
            (mask >> 1) + 1,
        ];
        divisors.extend((0..20).map(|_| random.next() >> random.below(width.into()) & mask));
        for divisor in divisors.into_iter().filter(|&divisor| divisor & mask != 0) {
            for sign in ["u", "s"] {
                for op in ["div", "rem"] {
                    let name = format!("{op}.{sign}{width} {{}}, {divisor}");
                    let cases: Vec<_> = integer_cases(&[width]).into_iter().take(300).collect();
                    compare(&name, &[ty], ty, width, Machine::Nearest, cases);
                }
            }
        }
    }
}

#[test]
fn integer_operations() {
    for (operation, operands, result) in [
        ("add.sat.s32", &[32, 32][..], 32),
        ("sub.sat.s32", &[32, 32], 32),
        ("min.relu.s32", &[32, 32], 32),
        ("max.relu.s32", &[32, 32], 32),
        ("mul.hi.u64", &[64, 64], 64),
        ("mul.hi.s64", &[64, 64], 64),
        ("mad.hi.s64", &[64, 64, 64], 64),
        ("mad.hi.sat.s32", &[32, 32, 32], 32),
        ("mul24.lo.u32", &[32, 32], 32),
        ("mul24.lo.s32", &[32, 32], 32),
        ("mul24.hi.u32", &[32, 32], 32),
        ("mul24.hi.s32", &[32, 32], 32),
        ("mad24.lo.s32", &[32, 32, 32], 32),
        ("mad24.hi.sat.s32", &[32, 32, 32], 32),
        ("madc.hi.u32", &[32, 32, 32, 1], 32),
        ("madc.lo.u64", &[64, 64, 64, 1], 64),
        ("madc.hi.s64", &[64, 64, 64, 1], 64),
        ("sad.u16", &[16, 16, 16], 16),
        ("sad.u64", &[64, 64, 64], 64),
        ("cnot.b16", &[16], 16),
        ("cnot.b32", &[32], 32),
        ("cnot.b64", &[64], 64),
        ("popc.b64", &[64], 32),
        ("clz.b32", &[32], 32),
        ("clz.b64", &[64], 32),
        ("bfind.u64", &[64], 32),
        ("bfind.s64", &[64], 32),
        ("bfind_shiftamt.u64", &[64], 32),
        ("bfind_shiftamt.s64", &[64], 32),
        ("brev.b64", &[64], 64),
        ("bfe.u32", &[32, 32, 32], 32),
        ("bfe.s32", &[32, 32, 32], 32),
        ("bfe.u64", &[64, 32, 32], 64),
        ("bfe.s64", &[64, 32, 32], 64),
        ("bfi.b32", &[32, 32, 32, 32], 32),
        ("bfi.b64", &[64, 64, 32, 32], 64),
        ("fns", &[32, 32, 32], 32),
        ("szext.clamp.u32", &[32, 32], 32),
        ("szext.clamp.s32", &[32, 32], 32),
        ("szext.wrap.u32", &[32, 32], 32),
        ("szext.wrap.s32", &[32, 32], 32),
        ("slct.b32.s32", &[32, 32, 32], 32),
        ("slct.b64.f32", &[64, 64, 32], 64),
        ("slct.ftz.b16.f32", &[16, 16, 32], 16),
        ("shr.u16", &[16, 32], 16),
        ("shr.s16", &[16, 32], 16),
        ("mul.hi.u16", &[16, 16], 16),
        ("mul.hi.s16", &[16, 16], 16),
        ("mul.wide.u16", &[16, 16], 32),
        ("mul.wide.s16", &[16, 16], 32),
        ("mad.wide.s16", &[16, 16, 32], 32),
        ("mad.hi.u16", &[16, 16, 16], 16),
        ("min.s16", &[16, 16], 16),
        ("max.u16", &[16, 16], 16),
        ("abs.s16", &[16], 16),
        ("neg.s16", &[16], 16),
    ] {
        let types: Vec<&str> = operands.iter().map(|&width| register(width)).collect();
        let cases = integer_cases(operands);
        compare(
            operation,
            &types,
            register(result),
            result,
            Machine::Nearest,
            cases,
        );
    }
}

#[test]
fn bit_fields_at_known_places() {
    for position in [0, 3, 16, 31, 32, 40, 63, 64, 200] {
        for length in [0, 1, 5, 16, 31, 32, 33, 64, 255] {
            for (op, width) in [
                ("bfe.u32", 32),
                ("bfe.s32", 32),
                ("bfe.u64", 64),
                ("bfe.s64", 64),
            ] {
                let cases: Vec<_> = integer_cases(&[width]).into_iter().take(40).collect();
                let name = format!("{op} {{}}, {position}, {length}");
                let ty = register(width);
                compare(&name, &[ty], ty, width, Machine::Nearest, cases);
            }
            for (op, width) in [("bfi.b32", 32), ("bfi.b64", 64)] {
                let cases: Vec<_> = integer_cases(&[width, width])
                    .into_iter()
                    .take(40)
                    .collect();
                let name = format!("{op} {{}}, {position}, {length}");
                let ty = register(width);
                compare(&name, &[ty, ty], ty, width, Machine::Nearest, cases);
            }
        }
    }
}

#[test]
fn saturating_conversions() {
    let types = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
    let width = |name: &str| name[1..].parse::<u32>().unwrap();
    for to in types {
        for from in types {
            let name = format!("cvt.sat.{to}.{from}");
            let cases = integer_cases(&[width(from)]);
            let (source, target) = (register(width(from)), register(width(to)));
            compare(&name, &[source], target, width(to), Machine::Nearest, cases);
        }
    }
}

#[test]
fn comparisons_of_16_bits_and_set() {
    for compare_by in ["eq", "ne", "lt", "le", "gt", "ge"] {
        for ty in ["u16", "s16"] {
            let text = format!(
                "func f abstract sm_90a -> r {{\nblock0(v0:r, v1:r):\n    v2:p = setp.{compare_by}.{ty} v0, v1, _\n    v3:r = selp.b32 1, 0, v2\n    ret v3\n}}\n"
            );
            let plain = parse_function(&text).unwrap();
            let after = expanded(&plain);
            for case in integer_cases(&[16, 16]) {
                // Bits above the operands are anything.
                let dirty: Vec<u128> = case.iter().map(|bits| bits | 0xbeef_0000).collect();
                let want = evaluate(&plain, &case, Machine::Nearest, 1);
                assert_eq!(
                    want,
                    evaluate(&after, &dirty, Machine::Nearest, 1),
                    "{text}"
                );
            }
        }
        for (to, from) in [
            ("u32", "s32"),
            ("f32", "u64"),
            ("u32", "u16"),
            ("f16", "s32"),
        ] {
            let bits = from[1..].parse().unwrap();
            let ty = register(bits);
            let width = if to == "f16" { 16 } else { 32 };
            let name = format!("set.{compare_by}.{to}.{from} {{}}, _");
            let cases = integer_cases(&[bits, bits]);
            compare(&name, &[ty, ty], "r", width, Machine::Nearest, cases);
        }
    }
}

#[test]
fn a_guarded_operation_keeps_its_value() {
    let text = "func f abstract sm_90a -> rx2 {\nblock0(v0:rx2, v1:rx2, v2:p):\n    @v2 v3:rx2~v0 = div.u64 v0, v1\n    ret v3\n}\n";
    let plain = parse_function(text).unwrap();
    let after = expanded(&plain);
    for case in integer_cases(&[64, 64, 1]) {
        if case[1] != 0 {
            assert_eq!(
                evaluate(&plain, &case, Machine::Nearest, 1),
                evaluate(&after, &case, Machine::Nearest, 1)
            );
        }
    }
}

/// An update of what an address holds, and what it holds then or what it held.
fn update(operation: &str, ty: &str, word: &str, given: usize, asks: &str) -> Function {
    let given: Vec<String> = (1..=given).map(|index| format!("v{index}")).collect();
    let typed: Vec<String> = given.iter().map(|name| format!("{name}:{ty}")).collect();
    let text = format!(
        "func f abstract sm_90a -> {ty} {{\nblock0(v0:{ty}, {}):\n    v8:r = mov.b32 0x40\n    st.shared.{word} [v8+0x8], v0\n    \
         v3:{ty} = {operation} [v8+0x8], {}\n    v4:{ty} = ld.shared.{word} [v8+0x8]\n    ret {asks}\n}}\n",
        typed.join(", "),
        given.join(", ")
    );
    let function = parse_function(&text).unwrap_or_else(|error| panic!("{text}{error}"));
    assert_eq!(verify_function(&function), Ok(()), "{text}");
    function
}

#[test]
fn loops_of_atomic_updates() {
    let mut random = Random(Rng::new(16));
    let rows = [
        ("add.u64", "rx2", "b64", 1),
        ("min.u64", "rx2", "b64", 1),
        ("max.u64", "rx2", "b64", 1),
        ("min.s64", "rx2", "b64", 1),
        ("max.s64", "rx2", "b64", 1),
        ("and.b64", "rx2", "b64", 1),
        ("or.b64", "rx2", "b64", 1),
        ("xor.b64", "rx2", "b64", 1),
        ("add.f32", "r", "b32", 1),
        ("add.f64", "rx2", "b64", 1),
        ("cas.b16", "r", "b16", 2),
        ("add.f16", "r", "b16", 1),
        ("add.bf16", "r", "b16", 1),
    ];
    for (name, ty, word, given) in rows {
        for order in ["relaxed.cta", "acq_rel.gpu"] {
            for asks in ["v3", "v4"] {
                let operation = format!("atom.{order}.shared.{name}");
                let plain = update(&operation, ty, word, given, asks);
                let looped = after("ExpandForSelection", &plain);
                assert_ne!(plain, looped, "{operation} is not expanded");
                let width = word[1..].parse().unwrap();
                let mask = u128::MAX >> (128 - width);
                for step in 0..200 {
                    // Equal ones, too, for what happens then.
                    let first = integers(width, &mut random);
                    let second = match step % 4 {
                        0 => first,
                        _ => integers(width, &mut random),
                    };
                    let case = [first, second, integers(width, &mut random)];
                    let case = &case[..=given];
                    let want = evaluate(&plain, case, Machine::Nearest, 1) & mask;
                    let have = evaluate(&looped, case, Machine::Nearest, 1) & mask;
                    assert_eq!(want, have, "{operation} {asks} {case:x?}");
                }
            }
        }
    }
}
