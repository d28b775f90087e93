//! Reads input of the largest sizes that nobody means well with, and prints how long each takes and how many errors it
//! has: `cargo run --release --example ptx_hostile`. The tests have the same shapes in smaller sizes.

use std::fmt::Write;
use std::time::{Duration, Instant};

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// What no input may exceed, on a slow machine too.
const PATIENCE: Duration = Duration::from_secs(60);

fn body(text: &str) -> Vec<u8> {
    format!("{HEADER}.visible .entry k()\n{{\n.reg .b32 %r<9>;\n{text}\nret;\n}}\n").into_bytes()
}

/// Text of `length` bytes, or a little more, made of one piece.
fn filled(piece: &str, length: usize) -> String {
    piece.repeat(length.div_ceil(piece.len()))
}

fn labels(count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        // A `String` takes all that is written to it.
        let _ = writeln!(text, "L{at}: bra L{};", (at * 7919) % count);
    }
    text
}

/// A name, what makes the input, and whether it is right.
type Case = (&'static str, fn() -> Vec<u8>, bool);

const MEGABYTES: usize = 100_000_000;
const DEEP: usize = 100_000;

const CASES: &[Case] = &[
    (
        "100 MB of instructions on one line",
        || body(&filled("add.s32 %r1, %r2, %r3; ", MEGABYTES)),
        true,
    ),
    (
        "100 MB of one word",
        || filled("x", MEGABYTES).into_bytes(),
        false,
    ),
    (
        "100 MB of modifiers",
        || body(&format!("add{} %r1;", filled(".sat", MEGABYTES))),
        false,
    ),
    (
        "100 MB of digits",
        || body(&format!("mov.u32 %r1, {};", filled("9", MEGABYTES))),
        false,
    ),
    (
        "100 MB of errors",
        || body(&filled("nonsense; ", MEGABYTES)),
        false,
    ),
    ("100 MB of NUL", || vec![0; MEGABYTES], false),
    ("100 MB that are no UTF-8", || vec![0xff; MEGABYTES], false),
    (
        "100 MB in a comment without end",
        || body(&format!("/*{}", filled(" x", MEGABYTES))),
        false,
    ),
    (
        "100 MB in a string without end",
        || body(&format!(".pragma \"{}", filled(" x", MEGABYTES))),
        false,
    ),
    ("1,000,000 labels", || body(&labels(1_000_000)), true),
    (
        "100,000 scopes in each other",
        || body(&format!("{}{}", filled("{", DEEP), filled("}", DEEP))),
        false,
    ),
    (
        "100,000 parentheses",
        || {
            let (open, close) = (filled("(", DEEP), filled(")", DEEP));
            body(&format!("mov.u32 %r1, {open}1{close};"))
        },
        true,
    ),
    (
        "100,000 braces of a vector",
        || body(&format!("mov.u32 %r1, {};", filled("{", DEEP))),
        false,
    ),
    (
        "100,000 braces of an initialiser",
        || {
            let (open, close) = (filled("{", DEEP), filled("}", DEEP));
            format!("{HEADER}.global .u32 a[1] = {open}1{close};\n").into_bytes()
        },
        false,
    ),
    (
        "a number beyond 64 bits",
        || body("mov.u32 %r1, 18446744073709551616;"),
        false,
    ),
    (
        "1,000,000 instructions",
        || body(&"add.s32 %r1, %r2, %r3;\n".repeat(1_000_000)),
        true,
    ),
];

fn main() {
    let mut failed = false;
    for (name, input, right) in CASES {
        let source = input();
        let started = Instant::now();
        let (module, mut diagnostics) = orias_ptx::parse(&source);
        diagnostics.append(orias_ptx::check(&module, &orias_ptx::Options::default()));
        let shown = diagnostics.to_excerpts("hostile", &source).len();
        let took = started.elapsed();
        let errors = diagnostics.error_count();
        println!(
            "{name:<40} {:>8.3} s, {errors} errors, {shown} bytes of messages",
            took.as_secs_f64()
        );
        if (errors == 0) != *right || took > PATIENCE || shown > 4_000_000 {
            eprintln!("{name}: not as it should be");
            failed = true;
        }
    }
    if failed {
        std::process::exit(1);
    }
}
