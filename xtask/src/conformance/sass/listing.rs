//! Whole listings: what `orias disasm` prints of a cubin against `nvdisasm -c`, line by line, labels and directives included; and
//! what `orias asm` makes of the listing with control fields against the code it was made of, byte by byte.

use std::path::Path;

use orias_cubin::Cubin;
use orias_sass::Target;
use orias_sass::text::{ListingStyle, assemble};

/// What was found in one listing.
#[derive(Default)]
pub struct Compared {
    /// Lines of nvdisasm's listing.
    pub lines: usize,
    /// Lines that differ: theirs and ours.
    pub differences: Vec<(String, String)>,
    /// Why the listing with control fields does not assemble to the code it was made of.
    pub not_assembled: Option<String>,
}

/// Compares nvdisasm's listing of a cubin, printed with words, with ours.
pub fn compare(cubin: &Path, theirs: &str) -> Result<Compared, String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", cubin.display());
    let bytes = std::fs::read(cubin).map_err(|error| at(&error))?;
    let cubin = Cubin::read(&bytes).map_err(|error| at(&error))?;
    let target = orias::target_of(&cubin).ok_or_else(|| at(&"not a target of the tables"))?;
    let ours = orias::disassemble(&cubin, target, ListingStyle::default());
    let mut compared = Compared::default();
    let mut ours = ours.lines().map(str::trim_end);
    for line in theirs.lines().filter_map(without_word) {
        compared.lines += 1;
        let mine = ours.next().unwrap_or("(nothing)");
        if line != mine {
            compared
                .differences
                .push((line.to_owned(), mine.to_owned()));
        }
    }
    compared
        .differences
        .extend(ours.map(|mine| ("(nothing)".to_owned(), mine.to_owned())));
    compared.not_assembled = assembled(&cubin, target).err();
    Ok(compared)
}

/// Disassembles a cubin with its control fields and assembles the listing again: every function must be the same bytes.
fn assembled(cubin: &Cubin, target: Target) -> Result<(), String> {
    let listing = orias::disassemble(cubin, target, ListingStyle { control: true });
    let assembly = assemble(&listing, target).map_err(|errors| match errors.first() {
        Some(error) => error.to_string(),
        None => "refused without a reason".to_owned(),
    })?;
    let functions = cubin.functions();
    if functions.len() != assembly.functions.len() {
        return Err("another number of functions".to_owned());
    }
    for (theirs, ours) in functions.iter().zip(&assembly.functions) {
        let ours: Vec<u8> = ours.words.iter().flat_map(|it| it.to_le_bytes()).collect();
        if ours != theirs.code {
            return Err(format!("{}: other bytes", theirs.name));
        }
    }
    Ok(())
}

/// A line of `nvdisasm -c -hex` as `nvdisasm -c` prints it; nothing for a line that only holds half a word.
fn without_word(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let body = match line.rsplit_once("/* 0x") {
        Some((body, word)) if word.len() == 19 && word.ends_with(" */") => body.trim_end(),
        _ => return Some(line),
    };
    if body.is_empty() { None } else { Some(body) }
}

#[cfg(test)]
mod tests {
    use super::without_word;

    #[test]
    fn words_are_taken_off_and_nothing_else() {
        let line = "        /*0000*/                   NOP;     /* 0x0000000000007918 */";
        assert_eq!(
            without_word(line),
            Some("        /*0000*/                   NOP;")
        );
        assert_eq!(without_word("      /* 0x000fc00000000000 */"), None);
        assert_eq!(without_word(".L_x_0:"), Some(".L_x_0:"));
        assert_eq!(without_word(""), Some(""));
    }
}
