//! Kernels of one warp, generated: what `gpu cycles` times.
//!
//! A kernel repeats its body some times and stores how many cycles the last repetition took, when code and data are in the nearest caches. The body is a
//! mixture of operations on a few values that are carried from repetition to repetition: which kinds there are, how many values, whether there is a
//! loop or a branch in it is up to the seed. All lanes hold the same values, so that nothing parts them and no two of them meet in a bank of shared
//! memory, which the compiler does not know.

use orias_random::Rng;
use std::fmt::Write as _;

/// Bytes of the buffer that a kernel gets: the answer, what is loaded, what is stored.
pub const BUFFER: usize = 32 << 10;

/// Where the words that are loaded begin.
const LOADED: usize = 4 << 10;

/// Where the words that are stored begin.
const STORED: usize = 16 << 10;

/// Lanes of a warp.
const LANES: usize = 32;

/// Where in the buffer the number of iterations of inner loops is.
const TRIPS: usize = 256;

/// Values of each kind.
const VALUES: usize = 8;

/// A kind of operations, each as text: `{R}`, `{F}`, `{D}`, `{H}`, `{L}` stand for a value that is written (32 bits, single, double, two halves, 64 bits),
/// small letters for one that is read, `{n}` for a number below 32, `{o}` for an offset from one lane's word to another one of the same lane.
struct Kind {
    name: &'static str,
    operations: &'static [&'static str],
}

const fn kind(name: &'static str, operations: &'static [&'static str]) -> Kind {
    Kind { name, operations }
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("integer", &["add.u32 {R}, {r}, {r};", "sub.u32 {R}, {r}, {r};", "xor.b32 {R}, {r}, {r};", "and.b32 {R}, {r}, {r};", "or.b32 {R}, {r}, {r};", "shl.b32 {R}, {r}, {n};",
        "shr.u32 {R}, {r}, {n};", "shf.l.wrap.b32 {R}, {r}, {r}, {n};", "min.s32 {R}, {r}, {r};", "max.u32 {R}, {r}, {r};", "lop3.b32 {R}, {r}, {r}, {r}, 0x96;",
        "prmt.b32 {R}, {r}, {r}, 0x5410;", "bfe.u32 {R}, {r}, {n}, 7;"]),
    kind("decision", &["setp.lt.u32 %p1, {r}, {r}; selp.b32 {R}, {r}, {r}, %p1;", "setp.ne.u32 %p1, {r}, {r}; @%p1 add.u32 {R}, {r}, {r};",
        "setp.lt.f32 %p1, {f}, {f}; selp.f32 {F}, {f}, {f}, %p1;"]),
    kind("product", &["mad.lo.u32 {R}, {r}, {r}, {r};", "mul.lo.u32 {R}, {r}, {r};", "mul.hi.u32 {R}, {r}, {r};", "mad.wide.u32 {L}, {r}, {r}, {l};", "mul.wide.s32 {L}, {r}, {r};",
        "dp4a.u32.u32 {R}, {r}, {r}, {r};"]),
    kind("wide", &["add.u64 {L}, {l}, {l};", "xor.b64 {L}, {l}, {l};", "shl.b64 {L}, {l}, {n};", "cvt.u32.u64 {R}, {l};", "cvt.u64.u32 {L}, {r};"]),
    kind("bits", &["popc.b32 {R}, {r};", "clz.b32 {R}, {r};", "brev.b32 {R}, {r};"]),
    kind("single", &["add.f32 {F}, {f}, {f};", "mul.f32 {F}, {f}, {f};", "fma.rn.f32 {F}, {f}, {f}, {f};", "fma.rn.f32 {F}, {f}, {f}, {f};", "min.f32 {F}, {f}, {f};"]),
    kind("double", &["add.f64 {D}, {d}, {d};", "mul.f64 {D}, {d}, {d};", "fma.rn.f64 {D}, {d}, {d}, {d};"]),
    kind("half", &["fma.rn.f16x2 {H}, {h}, {h}, {h};", "add.f16x2 {H}, {h}, {h};", "mul.f16x2 {H}, {h}, {h};"]),
    kind("special", &["rcp.approx.ftz.f32 {F}, {f};", "ex2.approx.ftz.f32 {F}, {f};", "rsqrt.approx.ftz.f32 {F}, {f};", "sin.approx.ftz.f32 {F}, {f};", "lg2.approx.ftz.f32 {F}, {f};", "tanh.approx.f32 {F}, {f};"]),
    kind("conversion", &["cvt.rn.f32.s32 {F}, {r};", "cvt.rzi.s32.f32 {R}, {f};", "cvt.f64.f32 {D}, {f};", "cvt.rn.f32.f64 {F}, {d};", "cvt.rn.f16x2.f32 {H}, {f}, {f};"]),
    kind("shared", &["ld.shared.u32 {R}, [%s1+{o}];", "st.shared.u32 [%s1+{o}], {r};", "ld.shared.f32 {F}, [%s1+{o}];", "and.b32 %t1, {r}, 0x180; add.u32 %t1, %t1, %s1; ld.shared.u32 {R}, [%t1];"]),
    kind("global", &["ld.global.u32 {R}, [%g1+{o}];", "st.global.u32 [%g2+{o}], {r};", "ld.global.f32 {F}, [%g1+{o}];",
        "and.b32 %t1, {r}, 0x180; cvt.u64.u32 %g3, %t1; add.u64 %g3, %g3, %g1; ld.global.u32 {R}, [%g3];"]),
    kind("lanes", &["shfl.sync.bfly.b32 {R}, {r}, 1, 31, -1;", "shfl.sync.down.b32 {R}, {r}, 2, 31, -1;", "redux.sync.and.b32 {R}, {r}, -1;", "setp.lt.u32 %p1, {r}, {r}; vote.sync.ballot.b32 {R}, %p1, -1;"]),
    kind("barrier", &["bar.sync 0;", "st.shared.u32 [%s1+{o}], {r}; bar.sync 0;"]),
];

/// A kernel and what it is made of.
pub struct Generated {
    pub text: String,
    /// The kinds of its operations.
    pub kinds: Vec<&'static str>,
}

/// The kernel of a seed, `k(buffer, repetitions)`.
pub fn kernel(seed: u64) -> Generated {
    let mut rng = Rng::new(seed);
    let count = 1 + rng.below(4);
    let mut chosen: Vec<&Kind> = Vec::new();
    for _ in 0..count {
        let kind = rng.pick(KINDS);
        // What is done to words is done everywhere.
        if !chosen.iter().any(|known| known.name == kind.name) {
            chosen.push(kind);
        }
    }
    let mut writer = Writer {
        values: 2 + rng.below(VALUES - 1),
        rng,
        text: String::new(),
    };
    let operations = 10 + writer.rng.below(90);
    let (has_loop, has_branch) = (writer.rng.one_in(3), writer.rng.one_in(4));
    writer.operations(&chosen, operations / 2);
    if has_loop {
        writer.text += "mov.u32 %t2, 0;\nROUND:\n";
        let inner = 3 + writer.rng.below(20);
        writer.operations(&chosen, inner);
        writer.text += "add.u32 %t2, %t2, 1;\nsetp.lt.u32 %p2, %t2, %t3;\n@%p2 bra ROUND;\n";
    }
    if has_branch {
        writer.text += "setp.eq.u32 %p3, %r0, 12345;\n@%p3 bra OVER;\n";
        let inner = 8 + writer.rng.below(20);
        writer.operations(&chosen, inner);
        writer.text += "OVER:\n";
    }
    writer.operations(&chosen, operations / 2);
    Generated {
        text: around(&writer.text),
        kinds: chosen.iter().map(|kind| kind.name).collect(),
    }
}

/// The kernel without a body: what reading the clock twice takes.
pub fn empty() -> String {
    around("")
}

struct Writer {
    rng: Rng,
    /// Values of each kind that the body uses: few of them make chains.
    values: usize,
    text: String,
}

impl Writer {
    fn operations(&mut self, kinds: &[&Kind], count: usize) {
        for _ in 0..count {
            let kind = *self.rng.pick(kinds);
            let operation = *self.rng.pick(kind.operations);
            self.operation(operation);
        }
    }

    /// One operation, with values in its blanks.
    fn operation(&mut self, text: &str) {
        let mut parts = text.split('{');
        self.text += parts.next().unwrap_or_default();
        for part in parts {
            let (blank, rest) = part.split_once('}').unwrap_or((part, ""));
            let number = match blank {
                "n" => self.rng.below(32),
                "o" => self.rng.below(8) * 4 * LANES,
                _ => self.rng.below(self.values),
            };
            if !matches!(blank, "n" | "o") {
                let _ = write!(self.text, "%{}", blank.to_ascii_lowercase());
            }
            let _ = write!(self.text, "{number}{rest}");
        }
        self.text.push('\n');
    }
}

/// The kernel with a body.
fn around(body: &str) -> String {
    let mut text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 p, .param .u32 n)\n.maxntid {LANES}, 1, 1\n{{\n\
         .reg .pred %p<5>;\n.reg .b32 %r<{VALUES}>;\n.reg .f32 %f<{VALUES}>;\n.reg .f64 %d<{VALUES}>;\n.reg .b32 %h<{VALUES}>;\n.reg .b64 %l<{VALUES}>;\n\
         .reg .b32 %t<8>;\n.reg .b32 %s<2>;\n.reg .b64 %g<6>;\n.reg .b32 %c<3>;\n.shared .align 16 .b8 s[4096];\n\
         ld.param.u64 %g4, [p];\nld.param.u32 %t4, [n];\ncvta.to.global.u64 %g4, %g4;\nmov.u32 %t5, %tid.x;\n\
         mul.wide.u32 %g1, %t5, 4;\nadd.u64 %g1, %g1, %g4;\nadd.u64 %g2, %g1, {STORED};\nld.global.u32 %t3, [%g4+{TRIPS}];\nadd.u64 %g1, %g1, {LOADED};\n\
         mov.u32 %s1, s;\nmad.lo.u32 %s1, %t5, 4, %s1;\n"
    );
    let line = 4 * LANES;
    for number in 0..VALUES {
        let at = number * line;
        let _ = writeln!(
            text,
            "ld.global.u32 %r{number}, [%g1+{at}];\ncvt.rn.f32.u32 %f{number}, %r{number};\ncvt.f64.f32 %d{number}, %f{number};\n\
             cvt.rn.f16x2.f32 %h{number}, %f{number}, %f{number};\ncvt.u64.u32 %l{number}, %r{number};\nst.shared.u32 [%s1+{at}], %r{number};"
        );
    }
    for number in VALUES..4096 / line {
        let _ = writeln!(text, "st.shared.u32 [%s1+{}], %t5;", number * line);
    }
    let _ = write!(
        text,
        "bar.sync 0;\nmov.u32 %t6, 0;\nAGAIN:\n.pragma \"nounroll\";\nmov.u32 %c0, %clock;\n{body}mov.u32 %c1, %clock;\nadd.u32 %t6, %t6, 1;\nsetp.lt.u32 %p4, %t6, %t4;\n@%p4 bra AGAIN;\n\
         sub.u32 %c2, %c1, %c0;\nst.global.u32 [%g4], %c2;\n"
    );
    for number in 0..VALUES {
        let at = 2048 + number * 4 * line;
        let _ = writeln!(
            text,
            "st.global.u32 [%g2+{at}], %r{number};\nst.global.f32 [%g2+{}], %f{number};\nst.global.u32 [%g2+{}], %h{number};\ncvt.rn.f32.f64 %f{number}, %d{number};\n\
             st.global.f32 [%g2+{}], %f{number};\ncvt.u32.u64 %r{number}, %l{number};\nst.global.u32 [%g2+{}], %r{number};",
            at + line,
            at + 2 * line,
            at + 3 * line,
            2048 + (4 * VALUES + number) * line
        );
    }
    text + "ret;\n}\n"
}

/// The first contents of the buffer: the same word for all lanes of a line.
pub fn contents() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BUFFER);
    for at in (0..BUFFER).step_by(4) {
        let line = (at / (4 * LANES)) as u32;
        let word = match at {
            TRIPS => 6,
            _ => line % 61 * 37 + 1,
        };
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}
