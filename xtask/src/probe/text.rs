//! The parts of an instruction's text, and how two texts differ.

/// Mnemonic components and operands of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts<'t> {
    /// `IADD3`, `X`.
    pub mnemonic: Vec<&'t str>,
    /// Separated by commas outside brackets.
    pub operands: Vec<&'t str>,
}

/// Splits a text without guard.
pub fn parts(text: &str) -> Parts<'_> {
    let text = text.trim();
    let text = match text.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ').map_or("", |(_, rest)| rest),
        None => text,
    };
    let (mnemonic, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut operands = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(rest[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !rest[start..].trim().is_empty() {
        operands.push(rest[start..].trim());
    }
    Parts {
        mnemonic: mnemonic.split('.').collect(),
        operands,
    }
}

/// Whether a text shows a value that does not exist.
pub fn is_clean(text: &str) -> bool {
    !text.contains("???") && !text.contains("INVALID")
}

/// What flipping one bit did to a text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// One bit of a number: operand, which of its numbers, its prefix, and the bit.
    Number(usize, usize, String, u32),
    /// A floating-point operand has another value.
    Float(usize),
    /// Anything else.
    Other,
}

/// How `after` differs from `before`.
pub fn change(before: &str, after: &str) -> Change {
    if before == after {
        return Change::None;
    }
    let (old, new) = (parts(before), parts(after));
    if old.mnemonic != new.mnemonic || old.operands.len() != new.operands.len() {
        return Change::Other;
    }
    let mut differing = (0..old.operands.len()).filter(|i| old.operands[*i] != new.operands[*i]);
    let (Some(operand), None) = (differing.next(), differing.next()) else {
        return Change::Other;
    };
    let (old, new) = (tokens(old.operands[operand]), tokens(new.operands[operand]));
    if old.len() == new.len() {
        let mut differing = (0..old.len()).filter(|i| old[*i] != new[*i]);
        if let (Some(token), None) = (differing.next(), differing.next())
            && let (Some((prefix, a)), Some((other, b))) = (number(old[token]), number(new[token]))
            && prefix == other
            && (a ^ b).is_power_of_two()
        {
            return Change::Number(operand, token, prefix.to_owned(), (a ^ b).trailing_zeros());
        }
    }
    let float = |tokens: &[&str]| {
        tokens
            .iter()
            .any(|token| token.contains('.') || token.contains("INF") || token.contains("NAN"))
    };
    if float(&old) || float(&new) {
        return Change::Float(operand);
    }
    Change::Other
}

/// Words and numbers of an operand, and single characters between them.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut start = 0;
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        if at < start {
            continue;
        }
        if in_word(c) {
            let mut end = at + text[at..].find(|c| !in_word(c)).unwrap_or(text.len() - at);
            // A decimal point joins the digits of a floating-point number.
            if bytes[at].is_ascii_digit() && text[end..].starts_with('.') {
                let rest = &text[end + 1..];
                let more = rest
                    .find(|c: char| !in_word(c) && c != '-' && c != '+')
                    .unwrap_or(rest.len());
                end += 1 + more;
            }
            tokens.push(&text[at..end]);
            start = end;
        } else {
            start = at + c.len_utf8();
            if !c.is_whitespace() {
                tokens.push(&text[at..start]);
            }
        }
    }
    tokens
}

/// The prefix and value of `R12`, `UPT`, `0x1f` or `5`.
fn number(token: &str) -> Option<(&str, u64)> {
    if let Some(digits) = token.strip_prefix("0x") {
        return Some(("0x", u64::from_str_radix(digits, 16).ok()?));
    }
    match token {
        "RZ" => return Some(("R", 255)),
        "URZ" => return Some(("UR", 63)),
        "PT" => return Some(("P", 7)),
        "UPT" => return Some(("UP", 7)),
        _ => {}
    }
    let prefix = token.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((prefix, token[prefix.len()..].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Change, change, parts};

    #[test]
    fn commas_inside_brackets_do_not_separate() {
        let parts = parts("@!P0 DEPBAR.LE SB0, 0x1, {5,0}");
        assert_eq!(parts.mnemonic, ["DEPBAR", "LE"]);
        assert_eq!(parts.operands, ["SB0", "0x1", "{5,0}"]);
    }

    #[test]
    fn one_bit_of_a_register_number_is_recognised() {
        let change = change("IADD3 R4, R2, R7", "IADD3 R4, R2, R3");
        assert_eq!(change, Change::Number(2, 0, "R".to_owned(), 2));
    }

    #[test]
    fn the_constant_register_is_a_number() {
        let change = change("MOV R4, R127", "MOV R4, RZ");
        assert_eq!(change, Change::Number(1, 0, "R".to_owned(), 7));
    }

    #[test]
    fn a_float_is_not_an_integer() {
        let change = change("FADD R4, R2, 1.5", "FADD R4, R2, 1.25");
        assert_eq!(change, Change::Float(2));
    }

    #[test]
    fn a_modifier_is_another_change() {
        assert_eq!(
            change("FADD R4, R2, R3", "FADD.SAT R4, R2, R3"),
            Change::Other
        );
    }
}
