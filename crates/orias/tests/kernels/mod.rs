//! The kernels written by hand in `bench/kernels`, and launches that suit them.

use orias::run::{Argument, Emulation, Launch};
use orias_sim::Timing;
use std::path::Path;

/// A kernel and a launch of it.
pub struct Kernel {
    pub name: &'static str,
    grid: u32,
    block: u32,
    shared: u32,
    arguments: &'static [&'static str],
}

const fn kernel(
    name: &'static str,
    (grid, block): (u32, u32),
    shared: u32,
    arguments: &'static [&'static str],
) -> Kernel {
    Kernel {
        name,
        grid,
        block,
        shared,
        arguments,
    }
}

/// All of them.
pub const KERNELS: &[Kernel] = &[
    kernel(
        "axpy",
        (5, 128),
        0,
        &["buf:f32:600:rand", "buf:f32:600:rand", "f32:1.5", "i32:600"],
    ),
    kernel("reverse_static", (4, 128), 0, &["buf:i32:512:rand"]),
    kernel("rotate_dynamic", (3, 96), 384, &["buf:i32:288:rand"]),
    kernel("polynomial", (2, 64), 0, &["buf:i32:128:fill:7", "i32:37"]),
    kernel(
        "collatz",
        (4, 96),
        0,
        &["buf:i32:384:index", "buf:i32:384:fill:9"],
    ),
    kernel(
        "local_array",
        (2, 64),
        0,
        &["buf:i32:1024:rand", "buf:i32:1024:fill:3"],
    ),
    kernel("constant_table", (2, 128), 0, &["buf:i32:256:rand"]),
    kernel("device_global", (2, 128), 0, &["buf:i32:256:fill:5"]),
    kernel("convert_constants", (1, 1), 0, &["buf:i32:16:fill:5"]),
];

impl Kernel {
    /// Its text: `sass` or `ptx`.
    pub fn source(&self, extension: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels");
        std::fs::read_to_string(folder.join(self.name).with_extension(extension))
            .expect("a readable kernel")
    }

    /// Its launch.
    pub fn launch(&self) -> Launch {
        let mut launch = launch(
            self.grid,
            self.block,
            self.shared,
            self.arguments,
            Timing::Strict,
        );
        // A number of 0 has no Collatz sequence.
        if self.name == "collatz"
            && let Some(Argument::Buffer { bytes, .. }) = launch.arguments.first_mut()
        {
            bytes[0] = 27;
        }
        launch
    }
}

/// A launch in one dimension that checks and counts.
pub fn launch(grid: u32, block: u32, shared: u32, arguments: &[&str], timing: Timing) -> Launch {
    Launch {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: None,
        dynamic_shared: shared,
        arguments: arguments
            .iter()
            .map(|text| Argument::parse(text).expect("an argument"))
            .collect(),
        step_limit: Some(10_000_000),
        emulation: Emulation {
            timing,
            check: true,
            cycles: true,
            ..Emulation::default()
        },
        ..Launch::default()
    }
}
