//! Reads `targets.tbl`: the architectures that PTX names.

use std::fmt::Write;

/// The rows as Rust.
pub fn rust(text: &str) -> Result<String, String> {
    let mut out = String::from("const TARGETS: &[Row] = &[\n");
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        if line.trim().is_empty() {
            continue;
        }
        row(line, &mut out).map_err(|error| format!("targets.tbl:{}: {error}", index + 1))?;
    }
    out.push_str("];\n");
    Ok(out)
}

fn row(line: &str, out: &mut String) -> Result<(), String> {
    let (mut sm, mut since, mut family, mut ptxas) = (0u16, [0u16; 3], None, false);
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        if word == "ptxas" {
            ptxas = true;
            continue;
        }
        let number = words.next().and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| format!("no number behind '{word}'"))?;
        match word {
            "sm" => sm = number,
            "ptx" => since[0] = number,
            "a" => since[1] = number,
            "f" => since[2] = number,
            "family" => family = Some(number),
            _ => return Err(format!("'{word}' is not understood")),
        }
    }
    if sm == 0 || since[0] == 0 {
        return Err("a number and a version".to_owned());
    }
    let family = family.unwrap_or(sm);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "Row {{ sm: {sm}, since: {since:?}, family: {family}, ptxas: {ptxas} }},"
    );
    Ok(())
}
