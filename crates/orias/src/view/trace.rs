//! A kernel in the emulator, one warp of it step by step.

use crate::run::{self, Code, Engine, Request};
use orias_sim::{Trace, Watch};
use serde_json::{Value, json};

/// Steps of the warp that are kept at most.
const MOST_STEPS: usize = 4000;

/// Instructions of all threads together after which the run is stopped: a few seconds in a browser.
const MOST_INSTRUCTIONS: u64 = 20_000_000;

/// Bytes of a buffer at most: what a page can hold beside everything else.
const LARGEST_BUFFER: u64 = 64 << 20;

/// Bytes of local memory of a thread at most.
const LARGEST_STACK: u32 = 1 << 16;

/// Elements of a buffer that are shown.
const SHOWN: usize = 64;

/// Runs a cubin and tells what the warp `watched` (a block and a number in it) did.
pub(super) fn trace(
    image: &[u8],
    words: &[&str],
    watched: ([u32; 3], u32),
    files: bool,
) -> Result<Value, String> {
    let request = Request::parse_words(words).map_err(|error| error.to_string())?;
    if request.interpret {
        return Err("the interpreter has no finished code to step through".into());
    }
    let names_file = |argument: &String| argument.contains(":@");
    if !files && (request.args.is_some() || request.arguments.iter().any(names_file)) {
        return Err("a page reads no files: write the values of an argument".into());
    }
    let mut launch = request.launch_within(LARGEST_BUFFER)?;
    let limit = launch.step_limit.unwrap_or(MOST_INSTRUCTIONS);
    launch.step_limit = Some(limit.min(MOST_INSTRUCTIONS));
    let stack = launch.emulation.stack;
    launch.emulation.stack = stack.map(|it| it.min(LARGEST_STACK));
    launch.watch = Some(Watch {
        block: watched.0,
        warp: watched.1,
        most: MOST_STEPS,
    });
    let finished = run::run(
        Code::Cubin(image),
        &launch,
        Engine::Emulator,
        &mut |_, _| {},
    )?;
    let buffers = launch.held().zip(&finished.buffers).enumerate();
    let buffers = buffers.filter_map(
        |(at, (argument, after))| match (argument.changed(), after) {
            (Some(element), Some(after)) => {
                let elements = after.chunks(element.bytes());
                let count = elements.len();
                let shown = elements.take(SHOWN).map(|it| element.show(it, false));
                Some(json!({
                    "argument": at, "type": element.name(), "count": count,
                    "values": shown.collect::<Vec<_>>(),
                }))
            }
            _ => None,
        },
    );
    let kernel = launch.kernel.clone().or_else(|| only_kernel(image));
    Ok(json!({
        "kernel": kernel,
        "launch": words.join(" "),
        "block": watched.0,
        "warp": watched.1,
        "steps": steps(finished.trace.as_ref()),
        "cut": finished.trace.is_some_and(|it| it.cut),
        "fault": finished.fault,
        "printed": String::from_utf8_lossy(&finished.printed),
        "found": finished.findings,
        "buffers": buffers.collect::<Vec<_>>(),
    }))
}

fn only_kernel(image: &[u8]) -> Option<String> {
    let cubin = orias_cubin::Cubin::read(image).ok()?;
    let functions = cubin.functions();
    let kernel = functions.iter().find(|function| function.is_entry);
    kernel.map(|kernel| kernel.name.to_owned())
}

/// Steps as `[index, lanes, active, cycle, changes]`, a change as `[register, lanes, values]`; one value stands for equal ones.
fn steps(trace: Option<&Trace>) -> Vec<Value> {
    let steps = trace.map(|trace| trace.steps.iter()).into_iter().flatten();
    let steps = steps.map(|step| {
        let changes = step.changes.iter().map(|change| {
            let same = change.values.windows(2).all(|pair| pair[0] == pair[1]);
            let values = match change.values[..] {
                [first, ..] if same => json!(first),
                _ => json!(change.values),
            };
            json!([change.register.to_string(), change.lanes, values])
        });
        json!([
            step.index,
            step.lanes,
            step.active,
            step.cycle,
            changes.collect::<Vec<_>>()
        ])
    });
    steps.collect()
}
