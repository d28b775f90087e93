//! Generated programs as launches.

use orias::run::{Argument, Element, Launch};
use orias_generate::ptx::{self as generate, BLOCK, GRID, KERNEL, OUTPUT_BYTES, SCRATCH_BYTES};

/// Steps of all threads after which a program counts as endless.
const STEP_LIMIT: u64 = 50_000_000;

/// The program of a seed and how it is run: it reads its first buffer and leaves what it computed in the second.
pub fn program(seed: u64) -> (String, Launch) {
    let text = generate::program(seed, &generate::Options::default());
    let buffer = |bytes: Vec<u8>| Argument::Buffer {
        bytes,
        element: Element::U32,
    };
    let launch = Launch {
        kernel: Some(KERNEL.to_owned()),
        grid: [GRID, 1, 1],
        block: [BLOCK, 1, 1],
        arguments: vec![
            buffer(generate::input(seed)),
            buffer(vec![0; OUTPUT_BYTES]),
            buffer(vec![0; SCRATCH_BYTES]),
        ],
        step_limit: Some(STEP_LIMIT),
        ..Launch::default()
    };
    (text, launch)
}
