//! Text that is not Ori gets an error with a place, never a panic; and what can be read, can be verified and printed.

use orias_generate::ori::{Size, function};
use orias_ori::{Level, parse_function, parse_module, print_function, verify_function};
use orias_random::Rng;

/// Reads `text`; if that works, everything that takes a function must work, too.
fn endure(text: &str) {
    if let Ok(module) = parse_module(text) {
        for func in &module.functions {
            let _ = verify_function(func);
            let printed = print_function(func);
            match parse_function(&printed) {
                Ok(again) => assert!(again == *func, "reads back differently:\n{printed}"),
                Err(error) => panic!("cannot be read back: {error}\n{printed}"),
            }
        }
    }
}

fn sample(seed: u64) -> String {
    let level = Level::ALL[seed as usize % 4];
    let size = Size {
        blocks: 3,
        insts: 4,
    };
    print_function(&function(seed, level, size))
}

#[test]
fn texts_cut_short_are_refused() {
    for seed in 0..24 {
        let text = sample(seed);
        let text = text.trim_end();
        for (end, _) in text.char_indices() {
            let error = parse_function(&text[..end]).expect_err("the closing brace is missing");
            let lines = text[..end].lines().count().max(1);
            assert!(error.line <= lines + 1, "{error} in {lines} lines");
        }
    }
}

#[test]
fn garbled_texts_are_endured() {
    let mut rng = Rng::new(1);
    for seed in 0..2000 {
        let mut bytes = sample(seed).into_bytes();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] = rng.below(128) as u8,
                1 => {
                    bytes.remove(at);
                }
                2 => bytes.insert(at, b" v_0@[]{}(),.:;#~&|!-+=\"RBPU\n"[rng.below(29)]),
                _ => {
                    // A piece of the text once more, somewhere else.
                    let end = (at + rng.below(40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = rng.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        endure(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn lines_in_any_order_are_endured() {
    let mut rng = Rng::new(2);
    for seed in 0..1000 {
        let text = sample(seed);
        let mut lines: Vec<&str> = text.lines().collect();
        let last = lines.len() - 1;
        for _ in 0..3 {
            let (a, b) = (1 + rng.below(last - 1), 1 + rng.below(last - 1));
            lines.swap(a, b);
        }
        endure(&lines.join("\n"));
    }
}

#[test]
fn errors_say_where_and_what() {
    let cases = [
        ("", "1:1: expected `entry` or `func`"),
        (
            "entry k sm_90a {}",
            "1:9: expected a level: `abstract`, `machine`, `physical` or `final`",
        ),
        (
            "entry k abstract sm_90a {\n  colour 3\n}",
            "2:3: `colour` is neither an attribute nor a block",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    exit\n",
            "4:1: `k` has no closing `}`",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    exit now\n}",
            "3:10: expected an operand",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    v0:q = undef\n}",
            "3:8: `q` is not a register type",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    v0:r = frob v1\n}",
            "3:12: there is no operation `frob`",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\nblock0:\n}",
            "3:1: block0 is there twice",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    v9999999:r = undef\n}",
            "3:5: 9999999 is too large: a text of this size has room for 65999 more numbers",
        ),
        (
            "entry k machine sm_90a {\nblock0:\n    MOV v0:r, \n}",
            "3:15: expected an operand",
        ),
        (
            "entry k machine sm_90a {\nblock0:\n    IADD3 v0:r, PT\n}",
            "3:5: `IADD3` has 6 operands: `cp` is missing",
        ),
        (
            "entry k final sm_90a {\nblock0:\n    [B------:R-:W-:-:S16] EXIT PT\n}",
            "3:23: a stall is 00 to 15",
        ),
        (
            "entry k final sm_90a {\nblock0:\n    [B------:R6:W-:-:S01] EXIT PT\n}",
            "3:15: expected `-` or the number of a barrier",
        ),
        (
            "entry \"näh abstract sm_90a {\n}",
            "1:7: the quotation mark has no partner",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    v0:r = mov.b32 0x10000000000000000\n}",
            "3:20: `0x10000000000000000` is not a number of 64 bits",
        ),
        (
            "entry k abstract sm_90a {\nblock0:\n    v0:r = mov.b32 -0x8000000000000001\n}",
            "3:20: `-9223372036854775809` is not a number of 64 bits",
        ),
        (
            "entry k abstract sm_90a {\n  shared 4\n  shared 8\n}",
            "3:3: `shared` is there twice",
        ),
        (
            "entry k machine sm_90a {\nblock0:\n    LDS.64.128 v0:rx4, [v1]\n}",
            "3:5: `LDS` has its size twice",
        ),
    ];
    for (text, message) in cases {
        match parse_function(text) {
            Ok(_) => panic!("{text}\nis accepted"),
            Err(error) => assert_eq!(error.to_string(), message, "{text}"),
        }
    }
}

#[test]
fn numbers_left_out_cost_no_more_than_the_text_in_all_functions_together() {
    let function = |number| {
        format!("entry k{number} abstract sm_90a {{\nblock0:\n    v60000:r = undef\n    exit\n}}\n")
    };
    assert!(parse_module(&function(0)).is_ok());
    let many: String = (0..100).map(function).collect();
    let error = parse_module(&many).expect_err("a hundred large gaps");
    assert!(error.message.contains("too large"), "{error}");
}

#[test]
fn a_function_is_in_a_module_once() {
    let function = "func f abstract sm_90a {\nblock0:\n    ret\n}\n";
    assert!(parse_module(function).is_ok());
    let error = parse_module(&function.repeat(2)).expect_err("two of a name");
    assert_eq!(error.to_string(), "5:1: the function `f` is there twice");
}
