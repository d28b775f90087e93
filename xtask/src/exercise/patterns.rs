//! Instruction patterns: one line of PTX with alternatives, written compactly.
//!
//! A line such as `add<.u32|.s32> %ro0, %r0, <%r1|7>;` stands for every combination of its alternatives. `<` and `>`
//! never occur inside a PTX instruction (only in register declarations, which the patterns do not contain), so they
//! are free to mark alternatives; alternatives may nest. `%f0..3` stands for `%f0, %f1, %f2, %f3`.

/// Every instruction the pattern stands for, in the order the alternatives are written.
pub fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let mut finished = Vec::new();
    let mut pending = vec![pattern.to_string()];
    while let Some(text) = pending.pop() {
        let Some(close) = text.find('>') else {
            if text.contains('<') {
                return Err(format!("'<' without '>' in '{pattern}'"));
            }
            finished.push(expand_runs(&text)?);
            continue;
        };
        let Some(open) = text[..close].rfind('<') else {
            return Err(format!("'>' without '<' in '{pattern}'"));
        };
        let mut choices: Vec<&str> = text[open + 1..close].split('|').collect();
        choices.reverse();
        for choice in choices {
            pending.push(format!("{}{choice}{}", &text[..open], &text[close + 1..]));
        }
    }
    Ok(finished)
}

/// Replaces every run of registers `%name0..9` by its members.
fn expand_runs(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(dots) = rest.find("..") {
        let (head, tail) = (&rest[..dots], &rest[dots + 2..]);
        let malformed = || format!("'..' does not join two register numbers in '{text}'");
        let start = head.rfind('%').ok_or_else(malformed)?;
        let name = head[start..].trim_end_matches(|c: char| c.is_ascii_digit());
        let first: u32 = head[start + name.len()..]
            .parse()
            .map_err(|_| malformed())?;
        let digits = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let last: u32 = tail[..digits].parse().map_err(|_| malformed())?;
        out.push_str(&head[..start]);
        let members: Vec<String> = (first..=last).map(|n| format!("{name}{n}")).collect();
        out.push_str(&members.join(", "));
        rest = &tail[digits..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn a_run_of_registers_becomes_a_list() {
        let all = expand("mov.b64 {%ro0..1}, %rd0;").unwrap();
        assert_eq!(all, ["mov.b64 {%ro0, %ro1}, %rd0;"]);
    }

    #[test]
    fn alternatives_multiply_in_written_order() {
        let all = expand("add<.u32|.s32> %ro0, %r0, <%r1|7>;").unwrap();
        assert_eq!(
            all,
            [
                "add.u32 %ro0, %r0, %r1;",
                "add.u32 %ro0, %r0, 7;",
                "add.s32 %ro0, %r0, %r1;",
                "add.s32 %ro0, %r0, 7;",
            ]
        );
    }

    #[test]
    fn alternatives_nest() {
        let all = expand("x<a<1|2>|b>;").unwrap();
        assert_eq!(all, ["xa1;", "xb;", "xa2;", "xb;"]);
    }

    #[test]
    fn a_missing_bracket_is_an_error() {
        assert!(expand("x<a").is_err());
        assert!(expand("x>a").is_err());
    }
}
