//! Shrinks a program that shows something to a small one that still shows it.
//!
//! The caller's test says whether a candidate still shows what is looked for; it must say no to programs that have no meaning
//! (that do not parse, read what was never written, or do not end), because most candidates have none. Candidates are made
//! on the text, one statement a line:
//!
//! 1. Lines are left out: large pieces first, then smaller ones, down to single lines, until nothing more goes (delta
//!    debugging, Zeller and Hildebrandt, 2002). Blocks in braces are tried as wholes.
//! 2. Statements are made simpler: the guard goes, operands become constants, the statement becomes a move of zero.
//!
//! Both are repeated while either finds something, or until the test was asked as often as allowed.

/// A smaller text for which `shows` still holds; `text` itself if it does not hold to begin with.
///
/// `shows` is asked at most `questions` times.
pub fn reduce(text: &str, questions: usize, mut shows: impl FnMut(&str) -> bool) -> String {
    let mut reduction = Reduction {
        lines: split(text),
        questions,
        shows: &mut shows,
    };
    if !reduction.holds(&reduction.lines.clone()) {
        return text.to_owned();
    }
    loop {
        let before = reduction.lines.clone();
        reduction.leave_out_blocks();
        reduction.leave_out_lines();
        reduction.simplify();
        if reduction.lines == before || reduction.questions == 0 {
            return join(&reduction.lines);
        }
    }
}

/// The lines that say something.
fn split(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.trim().is_empty() && !line.trim().starts_with("//"));
    lines.map(str::to_owned).collect()
}

fn join(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

struct Reduction<'t> {
    lines: Vec<String>,
    questions: usize,
    shows: &'t mut dyn FnMut(&str) -> bool,
}

impl Reduction<'_> {
    fn holds(&mut self, lines: &[String]) -> bool {
        if self.questions == 0 {
            return false;
        }
        self.questions -= 1;
        (self.shows)(&join(lines))
    }

    /// Takes the candidate if it still shows it.
    fn take(&mut self, candidate: Vec<String>) -> bool {
        let better = self.holds(&candidate);
        if better {
            self.lines = candidate;
        }
        better
    }

    /// Whole functions and scopes: from the line before an opening brace to the one that closes it.
    fn leave_out_blocks(&mut self) {
        let mut at = 0;
        while at < self.lines.len() {
            match self.block_from(at) {
                Some(end) => {
                    let kept = [&self.lines[..at], &self.lines[end..]].concat();
                    if !self.take(kept) {
                        at += 1;
                    }
                }
                None => at += 1,
            }
        }
    }

    /// Where the block ends that starts at a line: a scope, or the head of a function with its body.
    fn block_from(&self, at: usize) -> Option<usize> {
        let line = self.lines[at].trim();
        let head = line.contains(".func") || line.contains(".entry");
        if !line.starts_with('{') && !head {
            return None;
        }
        let mut depth = 0;
        for (place, line) in self.lines.iter().enumerate().skip(at) {
            let line = line.trim();
            // Braces of vectors stand within a line.
            if line.starts_with('{') || (head && line.ends_with('{')) {
                depth += 1;
            } else if line.starts_with('}') {
                depth -= 1;
                if depth == 0 {
                    return Some(place + 1);
                }
            }
        }
        None
    }

    fn leave_out_lines(&mut self) {
        let mut size = (self.lines.len() / 2).max(1);
        loop {
            let mut at = 0;
            let mut changed = false;
            while at < self.lines.len() && self.questions > 0 {
                let end = (at + size).min(self.lines.len());
                let kept = [&self.lines[..at], &self.lines[end..]].concat();
                if self.take(kept) {
                    changed = true;
                } else {
                    at = end;
                }
            }
            if size == 1 && !changed {
                return;
            }
            if self.questions == 0 {
                return;
            }
            if !changed {
                size = (size / 2).max(1);
            } else {
                size = size.min(self.lines.len().max(1));
            }
        }
    }

    fn simplify(&mut self) {
        for at in 0..self.lines.len() {
            for simpler in simpler(&self.lines[at]) {
                if self.questions == 0 {
                    return;
                }
                let mut candidate = self.lines.clone();
                candidate[at] = simpler;
                if self.take(candidate) {
                    break;
                }
            }
        }
    }
}

/// Simpler statements in place of one, the simplest first.
fn simpler(line: &str) -> Vec<String> {
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    let Some(statement) = line.trim().strip_suffix(';') else {
        return Vec::new();
    };
    let mut candidates = Vec::new();
    let (guard, rest) = match statement
        .strip_prefix('@')
        .and_then(|it| it.split_once(' '))
    {
        Some((guard, rest)) => (format!("@{guard} "), rest),
        None => (String::new(), statement),
    };
    if rest.starts_with('.') {
        return candidates;
    }
    let Some((opcode, operands)) = rest.split_once(' ') else {
        return candidates;
    };
    let operands: Vec<&str> = operands.split(", ").collect();
    let result = operands[0];
    if result.starts_with('%') && operands.len() > 1 && !opcode.starts_with("mov") {
        let ty = opcode.split('.').find_map(result_type);
        candidates.extend(ty.map(|ty| format!("{indent}mov.{ty} {result}, 0;")));
    }
    if !guard.is_empty() {
        candidates.push(format!("{indent}{rest};"));
    }
    for at in 1..operands.len() {
        if operands[at].starts_with('%') {
            for constant in ["0", "1"] {
                let mut simpler = operands.clone();
                simpler[at] = constant;
                candidates.push(format!("{indent}{guard}{opcode} {};", simpler.join(", ")));
            }
        }
    }
    candidates
}

/// The untyped type for a type in an opcode.
fn result_type(part: &str) -> Option<String> {
    let bits = part.strip_prefix(['u', 's', 'b'])?;
    matches!(bits, "16" | "32" | "64").then(|| format!("b{bits}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx;

    #[test]
    fn a_program_shrinks_to_what_shows_it() {
        let text = ptx::program(3, &ptx::Options::default());
        let shows = |text: &str| {
            let (_, found) = orias_ptx::parse(text.as_bytes());
            !found.has_errors() && text.contains("shf.l.wrap.b32")
        };
        assert!(shows(&text));
        let small = reduce(&text, 4000, shows);
        assert!(shows(&small));
        assert!(small.lines().count() < 12, "{small}");
    }

    #[test]
    fn what_does_not_show_anything_stays() {
        assert_eq!(reduce("a\nb\n", 100, |_| false), "a\nb\n");
        assert_eq!(reduce("a\nb\nc\n", 100, |text| text.contains('b')), "b\n");
    }

    #[test]
    fn statements_become_simpler() {
        assert_eq!(
            simpler("    @%p1 add.u32 %r1, %r2, %r3;")[..2],
            ["    mov.b32 %r1, 0;", "    add.u32 %r1, %r2, %r3;"]
        );
        assert!(simpler("    bra L1;").is_empty());
        assert!(simpler("L1:").is_empty());
    }
}
