//! PTX of any size: one long block, and many short ones.

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
