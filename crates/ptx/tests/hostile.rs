//! Input that nobody means well with: errors in bounded time and memory, never a panic.

use orias_ptx::Options;
use std::fmt::Write;
use std::time::{Duration, Instant};

const HEADER: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// Parses, checks, prints and shows the messages, all within a generous time. Returns the number of errors.
fn survive(source: &[u8]) -> usize {
    let started = Instant::now();
    let (module, mut diagnostics) = orias_ptx::parse(source);
    diagnostics.append(orias_ptx::check(&module, &Options::default()));
    let shown = diagnostics.to_excerpts("hostile", source);
    assert!(shown.len() < 4_000_000, "{} bytes of messages", shown.len());
    let printed = orias_ptx::print(&module);
    assert!(printed.len() < source.len() * 4 + 10_000);
    assert!(started.elapsed() < Duration::from_secs(60));
    diagnostics.error_count()
}

fn body(text: &str) -> String {
    format!("{HEADER}.visible .entry k()\n{{\n.reg .b32 %r<9>;\n{text}\nret;\n}}\n")
}

#[test]
fn one_enormous_line() {
    let line = "add.s32 %r1, %r2, %r3; ".repeat(200_000);
    assert_eq!(survive(body(&line).as_bytes()), 0);
    let garbage = "x".repeat(10_000_000);
    assert!(survive(garbage.as_bytes()) > 0);
    assert!(survive(body(&format!("add.{garbage} %r1;")).as_bytes()) > 0);
    let digits = "9".repeat(5_000_000);
    assert!(survive(body(&format!("mov.u32 %r1, {digits};")).as_bytes()) > 0);
}

#[test]
fn a_hundred_thousand_labels() {
    let mut text = String::new();
    for at in 0..100_000 {
        let _ = writeln!(text, "L{at}: bra L{};", (at * 7919) % 100_000);
    }
    assert_eq!(survive(body(&text).as_bytes()), 0);
}

#[test]
fn nesting_a_hundred_thousand_deep() {
    let deep = format!("{}{}", "{".repeat(100_000), "}".repeat(100_000));
    assert!(survive(body(&deep).as_bytes()) > 0);
    let open = "{".repeat(100_000);
    assert!(survive(body(&open).as_bytes()) > 0);
    let parentheses = format!(
        "mov.u32 %r1, {}1{};",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    assert_eq!(survive(body(&parentheses).as_bytes()), 0);
    let signs = format!("mov.u32 %r1, {}1;", "-".repeat(100_000));
    assert_eq!(survive(body(&signs).as_bytes()), 0);
    let initialiser = format!(
        "{HEADER}.global .u32 a[1] = {}1{};\n",
        "{".repeat(100_000),
        "}".repeat(100_000)
    );
    assert!(survive(initialiser.as_bytes()) > 0);
    let vectors = format!("mov.u32 %r1, {};", "{".repeat(100_000));
    assert!(survive(body(&vectors).as_bytes()) > 0);
    let brackets = format!("ld.u32 %r1, {};", "[".repeat(100_000));
    assert!(survive(body(&brackets).as_bytes()) > 0);
}

#[test]
fn what_does_not_end_and_what_is_no_text() {
    assert!(survive(body(".pragma \"never closed").as_bytes()) > 0);
    assert!(survive(body("/* never closed").as_bytes()) > 0);
    assert!(survive(b"") > 0);
    assert!(survive(b"\0\0\0\0") > 0);
    assert!(survive(&[0xff; 4096]) > 0);
    let mut bytes = body("add.s32 %r1, %r2, %r3;").into_bytes();
    for at in (0..bytes.len()).step_by(17) {
        let old = std::mem::replace(&mut bytes[at], 0xfe);
        assert!(survive(&bytes) > 0 || old == b'\n' || old == b' ' || old == b'.');
        bytes[at] = old;
    }
    for cut in 0..bytes.len() {
        survive(&bytes[..cut]);
    }
}

#[test]
fn numbers_beyond_range() {
    for (text, fine) in [
        ("mov.u32 %r1, 18446744073709551615;", true),
        ("mov.u32 %r1, 18446744073709551616;", false),
        ("mov.u32 %r1, 0x1ffffffffffffffff;", false),
        ("mov.u32 %r1, 1/0;", false),
        ("mov.u32 %r1, (-9223372036854775807-1)/-1;", false),
        ("mov.u32 %r1, 1<<100;", true),
        ("ld.local.u32 %r1, [99999999999999999999];", false),
        (".reg .b32 %q<99999999999999>;", false),
        (".loc 99999999999 1 1", false),
        (".local .align 99999999999999999999 .b8 a[4];", false),
        ("mov.f32 %r1, 1e999999;", false),
    ] {
        assert_eq!(survive(body(text).as_bytes()) == 0, fine, "{text}");
    }
}

#[test]
fn many_errors_cost_no_memory() {
    let text = "nonsense;\n".repeat(200_000);
    assert_eq!(survive(body(&text).as_bytes()), 200_000);
}

#[test]
fn cost_grows_linearly_with_the_program() {
    let time = |count: usize| {
        let text = "add.s32 %r1, %r2, %r3;\n".repeat(count);
        let source = body(&text);
        let started = Instant::now();
        let (module, _) = orias_ptx::parse(source.as_bytes());
        assert_eq!(
            module.functions[0]
                .body
                .as_ref()
                .map(|body| body.instructions.len()),
            Some(count + 1)
        );
        started.elapsed()
    };
    time(10_000);
    let (small, large) = (time(20_000), time(400_000));
    // Twenty times the work, with room for a busy machine.
    assert!(
        large < small * 100 + Duration::from_millis(500),
        "{small:?} and {large:?}"
    );
}

#[test]
fn an_instruction_takes_less_than_400_bytes() {
    use orias_ptx::ast::{Instruction, Operand, Statement};
    let operands = 8;
    let bytes = size_of::<Instruction>() + size_of::<Statement>() + operands * size_of::<Operand>();
    // Vectors double when they grow, and the old half lives until the copy is done.
    assert!(bytes * 3 / 2 < 400, "{bytes}");
}
