//! Who makes the code that runs: ptxas, or this compiler, at a level.

use crate::programs;
use orias::{Options, Source, Target, compile};
use std::fmt;

/// An assembler and its level: `ptxas-O1`, `orias-O3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assembler {
    /// Whether it is this compiler.
    ours: bool,
    level: u8,
}

impl Assembler {
    /// ptxas at a level.
    pub const fn ptxas(level: u8) -> Self {
        Self { ours: false, level }
    }

    /// Reads `orias-O0` or `ptxas-O3`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is no assembler: orias-O0 to orias-O3 and ptxas-O0 to ptxas-O3 are")
        };
        let (name, level) = text.split_once("-O").ok_or_else(wrong)?;
        let level = level.parse().ok().filter(|level| *level <= 3);
        match (name, level) {
            ("orias", Some(level)) => Ok(Self { ours: true, level }),
            ("ptxas", Some(level)) => Ok(Self { ours: false, level }),
            _ => Err(wrong()),
        }
    }

    /// Reads a list with commas.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(Self::parse).collect()
    }

    /// The cubin of a module; products and sums are not contracted.
    pub fn assemble(self, text: &str) -> Result<Vec<u8>, String> {
        if !self.ours {
            return programs::assemble_with(
                text.as_bytes(),
                &[&format!("-O{}", self.level), "--fmad=false"],
            );
        }
        let options = Options {
            target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
            opt_level: self.level,
            contract: Some(false),
            ..Options::default()
        };
        let source = Source {
            name: "module",
            text: text.as_bytes(),
        };
        let compiled = compile(&source, &options).map_err(|errors| {
            let first = errors.0.first().map(ToString::to_string);
            first.unwrap_or_else(|| "no reason given".to_owned())
        })?;
        compiled.cubin.ok_or_else(|| "no cubin was made".to_owned())
    }
}

impl fmt::Display for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.ours { "orias" } else { "ptxas" };
        write!(f, "{name}-O{}", self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assembler_is_read_as_it_is_printed() {
        for text in ["orias-O0", "orias-O3", "ptxas-O1"] {
            assert_eq!(Assembler::parse(text).unwrap().to_string(), text);
        }
        for text in ["orias", "orias-O4", "nvcc-O0", ""] {
            assert!(Assembler::parse(text).is_err());
        }
    }
}
