//! Every operand of every sample, replaced by whatever could be written there; or every modifier added to every sample.
//!
//! Mutants find by chance what this walks through: for each place of an operand, each type of register, constants of each
//! kind, special registers, names and brackets; for each opcode, each modifier that is common. Hundreds of statements go to ptxas in one module, which says by line what
//! it refuses; what it refused is taken out and the rest asked about again, until nothing is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use orias_generate::synth::{self, Sample};
use orias_ptx::grammar::ROWS;
use orias_ptx::lex::{Lexer, Token, TokenKind};
use orias_ptx::target::Target;
use orias_ptx::{NEWEST_VERSION, Options};

use crate::oracle;

/// Statements of one module. We keep a thousand messages a module, and a statement may cause several.
const BATCH: usize = 240;

/// Register types that programs declare.
const REGISTERS: &[&str] = &[
    "b8", "u8", "s8", "b16", "u16", "s16", "f16", "b32", "u32", "s32", "f32", "f16x2", "b64",
    "u64", "s64", "f64", "b128", "pred",
];

/// What else can stand in an operand's place.
const OTHERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "16",
    "300",
    "65536",
    "2147483648",
    "5000000000",
    "(1+3)*2",
    "1.0",
    "0f3F800000",
    "_",
    "%tid.x",
    "%tid",
    "%laneid",
    "%clock64",
    "%envreg0",
    "WARP_SZ",
    "gvar",
    "svar",
    "cvar",
    "lvar",
    "inbytes",
    "gvar+4",
    "other",
    "{%x_b32}",
    "{%x_b32, %x_b32}",
    "{%x_b32, %x_b32, %x_b32, %x_b32}",
    "{%x_f32, %x_b32}",
    "%x_v2",
    "%x_v4",
    "%x_v2.x",
    "!%x_pred",
    "-%x_b32",
    "%x_b32+4",
];

/// A sample with one operand replaced.
struct Case {
    /// The instruction and the place, for the report.
    place: String,
    /// What stands there now.
    by: String,
    statement: String,
    independent: bool,
}

/// What is done to the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Each operand is replaced by everything.
    Operands,
    /// Each common modifier is added.
    Modifiers,
}

/// Compares verdicts on all changes of the samples whose opcode starts with `only`.
pub fn run(change: Change, target: &str, architecture: &str, only: &str) -> Result<(), String> {
    let parsed = Target::from_name(target).ok_or_else(|| format!("{target} is no target"))?;
    let options = Options::for_architecture(architecture)
        .ok_or_else(|| format!("{architecture} is no target"))?;
    let ptxas = oracle::find("ptxas")?;
    let mut cases = Vec::new();
    for row in ROWS.iter().filter(|row| row.op.name().starts_with(only)) {
        for choice in synth::choices(row, NEWEST_VERSION, parsed, 1) {
            let sample = synth::sample(&choice, NEWEST_VERSION, parsed);
            // What needs declarations of its own, branches and calls, does not share a module.
            if !sample.after.is_empty() || sample.opcode.starts_with("call") {
                continue;
            }
            match change {
                Change::Operands => replacements(&sample, row.line, &mut cases),
                Change::Modifiers => additions(&sample, row.line, &mut cases),
            }
        }
    }
    println!("{} statements", cases.len());
    let mut seen = BTreeSet::new();
    cases.retain(|case| seen.insert(case.statement.clone()));
    let (independent, unified): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.independent);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("batch.ptx");
    let mut counts = [[0_usize; 2]; 2];
    let mut report: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    for batch in unified.chunks(BATCH).chain(independent.chunks(BATCH)) {
        let theirs = refused_by_ptxas(&ptxas, architecture, &path, target, batch)?;
        let ours = refused_by_us(&options, target, batch);
        for (at, case) in batch.iter().enumerate() {
            let (theirs, ours) = (theirs.get(&at), ours.get(&at));
            counts[usize::from(theirs.is_some())][usize::from(ours.is_some())] += 1;
            let (message, we) = match (theirs, ours) {
                (Some(message), None) => (message, false),
                (None, Some(message)) => (message, true),
                _ => continue,
            };
            let key = (we, format!("{}: {message}", case.place));
            report.entry(key).or_default().push(case.by.clone());
        }
    }
    let [[both_accept, only_we], [only_ptxas, both_refuse]] = counts;
    println!(
        "{change:?} ({architecture}): {} statements, both accept {both_accept}, both refuse {both_refuse}",
        both_accept + both_refuse + only_we + only_ptxas
    );
    println!("  only we refuse {only_we}, only ptxas refuses {only_ptxas}");
    let mut text = String::new();
    for ((ours, place), replacements) in &report {
        let who = if *ours {
            "only we refuse"
        } else {
            "only ptxas refuses"
        };
        let _ = writeln!(text, "{who}: {place} <- {}", replacements.join("  "));
    }
    let path = oracle::repository().join("target/ptx-operands.txt");
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("  places in {}", path.display());
    Ok(())
}

/// Whether a token of a statement is an operand or a part of one.
fn is_operand(token: &Token) -> bool {
    matches!(
        token.kind,
        TokenKind::Word | TokenKind::Integer | TokenKind::Float
    )
}

fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(text.as_bytes());
    let mut found = Vec::new();
    loop {
        let token = lexer.next_token();
        if token.kind == TokenKind::End {
            return found;
        }
        found.push(token);
    }
}

/// The sample with each of its operands replaced by everything, one at a time, and with whole vectors replaced.
fn replacements(sample: &Sample, line: u32, cases: &mut Vec<Case>) {
    let independent = sample.header.contains("texmode_independent");
    let statement = sample.statement();
    let start = sample.opcode.len() as u32;
    let all: Vec<Token> = tokens(&statement)
        .into_iter()
        .filter(|token| token.start >= start)
        .collect();
    let is =
        |token: &Token, text: &str| &statement[token.start as usize..token.end as usize] == text;
    let mut places: Vec<(String, Vec<Token>)> = Vec::new();
    let (mut number, mut at) = (0, 0);
    while at < all.len() {
        if is(&all[at], "{") {
            let end = (at..all.len()).find(|&it| is(&all[it], "}")).unwrap_or(at);
            let inside: Vec<Token> = all[at..end]
                .iter()
                .filter(|it| is_operand(it))
                .copied()
                .collect();
            if let (Some(first), Some(last)) = (inside.first(), inside.last()) {
                places.push((format!("#{number} first"), vec![*first]));
                if inside.len() > 1 {
                    places.push((format!("#{number} last"), vec![*last]));
                    places.push((format!("#{number} all"), inside.clone()));
                }
            }
            number += 1;
            at = end + 1;
            continue;
        }
        if is_operand(&all[at]) {
            places.push((format!("#{number}"), vec![all[at]]));
            number += 1;
        }
        at += 1;
    }
    let registers = REGISTERS.iter().map(|ty| format!("%x_{ty}"));
    let others: Vec<String> = registers
        .chain(OTHERS.iter().map(|&it| it.to_owned()))
        .collect();
    for (place, tokens) in places {
        // Inside brackets and braces these are errors of syntax, which stop ptxas.
        let before = &statement[..tokens[0].start as usize];
        let inside = before
            .rfind(['[', '{', ']', '}'])
            .map(|at| before.as_bytes()[at]);
        let syntax = |by: &str| match inside {
            Some(b'[') => by.starts_with(['{', '!', '_', '-']) || by.contains('.'),
            Some(b'{') => by.starts_with(['{', '!']) || by.starts_with("-%") || by.contains('+'),
            _ => false,
        };
        for by in others.iter().filter(|by| !syntax(by)) {
            let mut text = String::new();
            let mut from = 0;
            for token in &tokens {
                text.push_str(&statement[from..token.start as usize]);
                text.push_str(by);
                from = token.end as usize;
            }
            text.push_str(&statement[from..]);
            let shown = if statement.len() > 160 {
                &statement[..160]
            } else {
                &statement[..]
            };
            cases.push(Case {
                place: format!("{shown} (line {line}) {place}"),
                by: by.clone(),
                statement: text,
                independent,
            });
        }
    }
}

/// The sample with each common modifier behind its opcode.
fn additions(sample: &Sample, line: u32, cases: &mut Vec<Case>) {
    for modifier in super::mutate::MODIFIERS {
        let mut changed = sample.clone();
        changed.opcode = format!("{}.{modifier}", sample.opcode);
        cases.push(Case {
            place: format!("{} (line {line})", sample.opcode),
            by: format!(".{modifier}"),
            statement: changed.statement(),
            independent: sample.header.contains("texmode_independent"),
        });
    }
}

/// The module of a batch without the statements in `without`, and the line of the first statement.
fn module(target: &str, batch: &[Case], without: &BTreeSet<usize>) -> (String, usize) {
    let texmode = match batch.first() {
        Some(case) if case.independent => ", texmode_independent",
        _ => "",
    };
    let mut text = format!(
        ".version 9.0\n.target {target}{texmode}\n.address_size 64\n\
         .global .align 128 .b8 gvar[128];\n.shared .align 128 .b8 svar[128];\n.const .align 128 .b8 cvar[128];\n\
         .func other() {{ ret; }}\n\
         .visible .entry sample(.param .b64 in64, .param .align 16 .b8 inbytes[64])\n{{\n\
         \t.local .align 16 .b8 lvar[64];\n\t.param .align 16 .b8 outbytes[64];\n\
         \t.reg .v2 .b32 %x_v2;\n\t.reg .v4 .b32 %x_v4;\n"
    );
    for ty in REGISTERS {
        let _ = writeln!(text, "\t.reg .{ty} %{ty}_<600>;\n\t.reg .{ty} %x_{ty};");
    }
    let first = text.lines().count() + 1;
    for (at, case) in batch.iter().enumerate() {
        if !without.contains(&at) {
            text.push_str(&case.statement);
        }
        text.push('\n');
    }
    text.push_str("\tret;\n}\n");
    (text, first)
}

fn refused_by_us(options: &Options, target: &str, batch: &[Case]) -> BTreeMap<usize, String> {
    let (text, first) = module(target, batch, &BTreeSet::new());
    let (module, mut diagnostics) = orias_ptx::parse(text.as_bytes());
    diagnostics.append(orias_ptx::check(&module, options));
    let mut refused = BTreeMap::new();
    for diagnostic in diagnostics.iter().filter(|it| it.severity.is_error()) {
        let before = &text.as_bytes()[..(diagnostic.span.start as usize).min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        refused
            .entry(line.saturating_sub(first))
            .or_insert_with(|| diagnostic.message.clone());
    }
    refused
}

/// Which statements of a batch ptxas refuses. Where it stops without naming a line, it is asked about each half.
fn refused_by_ptxas(
    ptxas: &Path,
    architecture: &str,
    path: &Path,
    target: &str,
    batch: &[Case],
) -> Result<BTreeMap<usize, String>, String> {
    let mut refused = BTreeMap::new();
    let mut parts = vec![(0, batch.len())];
    while let Some((low, high)) = parts.pop() {
        let mut without: BTreeSet<usize> = (0..low).chain(high..batch.len()).collect();
        loop {
            let (text, first) = module(target, batch, &without);
            std::fs::write(path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
            let output = oracle::bounded(ptxas)
                .arg(format!("-arch={architecture}"))
                .args(["-O0", "-o"])
                .arg(path.with_extension("out"))
                .arg(path)
                .output()
                .map_err(|error| format!("{}: {error}", ptxas.display()))?;
            if output.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            let named: Vec<(usize, String)> = said
                .lines()
                .filter_map(complaint)
                .filter_map(|(line, message)| Some((line.checked_sub(first)?, message)))
                .filter(|(at, _)| *at < batch.len() && !without.contains(at))
                .collect();
            without.extend(named.iter().map(|(at, _)| *at));
            for (at, message) in &named {
                refused.entry(*at).or_insert_with(|| message.clone());
            }
            if named.is_empty() {
                let left: Vec<usize> = (low..high).filter(|at| !without.contains(at)).collect();
                match left[..] {
                    [] => return Err(format!("ptxas refuses an empty module:\n{said}")),
                    [only] => {
                        refused.insert(only, "ptxas stops without a word".to_owned());
                    }
                    _ => {
                        let middle = left[left.len() / 2];
                        parts.extend([(low, middle), (middle, high)]);
                    }
                }
                break;
            }
        }
    }
    Ok(refused)
}

/// The line that an error of ptxas is about, and what it says.
fn complaint(message: &str) -> Option<(usize, String)> {
    let (_, rest) = message.split_once(", line ")?;
    let (line, rest) = rest.split_once("; ")?;
    let (severity, text) = rest.split_once(": ")?;
    let serious = matches!(severity.trim(), "error" | "fatal");
    serious.then(|| Some((line.parse().ok()?, text.to_owned())))?
}
