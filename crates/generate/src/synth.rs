//! Programs made from the tables: for a row and a target, a module that uses the row and compiles.
//!
//! Tests walk all rows with it, the conformance runs compare ptxas's verdict with ours on what it writes, and the work on
//! the instruction set feeds its modules to ptxas to see machine code. A [`Choice`] fixes what a row leaves open, the
//! modifiers and the operand list; [`Sample`] is the module for it, in pieces, so that a caller can spoil one of them.

use orias_ptx::grammar::{GateScope, Modifier, Op, PtxVersion, Row, Rule};
use orias_ptx::opcode::{self, Form, Pattern, PatternKind, ValuePattern};
use orias_ptx::target::{Target, Variant, Version};
use orias_ptx::types::{Type, TypeClass};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A row with everything decided.
#[derive(Debug)]
pub struct Choice {
    /// The row and the modifiers.
    pub form: Form,
    /// The operand list, by position in the form's shapes.
    pub shape: usize,
}

/// Small, seeded and the same everywhere: choices must not change between runs.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that depend on `seed` only.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % bound.max(1) as u64) as usize
    }
}

/// Up to `limit` different choices for a row that are legal for the version and target. The first is the plainest.
pub fn choices(
    row: &'static Row,
    version: PtxVersion,
    target: Target,
    limit: usize,
) -> Vec<Choice> {
    let mut random = Random::new(u64::from(row.line) + 1);
    let mut found: Vec<Choice> = Vec::new();
    let mut seen: BTreeSet<Vec<Option<Modifier>>> = BTreeSet::new();
    // Plain choices first: no optional modifier, and the alternatives of required slots in order.
    let longest = row
        .slots
        .iter()
        .map(|slot| slot.alternatives.len())
        .max()
        .unwrap_or(1);
    let tries = longest.max(8) + limit * 40;
    for attempt in 0..tries {
        if found.len() >= limit {
            break;
        }
        let chosen: Vec<Option<Modifier>> = row
            .slots
            .iter()
            .map(|slot| {
                let count = slot.alternatives.len();
                if attempt < longest {
                    let at = if slot.optional {
                        count
                    } else {
                        attempt % count
                    };
                    return slot.alternatives.get(at).map(|it| it.modifier);
                }
                let skip = usize::from(slot.optional) * count.max(1);
                let at = random.below(count + skip);
                slot.alternatives.get(at).map(|it| it.modifier)
            })
            .collect();
        if !seen.insert(chosen.clone()) {
            continue;
        }
        let Some(form) = opcode::legal_form(row, chosen) else {
            continue;
        };
        if !exists(&form, version, target) {
            continue;
        }
        for shape in 0..form.shapes.len() {
            if found.len() < limit
                && let Some(form) = opcode::legal_form(row, form.chosen.clone())
            {
                found.push(Choice { form, shape });
            }
        }
    }
    found
}

/// Whether a form exists for the version and target.
pub fn exists(form: &Form, version: PtxVersion, target: Target) -> bool {
    let mut open = true;
    form.gates(|_, gates| open &= gates.iter().any(|gate| target.passes(version, gate)));
    form.removals(|gate| open &= !target.passes(version, gate));
    open
}

/// Some targets on which a row may exist, the most common ones first.
pub fn targets(row: &Row) -> Vec<Target> {
    let named = |sm, variant| Target { sm, variant };
    let mut list = vec![
        named(90, Variant::Architecture),
        named(75, Variant::Base),
        named(80, Variant::Base),
        named(100, Variant::Architecture),
        named(120, Variant::Architecture),
        named(60, Variant::Base),
        named(30, Variant::Base),
    ];
    let rule_gates = row.rules.iter().flat_map(|rule| match rule {
        Rule::Since(_, gates) => *gates,
        _ => &[],
    });
    for gate in row.since.iter().chain(rule_gates) {
        let variant = match gate.scope {
            GateScope::Onwards => Variant::Base,
            GateScope::Architecture => Variant::Architecture,
            GateScope::Family => Variant::Family,
        };
        let target = named(gate.sm, variant);
        if target.since().is_some() && !list.contains(&target) {
            list.push(target);
        }
    }
    list
}

/// A module in pieces.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// `.version`, `.target` and `.address_size`.
    pub header: String,
    /// What stands at module level in front of the entry.
    pub globals: String,
    /// The declarations of the entry.
    pub declarations: String,
    /// The opcode of the instruction.
    pub opcode: String,
    /// The operands of the instruction, in order.
    pub operands: Vec<String>,
    /// What follows the instruction.
    pub after: String,
}

impl Sample {
    /// The instruction.
    pub fn statement(&self) -> String {
        if self.operands.is_empty() {
            return format!("{};", self.opcode);
        }
        format!("{} {};", self.opcode, self.operands.join(", "))
    }

    /// The whole module.
    pub fn text(&self) -> String {
        format!(
            "{}{}.visible .entry sample(.param .b64 in64, .param .align 16 .b8 inbytes[64])\n{{\n{}\t{}\n{}\tret;\n}}\n",
            self.header,
            self.globals,
            self.declarations,
            self.statement(),
            self.after
        )
    }
}

impl Sample {
    /// The whole module, with every register loaded before the instruction and stored behind it: nothing of it can be left out.
    pub fn used(&self) -> String {
        const BYTES: usize = 64;
        let mut declarations = self.declarations.clone();
        let (mut before, mut after) = (String::new(), String::new());
        let mut at = 0;
        declarations.push_str("\t.reg .b32 %word;\n");
        for line in self.declarations.lines() {
            let Some((name, count)) = line
                .trim()
                .strip_prefix(".reg .")
                .and_then(|rest| rest.split_once(" %"))
                .and_then(|(name, rest)| Some((name, rest.split_once('<')?.1.split_once('>')?.0)))
            else {
                continue;
            };
            let (Some(ty), Ok(count)) = (Type::from_name(name), count.parse::<usize>()) else {
                continue;
            };
            for number in 0..count {
                let register = format!("%{name}_{number}");
                let bytes = (ty.bits() as usize / 8).max(4);
                at = (at + bytes).next_multiple_of(bytes) % BYTES;
                if ty == Type::Pred {
                    let _ = writeln!(
                        before,
                        "\tld.param.b32 %word, [inbytes+{at}];\n\tsetp.ne.s32 {register}, %word, 0;"
                    );
                    let _ = writeln!(
                        after,
                        "\tselp.b32 %word, 1, 0, {register};\n\tst.global.b32 [gvar+{at}], %word;"
                    );
                } else {
                    let bits = ty.bits();
                    let _ = writeln!(before, "\tld.param.b{bits} {register}, [inbytes+{at}];");
                    let _ = writeln!(after, "\tst.global.b{bits} [gvar+{at}], {register};");
                }
            }
        }
        Sample {
            declarations: declarations + &before,
            after: self.after.clone() + &after,
            ..self.clone()
        }
        .text()
    }
}

/// The module for a choice.
pub fn sample(choice: &Choice, version: PtxVersion, target: Target) -> Sample {
    let mut writer = Writer {
        sample: Sample::default(),
        registers: Vec::new(),
        op: choice.form.row.op,
        sampler: false,
    };
    let shape = &choice.form.shapes[choice.shape];
    let mut opcode = choice.form.row.op.name().to_owned();
    for modifier in choice.form.modifiers() {
        let _ = write!(opcode, "{modifier}");
    }
    if choice.form.row.op == Op::Call {
        writer.call(shape.operands.iter().map(|it| &it.kind));
    } else {
        for pattern in &shape.operands {
            let operand = writer.operand(pattern);
            writer.sample.operands.push(operand);
        }
    }
    writer.sample.opcode = opcode;
    let mut sample = writer.sample;
    let texmode = if writer.sampler {
        ", texmode_independent"
    } else {
        ""
    };
    sample.header = format!(
        ".version {}\n.target {target}{texmode}\n.address_size 64\n",
        Version(version)
    );
    sample.globals = format!(
        ".global .align 128 .b8 gvar[128];\n.shared .align 128 .b8 svar[128];\n.const .align 128 .b8 cvar[128];\n{}",
        sample.globals
    );
    let mut declarations = String::new();
    for (ty, count) in writer.registers {
        let _ = writeln!(
            declarations,
            "\t.reg .{} %{}_<{count}>;",
            ty.name(),
            ty.name()
        );
    }
    declarations
        .push_str("\t.local .align 16 .b8 lvar[64];\n\t.param .align 16 .b8 outbytes[64];\n");
    declarations.push_str(&sample.declarations);
    sample.declarations = declarations;
    sample
}

struct Writer {
    sample: Sample,
    /// Each register type in use, and how many.
    registers: Vec<(Type, usize)>,
    op: Op,
    sampler: bool,
}

/// The type to declare a register with, for an operand of type `ty`.
fn register_type(ty: Type) -> Type {
    match ty.class() {
        TypeClass::Packed | TypeClass::Opaque => ty.as_bits().unwrap_or(Type::B32),
        _ if ty.bits() < 8 && ty != Type::Pred => Type::B32,
        _ => ty,
    }
}

impl Writer {
    fn register(&mut self, ty: Type) -> String {
        let ty = register_type(ty);
        let at = match self.registers.iter().position(|(it, _)| *it == ty) {
            Some(at) => at,
            None => {
                self.registers.push((ty, 0));
                self.registers.len() - 1
            }
        };
        self.registers[at].1 += 1;
        format!("%{}_{}", ty.name(), self.registers[at].1 - 1)
    }

    fn value(&mut self, value: &ValuePattern) -> String {
        let form = &value.form;
        if form.register {
            return self.register(value.ty);
        }
        if form.sink && !form.constant {
            return "_".to_owned();
        }
        if let Some(first) = form.one_of.first() {
            return first.to_string();
        }
        match form.range {
            Some((low, high)) if low <= 0 && high >= 0 => "0".to_owned(),
            Some((low, _)) => low.to_string(),
            None if value.ty.class() == TypeClass::Float => "0f3F800000".to_owned(),
            None => "1".to_owned(),
        }
    }

    fn operand(&mut self, pattern: &Pattern) -> String {
        let mut text = match &pattern.kind {
            PatternKind::Value(value) => self.value(value),
            PatternKind::Vector(0, _, element) => self.value(element),
            PatternKind::Vector(low, _, element) => {
                let parts: Vec<String> = (0..(*low).max(1)).map(|_| self.value(element)).collect();
                format!("{{{}}}", parts.join(", "))
            }
            PatternKind::Bracket(inner) => {
                let parts: Vec<String> = inner.iter().map(|it| self.operand(it)).collect();
                format!("[{}]", parts.join(", "))
            }
            PatternKind::Pair(both, _) => {
                let first = self.operand(&both[0]);
                let second = self.operand(&both[1]);
                format!("{first}|{second}")
            }
            PatternKind::Address(space) => match *space {
                Some(space) if space.starts_with("param") => {
                    let to = if self.op == Op::St {
                        "outbytes"
                    } else {
                        "inbytes"
                    };
                    to.to_owned()
                }
                Some(space) if space.starts_with("shared") => self.register(Type::B32),
                Some("global" | "const" | "local") | None => self.register(Type::B64),
                Some(_) => self.register(Type::B32),
            },
            PatternKind::Label => {
                self.sample.after = "done:\n".to_owned();
                "done".to_owned()
            }
            PatternKind::TargetList => {
                self.sample.declarations = "list: .branchtargets done;\n".to_owned();
                self.sample.after = "done:\n".to_owned();
                "list".to_owned()
            }
            PatternKind::Sampler => {
                self.sampler = true;
                self.register(Type::B64)
            }
            PatternKind::Texture | PatternKind::Surface | PatternKind::Function => {
                self.register(Type::B64)
            }
            PatternKind::CallReturn | PatternKind::CallArguments => "()".to_owned(),
        };
        for suffix in pattern.suffixes.iter().filter(|suffix| !suffix.optional) {
            if let Some(modifier) = suffix.modifiers.first() {
                let _ = write!(text, "{modifier}");
            }
        }
        text
    }

    /// A call with a callee that fits: direct, or through a register where a prototype is given.
    fn call<'p>(&mut self, kinds: impl Iterator<Item = &'p PatternKind>) {
        let kinds: Vec<&PatternKind> = kinds.collect();
        let has = |wanted: fn(&PatternKind) -> bool| kinds.iter().any(|kind| wanted(kind));
        let returns = has(|it| matches!(it, PatternKind::CallReturn));
        let arguments = has(|it| matches!(it, PatternKind::CallArguments));
        let indirect = has(|it| matches!(it, PatternKind::TargetList));
        let result = if returns { "(.param .b32 result) " } else { "" };
        let parameter = if arguments {
            "(.param .b32 given)"
        } else {
            "()"
        };
        self.sample.globals = format!(".func {result}callee {parameter}\n{{\n\tret;\n}}\n");
        self.sample.declarations = "\t.param .b32 out;\n\t.param .b32 given;\n".to_owned();
        if indirect {
            let result = if returns { "(.param .b32 _) " } else { "" };
            let parameter = if arguments { "(.param .b32 _)" } else { "()" };
            let _ = writeln!(
                self.sample.declarations,
                "prototype: .callprototype {result}_ {parameter};"
            );
        }
        for kind in kinds {
            let operand = match kind {
                PatternKind::CallReturn => "(out)".to_owned(),
                PatternKind::CallArguments => "(given)".to_owned(),
                PatternKind::TargetList => "prototype".to_owned(),
                _ if indirect => {
                    let register = self.register(Type::B64);
                    let _ = writeln!(self.sample.declarations, "\tmov.b64 {register}, callee;");
                    register
                }
                _ => "callee".to_owned(),
            };
            self.sample.operands.push(operand);
        }
    }
}
