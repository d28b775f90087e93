//! Computing statements of all integer and floating-point types.

use super::Writer;
use super::vocabulary::Class;

/// Statements that are an opcode, a result and operands: the opcode, the result's class, the operands' classes.
type Row = (&'static str, Class, &'static [Class]);

use Class::{B16, B32, B64, BF16, BF16x2, F16, F16x2, F32, F64, Pred};

/// Integer statements of one form each; those of many types are made below.
const INTEGER_ROWS: &[Row] = &[
    ("add.sat.s32", B32, &[B32, B32]),
    ("sub.sat.s32", B32, &[B32, B32]),
    ("mul.wide.u16", B32, &[B16, B16]),
    ("mul.wide.s16", B32, &[B16, B16]),
    ("mul.wide.u32", B64, &[B32, B32]),
    ("mul.wide.s32", B64, &[B32, B32]),
    ("mad.wide.u16", B32, &[B16, B16, B32]),
    ("mad.wide.s32", B64, &[B32, B32, B64]),
    ("mad.hi.sat.s32", B32, &[B32, B32, B32]),
    ("mul24.lo.u32", B32, &[B32, B32]),
    ("mul24.hi.s32", B32, &[B32, B32]),
    ("mad24.lo.s32", B32, &[B32, B32, B32]),
    ("popc.b32", B32, &[B32]),
    ("popc.b64", B32, &[B64]),
    ("clz.b32", B32, &[B32]),
    ("clz.b64", B32, &[B64]),
    ("brev.b32", B32, &[B32]),
    ("brev.b64", B64, &[B64]),
    ("bfind.u32", B32, &[B32]),
    ("bfind.s32", B32, &[B32]),
    ("bfind.shiftamt.u32", B32, &[B32]),
    ("bfind.u64", B32, &[B64]),
    ("bfind.s64", B32, &[B64]),
    ("bfe.u32", B32, &[B32, B32, B32]),
    ("bfe.s32", B32, &[B32, B32, B32]),
    ("bfe.u64", B64, &[B64, B32, B32]),
    ("bfe.s64", B64, &[B64, B32, B32]),
    ("bfi.b32", B32, &[B32, B32, B32, B32]),
    ("bfi.b64", B64, &[B64, B64, B32, B32]),
    ("bmsk.clamp.b32", B32, &[B32, B32]),
    ("bmsk.wrap.b32", B32, &[B32, B32]),
    ("szext.clamp.s32", B32, &[B32, B32]),
    ("szext.wrap.u32", B32, &[B32, B32]),
    ("dp4a.u32.s32", B32, &[B32, B32, B32]),
    ("dp4a.s32.s32", B32, &[B32, B32, B32]),
    ("dp2a.lo.s32.u32", B32, &[B32, B32, B32]),
    ("dp2a.hi.u32.u32", B32, &[B32, B32, B32]),
    ("prmt.b32", B32, &[B32, B32, B32]),
    ("prmt.b32.f4e", B32, &[B32, B32, B32]),
    ("prmt.b32.rc16", B32, &[B32, B32, B32]),
    ("shf.l.wrap.b32", B32, &[B32, B32, B32]),
    ("shf.r.clamp.b32", B32, &[B32, B32, B32]),
    ("not.b16", B16, &[B16]),
    ("not.b32", B32, &[B32]),
    ("not.b64", B64, &[B64]),
    ("cnot.b32", B32, &[B32]),
    ("and.pred", Pred, &[Pred, Pred]),
    ("xor.pred", Pred, &[Pred, Pred]),
    ("not.pred", Pred, &[Pred]),
    ("selp.b16", B16, &[B16, B16, Pred]),
    ("selp.b32", B32, &[B32, B32, Pred]),
    ("selp.b64", B64, &[B64, B64, Pred]),
    ("slct.u32.s32", B32, &[B32, B32, B32]),
    ("slct.b64.f32", B64, &[B64, B64, F32]),
    ("set.lt.u32.s32", B32, &[B32, B32]),
    ("min.relu.s32", B32, &[B32, B32]),
    ("max.s16x2", B32, &[B32, B32]),
    ("add.u16x2", B32, &[B32, B32]),
    ("vadd.s32.u32.s32.sat", B32, &[B32, B32]),
    ("vabsdiff.u32.u32.u32.add", B32, &[B32, B32, B32]),
    ("vmax4.s32.s32.s32", B32, &[B32, B32, B32]),
];

const FLOAT_ROWS: &[Row] = &[
    ("neg.f32", F32, &[F32]),
    ("abs.f32", F32, &[F32]),
    ("abs.ftz.f32", F32, &[F32]),
    ("neg.f64", F64, &[F64]),
    ("abs.f64", F64, &[F64]),
    ("min.f64", F64, &[F64, F64]),
    ("max.f64", F64, &[F64, F64]),
    ("min.NaN.f32", F32, &[F32, F32]),
    ("max.ftz.f32", F32, &[F32, F32]),
    ("min.f32", F32, &[F32, F32]),
    ("max.NaN.xorsign.abs.f32", F32, &[F32, F32]),
    ("selp.f32", F32, &[F32, F32, Pred]),
    ("selp.f64", F64, &[F64, F64, Pred]),
    ("slct.f32.s32", F32, &[F32, F32, B32]),
    ("set.gt.f32.f32", F32, &[F32, F32]),
    ("set.leu.u32.f64", B32, &[F64, F64]),
    ("testp.finite.f32", Pred, &[F32]),
    ("testp.subnormal.f64", Pred, &[F64]),
    ("testp.notanumber.f32", Pred, &[F32]),
    ("add.rn.f16", F16, &[F16, F16]),
    ("sub.rn.sat.f16", F16, &[F16, F16]),
    ("mul.rn.ftz.f16", F16, &[F16, F16]),
    ("fma.rn.f16", F16, &[F16, F16, F16]),
    ("min.f16", F16, &[F16, F16]),
    ("max.NaN.f16", F16, &[F16, F16]),
    ("neg.f16", F16, &[F16]),
    ("add.rn.f16x2", F16x2, &[F16x2, F16x2]),
    ("mul.rn.sat.f16x2", F16x2, &[F16x2, F16x2]),
    ("fma.rn.relu.f16x2", F16x2, &[F16x2, F16x2, F16x2]),
    ("max.f16x2", F16x2, &[F16x2, F16x2]),
    ("abs.f16x2", F16x2, &[F16x2]),
    ("add.rn.bf16", BF16, &[BF16, BF16]),
    ("mul.rn.bf16", BF16, &[BF16, BF16]),
    ("fma.rn.bf16", BF16, &[BF16, BF16, BF16]),
    ("min.bf16", BF16, &[BF16, BF16]),
    ("fma.rn.bf16x2", BF16x2, &[BF16x2, BF16x2, BF16x2]),
    ("max.NaN.bf16x2", BF16x2, &[BF16x2, BF16x2]),
    ("set.eq.u32.f16x2", B32, &[F16x2, F16x2]),
];

const CONVERSION_ROWS: &[Row] = &[
    ("cvt.u16.u32", B16, &[B32]),
    ("cvt.s32.s16", B32, &[B16]),
    ("cvt.u32.u64", B32, &[B64]),
    ("cvt.s64.s32", B64, &[B32]),
    ("cvt.s32.s8", B32, &[B32]),
    ("cvt.u64.u16", B64, &[B16]),
    ("cvt.sat.u8.s32", B32, &[B32]),
    ("cvt.sat.s16.s64", B16, &[B64]),
    ("cvt.pack.sat.s16.s32", B32, &[B32, B32]),
    ("cvt.pack.sat.u8.s32.b32", B32, &[B32, B32, B32]),
    ("cvt.rzi.s32.f32", B32, &[F32]),
    ("cvt.rni.ftz.u32.f32", B32, &[F32]),
    ("cvt.rmi.s64.f32", B64, &[F32]),
    ("cvt.rpi.s32.f64", B32, &[F64]),
    ("cvt.rzi.u64.f64", B64, &[F64]),
    ("cvt.rzi.s16.f16", B16, &[F16]),
    ("cvt.rn.f32.s32", F32, &[B32]),
    ("cvt.rz.f32.u64", F32, &[B64]),
    ("cvt.rp.f32.u32", F32, &[B32]),
    ("cvt.rn.f64.s64", F64, &[B64]),
    ("cvt.rn.f64.u32", F64, &[B32]),
    ("cvt.rn.f16.s32", F16, &[B32]),
    ("cvt.rn.f16.u16", F16, &[B16]),
    ("cvt.rn.f32.f64", F32, &[F64]),
    ("cvt.rm.sat.f32.f64", F32, &[F64]),
    ("cvt.f64.f32", F64, &[F32]),
    ("cvt.rn.f16.f32", F16, &[F32]),
    ("cvt.rz.bf16.f32", BF16, &[F32]),
    ("cvt.f32.f16", F32, &[F16]),
    ("cvt.f32.bf16", F32, &[BF16]),
    ("cvt.rni.f32.f32", F32, &[F32]),
    ("cvt.rmi.f64.f64", F64, &[F64]),
    ("cvt.rn.f16x2.f32", F16x2, &[F32, F32]),
    ("cvt.rn.relu.bf16x2.f32", BF16x2, &[F32, F32]),
    ("cvt.rn.satfinite.e4m3x2.f32", B16, &[F32, F32]),
    ("cvt.rn.f16x2.e5m2x2", F16x2, &[B16]),
];

impl Writer {
    pub(super) fn scalar_statement(&mut self) {
        match self.rng.below(16) {
            0..=3 => self.integer(),
            4..=5 => self.row(INTEGER_ROWS),
            6 => self.division(),
            7 => self.shift_or_logic(),
            8 => self.carries(),
            9..=10 => self.floating(),
            11 => self.row(FLOAT_ROWS),
            12 => self.row(CONVERSION_ROWS),
            13..=14 => self.comparison(),
            _ => self.packing(),
        }
    }

    fn row(&mut self, rows: &[Row]) {
        let &(opcode, result, classes) = self.rng.pick(rows);
        // Vector video instructions take registers only, half precision has no constants, and bit fields have small ones.
        let registers_only = ["vmax4", "bfe", "bfi"]
            .iter()
            .any(|name| opcode.starts_with(name))
            || opcode.ends_with("x2");
        let operands: Vec<String> = classes
            .iter()
            .map(|&class| {
                if registers_only {
                    self.register(class)
                } else {
                    self.operand(class)
                }
            })
            .collect();
        let operands = if matches!(opcode, "bfe.u64" | "bfe.s64" | "bfi.b64") {
            self.small_fields(operands)
        } else {
            operands
        };
        // ptxas 13.0 loses the guard of these two (docs/errata.md); tests/run/guards.ptx keeps the case.
        if opcode.starts_with("testp") || opcode.starts_with("set.") {
            let destination = self.register(result);
            self.line(format!("{opcode} {destination}, {};", operands.join(", ")));
            return;
        }
        self.statement(opcode, result, &operands);
    }

    /// Positions and lengths of bit fields, the last two operands, have eight bits; what further bits mean is not defined.
    fn small_fields(&mut self, mut operands: Vec<String>) -> Vec<String> {
        let first = operands.len() - 2;
        for operand in &mut operands[first..] {
            let small = self.temporary(B32);
            self.line(format!("and.b32 {small}, {operand}, 0xff;"));
            *operand = small;
        }
        operands
    }

    /// An integer type: its class and its name.
    fn integer_type(&mut self) -> (Class, String) {
        let class = *self.rng.pick(&[B16, B32, B32, B32, B64, B64]);
        let sign = if self.rng.one_in(2) { 's' } else { 'u' };
        (class, format!("{sign}{}", class.bits()))
    }

    fn integer(&mut self) {
        let (class, ty) = self.integer_type();
        let (opcode, count) = *self.rng.pick(&[
            ("add", 2),
            ("sub", 2),
            ("mul.lo", 2),
            ("mul.hi", 2),
            ("mad.lo", 3),
            ("mad.hi", 3),
            ("min", 2),
            ("max", 2),
            ("sad", 3),
        ]);
        let operands: Vec<String> = (0..count).map(|_| self.operand(class)).collect();
        self.statement(&format!("{opcode}.{ty}"), class, &operands);
    }

    /// Division by what is not zero; a signed divisor is positive, so that no quotient overflows.
    fn division(&mut self) {
        let (class, ty) = self.integer_type();
        let opcode = *self.rng.pick(&["div", "rem"]);
        let bits = class.bits();
        let divisor = if self.rng.one_in(3) {
            *self
                .rng
                .pick(&["1", "2", "3", "5", "7", "10", "16", "100", "127"])
        } else {
            ""
        };
        let dividend = self.register(class);
        if !divisor.is_empty() {
            self.statement(
                &format!("{opcode}.{ty}"),
                class,
                &[dividend, divisor.to_owned()],
            );
            return;
        }
        let (value, register) = (self.temporary(class), self.register(class));
        self.line(format!("or.b{bits} {value}, {register}, 1;"));
        if ty.starts_with('s') {
            let largest = u64::MAX >> (65 - bits);
            self.line(format!("and.b{bits} {value}, {value}, {largest:#x};"));
        }
        self.statement(&format!("{opcode}.{ty}"), class, &[dividend, value]);
    }

    fn shift_or_logic(&mut self) {
        let class = *self.rng.pick(&[B16, B32, B64]);
        let bits = class.bits();
        let (a, b) = (self.register(class), self.operand(class));
        match self.rng.below(6) {
            0 => self.statement(&format!("and.b{bits}"), class, &[a, b]),
            1 => self.statement(&format!("or.b{bits}"), class, &[a, b]),
            2 => self.statement(&format!("xor.b{bits}"), class, &[a, b]),
            3 => {
                let table = self.rng.below(256);
                let operands = [B32; 3].map(|class| self.operand(class));
                let [a, b, c] = operands;
                self.statement("lop3.b32", B32, &[a, b, c, format!("{table:#x}")]);
            }
            _ => {
                let opcode = *self.rng.pick(&["shl.b", "shr.u", "shr.s"]);
                let amount = if self.rng.one_in(3) {
                    self.register(B32)
                } else {
                    self.rng.below(70).to_string()
                };
                self.statement(&format!("{opcode}{bits}"), class, &[a, amount]);
            }
        }
    }

    /// A sum, difference or product of several words.
    fn carries(&mut self) {
        let [a, b, c, d] = [(); 4].map(|()| self.register(B32));
        let [low, high] = [(); 2].map(|()| self.temporary(B32));
        match self.rng.below(4) {
            0 => {
                self.line(format!("add.cc.u32 {low}, {a}, {b};"));
                self.line(format!("addc.cc.u32 {high}, {c}, {d};"));
                let top = self.register(B32);
                self.line(format!("addc.u32 {top}, {a}, {c};"));
            }
            1 => {
                self.line(format!("sub.cc.u32 {low}, {a}, {b};"));
                self.line(format!("subc.cc.u32 {high}, {c}, {d};"));
                let top = self.register(B32);
                self.line(format!("subc.u32 {top}, {a}, {c};"));
            }
            2 => {
                let [x, y, z] = [(); 3].map(|()| self.register(B64));
                let sum = self.temporary(B64);
                self.line(format!("add.cc.u64 {sum}, {x}, {y};"));
                self.line(format!("addc.u64 {z}, {x}, {z};"));
                let result = self.register(B64);
                self.line(format!("xor.b64 {result}, {sum}, {z};"));
                return;
            }
            _ => {
                self.line(format!("mad.lo.cc.u32 {low}, {a}, {b}, {c};"));
                self.line(format!("madc.hi.u32 {high}, {a}, {b}, {d};"));
            }
        }
        let result = self.register(B64);
        self.line(format!("mov.b64 {result}, {{{low}, {high}}};"));
    }

    /// Single and double precision with every rounding written.
    fn floating(&mut self) {
        let class = *self.rng.pick(&[F32, F32, F64]);
        let rounding = *self.rng.pick(&["rn", "rn", "rn", "rz", "rm", "rp"]);
        let (opcode, count) = *self.rng.pick(&[
            ("add", 2),
            ("sub", 2),
            ("mul", 2),
            ("fma", 3),
            ("fma", 3),
            ("div", 2),
            ("rcp", 1),
            ("sqrt", 1),
        ]);
        let basic = matches!(opcode, "add" | "sub" | "mul" | "fma");
        let mut name = format!("{opcode}.{rounding}");
        if class == F32 && self.rng.one_in(4) {
            name += ".ftz";
        }
        if class == F32 && basic && self.rng.one_in(8) {
            name += ".sat";
        }
        let operands: Vec<String> = (0..count).map(|_| self.operand(class)).collect();
        self.statement(&format!("{name}.f{}", class.bits()), class, &operands);
    }

    fn comparison(&mut self) {
        const INTEGER: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
        const FLOATING: [&str; 14] = [
            "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
            "nan",
        ];
        let (class, ty, relation) = match self.rng.below(5) {
            0 => (F32, "f32".to_owned(), *self.rng.pick(&FLOATING)),
            1 => (F64, "f64".to_owned(), *self.rng.pick(&FLOATING)),
            2 => (F16, "f16".to_owned(), *self.rng.pick(&FLOATING)),
            _ => {
                let (class, ty) = self.integer_type();
                (class, ty, *self.rng.pick(&INTEGER))
            }
        };
        let (a, b) = (self.register(class), self.operand(class));
        let (p, q) = (self.register(Pred), self.register(Pred));
        let (combine, c) = if self.rng.one_in(3) {
            let operation = *self.rng.pick(&[".and", ".or", ".xor"]);
            (operation, format!(", {}", self.register(Pred)))
        } else {
            ("", String::new())
        };
        let result = if class != F16 && p != q && self.rng.one_in(3) {
            format!("{p}|{q}")
        } else {
            p
        };
        self.line(format!(
            "setp.{relation}{combine}.{ty} {result}, {a}, {b}{c};"
        ));
    }

    /// Values taken apart and put together.
    fn packing(&mut self) {
        match self.rng.below(6) {
            0 => {
                let (low, high) = (self.register(B16), self.register(B16));
                let result = self.register(B32);
                self.line(format!("mov.b32 {result}, {{{low}, {high}}};"));
            }
            1 => {
                let [low, high] = [(); 2].map(|()| self.temporary(B16));
                let (value, result) = (self.register(B32), self.register(B16));
                self.line(format!("mov.b32 {{{low}, {high}}}, {value};"));
                self.line(format!("sub.u16 {result}, {low}, {high};"));
            }
            2 => {
                let (low, high) = (self.register(B32), self.register(B32));
                let result = self.register(B64);
                self.line(format!("mov.b64 {result}, {{{low}, {high}}};"));
            }
            3 => {
                let (value, result) = (self.register(B64), self.register(B32));
                self.line(format!("mov.b64 {{_, {result}}}, {value};"));
            }
            4 => {
                let (low, high) = (self.register(F16), self.register(F16));
                let result = self.register(F16x2);
                self.line(format!("mov.b32 {result}, {{{low}, {high}}};"));
            }
            _ => {
                let (value, result) = (self.register(F16x2), self.register(F16));
                self.line(format!("mov.b32 {{_, {result}}}, {value};"));
            }
        }
    }
}
