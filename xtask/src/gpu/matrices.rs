//! `gpu matrices`: what the tensor cores compute, compared with [`orias_eval::matrix`].
//!
//! Each shape is one warp-wide PTX instruction. Its operands are matrices; the table says which element each register of
//! each lane holds.

use super::driver::{DriverError, Gpu, Module};
use super::job::Words;
use orias_eval::float::{Arithmetic, Format, Rounding};
use orias_eval::matrix::DotRule;
use std::fmt::Write as _;

/// A warp-wide multiply and add of an m×k and a k×n matrix.
struct ProductForm {
    opcode: &'static str,
    m: usize,
    n: usize,
    k: usize,
    operand: Format,
    result: Format,
    rule: Rule,
}

enum Rule {
    /// Groups of products, cut off and added.
    Dot(DotRule),
    /// One fused multiply and add after the other.
    Chain,
}

const fn dot(group: usize, kept_bits: i32, result: Format, rounding: Rounding) -> Rule {
    Rule::Dot(DotRule {
        group,
        kept_bits,
        result,
        rounding,
        cut_bits: 0,
    })
}

const SHAPES: &[ProductForm] = &[
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        m: 16,
        n: 8,
        k: 8,
        operand: Format::F16,
        result: Format::F32,
        rule: dot(8, 25, Format::F32, Rounding::Zero),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        m: 16,
        n: 8,
        k: 16,
        operand: Format::F16,
        result: Format::F32,
        rule: dot(16, 25, Format::F32, Rounding::Zero),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
        m: 16,
        n: 8,
        k: 8,
        operand: Format::BF16,
        result: Format::F32,
        rule: dot(8, 25, Format::F32, Rounding::Zero),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        m: 16,
        n: 8,
        k: 16,
        operand: Format::BF16,
        result: Format::F32,
        rule: dot(16, 25, Format::F32, Rounding::Zero),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
        m: 16,
        n: 8,
        k: 4,
        operand: Format::TF32,
        result: Format::F32,
        rule: dot(4, 25, Format::F32, Rounding::Zero),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        m: 16,
        n: 8,
        k: 8,
        operand: Format::TF32,
        result: Format::F32,
        rule: dot(8, 25, Format::F32, Rounding::Zero),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
        m: 16,
        n: 8,
        k: 8,
        operand: Format::F16,
        result: Format::F16,
        rule: dot(8, 25, Format::F16, Rounding::NearestEven),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        m: 16,
        n: 8,
        k: 16,
        operand: Format::F16,
        result: Format::F16,
        rule: dot(16, 25, Format::F16, Rounding::NearestEven),
    },
    ProductForm {
        opcode: "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        m: 8,
        n: 8,
        k: 4,
        operand: Format::F64,
        result: Format::F64,
        rule: Rule::Chain,
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 4,
        operand: Format::F64,
        result: Format::F64,
        rule: Rule::Chain,
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 8,
        operand: Format::F64,
        result: Format::F64,
        rule: Rule::Chain,
    },
    ProductForm {
        opcode: "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 16,
        operand: Format::F64,
        result: Format::F64,
        rule: Rule::Chain,
    },
];

/// Bits an element takes in a register.
fn storage(format: Format) -> usize {
    match format.width() {
        19 | 32 => 32,
        64 => 64,
        _ => 16,
    }
}

impl ProductForm {
    /// Elements of one operand that stand side by side in a register.
    fn packed(&self) -> usize {
        (32 / storage(self.operand)).max(1)
    }

    fn operand_width(&self) -> usize {
        storage(self.operand).max(32)
    }

    /// Registers of A, B and of C and D in a lane.
    fn registers(&self) -> [usize; 3] {
        let per = 32 * self.packed();
        let results_per = 32 * (32 / storage(self.result)).max(1);
        [
            self.m * self.k / per,
            self.k * self.n / per,
            self.m * self.n / results_per,
        ]
    }

    /// Row and column of element `part` of register `index` of a lane of A: rows in steps of eight first, then columns.
    fn a_place(&self, lane: usize, index: usize, part: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let row_blocks = self.m / 8;
        let (block, step) = (index % row_blocks, index / row_blocks);
        let columns = 4 * self.packed();
        (
            group + 8 * block,
            thread * self.packed() + part + columns * step,
        )
    }

    fn b_place(&self, lane: usize, index: usize, part: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        let rows = 4 * self.packed();
        (thread * self.packed() + part + rows * index, group)
    }

    /// Row and column of the `element`-th result of a lane: pairs side by side, then rows in steps of eight.
    fn c_place(&self, lane: usize, element: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        (group + 8 * (element / 2), thread * 2 + element % 2)
    }

    fn ptx(&self, name: &str, out: &mut String) -> std::fmt::Result {
        let [a, b, c] = self.registers();
        let (wide, result_wide) = (self.operand_width(), storage(self.result).max(32));
        let list = |letter: char, count: usize| {
            let names: Vec<String> = (0..count).map(|i| format!("%{letter}{i}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        writeln!(
            out,
            ".visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{{"
        )?;
        writeln!(out, ".reg .b32 %l<3>; .reg .b64 %w<3>;")?;
        writeln!(
            out,
            ".reg .b{wide} %a<{a}>; .reg .b{wide} %b<{b}>; .reg .b{result_wide} %c<{c}>; .reg .b{result_wide} %d<{c}>;"
        )?;
        writeln!(
            out,
            "mov.u32 %l0, %tid.x; mov.u32 %l1, %ctaid.x; mad.lo.u32 %l0, %l1, 32, %l0;"
        )?;
        for (letter, count, width) in [('a', a, wide), ('b', b, wide), ('c', c, result_wide)] {
            writeln!(
                out,
                "ld.param.u64 %w0, [p{letter}]; mul.wide.u32 %w1, %l0, {}; add.u64 %w0, %w0, %w1;",
                count * width / 8
            )?;
            for i in 0..count {
                writeln!(
                    out,
                    "ld.global.b{width} %{letter}{i}, [%w0+{}];",
                    i * width / 8
                )?;
            }
        }
        writeln!(
            out,
            "{} {}, {}, {}, {};",
            self.opcode,
            list('d', c),
            list('a', a),
            list('b', b),
            list('c', c)
        )?;
        writeln!(
            out,
            "ld.param.u64 %w0, [pd]; mul.wide.u32 %w1, %l0, {}; add.u64 %w0, %w0, %w1;",
            c * result_wide / 8
        )?;
        for i in 0..c {
            writeln!(
                out,
                "st.global.b{result_wide} [%w0+{}], %d{i};",
                i * result_wide / 8
            )?;
        }
        writeln!(out, "exit;\n}}")
    }

    /// Random matrices for one warp: numbers near one, sometimes far apart, sometimes special.
    fn matrices(&self, words: &mut Words) -> [Vec<u64>; 3] {
        let spread = words.next() % 3;
        let mut make = |count: usize, format: Format, wide: bool| {
            (0..count)
                .map(|_| element(format, spread + u64::from(wide), words))
                .collect::<Vec<u64>>()
        };
        [
            make(self.m * self.k, self.operand, false),
            make(self.k * self.n, self.operand, false),
            make(self.m * self.n, self.result, true),
        ]
    }

    fn define(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        match self.rule {
            Rule::Dot(rule) => rule.dot(self.operand, a, b, c),
            Rule::Chain => {
                let how = Arithmetic::plain(self.result);
                a.iter()
                    .zip(b)
                    .fold(c, |sum, (a, b)| how.fused(*a, *b, sum))
            }
        }
    }
}

/// A pattern of a format, its exponent within a range that grows with `spread`.
fn element(format: Format, spread: u64, words: &mut Words) -> u64 {
    let word = words.next();
    let fraction = word & ((1 << format.fraction_bits) - 1);
    let sign = word >> 63 << (format.width() - 1);
    let bias = -i64::from(format.min_exponent()) + 1;
    match words.next() % 64 {
        0 => sign,
        1 if spread == 2 => sign | fraction,
        _ => {
            let range = [3, 14, 40, 60][spread.min(3) as usize].min(2 * bias - 2);
            let offset = (words.next() % range as u64).cast_signed() - range / 2;
            let exponent = (bias + offset).clamp(1, 2 * bias);
            sign | exponent.cast_unsigned() << format.fraction_bits | fraction
        }
    }
}

fn put(bytes: &mut Vec<u8>, width: usize, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes()[..width / 8]);
}

/// Warps of each shape whose results are written down for the replay without a GPU.
const RECORDED_WARPS: usize = 4;

/// The inputs of the first `warps` warps of a shape: the same on any machine.
fn inputs(shape: &ProductForm, warps: usize) -> Vec<[Vec<u64>; 3]> {
    let mut words = Words::new(super::job::hash(shape.opcode.as_bytes()));
    (0..warps).map(|_| shape.matrices(&mut words)).collect()
}

/// The first element of `results` that differs from its definition, and how many do.
fn differences(
    shape: &ProductForm,
    inputs: &[[Vec<u64>; 3]],
    results: &[Vec<u64>],
) -> (usize, Option<String>) {
    let (mut differing, mut first) = (0, None);
    for ([a, b, c], d) in inputs.iter().zip(results) {
        for row in 0..shape.m {
            for column in 0..shape.n {
                let left = &a[row * shape.k..][..shape.k];
                let right: Vec<u64> = (0..shape.k).map(|k| b[k * shape.n + column]).collect();
                let place = row * shape.n + column;
                let defined = shape.define(left, &right, c[place]);
                if defined != d[place] {
                    differing += 1;
                    first.get_or_insert_with(|| {
                        format!(
                            "{left:x?} . {right:x?} + {:x} is {:x}, defined as {defined:x}",
                            c[place], d[place]
                        )
                    });
                }
            }
        }
    }
    (differing, first)
}

/// A module with one kernel per shape, `shape0`, `shape1`, ….
fn module_text() -> String {
    let mut source = String::from(".version 9.0\n.target sm_90a\n.address_size 64\n");
    for (index, shape) in SHAPES.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = shape.ptx(&format!("shape{index}"), &mut source);
    }
    source
}

/// Runs `warps` multiplications of every shape on the chip and hands the results to `each`.
fn run(
    warps: usize,
    mut each: impl FnMut(&ProductForm, &[[Vec<u64>; 3]], &[Vec<u64>]),
) -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let module = gpu
        .load(&super::compare_forms::assemble(&module_text())?)
        .map_err(|error| error.to_string())?;
    for (index, shape) in SHAPES.iter().enumerate() {
        let inputs = inputs(shape, warps);
        let results = on_the_chip(&gpu, &module, shape, index, &inputs)
            .map_err(|error| format!("{}: {error}", shape.opcode))?;
        each(shape, &inputs, &results);
    }
    Ok(())
}

/// `gpu matrices WARPS`: random multiplications of every shape, every element compared.
pub fn compare(warps: usize) -> Result<(), String> {
    let mut wrong = 0;
    run(warps, |shape, inputs, results| {
        let (differing, first) = differences(shape, inputs, results);
        println!(
            "{}: {differing} of {} elements differ",
            shape.opcode,
            warps * shape.m * shape.n
        );
        if let Some(first) = first {
            wrong += 1;
            println!("    {first}");
        }
    })?;
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} shapes differ from their definition"))
    }
}

/// `gpu record-matrices FILE`: the results of [`RECORDED_WARPS`] warps of every shape, one line each.
pub fn record(path: &str) -> Result<(), String> {
    let mut text = String::new();
    run(RECORDED_WARPS, |shape, _, results| {
        let words: Vec<String> = results
            .iter()
            .flatten()
            .map(|word| format!("{word:x}"))
            .collect();
        text += &format!("{}\t{}\n", shape.opcode, words.join(" "));
    })?;
    super::compare_forms::write_compressed(path, &text)
}

/// The result matrices of all warps.
fn on_the_chip(
    gpu: &Gpu,
    module: &Module,
    shape: &ProductForm,
    index: usize,
    inputs: &[[Vec<u64>; 3]],
) -> Result<Vec<Vec<u64>>, DriverError> {
    let [a, b, c] = operand_bytes(shape, inputs);
    let results = vec![0; c.len()];
    let buffers = [
        gpu.buffer(&a)?,
        gpu.buffer(&b)?,
        gpu.buffer(&c)?,
        gpu.buffer(&results)?,
    ];
    let arguments: Vec<Vec<u8>> = buffers
        .iter()
        .map(|buffer| buffer.address().to_le_bytes().to_vec())
        .collect();
    module.kernel(&format!("shape{index}"), 0)?.launch(
        [inputs.len() as u32, 1, 1],
        [32, 1, 1],
        &arguments,
    )?;
    Ok(result_matrices(shape, inputs.len(), &buffers[3].read()?))
}

/// The bytes of A, B and C as the kernel of a shape reads them, all warps one after the other.
fn operand_bytes(shape: &ProductForm, inputs: &[[Vec<u64>; 3]]) -> [Vec<u8>; 3] {
    let [a_count, b_count, c_count] = shape.registers();
    let (mut a_bytes, mut b_bytes, mut c_bytes) = (Vec::new(), Vec::new(), Vec::new());
    let element_bits = storage(shape.operand);
    // A register of single-precision width holds the nineteen bits of tf32 at its top.
    let shifted = |value: u64| {
        if shape.operand == Format::TF32 {
            value << 13
        } else {
            value
        }
    };
    let result_bits = storage(shape.result);
    let results_in_lane = c_count * (32 / result_bits).max(1);
    for [a, b, c] in inputs {
        for lane in 0..32 {
            for register in 0..a_count {
                for part in 0..shape.packed() {
                    let (row, column) = shape.a_place(lane, register, part);
                    put(
                        &mut a_bytes,
                        element_bits,
                        shifted(a[row * shape.k + column]),
                    );
                }
            }
            for register in 0..b_count {
                for part in 0..shape.packed() {
                    let (row, column) = shape.b_place(lane, register, part);
                    put(
                        &mut b_bytes,
                        element_bits,
                        shifted(b[row * shape.n + column]),
                    );
                }
            }
            for element in 0..results_in_lane {
                let (row, column) = shape.c_place(lane, element);
                put(&mut c_bytes, result_bits, c[row * shape.n + column]);
            }
        }
    }
    [a_bytes, b_bytes, c_bytes]
}

/// The matrices that the kernel of a shape wrote.
fn result_matrices(shape: &ProductForm, warps: usize, bytes: &[u8]) -> Vec<Vec<u64>> {
    let [_, _, c_count] = shape.registers();
    let result_bits = storage(shape.result);
    let results_in_lane = c_count * (32 / result_bits).max(1);
    let mut elements = bytes.chunks_exact(result_bits / 8).map(|chunk| {
        chunk
            .iter()
            .rev()
            .fold(0, |n, byte| n << 8 | u64::from(*byte))
    });
    (0..warps)
        .map(|_| {
            let mut matrix = vec![0; shape.m * shape.n];
            for lane in 0..32 {
                for element in 0..results_in_lane {
                    let (row, column) = shape.c_place(lane, element);
                    matrix[row * shape.n + column] = elements.next().unwrap_or_default();
                }
            }
            matrix
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many elements of a shape's random matrices another rule computes otherwise.
    fn told_apart(shape: &ProductForm, other: DotRule) -> usize {
        let changed = ProductForm {
            rule: Rule::Dot(other),
            ..*shape
        };
        let inputs = inputs(shape, 50);
        let results: Vec<Vec<u64>> = inputs
            .iter()
            .map(|[a, b, c]| {
                let element = |place: usize| {
                    let (row, column) = (place / shape.n, place % shape.n);
                    let right: Vec<u64> = (0..shape.k).map(|k| b[k * shape.n + column]).collect();
                    changed.define(&a[row * shape.k..][..shape.k], &right, c[place])
                };
                (0..shape.m * shape.n).map(element).collect()
            })
            .collect();
        differences(shape, &inputs, &results).0
    }

    /// Agreement with the chip means something only if its neighbours would have disagreed.
    #[test]
    fn the_random_matrices_tell_rules_apart() {
        for shape in SHAPES {
            let Rule::Dot(rule) = shape.rule else {
                continue;
            };
            let mut others = vec![DotRule {
                group: rule.group / 2,
                ..rule
            }];
            if shape.result == Format::F32 {
                // A half-precision result is too short to show the last kept bits.
                others.push(DotRule {
                    kept_bits: rule.kept_bits + 1,
                    ..rule
                });
                others.push(DotRule {
                    kept_bits: rule.kept_bits - 1,
                    ..rule
                });
                others.push(DotRule {
                    rounding: Rounding::NearestEven,
                    ..rule
                });
            } else {
                others.push(DotRule {
                    rounding: Rounding::Zero,
                    ..rule
                });
            }
            for other in others {
                assert_ne!(told_apart(shape, other), 0, "{} {other:?}", shape.opcode);
            }
        }
    }

    /// What the tensor cores gave, by shape.
    fn recorded() -> Vec<Vec<Vec<u64>>> {
        let text = super::super::compare_forms::read_compressed(include_bytes!(
            "../../data/matrices-sm90.txt.gz"
        ));
        let lines: Vec<(&str, &str)> = text
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .collect();
        assert_eq!(lines.len(), SHAPES.len(), "every shape is recorded");
        let shapes = SHAPES.iter().zip(lines);
        shapes
            .map(|(shape, (opcode, words))| {
                assert_eq!(shape.opcode, opcode);
                let words: Vec<u64> = words
                    .split(' ')
                    .map(|word| u64::from_str_radix(word, 16).unwrap())
                    .collect();
                let results = words.chunks(shape.m * shape.n).map(<[u64]>::to_vec);
                let results: Vec<Vec<u64>> = results.collect();
                assert_eq!(results.len(), RECORDED_WARPS);
                results
            })
            .collect()
    }

    #[test]
    fn definitions_give_what_the_tensor_cores_gave() {
        for (shape, results) in SHAPES.iter().zip(recorded()) {
            let (differing, first) = differences(shape, &inputs(shape, RECORDED_WARPS), &results);
            assert_eq!(differing, 0, "{}: {first:?}", shape.opcode);
        }
    }

    /// The same through the interpreter: which lane holds which element, too.
    #[test]
    fn the_interpreter_gives_what_the_tensor_cores_gave() {
        let text = module_text();
        let (module, found) = orias_ptx::parse(text.as_bytes());
        assert!(!found.has_errors());
        let mut program = orias_reference::Program::load(&module).unwrap();
        for (index, (shape, expected)) in SHAPES.iter().zip(recorded()).enumerate() {
            let operands = operand_bytes(shape, &inputs(shape, RECORDED_WARPS));
            let size = operands[2].len();
            let memory = program.memory_mut();
            let [a, b, c] = operands.map(|bytes| memory.allocate(bytes));
            let d = memory.allocate(vec![0; size]);
            let grid = [RECORDED_WARPS as u32, 1, 1];
            let mut launch =
                orias_reference::Launch::new(&format!("shape{index}"), grid, [32, 1, 1]);
            for address in [a, b, c, d] {
                launch = launch.argument(address.to_le_bytes());
            }
            program.launch(&launch).unwrap();
            let bytes = program.memory().read(d, size).unwrap();
            let results = result_matrices(shape, RECORDED_WARPS, bytes);
            assert_eq!(results, expected, "{}", shape.opcode);
        }
    }
}
