//! Whole listings: what `orias disasm` prints of a cubin against `nvdisasm -c`, line by line, labels and directives included.

use std::path::Path;

use orias_cubin::Cubin;
use orias_sass::text::ListingStyle;

/// What was found in one listing.
#[derive(Default)]
pub struct Compared {
    /// Lines of nvdisasm's listing.
    pub lines: usize,
    /// Lines that differ: theirs and ours.
    pub differences: Vec<(String, String)>,
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
        if without_padding(line) != without_padding(mine) {
            compared
                .differences
                .push((line.to_owned(), mine.to_owned()));
        }
    }
    compared
        .differences
        .extend(ours.map(|mine| ("(nothing)".to_owned(), mine.to_owned())));
    Ok(compared)
}

/// The line with one space before the targets of an indirect branch: nvdisasm puts them into a column that depends on the
/// other instructions of the function.
fn without_padding(line: &str) -> std::borrow::Cow<'_, str> {
    match line.split_once("(*\"") {
        Some((before, after)) => format!("{} (*\"{after}", before.trim_end()).into(),
        None => line.into(),
    }
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
