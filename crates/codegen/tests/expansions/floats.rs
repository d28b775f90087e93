//! Division, reciprocals, roots and approximate functions of single and double precision.

use super::*;
use orias_codegen::phases::{SLOW_PATHS, is_slow_path, slow_path};

/// Singles: special ones, powers of two, numbers with few or nearly all digits, random ones.
fn singles(random: &mut Random) -> u32 {
    let sign = (random.next() as u32) << 31;
    let exponent = match random.below(4) {
        0 => random.below(256),
        1 => 127 + random.below(3) - 1,
        2 => random.below(26),
        _ => 100 + random.below(60),
    } as u32;
    let fraction = match random.below(6) {
        0 => 0,
        1 => 0x7f_ffff,
        2 => 1 << random.below(23),
        3 => 0x7f_ffff ^ 1 << random.below(23),
        _ => random.next() as u32 & 0x7f_ffff,
    };
    sign | exponent << 23 | fraction
}

fn doubles(random: &mut Random) -> u64 {
    let sign = random.next() << 63;
    let exponent = match random.below(5) {
        0 => random.below(2048),
        1 => 1023 + random.below(3) - 1,
        2 => random.below(60),
        3 => 2047 - random.below(60),
        _ => 900 + random.below(300),
    };
    let fraction = match random.below(6) {
        0 => 0,
        1 => (1 << 52) - 1,
        2 => 1 << random.below(52),
        3 => ((1 << 52) - 1) ^ 1 << random.below(52),
        _ => random.next() & ((1 << 52) - 1),
    };
    sign | exponent << 52 | fraction
}

const SPECIAL_SINGLES: [u32; 14] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x4b80_0000,
];

fn special_doubles() -> Vec<u64> {
    vec![
        0,
        1 << 63,
        1,
        1 << 63 | 1,
        (1 << 52) - 1,
        1 << 52,
        0x3ff0_0000_0000_0000,
        0xbff0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        0x7ff8_0000_0000_1234,
    ]
}

/// Pairs of singles, with quotients close to the middle between two singles among them.
fn single_pairs() -> Vec<Vec<u128>> {
    let mut cases = Vec::new();
    for a in SPECIAL_SINGLES {
        for b in SPECIAL_SINGLES {
            cases.push(vec![a.into(), b.into()]);
        }
    }
    let mut random = Random(Rng::new(77));
    for _ in 0..3 * COUNT {
        cases.push(vec![
            singles(&mut random).into(),
            singles(&mut random).into(),
        ]);
    }
    for _ in 0..COUNT {
        // A product of a divisor and a number of 25 digits, cut: the quotient is next to a middle.
        let b = f32::from_bits(0x3f80_0000 | random.next() as u32 & 0x7f_ffff);
        let q = 1.0 + (random.below(1 << 24) as f64 * 2.0 + 1.0) / f64::from(1 << 25);
        let a = (f64::from(b) * q) as f32;
        cases.push(vec![a.to_bits().into(), b.to_bits().into()]);
    }
    for _ in 0..COUNT {
        // Subnormal quotients.
        let a = random.next() as u32 & 0x00ff_ffff;
        let b = 0x3f80_0000 + (random.next() as u32 & 0x0fff_ffff);
        cases.push(vec![a.into(), b.into()]);
    }
    cases
}

fn double_pairs() -> Vec<Vec<u128>> {
    let mut cases = Vec::new();
    for a in special_doubles() {
        for b in special_doubles() {
            cases.push(vec![a.into(), b.into()]);
        }
    }
    let mut random = Random(Rng::new(78));
    for _ in 0..3 * COUNT {
        cases.push(vec![
            doubles(&mut random).into(),
            doubles(&mut random).into(),
        ]);
    }
    for _ in 0..COUNT {
        // Subnormal quotients of all lengths.
        let a = random.next() >> 12 | (random.below(80) + 1) << 52;
        let b = random.next() >> 12 | (1023 + random.below(80)) << 52;
        cases.push(vec![a.into(), b.into()]);
    }
    for _ in 0..COUNT {
        // A numerator that is a multiple of the divisor, or next to one.
        let b = random.next() >> 12 & !0x3ff_ffff | 1023 << 52;
        let q = random.next() >> 12 & !0x3ff_ffff | 1023 << 52;
        let a = (f64::from_bits(b) * f64::from_bits(q)).to_bits();
        let a = a.wrapping_add(random.below(3)).wrapping_sub(1);
        cases.push(vec![a.into(), b.into()]);
    }
    cases
}

const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

#[test]
fn single_division() {
    for round in ROUNDINGS {
        for ftz in ["", ".ftz"] {
            let name = format!("fdiv.{round}{ftz}.f32");
            compare(
                &name,
                &["r", "r"],
                "r",
                32,
                Machine::Nearest,
                single_pairs(),
            );
        }
    }
    // Through double precision the machine's reciprocal may be off.
    compare(
        "fdiv.rz.f32",
        &["r", "r"],
        "r",
        32,
        Machine::Off,
        single_pairs(),
    );
}

#[test]
fn single_reciprocal_and_root() {
    let mut random = Random(Rng::new(3));
    let mut cases: Vec<Vec<u128>> = SPECIAL_SINGLES.iter().map(|&it| vec![it.into()]).collect();
    cases.extend((0..4 * COUNT).map(|_| vec![singles(&mut random).into()]));
    for round in ROUNDINGS {
        for ftz in ["", ".ftz"] {
            for op in ["rcp", "sqrt"] {
                let name = format!("{op}.{round}{ftz}.f32");
                compare(&name, &["r"], "r", 32, Machine::Nearest, cases.clone());
                if round != "rn" {
                    compare(&name, &["r"], "r", 32, Machine::Off, cases.clone());
                }
            }
        }
    }
}

#[test]
fn double_division() {
    for round in ROUNDINGS {
        let name = format!("fdiv.{round}.f64");
        compare(
            &name,
            &["rx2", "rx2"],
            "rx2",
            64,
            Machine::Off,
            double_pairs(),
        );
    }
}

#[test]
fn double_reciprocal_and_root() {
    let mut random = Random(Rng::new(4));
    let mut cases: Vec<Vec<u128>> = special_doubles()
        .iter()
        .map(|&it| vec![it.into()])
        .collect();
    cases.extend((0..4 * COUNT).map(|_| vec![doubles(&mut random).into()]));
    for round in ROUNDINGS {
        for op in ["rcp", "sqrt"] {
            let name = format!("{op}.{round}.f64");
            compare(&name, &["rx2"], "rx2", 64, Machine::Off, cases.clone());
        }
    }
}

/// Every slow path that is called computes what its operation does, of any operands.
#[test]
fn slow_paths_that_are_called() {
    for path in &SLOW_PATHS {
        let symbol = format!("$${}", path.name);
        assert!(is_slow_path(&symbol));
        let target = orias_sass::Target::DEFAULT;
        let called = slow_path(&symbol, target).unwrap().unwrap();
        assert_eq!(verify_function(&called), Ok(()), "{symbol}");
        // At every level it fits into the registers that callers leave to it, without a frame.
        for opt_level in 0..=3 {
            let mut code = called.clone();
            let context = Context {
                opt_level,
                knobs: &Knobs::default(),
                machine: orias_machine::Machine::of(target),
            };
            let outcome = Pipeline::default().run(&mut code, &context, &mut |_| {});
            assert_eq!(outcome, Ok(()), "{symbol} at -O{opt_level}");
        }
        let name = match path.op {
            AbstractOp::Fdiv => format!("f{}", path.name),
            _ => path.name.to_owned(),
        };
        let wide = path.scalar == Scalar::F64;
        let ty = if wide { "rx2" } else { "r" };
        let operands: &[&str] = match path.op {
            AbstractOp::Fdiv => &[ty, ty],
            _ => &[ty],
        };
        let plain = one_operation(&name, operands, ty);
        let cases = if wide { double_pairs() } else { single_pairs() };
        for (number, case) in cases.iter().enumerate() {
            let case = &case[..operands.len()];
            let have = evaluate(&called, case, Machine::Off, number as u64);
            let want = evaluate(&plain, case, Machine::Nearest, 1);
            assert_eq!(want, have, "{name} of {case:x?}");
        }
    }
}

/// Where a function divides often, the long way is left to be called: one division in each block that hardly ever runs.
#[test]
fn slow_paths_are_called_where_they_are_needed_often() {
    let divisions = |count: usize| {
        let lines: Vec<String> = (0..count)
            .map(|at| format!("    v{}:r = fdiv.rn.f32 v{}, v{at}\n", at + 2, at + 1))
            .collect();
        let text = format!(
            "func f abstract sm_90a -> r {{\nblock0(v0:r, v1:r):\n{}    ret v{}\n}}\n",
            lines.concat(),
            count + 1
        );
        parse_function(&text).unwrap()
    };
    assert!(!uses(&expanded(&divisions(3)), AbstractOp::Fdiv));
    let plain = divisions(16);
    let after = expanded(&plain);
    assert_eq!(after.attributes.rare.len(), 16);
    for &block in &after.attributes.rare {
        let mut insts = after.block_insts(block);
        let first = insts.next().unwrap();
        assert_eq!(after.opcode(first), Opcode::Abstract(AbstractOp::Fdiv));
        assert_eq!(insts.count(), 1);
    }
    for case in single_pairs() {
        assert_eq!(
            evaluate(&plain, &case, Machine::Nearest, 1),
            evaluate(&after, &case, Machine::Nearest, 1)
        );
    }
}

/// A single's bits in the order of the numbers.
fn ordered(bits: u128) -> i64 {
    let bits = bits as u32;
    let magnitude = i64::from(bits & 0x7fff_ffff);
    if bits >> 31 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

#[test]
fn approximate_functions_of_subnormal_numbers() {
    let mut random = Random(Rng::new(9));
    let mut cases: Vec<u32> = SPECIAL_SINGLES.to_vec();
    cases.extend((0..COUNT).map(|_| singles(&mut random)));
    cases.extend((0..COUNT).map(|_| random.next() as u32 & 0x807f_ffff));
    for op in ["rcp", "sqrt", "rsqrt", "lg2", "ex2"] {
        let plain = one_operation(&format!("{op}.approx.f32"), &["r"], "r");
        let after = expanded(&plain);
        for &case in &cases {
            let want = evaluate(&plain, &[case.into()], Machine::Nearest, 1);
            let have = evaluate(&after, &[case.into()], Machine::Nearest, 1);
            let nan = |bits: u128| bits & 0x7fff_ffff > 0x7f80_0000;
            if nan(want) {
                assert!(nan(have), "{op} {case:x}: {have:x}");
                continue;
            }
            let distance = (ordered(want) - ordered(have)).abs();
            assert!(distance <= 2, "{op} {case:x}: {want:x}, {have:x}");
        }
    }
}

#[test]
fn approximate_quotients_are_close() {
    let mut random = Random(Rng::new(10));
    for name in ["fdiv.approx.f32", "fdiv.full.f32"] {
        let after = expanded(&one_operation(name, &["r", "r"], "r"));
        assert!(!uses(&after, AbstractOp::Fdiv));
        for _ in 0..COUNT {
            let (a, b) = (singles(&mut random), singles(&mut random));
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let q = x / y;
            // The manual promises this range for both.
            let inside = y.abs() > 2f32.powi(-126) && y.abs() < 2f32.powi(126);
            if !q.is_normal() || !inside || !x.is_normal() {
                continue;
            }
            let have = evaluate(&after, &[a.into(), b.into()], Machine::Nearest, 1);
            let distance = (ordered(q.to_bits().into()) - ordered(have)).abs();
            assert!(distance <= 2, "{x:e} / {y:e} = {q:e}, not {have:x}");
        }
    }
}
