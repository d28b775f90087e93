//! The instruction set: our tables against ptxas and nvdisasm.
//!
//! `cargo xtask conformance sass [--sample] [--random] [--fresh] [--record] [--book] [--speed] [FILTER]`
//!
//! Every module of the corpus (those whose path contains FILTER) and every cubin below `target/exercise` is taken through
//! [`corpus_words`]: assembled, disassembled by nvdisasm with its words (all but a few of the generated ones as raw words), and
//! each instruction compared with ours in text, in
//! the word our encoder gives back and in the word our assembler makes of our disassembly; then the whole listing, line by
//! line ([`listing`]), and every bit of every distinct word flipped ([`flips`]). `--sample` takes every eighth
//! module at -O3 only. `--random` instead compares words with random bits around every opcode of the tables ([`random`]); without
//! arguments both are done.
//! What ptxas and nvdisasm made is kept below `target/conformance/sass`; `--fresh` makes it anew. `--record` writes a few words of
//! every operation and form that was seen, with nvdisasm's text, to the file that `cargo test` checks without nvdisasm. `--book` writes
//! the page of the book that lists what was seen ([`coverage`]). `--speed` measures ([`speed`]).

mod corpus_words;
mod coverage;
mod flips;
mod listing;
pub(crate) mod nvdisasm;
mod random;
mod report;
mod speed;

use super::corpus;
use crate::oracle;

/// Runs the suite.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut sample = false;
    let mut words = false;
    let mut fresh = false;
    let mut record = false;
    let mut book = false;
    let mut speed = false;
    let mut filter = "";
    for arg in args {
        match arg.as_str() {
            "--sample" => sample = true,
            "--random" => words = true,
            "--fresh" => fresh = true,
            "--record" => record = true,
            "--book" => book = true,
            "--speed" => speed = true,
            other if other.starts_with('-') => return Err(format!("unknown option '{other}'")),
            other => filter = other,
        }
    }
    if words {
        return random::run(filter, sample);
    }
    let modules = corpus::selected(filter, sample.then_some(8))?;
    if speed {
        return speed::run(&modules);
    }
    let folder = oracle::repository()
        .join("target")
        .join("conformance")
        .join("sass");
    let options = corpus_words::Options {
        sample,
        fresh,
        record,
        book,
    };
    corpus_words::run(&modules, filter, &folder, options)?;
    if args.is_empty() {
        random::run("", false)?;
    }
    Ok(())
}
