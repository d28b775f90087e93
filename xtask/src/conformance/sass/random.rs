//! Words with random bits around every opcode: where nvdisasm prints, we print the same; where it refuses, we refuse.
//!
//! Three kinds of words are tried for each opcode of the tables: one to four bits flipped in an instruction built from a row,
//! fields replaced by random values, and everything between opcode and control field random. nvdisasm ignores bits that no
//! operand uses and prints `???` for values that do not exist; we refuse both by name. Those are classes of their own,
//! recognised by setting the bits we complain about to what we expect and comparing again. What else is left out of the
//! tables on purpose is named in [`LEFT_OUT`]; any other disagreement fails the suite.

use std::collections::BTreeMap;

use orias_random::Rng;
use orias_sass::text::print_instruction;
use orias_sass::{DecodeError, Op, Target, decode, encode};

use super::nvdisasm::{self, Answer};
use super::report::Classes;

/// Words per opcode.
const WORDS: usize = 5_000;
const WORDS_IN_SAMPLE: usize = 100;
/// Words nvdisasm gets at once: it takes longer to start than to print thousands.
const WORDS_PER_CALL: usize = 50_000;

#[derive(Default)]
struct Tally {
    words: usize,
    equal: usize,
    both_refuse: usize,
    /// nvdisasm prints, we refuse because of bits it ignores.
    ignored_bits: usize,
    /// nvdisasm prints a value as `???` or `INVALID`, we refuse.
    reserved_values: usize,
    /// nvdisasm prints, the tables leave it out: how often, by the row of [`LEFT_OUT`].
    left_out: BTreeMap<usize, usize>,
    /// Opcodes that no row has and nvdisasm prints, with the row of [`OPCODES_LEFT_OUT`].
    opcodes_left_out: BTreeMap<u16, usize>,
    we_refuse: Classes,
    we_print: Classes,
    differ: Classes,
}

/// Compares random words for every opcode whose row's name contains `filter`.
pub fn run(filter: &str, sample: bool) -> Result<(), String> {
    let mut by_opcode: BTreeMap<u16, Vec<(Op, usize)>> = BTreeMap::new();
    for op in Op::all().filter(|op| op.name().contains(filter)) {
        for (index, form) in op.row().forms.iter().enumerate() {
            by_opcode.entry(form.opcode).or_default().push((op, index));
        }
    }
    let count = if sample { WORDS_IN_SAMPLE } else { WORDS };
    let mut tally = Tally::default();
    let mut random = Rng::new(orias_random::GOLDEN_RATIO);
    let opcodes: Vec<_> = by_opcode.values().collect();
    for group in opcodes.chunks((WORDS_PER_CALL / count).max(1)) {
        let words: Vec<u128> = group
            .iter()
            .flat_map(|forms| std::iter::repeat_n(*forms, count))
            .map(|forms| word(forms, &mut random))
            .collect();
        let answers = nvdisasm::raw(&words, "SM90a")?;
        for (index, (word, answer)) in words.iter().zip(answers).enumerate() {
            compare(*word, index as u64 * 16, answer, &mut tally);
        }
    }
    if filter.is_empty() {
        other_opcodes(&by_opcode, &mut random, &mut tally)?;
    }
    tally.differ.print("both print, differently");
    tally.we_print.print("we print, nvdisasm refuses");
    tally.we_refuse.print("nvdisasm prints, we refuse");
    for (index, row) in LEFT_OUT.iter().enumerate() {
        let count = tally.left_out.get(&index).copied().unwrap_or_default();
        println!("left out: {count:>6}  {}: {}", row.what, row.why);
    }
    for (index, row) in OPCODES_LEFT_OUT.iter().enumerate() {
        let opcodes: Vec<String> = tally
            .opcodes_left_out
            .iter()
            .filter(|(_, row)| **row == index)
            .map(|(opcode, _)| format!("{opcode:03x}"))
            .collect();
        println!(
            "left out: {:>6} opcodes  {}: {} ({})",
            opcodes.len(),
            row.mnemonics.join(" "),
            row.why,
            opcodes.join(" ")
        );
    }
    println!(
        "{} words around {} opcodes: {} equal, {} refused by both, {} with bits that nvdisasm ignores, {} with values it \
         prints as ???, {} left out by name; unexplained: {} differ, {} only we print, {} only nvdisasm prints",
        tally.words,
        by_opcode.len(),
        tally.equal,
        tally.both_refuse,
        tally.ignored_bits,
        tally.reserved_values,
        tally.left_out.values().sum::<usize>(),
        tally.differ.total(),
        tally.we_print.total(),
        tally.we_refuse.total()
    );
    match tally.differ.total() + tally.we_print.total() + tally.we_refuse.total() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} disagreements without a reason")),
    }
}

/// Words of each opcode that no row has.
const WORDS_PER_OTHER_OPCODE: usize = 48;

/// Asks nvdisasm about the opcodes that the tables do not have.
fn other_opcodes(
    known: &BTreeMap<u16, Vec<(Op, usize)>>,
    random: &mut Rng,
    tally: &mut Tally,
) -> Result<(), String> {
    let unknown: Vec<u16> = (0..0x1000)
        .filter(|opcode| !known.contains_key(opcode))
        .collect();
    for group in unknown.chunks(WORDS_PER_CALL / WORDS_PER_OTHER_OPCODE) {
        let mut words = Vec::new();
        for opcode in group {
            for round in 0..WORDS_PER_OTHER_OPCODE {
                let mut body = random.next_u128();
                if round % 3 > 0 {
                    // Sparse words name values that exist more often than dense ones.
                    body &= random.next_u128();
                }
                let body = body & BODY & !(0xf << 12 | 1 << 91);
                let bindless = u128::from(round % 2 == 0) << 91;
                words.push(body | bindless | 7 << 12 | u128::from(*opcode) | CONTROL);
            }
        }
        for (word, answer) in words.iter().zip(nvdisasm::raw(&words, "SM90a")?) {
            let Answer::Text(text) = answer else {
                continue;
            };
            let mnemonic = text.split(['.', ' ']).next().unwrap_or_default();
            match OPCODES_LEFT_OUT
                .iter()
                .position(|row| row.mnemonics.contains(&mnemonic))
            {
                Some(row) => {
                    tally.opcodes_left_out.insert((word & 0xfff) as u16, row);
                }
                None => tally
                    .we_refuse
                    .add(format!("{mnemonic}: opcode {:03x}", word & 0xfff), || text),
            }
        }
    }
    Ok(())
}

/// A control field every instruction takes: stall 1, nothing set or waited for.
const CONTROL: u128 = 0x000f_c200_0000_0000 << 64;
/// The bits below the control field that are not the opcode.
const BODY: u128 = ((1 << 102) - 1) & !0xfff;

/// A random word around one of the forms.
fn word(forms: &[(Op, usize)], random: &mut Rng) -> u128 {
    let (op, index) = *random.pick(forms);
    let row = op.row();
    let form = &row.forms[index];
    let noise = random.next_u128();
    // Free bits at random, fixed ones as the form has them, modifiers at values that exist.
    let mut word = noise & BODY & !form.fixed_mask | form.fixed_value & (BODY | 0xfff);
    for modifier in row.modifiers {
        let mask = modifier.field.put(u64::MAX);
        if mask & form.fixed_mask == 0 {
            let value = *random.pick(modifier.values);
            word = word & !mask | modifier.field.put(u64::from(value.value));
        }
    }
    word = word & !(0xf << 12) | 0x7 << 12;
    match random.below(4) {
        0 => {}
        1 | 2 => {
            for _ in 0..=random.below(4) {
                word ^= 1 << (12 + random.below(90));
            }
        }
        _ => {
            let noise = random.next_u128();
            word = word & 0xfff | noise & BODY;
        }
    }
    word & (BODY | 0xfff) | CONTROL
}

fn compare(word: u128, pc: u64, answer: Answer, tally: &mut Tally) {
    tally.words += 1;
    let shown = format!("{:016x}_{:016x}", (word >> 64) as u64, word as u64);
    match (decode(word, Target::Sm90a), answer) {
        (Err(_), Answer::Refused(_)) => tally.both_refuse += 1,
        (Ok(instruction), Answer::Text(theirs)) => {
            let ours = nvdisasm::normalize(&print_instruction(&instruction, pc));
            if ours == theirs && encode(&instruction) == Ok(word) {
                tally.equal += 1;
            } else {
                tally.differ.add(instruction.op().name().to_owned(), || {
                    format!("{shown}  {theirs}  ours: {ours}")
                });
            }
        }
        (Ok(instruction), Answer::Refused(reason)) => {
            tally.we_print.add(
                format!("{}: {}", instruction.op(), without_numbers(&reason)),
                || {
                    format!(
                        "{shown}  ours: {}  ({reason})",
                        print_instruction(&instruction, pc)
                    )
                },
            );
        }
        (Err(error), Answer::Text(theirs)) => {
            if theirs.contains("???") || theirs.contains("INVALID") {
                tally.reserved_values += 1;
            } else if ignores(word, pc, &theirs) {
                tally.ignored_bits += 1;
            } else if let Some(row) = LEFT_OUT.iter().position(|row| row.holds(&theirs)) {
                *tally.left_out.entry(row).or_default() += 1;
            } else {
                let mnemonic = theirs
                    .split(' ')
                    .find(|word| !word.starts_with('@'))
                    .and_then(|word| word.split('.').next())
                    .unwrap_or_default();
                tally
                    .we_refuse
                    .add(format!("{mnemonic}: {}", class(&error)), || {
                        format!("{shown}  {theirs}  ({error})")
                    });
            }
        }
    }
}

/// A class of words that nvdisasm prints and the tables leave out, because ptxas never makes them.
pub(super) struct LeftOut {
    pub(super) what: &'static str,
    pub(super) why: &'static str,
    /// Whether nvdisasm's text belongs to the class.
    holds: fn(&str) -> bool,
}

impl LeftOut {
    fn holds(&self, text: &str) -> bool {
        let mnemonic_first = match text.split_once(' ') {
            Some((guard, rest)) if guard.starts_with('@') => rest,
            _ => text,
        };
        (self.holds)(mnemonic_first)
    }
}

/// Every class of words the tables leave out by name.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        what: "HGMMA with a depth or types that `wgmma` does not have",
        why: "PTX ties the depth to the type (8 or 16 for tf32, 16 or 32 for f16 and bf16) and sums bf16 and tf32 in f32 only",
        holds: |text| text.starts_with("HGMMA.") && !is_wgmma(text),
    },
    LeftOut {
        what: "`.reuse` on the metadata of HMMA.SP and IMMA.SP",
        why: "bit 50, not one of the reuse bits of the control field; ptxas never sets it",
        holds: |text| {
            (text.starts_with("HMMA.SP.") || text.starts_with("IMMA.SP."))
                && text.contains(".reuse")
        },
    },
    LeftOut {
        what: "F2FP from one half of an immediate",
        why: "ptxas was never seen to emit it, though every input of the exercises was a constant once",
        holds: |text| {
            text.starts_with("F2FP.")
                && text
                    .rsplit_once(", ")
                    .is_some_and(|(_, last)| last.ends_with(".H1") && !last.contains(['R', 'c']))
        },
    },
    LeftOut {
        what: "F2FP from f16 to tf32",
        why: "PTX converts to tf32 from f32 only",
        holds: |text| text.starts_with("F2FP.") && text.contains(".TF32.F16."),
    },
];

/// Operations, or forms of them with opcodes of their own, that nvdisasm prints and the tables leave out.
pub(super) struct OpcodesLeftOut {
    pub(super) mnemonics: &'static [&'static str],
    pub(super) why: &'static str,
}

/// Every opcode the tables leave out by name.
pub(super) const OPCODES_LEFT_OUT: &[OpcodesLeftOut] = &[
    OpcodesLeftOut {
        mnemonics: &[
            "AL2P",
            "ALD",
            "AST",
            "CSMTEST",
            "FOOTPRINT",
            "FSWZADD",
            "IPA",
            "ISBERD",
            "ISBEWR",
            "LDTRAM",
            "OUT",
            "PIXLD",
        ],
        why: "graphics",
    },
    OpcodesLeftOut {
        mnemonics: &[
            "CCTLT", "SUATOM", "SULD", "SUQUERY", "SURED", "SUST", "TEX", "TLD", "TLD4", "TMML",
            "TXD", "TXQ",
        ],
        why: "headers bound to slots, in registers or in constant banks: ptxas names headers by uniform registers",
    },
    OpcodesLeftOut {
        mnemonics: &[
            "GETLMEMBASE",
            "JMXU",
            "SETCTAID",
            "SETLMEMBASE",
            "ULEPC",
            "USETSHMSZ",
            "WARPGROUPSET",
        ],
        why: "traps and the system's own code",
    },
    OpcodesLeftOut {
        mnemonics: &["UF2FP"],
        why: "no PTX for sm_90 leads to it",
    },
    OpcodesLeftOut {
        mnemonics: &["F2FP", "F2IP"],
        why: "merging into a constant",
    },
    OpcodesLeftOut {
        mnemonics: &[
            "ATOM",
            "BMOV",
            "CALL",
            "CCTL",
            "CCTLL",
            "DEPBAR",
            "JMP",
            "LDC",
            "NANOSLEEP",
            "RPCMOV",
            "SYNCS",
            "ULDC",
        ],
        why: "forms with a constant, uniform or immediate operand where ptxas uses a register",
    },
];

/// Whether depth, accumulator and type are a combination `wgmma` has.
fn is_wgmma(text: &str) -> bool {
    let mnemonic = text.split(' ').next().unwrap_or_default();
    let depth = mnemonic
        .split('.')
        .find(|part| part.starts_with("64x"))
        .and_then(|shape| shape.rsplit('x').next());
    let tf32 = mnemonic.ends_with(".TF32");
    let deepest = match (mnemonic.contains(".SP."), tf32) {
        (false, true) => "8",
        (false, false) | (true, true) => "16",
        (true, false) => "32",
    };
    depth == Some(deepest) && !mnemonic.ends_with(".F16.TF32") && !mnemonic.ends_with(".F16.BF16")
}

/// Whether the word prints the same with the bits we complain about set as we expect: unused ones, and modifiers whose values do
/// not exist.
fn ignores(word: u128, pc: u64, theirs: &str) -> bool {
    forms_of(word).into_iter().any(|(op, index)| {
        let form = &op.row().forms[index];
        let cleaned = word & !form.fixed_mask | form.fixed_value;
        let mut candidates = vec![cleaned];
        for modifier in op.row().modifiers {
            let mask = modifier.field.put(u64::MAX);
            if modifier.value(modifier.field.get(cleaned) as u16).is_some() {
                continue;
            }
            candidates = candidates
                .iter()
                .flat_map(|candidate| {
                    let legal = modifier.values.iter();
                    legal.map(move |value| {
                        candidate & !mask | modifier.field.put(u64::from(value.value))
                    })
                })
                .collect();
        }
        candidates.into_iter().any(|candidate| {
            decode(candidate, Target::Sm90a).is_ok_and(|instruction| {
                nvdisasm::normalize(&print_instruction(&instruction, pc)) == theirs
            })
        })
    })
}

fn forms_of(word: u128) -> Vec<(Op, usize)> {
    let opcode = (word & 0xfff) as u16;
    Op::all()
        .flat_map(|op| {
            op.row()
                .forms
                .iter()
                .enumerate()
                .filter(move |(_, form)| form.opcode == opcode)
                .map(move |(index, _)| (op, index))
        })
        .collect()
}

fn class(error: &DecodeError) -> String {
    match error {
        DecodeError::Bits { op, .. } => format!("bits of {op}"),
        DecodeError::ModifierValue { op, modifier, .. } => format!("value of {op}'s {modifier}"),
        DecodeError::Select { op, slot, .. } => format!("select of {op}'s {slot}"),
        other => other.to_string(),
    }
}

/// Messages that differ in a number only are one class.
fn without_numbers(text: &str) -> String {
    text.split_whitespace()
        .map(|word| if word.starts_with("0x") { "N" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}
