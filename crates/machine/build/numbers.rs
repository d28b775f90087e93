//! Files of plain numbers: `NAME NUMBER … PROVENANCE`. A line becomes a field of a struct of the library; a missing one is missing there, by name.

use crate::read;

/// Each file, the field of a chip it becomes, and that field's type.
pub const FILES: &[(&str, &str, &str)] = &[
    ("registers.tbl", "registers", "RegisterFiles"),
    ("limits.tbl", "limits", "Limits"),
    ("constants.tbl", "constants", "KernelConstants"),
    ("abi.tbl", "abi", "Abi"),
];

/// The fields with their values as Rust, in the order of the file; the first line of a name counts.
pub fn read(file: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for (at, line) in read::lines(text) {
        let (name, value) = field(line).map_err(|error| format!("{file}:{at}: {error}"))?;
        if fields.iter().all(|(known, _)| known != name) {
            fields.push((name.to_owned(), value));
        }
    }
    Ok(fields)
}

fn field(line: &str) -> Result<(&str, String), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, values @ .., from] = &words[..] else {
        return Err("a name, numbers and where they come from".to_owned());
    };
    read::provenance(Some(from))?;
    let ranges: Option<Vec<(&str, &str)>> =
        values.iter().map(|value| value.split_once("..")).collect();
    let value = match (values, ranges) {
        (["none"], _) => "crate::abi::RegisterSet::of(&[])".to_owned(),
        ([], _) => return Err("no number".to_owned()),
        (_, Some(ranges)) => {
            let ranges: Result<Vec<String>, String> = ranges
                .into_iter()
                .map(|(first, last)| Ok(format!("({}, {})", number(first)?, number(last)?)))
                .collect();
            format!("crate::abi::RegisterSet::of(&[{}])", ranges?.join(", "))
        }
        ([value], _) => number(value)?.to_string(),
        (values, _) => {
            let numbers: Result<Vec<String>, String> = values
                .iter()
                .map(|value| Ok(number(value)?.to_string()))
                .collect();
            format!("[{}]", numbers?.join(", "))
        }
    };
    Ok((name, value))
}

/// Decimal, or hexadecimal behind `0x`.
fn number(word: &str) -> Result<u32, String> {
    let number = match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.parse(),
    };
    number.map_err(|_| format!("'{word}' is not a number"))
}
