//! Prints the generated program of a seed: `cargo run -p orias-ptx --example ptx_program -- 7`.

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok());
    let options = orias_ptx::generate::Options::default();
    print!(
        "{}",
        orias_ptx::generate::program(seed.unwrap_or(0), &options)
    );
}
