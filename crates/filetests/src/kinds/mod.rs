//! The kinds of test: one row each.

mod judge;
mod mercury;
mod ori;
mod ptx;
mod run;
mod sass;

use crate::case::Case;

/// A kind of test.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The word after `test:`.
    pub name: &'static str,
    /// The types of file it reads.
    pub extensions: &'static [&'static str],
    /// What it takes after its name, and what it prints.
    pub about: &'static str,
    /// Runs it: what it prints, or why it cannot run. An error in the input is something to print.
    pub run: fn(&Case<'_>) -> Result<String, String>,
}

/// Every kind of test there is.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "print",
        extensions: &["ori"],
        about: "the functions, after printing them and reading them back gave equal ones; or the error",
        run: ori::print,
    },
    Kind {
        name: "verify",
        extensions: &["ori"],
        about: "'ok', or what the verifier says, one error a line",
        run: ori::verify,
    },
    Kind {
        name: "phase",
        extensions: &["ori"],
        about: "PHASE [-O LEVEL] [--knob NAME=VALUE]...: the functions after that phase, at the lowest level it runs at or this one, verified before and after",
        run: ori::phase,
    },
    Kind {
        name: "mercury",
        extensions: &["ori", "merc"],
        about: "PHASE [--from PHASE] [-O LEVEL] [--knob NAME=VALUE]... [--judge]: functions or a stream after the phases of Mercury up to that \
                one, read back equal; with --judge what the judge finds in the bytes; or the error",
        run: mercury::mercury,
    },
    Kind {
        name: "check",
        extensions: &["ptx"],
        about: "[--arch NAME] [--lines]: 'ok', or what is wrong, with excerpts or in ptxas's one-line form",
        run: ptx::check,
    },
    Kind {
        name: "reprint",
        extensions: &["ptx"],
        about: "the module in its canonical form, after reading that gave the same again; or what is wrong",
        run: ptx::reprint,
    },
    Kind {
        name: "lower",
        extensions: &["ptx"],
        about: "[--arch NAME] [--no-fmad] [--data]: the kernels as Ori, verified, and with --data the module's symbols and parameters; or what is not supported",
        run: ptx::lower,
    },
    Kind {
        name: "run",
        extensions: &["ptx", "sass"],
        about: "WORDS OF `orias run`: what the kernel (of PTX, or of a listing as `orias asm` takes it) prints and leaves in its buffers, or why it stopped; lines '// run: WORDS' \
                below run it once each, with more words",
        run: run::run,
    },
    Kind {
        name: "asm",
        extensions: &["sass"],
        about: "[--arch NAME]: the word of each instruction, after decoding it gave the instruction again; or the error",
        run: sass::asm,
    },
    Kind {
        name: "disasm",
        extensions: &["sass"],
        about: "[--arch NAME]: the instruction of each word (32 hexadecimal digits), with its control field; or the error",
        run: sass::disasm,
    },
    Kind {
        name: "judge",
        extensions: &["sass"],
        about: "[--words]: what the judge of finished code finds in each kernel of a listing, or in words; 'ok' if nothing",
        run: judge::judge,
    },
    Kind {
        name: "mutants",
        extensions: &["sass"],
        about: "every mutant of each instruction's control field: what the judge reports, or why it is safe",
        run: judge::mutants,
    },
];

/// The words after a kind's name: `--name value` pairs and flags among them, the rest in order.
struct Arguments<'a> {
    plain: Vec<&'a str>,
    values: Vec<(&'a str, &'a str)>,
    flags: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    /// Sorts the words; an option that is in neither list is an error.
    fn parse(case: &Case<'a>, with_value: &[&str], without: &[&str]) -> Result<Self, String> {
        let mut sorted = Self {
            plain: Vec::new(),
            values: Vec::new(),
            flags: Vec::new(),
        };
        let mut words = case.arguments.iter().copied();
        while let Some(word) = words.next() {
            if with_value.contains(&word) {
                let value = words
                    .next()
                    .ok_or_else(|| format!("'{word}' takes a value"))?;
                sorted.values.push((word, value));
            } else if without.contains(&word) {
                sorted.flags.push(word);
            } else if word.starts_with('-') {
                return Err(format!("'{}' has no option '{word}'", case.kind));
            } else {
                sorted.plain.push(word);
            }
        }
        Ok(sorted)
    }

    /// The last value of an option.
    fn value(&self, name: &str) -> Option<&'a str> {
        let given = self.values.iter().rev().find(|(known, _)| *known == name);
        given.map(|&(_, value)| value)
    }

    /// Complains about words that are no options.
    fn no_more_words(&self, kind: &str) -> Result<(), String> {
        match self.plain.first() {
            None => Ok(()),
            Some(word) => Err(format!("'{kind}' does not take '{word}'")),
        }
    }
}
