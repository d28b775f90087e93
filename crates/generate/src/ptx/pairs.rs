//! Random pairs of modules that call each other.
//!
//! Each module defines functions of all kinds of parameters and results, variables in global, constant and shared memory and a table of
//! functions, and uses the other's. Every function has a first parameter that says how deep it may still call, so that calls go in circles
//! through both modules and end. [`Pair::joined`] is the same program in one module.
//!
//! A function mixes the words of its parameters, calls up to two others (by name under a condition that lanes disagree about, or through a
//! table), keeps several values alive across the calls, and hands back words made of all. There are no parameters of type `.b128`: code of
//! ptxas 13.0.88 -O0 loses their upper halves.

use orias_random::Rng;
use std::fmt::Write as _;

/// The name of the kernel, which is in the first module: it takes the address of a buffer of a word for each thread.
pub const KERNEL: &str = "pair";
/// How deep the kernel lets calls go.
const DEPTH: u32 = 3;
/// Entries of each table of functions.
const TABLE: usize = 4;
/// Words of each variable.
const WORDS: usize = 8;

/// Two modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The modules: heads and all.
    pub modules: [String; 2],
    /// Both in one.
    pub joined: String,
}

/// What is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Pair,
    Single,
    Double,
    /// So many bytes with that alignment.
    Bytes(usize, usize),
}

impl Kind {
    fn any(rng: &mut Rng) -> Kind {
        match rng.below(7) {
            0 | 1 => Kind::Word,
            2 => Kind::Pair,
            3 => Kind::Single,
            4 => Kind::Double,
            _ => {
                let align = *rng.pick(&[1, 2, 4, 8, 16]);
                let bytes = match rng.below(4) {
                    0 => 1 + rng.below(8),
                    1 => 4 * (1 + rng.below(6)),
                    2 => 8 * (1 + rng.below(4)),
                    _ => 16 + 4 * rng.below(16),
                };
                Kind::Bytes(bytes, align)
            }
        }
    }

    /// The declaration of a parameter.
    fn declare(self, name: &str) -> String {
        match self {
            Kind::Word => format!(".param .b32 {name}"),
            Kind::Pair => format!(".param .b64 {name}"),
            Kind::Single => format!(".param .f32 {name}"),
            Kind::Double => format!(".param .f64 {name}"),
            Kind::Bytes(bytes, align) => format!(".param .align {align} .b8 {name}[{bytes}]"),
        }
    }

    /// Stores words made of `%r{from}` into a parameter.
    fn store(self, out: &mut String, name: &str, from: usize) {
        let _ = match self {
            Kind::Word => writeln!(out, "  st.param.b32 [{name}], %r{from};"),
            Kind::Pair => writeln!(
                out,
                "  mul.wide.u32 %rd1, %r{from}, 2654435761;\n  st.param.b64 [{name}], %rd1;"
            ),
            // Small whole numbers, which every type holds.
            Kind::Single => writeln!(
                out,
                "  and.b32 %r1, %r{from}, 65535;\n  cvt.rn.f32.u32 %f1, %r1;\n  st.param.f32 [{name}], %f1;"
            ),
            Kind::Double => writeln!(
                out,
                "  and.b32 %r1, %r{from}, 65535;\n  cvt.rn.f64.u32 %fd1, %r1;\n  st.param.f64 [{name}], %fd1;"
            ),
            Kind::Bytes(bytes, align) => {
                let step = align.min(4);
                let ty = 8 * step;
                let mut at = 0;
                while at + step <= bytes {
                    let _ = writeln!(out, "  add.u32 %r1, %r{from}, {};", at * 77 + 1);
                    let _ = writeln!(out, "  cvt.u16.u32 %h1, %r1;");
                    let reg = if step == 4 { "%r1" } else { "%h1" };
                    let _ = writeln!(out, "  st.param.b{ty} [{name}+{at}], {reg};");
                    at += step;
                }
                for at in at..bytes {
                    let _ = writeln!(
                        out,
                        "  cvt.u16.u32 %h1, %r{from};\n  st.param.b8 [{name}+{at}], %h1;"
                    );
                }
                Ok(())
            }
        };
    }

    /// Mixes all that a parameter holds into `%r{into}`.
    fn load(self, out: &mut String, name: &str, into: usize) {
        let mix = |out: &mut String, load: &str| {
            let _ = writeln!(
                out,
                "  {load}\n  xor.b32 %r{into}, %r{into}, %r1;\n  mul.lo.u32 %r{into}, %r{into}, 16777619;"
            );
        };
        match self {
            Kind::Word => mix(out, &format!("ld.param.b32 %r1, [{name}];")),
            Kind::Pair => mix(
                out,
                &format!(
                    "ld.param.b64 %rd1, [{name}];\n  shr.u64 %rd2, %rd1, 29;\n  xor.b64 %rd1, %rd1, %rd2;\n  cvt.u32.u64 %r1, %rd1;"
                ),
            ),
            Kind::Single => mix(
                out,
                &format!("ld.param.f32 %f1, [{name}];\n  cvt.rzi.u32.f32 %r1, %f1;"),
            ),
            Kind::Double => mix(
                out,
                &format!("ld.param.f64 %fd1, [{name}];\n  cvt.rzi.u32.f64 %r1, %fd1;"),
            ),
            Kind::Bytes(bytes, align) => {
                let step = align.min(4);
                let mut at = 0;
                while at + step <= bytes {
                    let ty = 8 * step;
                    mix(out, &format!("ld.param.u{ty} %r1, [{name}+{at}];"));
                    at += step;
                }
                for at in at..bytes {
                    mix(out, &format!("ld.param.u8 %r1, [{name}+{at}];"));
                }
            }
        }
    }
}

/// A function of one of the modules.
struct Function {
    name: String,
    parameters: Vec<Kind>,
    result: Option<Kind>,
    weak: bool,
}

impl Function {
    /// What tables hold: one word in and one out.
    fn simple(name: String) -> Function {
        Function {
            name,
            parameters: vec![Kind::Word],
            result: Some(Kind::Word),
            weak: false,
        }
    }

    fn head(&self) -> String {
        let result = match self.result {
            Some(kind) => format!("({}) ", kind.declare("result")),
            None => String::new(),
        };
        let mut parameters = vec![".param .b32 depth".to_owned()];
        let own = self.parameters.iter().enumerate();
        parameters.extend(own.map(|(at, kind)| kind.declare(&format!("p{at}"))));
        format!(".func {result}{} ({})", self.name, parameters.join(", "))
    }

    /// A call of it with arguments made of `%r{from}`; its result is mixed into `%r{into}`.
    fn call(&self, out: &mut String, target: &str, from: usize, into: usize) {
        let _ = writeln!(out, "  {{\n  .param .b32 d;\n  st.param.b32 [d], %r2;");
        let mut arguments = vec!["d".to_owned()];
        for (at, kind) in self.parameters.iter().enumerate() {
            let name = format!("a{at}");
            let _ = writeln!(out, "  {};", kind.declare(&name));
            kind.store(out, &name, from);
            arguments.push(name);
        }
        let mut result = String::new();
        if let Some(kind) = self.result {
            let _ = writeln!(out, "  {};", kind.declare("o"));
            "(o), ".clone_into(&mut result);
        }
        let _ = writeln!(out, "  call {result}{target}, ({});", arguments.join(", "));
        // The prototype of a call through a pointer stands in its own line, before the call.
        if let Some(kind) = self.result {
            kind.load(out, "o", into);
        }
        out.push_str("  }\n");
    }
}

/// The pair of a seed.
#[must_use]
pub fn pair(seed: u64) -> Pair {
    let mut rng = Rng::new(seed);
    let mut functions: [Vec<Function>; 2] = [Vec::new(), Vec::new()];
    for (module, own) in functions.iter_mut().enumerate() {
        let letter = ["a", "b"][module];
        for number in 0..2 {
            own.push(Function::simple(format!("simple_{letter}{number}")));
        }
        for number in 0..2 + rng.below(3) {
            let count = rng.below(6);
            own.push(Function {
                name: format!("function_{letter}{number}"),
                parameters: (0..count).map(|_| Kind::any(&mut rng)).collect(),
                result: (!rng.one_in(6)).then(|| Kind::any(&mut rng)),
                weak: rng.one_in(4),
            });
        }
    }
    let all: Vec<&Function> = functions.iter().flatten().collect();
    let simple: Vec<&str> = (all.iter())
        .filter(|it| it.name.starts_with("simple"))
        .map(|it| it.name.as_str())
        .collect();
    let mut variables: [String; 2] = [String::new(), String::new()];
    let mut bodies: [String; 2] = [String::new(), String::new()];
    let mut declared: [String; 2] = [String::new(), String::new()];
    for module in 0..2 {
        let letter = ["a", "b"][module];
        let numbers = |rng: &mut Rng| {
            let words: Vec<String> = (0..WORDS)
                .map(|_| (rng.next_u64() as u32).to_string())
                .collect();
            words.join(", ")
        };
        let (global, constant) = (numbers(&mut rng), numbers(&mut rng));
        let table: Vec<&str> = (0..TABLE).map(|_| *rng.pick(&simple)).collect();
        variables[module] = format!(
            ".visible .global .align 4 .u32 global_{letter}[{WORDS}] = {{{global}}};\n\
             .visible .const .align 4 .u32 constant_{letter}[{WORDS}] = {{{constant}}};\n\
             .visible .global .align 8 .u64 table_{letter}[{TABLE}] = {{{}}};\n\
             .shared .align 4 .u32 shared_{letter}[128];\n",
            table.join(", ")
        );
        declared[module] = format!(
            ".extern .global .align 4 .u32 global_{letter}[{WORDS}];\n\
             .extern .const .align 4 .u32 constant_{letter}[{WORDS}];\n\
             .extern .global .align 8 .u64 table_{letter}[{TABLE}];\n"
        );
        for function in &functions[module] {
            bodies[module] += &body(&mut rng, function, letter, &all);
        }
    }
    let heads = |module: usize, linkage: &dyn Fn(&Function) -> &'static str| {
        let heads = functions[module].iter();
        let heads = heads.map(|it| format!("{} {};\n", linkage(it), it.head()));
        heads.collect::<String>()
    };
    let own = |it: &Function| if it.weak { ".weak" } else { ".visible" };
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
    let kernel = kernel(&mut rng, &all);
    let module = |module: usize, kernel: &str| {
        let other = 1 - module;
        [
            head,
            &heads(other, &|_| ".extern"),
            &heads(module, &own),
            &declared[other],
            &variables[module],
            &bodies[module],
            kernel,
        ]
        .concat()
    };
    let joined = [
        head,
        &heads(0, &own),
        &heads(1, &own),
        &variables[0],
        &variables[1],
        &bodies[0],
        &bodies[1],
        &kernel,
    ]
    .concat();
    Pair {
        modules: [module(0, &kernel), module(1, "")],
        joined,
    }
}

/// Registers of a function: %r10 to %r15 live throughout it.
const REGISTERS: &str = "  .reg .b32 %r<32>;\n  .reg .b64 %rd<16>;\n  .reg .b16 %h<4>;\n  .reg .f32 %f<4>;\n  .reg .f64 %fd<4>;\n  .reg .pred %p<6>;\n";

fn body(rng: &mut Rng, function: &Function, letter: &str, all: &[&Function]) -> String {
    let mut out = String::new();
    let linkage = if function.weak { ".weak" } else { ".visible" };
    let _ = writeln!(out, "{linkage} {}\n{{\n{REGISTERS}", function.head());
    let frame = rng.one_in(3).then(|| 8 * (1 + rng.below(6)));
    if let Some(bytes) = frame {
        let _ = writeln!(out, "  .local .align 8 .b8 frame[{bytes}];");
    }
    let _ = writeln!(
        out,
        "  ld.param.b32 %r3, [depth];\n  mov.u32 %r10, {};",
        rng.next_u64() as u32
    );
    for (at, kind) in function.parameters.iter().enumerate() {
        kind.load(&mut out, &format!("p{at}"), 10);
    }
    for reg in 11..16 {
        let _ = writeln!(
            out,
            "  mul.lo.u32 %r{reg}, %r{}, {};",
            reg - 1,
            rng.next_u64() as u32 | 1
        );
    }
    for _ in 0..rng.below(4) {
        memory(rng, &mut out, letter);
    }
    if frame.is_some() {
        let _ = writeln!(
            out,
            "  st.local.b32 [frame], %r11;\n  st.local.b32 [frame+4], %r12;"
        );
    }
    let _ = writeln!(
        out,
        "  setp.eq.u32 %p1, %r3, 0;\n  @%p1 bra DONE;\n  sub.u32 %r2, %r3, 1;"
    );
    for number in 0..1 + rng.below(2) {
        let into = 12 + number;
        match rng.below(3) {
            0 => through_table(rng, &mut out, number, into),
            1 => {
                // Lanes disagree about whom to call.
                let (one, other) = (*rng.pick(all), *rng.pick(all));
                let _ = writeln!(
                    out,
                    "  and.b32 %r4, %r{}, 64;\n  setp.eq.u32 %p2, %r4, 0;\n  @%p2 bra OTHER{number};",
                    11 + rng.below(4)
                );
                one.call(&mut out, &one.name, 11, into);
                let _ = writeln!(out, "  bra JOIN{number};\nOTHER{number}:");
                other.call(&mut out, &other.name, 13, into);
                let _ = writeln!(out, "JOIN{number}:");
            }
            _ => {
                let callee = *rng.pick(all);
                callee.call(&mut out, &callee.name, 11 + rng.below(4), into);
            }
        }
    }
    out.push_str("DONE:\n");
    if frame.is_some() {
        let _ = writeln!(
            out,
            "  ld.local.b32 %r5, [frame];\n  ld.local.b32 %r6, [frame+4];\n  xor.b32 %r14, %r14, %r5;\n  add.u32 %r14, %r14, %r6;"
        );
    }
    for reg in 11..16 {
        let _ = writeln!(
            out,
            "  mul.lo.u32 %r10, %r10, 16777619;\n  xor.b32 %r10, %r10, %r{reg};"
        );
    }
    if let Some(kind) = function.result {
        kind.store(&mut out, "result", 10);
    }
    out.push_str("  ret;\n}\n");
    out
}

/// An access to a variable of either module.
fn memory(rng: &mut Rng, out: &mut String, letter: &str) {
    let other = *rng.pick(&["a", "b"]);
    let place = 4 * rng.below(WORDS);
    let reg = 11 + rng.below(5);
    let _ = match rng.below(4) {
        0 => writeln!(
            out,
            "  ld.global.u32 %r1, [global_{other}+{place}];\n  add.u32 %r{reg}, %r{reg}, %r1;"
        ),
        1 => writeln!(
            out,
            "  ld.const.u32 %r1, [constant_{other}+{place}];\n  xor.b32 %r{reg}, %r{reg}, %r1;"
        ),
        2 => writeln!(
            out,
            "  and.b32 %r1, %r{reg}, 28;\n  cvt.u64.u32 %rd1, %r1;\n  mov.u64 %rd2, constant_{other};\n  add.u64 %rd1, %rd1, %rd2;\n  ld.const.u32 %r1, [%rd1];\n  add.u32 %r{reg}, %r{reg}, %r1;"
        ),
        _ => writeln!(
            out,
            "  mov.u32 %r1, %tid.x;\n  shl.b32 %r1, %r1, 2;\n  mov.u32 %r4, shared_{letter};\n  add.u32 %r1, %r1, %r4;\n  st.shared.u32 [%r1], %r{reg};\n  ld.shared.u32 %r4, [%r1];\n  add.u32 %r{reg}, %r4, 1;"
        ),
    };
}

fn through_table(rng: &mut Rng, out: &mut String, number: usize, into: usize) {
    let letter = *rng.pick(&["a", "b"]);
    let _ = writeln!(
        out,
        "  and.b32 %r4, %r{}, 24;\n  cvt.u64.u32 %rd3, %r4;\n  mov.u64 %rd4, table_{letter};\n  add.u64 %rd3, %rd3, %rd4;\n  ld.global.u64 %rd3, [%rd3];\n  {{\n  .param .b32 d;\n  .param .b32 a0;\n  .param .b32 o;\n  st.param.b32 [d], %r2;\n  st.param.b32 [a0], %r13;\n  PROTO{number}: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);\n  call (o), %rd3, (d, a0), PROTO{number};\n  ld.param.b32 %r1, [o];\n  add.u32 %r{into}, %r{into}, %r1;\n  }}",
        11 + rng.below(5)
    );
}

fn kernel(rng: &mut Rng, all: &[&Function]) -> String {
    let mut out = format!(
        ".visible .entry {KERNEL} (.param .u64 out)\n{{\n{REGISTERS}  ld.param.u64 %rd10, [out];\n  mov.u32 %r20, %tid.x;\n  mov.u32 %r21, %ctaid.x;\n  mov.u32 %r22, %ntid.x;\n  mad.lo.u32 %r20, %r21, %r22, %r20;\n  mul.wide.u32 %rd11, %r20, 4;\n  add.u64 %rd10, %rd10, %rd11;\n  mul.lo.u32 %r11, %r20, 2654435761;\n  mov.u32 %r12, %r20;\n  mov.u32 %r2, {DEPTH};\n"
    );
    for _ in 0..3 {
        let callee = *rng.pick(all);
        callee.call(&mut out, &callee.name, 11, 12);
        let _ = writeln!(out, "  add.u32 %r11, %r11, %r12;");
    }
    out.push_str("  st.global.u32 [%rd10], %r12;\n  ret;\n}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_pair_and_another_seed_another() {
        assert_eq!(pair(1), pair(1));
        assert_ne!(pair(1), pair(2));
    }
}
