//! What is spilled where registers are few: nothing that could be made again, moved later or left where it is.

use orias::{Options, Source, Target, compile};
use std::fmt::Write as _;

/// Bytes that the only kernel of a module stores and loads because registers are few.
fn spilled(text: &str) -> u32 {
    let options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        verbose: true,
        ..Options::default()
    };
    let source = Source {
        name: "m.ptx",
        text: text.as_bytes(),
    };
    let compiled = compile(&source, &options).unwrap_or_else(|errors| panic!("{:?}", errors.0));
    let said = (compiled.diagnostics.iter()).map(ToString::to_string);
    let said = said.collect::<Vec<_>>().join("\n");
    let number = |what: &str| -> u32 {
        let before = said.split(what).next().unwrap_or_default();
        let word = before.split([' ', ',']).next_back();
        word.and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("no {what} in {said}"))
    };
    number(" bytes spill stores") + number(" bytes spill loads")
}

/// The head of a kernel with two pointers and a number, and registers of every kind.
fn head(most: u32) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)\n.maxnreg {most}\n{{\n\
         .reg .pred %p<99>;\n.reg .b32 %r<999>;\n.reg .f32 %f<999>;\n.reg .b64 %d<999>;\n.shared .align 16 .b8 s[8192];\n\
         ld.param.u64 %d1, [p];\nld.param.u64 %d2, [q];\nld.param.u32 %r2, [n];\nmov.u32 %r1, %tid.x;\n"
    )
}

#[test]
fn sixty_independent_loads_fit_into_32_registers() {
    const COUNT: usize = 60;
    let compute = |text: &mut String, address: &dyn Fn(usize) -> [String; 2]| {
        for n in 0..COUNT {
            let _ = writeln!(text, "ld.global.nc.f32 %f{n}, [{}];", address(n)[0]);
        }
        for n in 0..COUNT {
            let _ = writeln!(text, "mul.f32 %f{}, %f{n}, 0f40400000;", COUNT + n);
        }
        for n in 0..COUNT {
            let _ = writeln!(text, "st.global.f32 [{}], %f{};", address(n)[1], COUNT + n);
        }
        *text += "ret;\n}\n";
    };
    let mut offsets = head(32);
    offsets += "mul.wide.u32 %d3, %r1, 4;\nadd.s64 %d4, %d1, %d3;\nadd.s64 %d5, %d2, %d3;\n";
    compute(&mut offsets, &|n| {
        [format!("%d4+{}", n * 4096), format!("%d5+{}", n * 4096)]
    });
    assert_eq!(spilled(&offsets), 0);
    let mut products = head(32);
    for n in 0..COUNT {
        let (index, wide) = (n + 9, 3 * n + 9);
        let _ = writeln!(
            products,
            "mad.lo.u32 %r{index}, %r2, {n}, %r1;\nmul.wide.u32 %d{wide}, %r{index}, 4;\n\
             add.s64 %d{}, %d1, %d{wide};\nadd.s64 %d{}, %d2, %d{wide};",
            wide + 1,
            wide + 2
        );
    }
    compute(&mut products, &|n| {
        [format!("%d{}", 3 * n + 10), format!("%d{}", 3 * n + 11)]
    });
    assert_eq!(spilled(&products), 0);
}

#[test]
fn addresses_made_of_the_thread_number_are_made_again() {
    const MASKS: usize = 14;
    const VALUES: usize = 20;
    let mut text = head(32);
    for n in 0..MASKS {
        let (mask, address) = (20 + n, 50 + n);
        let _ = writeln!(
            text,
            "and.b32 %r{mask}, %r1, {};\nshl.b32 %r{address}, %r{mask}, 2;\nst.shared.u32 [%r{address}], %r2;",
            n * 37 + 5
        );
    }
    text += "bar.sync 0;\n";
    // All of these live at once.
    for n in 0..VALUES {
        let _ = writeln!(text, "ld.shared.f32 %f{n}, [s+{}];", 1024 + 4 * n);
    }
    text += "bar.sync 0;\n";
    for n in 0..VALUES {
        let other = (n * 7 + 3) % VALUES;
        let _ = writeln!(
            text,
            "fma.rn.f32 %f{}, %f{n}, %f{other}, %f{n};",
            n + VALUES
        );
    }
    text += "bar.sync 0;\n";
    for n in 0..VALUES {
        let _ = writeln!(
            text,
            "st.shared.f32 [s+{}], %f{};",
            2048 + 4 * n,
            n + VALUES
        );
    }
    text += "bar.sync 0;\n";
    for n in 0..MASKS {
        let _ = writeln!(text, "ld.shared.f32 %f{}, [%r{}];", n + 100, 50 + n);
        let _ = writeln!(text, "st.global.f32 [%d1+{}], %f{};", 4 * n, n + 100);
    }
    text += "ret;\n}\n";
    assert_eq!(spilled(&text), 0);
}

#[test]
fn what_a_loop_carries_in_memory_stays_there_where_its_exits_meet() {
    const CARRIED: usize = 32;
    let mut text = head(32);
    for n in 0..CARRIED {
        let _ = writeln!(text, "ld.global.u32 %r{}, [%d1+{}];", 100 + n, 4 * n);
    }
    text += "mov.u32 %r3, 0;\nmov.u32 %r4, 7;\nROUND:\n";
    for n in 0..CARRIED {
        let own = 100 + n;
        let _ = writeln!(
            text,
            "mad.lo.u32 %r{own}, %r{own}, %r4, %r3;\nxor.b32 %r4, %r4, %r{own};\nsetp.lt.u32 %p1, %r4, {};\n@%p1 bra NEXT;",
            1000 + n
        );
    }
    text += "NEXT:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, %r2;\n@%p2 bra ROUND;\n";
    for n in 0..CARRIED {
        let _ = writeln!(text, "st.global.u32 [%d2+{}], %r{};", 4 * n, 100 + n);
    }
    text += "ret;\n}\n";
    // Each of 32 exits loaded up to a dozen values before, to store them again behind.
    let bytes = spilled(&text);
    assert!(bytes < 1200, "{bytes} bytes");
}
