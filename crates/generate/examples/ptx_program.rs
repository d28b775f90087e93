//! Prints the generated program of a seed, or the bytes of its input:
//!
//! ```text
//! cargo run -p orias-generate --example ptx_program -- 7 > 7.ptx
//! cargo run -p orias-generate --example ptx_program -- 7 input > 7.bin
//! orias run 7.ptx --interpret --grid 2 --block 64 buf:@7.bin buf:b32:272 buf:b8:8192
//! ```

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seed = words
        .first()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0);
    let options = orias_generate::ptx::Options::default();
    let bytes = match words.get(1).map(String::as_str) {
        Some("input") => orias_generate::ptx::input(seed),
        _ => orias_generate::ptx::program(seed, &options).into_bytes(),
    };
    std::io::stdout().write_all(&bytes)
}
