//! Takes the kernels of PTX files through the pipeline up to a phase and counts what happens.
//!
//! `cargo run --release -p orias-codegen --example select_sweep -- FILE...`: one line a file that fails, a table of reasons, and
//! how many instructions came out.

use orias_codegen::knobs::Knobs;
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::pipeline::{Context, PHASES, Pipeline, find_phase};
use std::collections::BTreeMap;

fn main() {
    let end = find_phase(PHASES, "SelectInstructions").expect("the phase") + 1;
    let pipeline = Pipeline {
        end,
        verify_each: true,
        ..Pipeline::default()
    };
    let knobs = Knobs::default();
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut files, mut good, mut kernels, mut instructions) = (0, 0, 0, 0);
    for path in std::env::args().skip(1) {
        files += 1;
        let outcome = std::fs::read(&path)
            .map_err(|error| error.to_string())
            .and_then(|text| compile(&text, &pipeline, &context));
        match outcome {
            Ok((functions, insts)) => {
                good += 1;
                kernels += functions;
                instructions += insts;
            }
            Err(reason) => {
                println!("{path}: {reason}");
                let head: String = reason.chars().take(90).collect();
                *reasons.entry(head).or_default() += 1;
            }
        }
    }
    println!("{good} of {files} files, {kernels} kernels, {instructions} instructions");
    for (reason, count) in reasons {
        println!("{count:4} {reason}");
    }
}

fn compile(
    text: &[u8],
    pipeline: &Pipeline<'_>,
    context: &Context<'_>,
) -> Result<(usize, usize), String> {
    let (parsed, _) = orias_ptx::parse(text);
    let module = lower(&parsed, &LowerOptions::default())
        .map_err(|errors| format!("lower: {}", errors[0].message))?;
    let mut instructions = 0;
    let kernels = module.kernels.len();
    for mut kernel in module.kernels {
        pipeline
            .run(&mut kernel.code, context, &mut |_| {})
            .map_err(|failure| failure.to_string())?;
        let code = &kernel.code;
        instructions += code
            .blocks()
            .map(|block| code.block_insts(block).count())
            .sum::<usize>();
    }
    Ok((kernels, instructions))
}
