//! Relatives of three kernels whose lanes are hard to keep together: parsers, root finders and tree walks, with loops that lanes leave by several exits, in different iterations.
//!
//! Each is drawn from a seed: how many exits there are and where, what the arms do, whether loops stand in loops. All end: every loop counts, too. Kernels are called [`KERNEL`] and take a
//! buffer of random words, a buffer for two words of each thread, and the number of words. Arithmetic of floats says how it rounds and is not contracted, so that two compilers' results can be compared bit by bit.

use orias_random::Rng;
use std::fmt::Write as _;

/// What kernels are called.
pub const KERNEL: &str = "relative";

/// How many words of input they take.
pub const WORDS: u32 = 4096;

/// The kind of a relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes symbols from a stream, with a way out for each that ends it.
    Parser,
    /// Iterates until it has converged, diverged, or tried often enough.
    RootFinder,
    /// Goes down and up a tree with a stack, until it has found something.
    TreeWalk,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Relative {
    /// What it is called in tables.
    pub name: String,
    /// The module.
    pub ptx: String,
}

/// The relative of a number: kinds take turns.
#[must_use]
pub fn relative(seed: u64) -> Relative {
    let kind = [Kind::Parser, Kind::RootFinder, Kind::TreeWalk][(seed % 3) as usize];
    let mut writer = Writer {
        random: Rng::new(seed.wrapping_mul(0x9e37_79b9) ^ 0x7e1a),
        text: String::new(),
        labels: 0,
    };
    match kind {
        Kind::Parser => writer.parser(),
        Kind::RootFinder => writer.root_finder(),
        Kind::TreeWalk => writer.tree_walk(),
    }
    let name = match kind {
        Kind::Parser => "parser",
        Kind::RootFinder => "roots",
        Kind::TreeWalk => "walk",
    };
    Relative {
        name: format!("{name}_{seed}"),
        ptx: writer.module(),
    }
}

struct Writer {
    random: Rng,
    text: String,
    labels: usize,
}

impl Writer {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "    {line};");
    }

    fn label(&mut self, name: &str) {
        let _ = writeln!(self.text, "{name}:");
    }

    fn fresh(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    fn module(self) -> String {
        format!(
            "// Drawn from a seed: see the generator `relatives`.
.version 8.0
.target sm_90
.address_size 64

.visible .entry {KERNEL}(.param .u64 in, .param .u64 out, .param .u32 n)
{{
    .reg .pred %p<16>;
    .reg .b32 %r<64>;
    .reg .f32 %f<32>;
    .reg .b64 %rd<16>;
    .shared .align 4 .b8 stack[8192];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r5, %r3, %r4, %r2;
    mul.wide.u32 %rd3, %r5, 8;
    add.u64 %rd2, %rd2, %rd3;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
{}OUT:
    st.global.u32 [%rd2], %r10;
    st.global.u32 [%rd2+4], %r11;
    ret;
}}
",
            self.text
        )
    }

    /// `%r20` becomes the word at `%r12`, which is kept within the input.
    fn load(&mut self) {
        self.line("rem.u32 %r21, %r12, 4096");
        self.line("mul.wide.u32 %rd4, %r21, 4");
        self.line("add.u64 %rd5, %rd1, %rd4");
        self.line("ld.global.nc.u32 %r20, [%rd5]");
    }

    /// Something with the result and the last word.
    fn arm(&mut self) {
        for _ in 0..1 + self.below(4) {
            let number = 3 + 2 * self.below(60);
            let line = match self.below(5) {
                0 => format!("mad.lo.u32 %r10, %r10, {number}, %r20"),
                1 => format!("xor.b32 %r10, %r10, {number}"),
                2 => format!("shf.l.wrap.b32 %r10, %r10, %r10, {}", 1 + number % 30),
                3 => "add.u32 %r10, %r10, %r22".to_owned(),
                _ => format!("add.u32 %r11, %r11, {number}"),
            };
            self.line(&line);
        }
    }

    /// Leaves for good where one in `often` words says so.
    fn exit(&mut self, often: usize) {
        let (shift, code) = (self.below(20), 1 + self.below(200));
        self.line(&format!("shr.u32 %r30, %r20, {shift}"));
        self.line(&format!("and.b32 %r30, %r30, {}", often - 1));
        self.line(&format!("setp.ne.u32 %p5, %r30, {}", often - 2));
        let stay = self.fresh();
        self.line(&format!("@%p5 bra {stay}"));
        self.line(&format!("add.u32 %r10, %r10, {code}"));
        self.line("bra OUT");
        self.label(&stay);
    }

    fn parser(&mut self) {
        self.line("mul.lo.u32 %r12, %r5, 61");
        self.line("mov.u32 %r13, 0");
        self.label("NEXT");
        self.load();
        self.line("and.b32 %r22, %r20, 255");
        let arms = 2 + self.below(4);
        let first_exit = self.below(arms);
        for arm in 0..arms {
            let (other, bound) = (self.fresh(), 256 * (arm + 1) / arms);
            if arm + 1 < arms {
                self.line(&format!("setp.ge.u32 %p1, %r22, {bound}"));
                self.line(&format!("@%p1 bra {other}"));
            }
            self.arm();
            if self.below(2) == 0 {
                // A run of words, as digits of a number, up to one that ends it.
                let (more, end) = (self.fresh(), self.fresh());
                let most = 2 + self.below(12);
                self.line("mov.u32 %r14, 0");
                self.label(&more);
                self.line("add.u32 %r12, %r12, 1");
                self.load();
                self.line("and.b32 %r23, %r20, 7");
                self.line("setp.eq.u32 %p2, %r23, 0");
                self.line(&format!("@%p2 bra {end}"));
                self.arm();
                if self.below(3) == 0 {
                    self.exit(64);
                }
                self.line("add.u32 %r14, %r14, 1");
                self.line(&format!("setp.lt.u32 %p3, %r14, {most}"));
                self.line(&format!("@%p3 bra {more}"));
                self.label(&end);
            }
            if arm == first_exit || self.below(3) == 0 {
                self.exit(32);
            }
            if arm + 1 < arms {
                self.line("bra STEP");
                self.label(&other);
            }
        }
        self.label("STEP");
        let most = 16 + self.below(48);
        self.line("add.u32 %r12, %r12, 1");
        self.line("add.u32 %r13, %r13, 1");
        self.line(&format!("setp.lt.u32 %p4, %r13, {most}"));
        self.line("@%p4 bra NEXT");
    }

    fn root_finder(&mut self) {
        let number = |writer: &mut Self, scale: f32| {
            let value = (writer.below(2000) as f32 / 1000.0 - 1.0) * scale;
            format!("0f{:08x}", value.to_bits())
        };
        let degree = 2 + self.below(3);
        let coefficients: Vec<String> = (0..=degree).map(|_| number(self, 4.0)).collect();
        self.line("mov.u32 %r12, %r5");
        self.load();
        self.line("cvt.rn.f32.u32 %f1, %r20");
        self.line("mul.rn.f32 %f1, %f1, 0f30800000");
        self.line("add.rn.f32 %f1, %f1, 0fbf800000");
        self.line("mov.f32 %f9, %f1");
        self.line("mov.u32 %r13, 0");
        self.label("NEXT");
        // The polynomial and its slope.
        self.line(&format!("mov.f32 %f2, {}", coefficients[0]));
        self.line("mov.f32 %f3, 0f00000000");
        for coefficient in &coefficients[1..] {
            self.line("fma.rn.f32 %f3, %f3, %f1, %f2");
            self.line(&format!("fma.rn.f32 %f2, %f2, %f1, {coefficient}"));
        }
        self.line("abs.f32 %f4, %f2");
        self.line("setp.lt.f32 %p1, %f4, 0f38d1b717");
        let far = self.fresh();
        self.line(&format!("@!%p1 bra {far}"));
        self.line("add.u32 %r11, %r11, 1");
        self.line("bra FOUND");
        self.label(&far);
        self.line("abs.f32 %f5, %f3");
        self.line("setp.gt.f32 %p2, %f5, 0f3c23d70a");
        let steep = self.fresh();
        self.line(&format!("@%p2 bra {steep}"));
        // Too flat: a few steps of another kind.
        let (again, most) = (self.fresh(), 2 + self.below(6));
        self.line("mov.u32 %r14, 0");
        self.label(&again);
        self.line("fma.rn.f32 %f1, %f1, 0f3f400000, 0f3e800000");
        self.line("abs.f32 %f6, %f1");
        if self.below(2) == 0 {
            let on = self.fresh();
            self.line("setp.lt.f32 %p3, %f6, 0f3dcccccd");
            self.line(&format!("@!%p3 bra {on}"));
            self.line("add.u32 %r11, %r11, 77");
            self.line("bra FOUND");
            self.label(&on);
        }
        self.line("add.u32 %r14, %r14, 1");
        self.line(&format!("setp.lt.u32 %p4, %r14, {most}"));
        self.line(&format!("@%p4 bra {again}"));
        self.line("bra STEP");
        self.label(&steep);
        let exact = ["div.rn.f32", "div.approx.f32"][self.below(2)];
        self.line(&format!("{exact} %f7, %f2, %f3"));
        self.line("sub.rn.f32 %f1, %f1, %f7");
        self.line("abs.f32 %f8, %f1");
        self.line("setp.gt.f32 %p6, %f8, 0f461c4000");
        let near = self.fresh();
        self.line(&format!("@!%p6 bra {near}"));
        self.line("add.u32 %r11, %r11, 1000");
        self.line("mov.f32 %f1, %f9");
        self.line("bra FOUND");
        self.label(&near);
        self.label("STEP");
        let most = 8 + self.below(40);
        self.line("add.u32 %r13, %r13, 1");
        self.line(&format!("setp.lt.u32 %p7, %r13, {most}"));
        self.line("@%p7 bra NEXT");
        self.label("FOUND");
        self.line("mov.b32 %r10, %f1");
        self.line("add.u32 %r11, %r11, %r13");
    }

    fn tree_walk(&mut self) {
        // Nodes are words; the children of i are 2i + 1 and 2i + 2. Each thread has 16 words of stack.
        let depth = 8 + self.below(4);
        let least = 1 << depth;
        self.line("mov.u32 %r40, stack");
        self.line("and.b32 %r41, %r2, 127");
        self.line("shl.b32 %r41, %r41, 6");
        self.line("add.u32 %r40, %r40, %r41");
        self.line("mov.u32 %r42, 0");
        self.line("mov.u32 %r12, 0");
        self.line("mov.u32 %r13, 0");
        self.line("mul.lo.u32 %r43, %r5, 0x9e3779b1");
        self.label("NEXT");
        self.load();
        self.line("xor.b32 %r22, %r20, %r43");
        self.line(&format!("setp.lt.u32 %p1, %r12, {least}"));
        self.line("@%p1 bra INNER");
        // A leaf: its items one by one, until one fits.
        let (item, miss, most) = (self.fresh(), self.fresh(), 1 + self.below(6));
        self.line("mov.u32 %r14, 0");
        self.label(&item);
        self.arm();
        self.line("add.u32 %r12, %r12, 7");
        self.load();
        self.line("add.u32 %r14, %r14, 1");
        let often = [64, 128, 256][self.below(3)];
        self.exit(often);
        self.line("and.b32 %r24, %r20, 3");
        self.line("setp.eq.u32 %p2, %r24, 0");
        self.line(&format!("@%p2 bra {miss}"));
        self.line(&format!("setp.lt.u32 %p3, %r14, {most}"));
        self.line(&format!("@%p3 bra {item}"));
        self.label(&miss);
        self.line("bra POP");
        self.label("INNER");
        if self.below(2) == 0 {
            self.exit(256);
        }
        self.arm();
        self.line("shl.b32 %r25, %r12, 1");
        self.line("add.u32 %r26, %r25, 1");
        self.line("add.u32 %r27, %r25, 2");
        // The near one first; the far one may be left out.
        self.line("and.b32 %r28, %r22, 1");
        self.line("setp.ne.u32 %p4, %r28, 0");
        self.line("selp.b32 %r12, %r26, %r27, %p4");
        self.line("selp.b32 %r29, %r27, %r26, %p4");
        let mask = [1, 3, 7][self.below(3)];
        self.line(&format!("and.b32 %r31, %r22, {}", mask << 4));
        self.line("setp.ne.u32 %p6, %r31, 0");
        self.line("setp.ge.u32 %p7, %r42, 15");
        self.line("or.pred %p6, %p6, %p7");
        self.line("@%p6 bra STEP");
        self.line("shl.b32 %r44, %r42, 2");
        self.line("add.u32 %r45, %r40, %r44");
        self.line("st.shared.u32 [%r45], %r29");
        self.line("add.u32 %r42, %r42, 1");
        self.line("bra STEP");
        self.label("POP");
        self.line("setp.eq.u32 %p8, %r42, 0");
        self.line("@%p8 bra OUT");
        self.line("sub.u32 %r42, %r42, 1");
        self.line("shl.b32 %r44, %r42, 2");
        self.line("add.u32 %r45, %r40, %r44");
        self.line("ld.shared.u32 %r12, [%r45]");
        self.label("STEP");
        let most = 64 + self.below(128);
        self.line("add.u32 %r13, %r13, 1");
        self.line(&format!("setp.lt.u32 %p9, %r13, {most}"));
        self.line("@%p9 bra NEXT");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relatives_are_sound_ptx_and_differ() {
        let mut texts: Vec<String> = (0..60).map(|seed| relative(seed).ptx).collect();
        for text in &texts {
            let (_, found) = orias_ptx::parse(text.as_bytes());
            assert!(!found.has_errors(), "{text}");
        }
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 60);
    }
}
