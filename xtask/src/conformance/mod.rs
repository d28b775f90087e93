//! `cargo xtask conformance [--sample | SUITE [ARGUMENTS]]`: compares the rooms with NVIDIA's public tools.
//!
//! Without arguments every suite runs in full, on archives of the corpus too, which are unpacked if they are not yet; with `--sample` each runs on the part
//! its row names, which takes minutes.
//!
//! A suite is a row of [`SUITES`] and a module of its own. It prints what it measured and fails if anything disagrees that its docs
//! do not explain.

mod assembled;
mod compile;
mod constructs;
mod control;
mod convergence;
pub(crate) mod corpus;
mod counts;
mod cubin;
mod declarations;
mod emitted;
mod finished;
mod forms;
mod generated;
mod lanes;
mod lift;
mod lines;
pub(crate) mod matrix;
mod mutants;
mod objects;
mod options;
mod order;
mod programs;
mod ptx;
mod reference;
mod refused;
mod registers;
pub(crate) mod sass;
pub(crate) mod sim;
mod spills;
mod toolkit;
pub(crate) mod verify;

pub use corpus::unpack as unpack_corpus;

use std::time::Instant;

/// One suite: its name, what it shows, and the function that runs it with the arguments after its name.
struct Suite {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
    /// The arguments of a short run.
    sample: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite {
        name: "assembled",
        about: "what ptxas assembles of generated programs for sm_90a and sm_90, we assemble",
        run: assembled::run,
        sample: &["150"],
    },
    Suite {
        name: "compile",
        about: "the corpus compiles, the judge finds nothing, and launches give in the emulator what they gave on the H200",
        run: compile::run,
        sample: &["--sample"],
    },
    Suite {
        name: "constructs",
        about: "declarations, operands and constants written in every way, right and wrong, get ptxas's verdict",
        run: constructs::run,
        sample: &["20"],
    },
    Suite {
        name: "control",
        about: "finished cubins get new control words, with no more stalls and waits than ptxas's",
        run: control::run,
        sample: &["--sample"],
    },
    Suite {
        name: "convergence",
        about: "mutants of where lanes meet that go wrong in the emulator are reported by the judge",
        run: convergence::run,
        sample: &["40"],
    },
    Suite {
        name: "counts",
        about: "the corpus has no more barriers, fences and waits in our code than in ptxas's, module by module",
        run: counts::run,
        sample: &["--sample"],
    },
    Suite {
        name: "cubin",
        about: "cubins of ptxas read and written back are the same bytes; NVIDIA's tools accept cubins of ours",
        run: cubin::run,
        sample: &["reduce", "1"],
    },
    Suite {
        name: "declarations",
        about: "variables, initialisers, addresses, constants, vectors, parameters and results are what they are for ptxas -O0",
        run: declarations::run,
        sample: &["60"],
    },
    Suite {
        name: "emitted",
        about: "the forms of instructions that ptxas emits in the corpora and we do not, with counts; no fewer of its instructions are of our forms than is held",
        run: emitted::run,
        sample: &["--sample"],
    },
    Suite {
        name: "forms",
        about: "single operations, as we compile them, give in the emulator what they are defined as",
        run: forms::run,
        sample: &["16"],
    },
    Suite {
        name: "generated",
        about: "generated programs leave in the emulator, as we compile them, what they leave in the interpreter",
        run: generated::run,
        sample: &["20"],
    },
    Suite {
        name: "lanes",
        about: "launches of the CUDA corpora have as many lanes per issue in the emulator as ptxas's code has",
        run: lanes::run,
        sample: &["reduce"],
    },
    Suite {
        name: "lift",
        about: "every function that ptxas makes becomes Ori that verifies, prints and parses, and comes back byte for byte",
        run: lift::run,
        sample: &["--sample"],
    },
    Suite {
        name: "lines",
        about: "nvdisasm lists the source lines of our cubins, as it does those of ptxas's",
        run: lines::run,
        sample: &["0"],
    },
    Suite {
        name: "matrix",
        about: "matrix instructions, as we compile them, leave in the emulator what ptxas's code and the interpreter leave",
        run: matrix::run,
        sample: &["m16n8k16", "f16.f16"],
    },
    Suite {
        name: "objects",
        about: "pairs of modules that call each other, linked by nvlink in the four mixtures of assemblers, leave in the emulator what they leave in the interpreter",
        run: objects::run,
        sample: &["4"],
    },
    Suite {
        name: "options",
        about: "ptxas's options are taken or refused as ptxas does",
        run: options::run,
        sample: &[],
    },
    Suite {
        name: "order",
        about: "fences stand where ptxas has them, for every order, scope and space",
        run: order::run,
        sample: &["O3"],
    },
    Suite {
        name: "programs",
        about: "generated programs leave in the emulator, as ptxas -O0 and -O3 make them, what they leave in the interpreter",
        run: programs::run,
        sample: &["20"],
    },
    Suite {
        name: "ptx",
        about: "programs that ptxas accepts or refuses, we accept or refuse",
        run: ptx::run,
        sample: &["400"],
    },
    Suite {
        name: "reference",
        about: "the launches of the CUDA corpus leave in the interpreter what they left on an H200",
        run: reference::run,
        sample: &["reduce"],
    },
    Suite {
        name: "refused",
        about: "bad PTX and PTX not supported yet get messages that hold, the exit code of ptxas, and no file",
        run: refused::run,
        sample: &["--sample"],
    },
    Suite {
        name: "registers",
        about: "what ptxas compiles compiles, with no more registers than are held today; registers and spills beside ptxas's by limit",
        run: registers::run,
        sample: &["--sample", "--limit", "0", "--limit", "32"],
    },
    Suite {
        name: "sass",
        about: "our disassembly is nvdisasm's, and encoding and assembling give the same words back",
        run: sass::run,
        sample: &["--sample", "cuda"],
    },
    Suite {
        name: "sim",
        about: "cubins of ptxas give in the emulator what they gave on the H200",
        run: sim::run,
        sample: &["--sample"],
    },
    Suite {
        name: "spills",
        about: "the corpus spills no more with scheduling than without",
        run: spills::run,
        sample: &["--sample"],
    },
    Suite {
        name: "toolkit",
        about: "nvcc with our ptxas in a shadow of its toolkit ends, writes and says what it does with its own",
        run: toolkit::run,
        sample: &["u"],
    },
    Suite {
        name: "verify",
        about: "the judge finds nothing in what ptxas makes at -O0, -O1 and -O3",
        run: verify::run,
        sample: &["--sample"],
    },
];

/// Runs the named suite, or all of them.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some((name, rest)) = args.split_first() else {
        corpus::unpack_missing()?;
        return every(|_| &[]);
    };
    corpus::say_missing()?;
    if name == "--sample" {
        return every(|suite| suite.sample);
    }
    match SUITES.iter().find(|suite| suite.name == name) {
        Some(suite) => (suite.run)(rest),
        None => {
            let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
            Err(format!(
                "no suite is named '{name}'; there are: {}",
                known.join(", ")
            ))
        }
    }
}

/// Runs every suite with the arguments it is given, also behind one that fails.
fn every(arguments: fn(&Suite) -> &'static [&'static str]) -> Result<(), String> {
    let mut failed = Vec::new();
    for suite in SUITES {
        let words = arguments(suite);
        println!("== {} {}: {}", suite.name, words.join(" "), suite.about);
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let start = Instant::now();
        if let Err(error) = (suite.run)(&words) {
            println!("{}: {error}", suite.name);
            failed.push(suite.name);
        }
        println!("-- {} s", start.elapsed().as_secs());
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("red: {}", failed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table between two markers of `docs/testing.md`. `BLESS=1` writes it.
    #[test]
    fn the_book_lists_the_suites() {
        let mut table = String::from("| suite | what holds |\n| --- | --- |\n");
        for suite in SUITES {
            table += &format!("| `{}` | {} |\n", suite.name, suite.about);
        }
        let path = crate::oracle::repository().join("docs/testing.md");
        let text = std::fs::read_to_string(&path).expect("the page exists");
        let begin = text.find("<!-- suites:").expect("the first marker");
        let start = begin + text[begin..].find('\n').expect("a line") + 1;
        let stop = text
            .find("<!-- end of suites -->")
            .expect("the last marker");
        if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
            let new = format!("{}{table}{}", &text[..start], &text[stop..]);
            std::fs::write(&path, new).expect("the page can be written");
        } else {
            assert_eq!(text[start..stop], table, "BLESS=1 writes what is so");
        }
    }
}
