//! PTX of any size: one long block, many short ones, nests of loops, one long loop, and jumps to anywhere.

use std::fmt::Write as _;

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n\
    .visible .entry k(.param .u64 p) {\n\
    .reg .b64 %rd<4>;\n.reg .pred %p<4>;\n";

/// A function of `count` arithmetic instructions without a branch, over 16 values that stay alive.
pub(super) fn straight_line(count: usize) -> String {
    const VALUES: usize = 16;
    let mut text = format!(
        "{HEAD}.reg .b32 %r<{}>;\nld.param.u64 %rd1, [p];\n",
        count + 2 * VALUES
    );
    for value in 0..VALUES {
        let _ = writeln!(text, "ld.global.u32 %r{value}, [%rd1+{}];", 4 * value);
    }
    for number in 0..count {
        let (a, b) = (number, number + VALUES - 1 - number % 3);
        let op = ["add.u32", "mul.lo.u32", "xor.b32", "sub.u32"][number % 4];
        let _ = writeln!(text, "{op} %r{}, %r{a}, %r{b};", number + VALUES);
    }
    for value in 0..VALUES {
        let _ = writeln!(
            text,
            "st.global.u32 [%rd1+{}], %r{};",
            4 * value,
            count + value
        );
    }
    text + "ret;\n}\n"
}

/// A function of `count` blocks: steps of a state that branch forward on what they compute, one in sixteen back as a loop.
pub(super) fn blocks(count: usize) -> String {
    let mut text = format!(
        "{HEAD}.reg .b32 %r<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\n"
    );
    for number in 0..count {
        let _ = writeln!(text, "L{number}:\nadd.u32 %r2, %r2, %r1;");
        let _ = writeln!(text, "xor.b32 %r1, %r1, {};", number * 7 + 1);
        let _ = writeln!(text, "setp.lt.u32 %p1, %r1, {};", number * 13 % 4096);
        let to = match number % 16 {
            15 => number - 1,
            _ => (number + 2).min(count),
        };
        let _ = writeln!(text, "@%p1 bra L{to};");
    }
    let _ = writeln!(text, "L{count}:\nst.global.u32 [%rd1], %r2;\nret;\n}}");
    text
}

/// A function of about `count` loops, nested eight deep: one nest behind the other, each loop with a step before and behind the loops in it. What the loops compare with is loaded, so that nobody
/// knows how often they go round.
pub(super) fn nested_loops(count: usize) -> String {
    const DEPTH: usize = 8;
    let mut text = format!(
        "{HEAD}.reg .b32 %r<{}>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nld.global.u32 %r2, [%rd1];\n",
        4 + DEPTH
    );
    for nest in 0..count.div_ceil(DEPTH) {
        for depth in 0..DEPTH {
            let counter = 4 + depth;
            let _ = writeln!(text, "mov.u32 %r{counter}, 0;\nN{nest}_{depth}:");
            let _ = writeln!(text, "xor.b32 %r1, %r1, {};", nest * 5 + depth + 1);
        }
        for depth in (0..DEPTH).rev() {
            let counter = 4 + depth;
            let _ = writeln!(text, "mad.lo.u32 %r1, %r1, 3, %r{counter};");
            let _ = writeln!(text, "add.u32 %r{counter}, %r{counter}, 1;");
            let _ = writeln!(text, "setp.lt.u32 %p1, %r{counter}, %r2;");
            let _ = writeln!(text, "@%p1 bra N{nest}_{depth};");
        }
    }
    text + "st.global.u32 [%rd1], %r1;\nret;\n}\n"
}

/// A loop of `count` instructions in one block, over 16 values that live from iteration to iteration.
pub(super) fn long_loop(count: usize) -> String {
    const VALUES: usize = 16;
    let mut text = format!(
        "{HEAD}.reg .b32 %r<{}>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r{}, [%rd1];\nmov.u32 %r{}, 0;\n",
        VALUES + 2,
        VALUES,
        VALUES + 1
    );
    for value in 0..VALUES {
        let _ = writeln!(text, "ld.global.u32 %r{value}, [%rd1+{}];", 4 * value);
    }
    text += "L:\n";
    for number in 0..count {
        let (to, from) = (number * 7 % VALUES, (number * 5 + 3) % VALUES);
        let op = ["add.u32", "mul.lo.u32", "xor.b32", "sub.u32"][number % 4];
        let _ = writeln!(text, "{op} %r{to}, %r{to}, %r{from};");
    }
    let counter = VALUES + 1;
    let _ = writeln!(text, "add.u32 %r{counter}, %r{counter}, 1;");
    let _ = writeln!(
        text,
        "setp.lt.u32 %p1, %r{counter}, %r{VALUES};\n@%p1 bra L;"
    );
    for value in 0..VALUES {
        let _ = writeln!(text, "st.global.u32 [%rd1+{}], %r{value};", 4 * value);
    }
    text + "ret;\n}\n"
}

/// A function of `count` blocks that each go on to the next one or to any other: loops that nobody meant, nested and irreducible.
pub(super) fn random_jumps(count: usize) -> String {
    let mut rng = orias_random::Rng::new(count as u64);
    let mut text = format!(
        "{HEAD}.reg .b32 %r<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\n"
    );
    for number in 0..count {
        let _ = writeln!(text, "L{number}:\nadd.u32 %r2, %r2, %r1;");
        let _ = writeln!(text, "xor.b32 %r1, %r1, {};", number * 7 + 1);
        let _ = writeln!(text, "setp.lt.u32 %p1, %r1, {};", number * 13 % 4096);
        let to = rng.next_u64() as usize % (count + 1);
        let _ = writeln!(text, "@%p1 bra L{to};");
    }
    let _ = writeln!(text, "L{count}:\nst.global.u32 [%rd1], %r2;\nret;\n}}");
    text
}
