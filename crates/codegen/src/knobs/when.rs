//! When-lists: conditions on places in the program.
//!
//! ```text
//! list   = "never" | "always" | clause { ";" clause }
//! clause = "WHEN=" term { "&" term }
//! term   = [ "!" ] ( "func" | "op" ) ":" glob { "," glob }
//!        | [ "!" ] ( "block" | "inst" ) ":" range { "," range }
//! range  = number [ "-" number ]
//! ```
//!
//! A list holds where any of its clauses holds, a clause where all of its terms hold, a term where any of its patterns
//! matches (or none, after `!`). `func` is a function's name, `op` an operation's, `block` and `inst` are the numbers the
//! text form prints. In a glob, `*` stands for any characters; operations are compared without regard to case. A clause
//! that speaks of instructions never holds of a block as a whole.
//!
//! `WHEN=op:LDG*&block:3-5;WHEN=inst:17` holds of the loads in blocks 3 to 5 and of instruction 17.

use std::fmt;

/// A place that a condition can be asked about: an instruction, or a block as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The function's name.
    pub function: &'a str,
    /// The block's number.
    pub block: u32,
    /// The instruction's number and its operation's name.
    pub instruction: Option<(u32, &'a str)>,
}

/// A list of conditions. The default never holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhenList {
    clauses: Vec<Clause>,
}

/// Terms that must all hold; without any, it always does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Clause {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Function(Vec<String>),
    Operation(Vec<String>),
    Block(Vec<(u32, u32)>),
    Instruction(Vec<(u32, u32)>),
}

/// Why a text is no list of conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhenError {
    /// The piece that is wrong.
    pub piece: String,
    /// What was expected instead.
    pub expected: &'static str,
}

impl fmt::Display for WhenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': expected {}", self.piece, self.expected)
    }
}

impl std::error::Error for WhenError {}

impl WhenList {
    /// The list that always holds.
    pub fn always() -> Self {
        Self {
            clauses: vec![Clause::default()],
        }
    }

    /// Reads a list.
    ///
    /// ```
    /// use orias_codegen::knobs::{Point, WhenList};
    ///
    /// let list = WhenList::parse("WHEN=op:LD*&block:3-5").unwrap();
    /// let point = |block, op| Point { function: "f", block, instruction: Some((0, op)) };
    /// assert!(list.holds(point(4, "LDG")));
    /// assert!(!list.holds(point(4, "STG")));
    /// assert!(!list.holds(point(6, "LDG")));
    /// ```
    pub fn parse(text: &str) -> Result<Self, WhenError> {
        match text.trim() {
            "never" => Ok(Self::default()),
            "always" => Ok(Self::always()),
            clauses => Ok(Self {
                clauses: clauses
                    .split(';')
                    .map(parse_clause)
                    .collect::<Result<_, _>>()?,
            }),
        }
    }

    /// Whether it holds at `point`.
    pub fn holds(&self, point: Point<'_>) -> bool {
        self.clauses.iter().any(|clause| {
            clause
                .terms
                .iter()
                .all(|term| match term.subject.matches(point) {
                    Some(matches) => matches != term.negated,
                    None => false,
                })
        })
    }

    /// Whether it holds nowhere, so that nobody needs to ask.
    pub fn is_never(&self) -> bool {
        self.clauses.is_empty()
    }
}

fn wrong(piece: &str, expected: &'static str) -> WhenError {
    WhenError {
        piece: piece.to_owned(),
        expected,
    }
}

fn parse_clause(text: &str) -> Result<Clause, WhenError> {
    let text = text.trim();
    let terms = text
        .strip_prefix("WHEN=")
        .ok_or_else(|| wrong(text, "'never', 'always' or 'WHEN=...'"))?;
    let terms = terms
        .split('&')
        .map(|term| parse_term(term.trim()))
        .collect::<Result<_, _>>()?;
    Ok(Clause { terms })
}

fn parse_term(text: &str) -> Result<Term, WhenError> {
    let (negated, positive) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (key, patterns) = positive
        .split_once(':')
        .ok_or_else(|| wrong(text, "func:, block:, inst: or op: and a pattern"))?;
    let subject = match key.trim() {
        "func" => Subject::Function(parse_globs(patterns)?),
        "op" => Subject::Operation(parse_globs(patterns)?),
        "block" => Subject::Block(parse_ranges(patterns)?),
        "inst" => Subject::Instruction(parse_ranges(patterns)?),
        _ => return Err(wrong(key, "func, block, inst or op")),
    };
    Ok(Term { negated, subject })
}

fn parse_globs(text: &str) -> Result<Vec<String>, WhenError> {
    text.split(',')
        .map(|glob| match glob.trim() {
            "" => Err(wrong(text, "a name, in which * stands for any characters")),
            glob => Ok(glob.to_owned()),
        })
        .collect()
}

fn parse_ranges(text: &str) -> Result<Vec<(u32, u32)>, WhenError> {
    text.split(',')
        .map(|range| {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            match (low.trim().parse(), high.trim().parse()) {
                (Ok(low), Ok(high)) if low <= high => Ok((low, high)),
                _ => Err(wrong(range, "a number or a range such as 3-5")),
            }
        })
        .collect()
}

impl Subject {
    /// Whether it matches, or nothing when `point` has no such property.
    fn matches(&self, point: Point<'_>) -> Option<bool> {
        let within = |ranges: &[(u32, u32)], number: u32| {
            ranges
                .iter()
                .any(|&(low, high)| (low..=high).contains(&number))
        };
        match self {
            Self::Function(globs) => {
                Some(globs.iter().any(|glob| glob_matches(glob, point.function)))
            }
            Self::Block(ranges) => Some(within(ranges, point.block)),
            Self::Instruction(ranges) => {
                point.instruction.map(|(number, _)| within(ranges, number))
            }
            Self::Operation(globs) => point.instruction.map(|(_, operation)| {
                let operation = operation.to_ascii_lowercase();
                globs
                    .iter()
                    .any(|glob| glob_matches(&glob.to_ascii_lowercase(), &operation))
            }),
        }
    }
}

/// Whether `glob`, in which `*` stands for any characters, describes all of `name`. The fixed pieces are looked for from
/// left to right, each as early as possible, so the time is that of the searches.
fn glob_matches(glob: &str, name: &str) -> bool {
    let mut pieces = glob.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl fmt::Display for WhenList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() {
            return f.write_str("never");
        }
        if self.clauses.iter().any(|clause| clause.terms.is_empty()) {
            return f.write_str("always");
        }
        for (index, clause) in self.clauses.iter().enumerate() {
            f.write_str(if index == 0 { "WHEN=" } else { ";WHEN=" })?;
            for (index, term) in clause.terms.iter().enumerate() {
                let and = if index == 0 { "" } else { "&" };
                let not = if term.negated { "!" } else { "" };
                let (key, patterns) = match &term.subject {
                    Subject::Function(globs) => ("func", globs.clone()),
                    Subject::Operation(globs) => ("op", globs.clone()),
                    Subject::Block(ranges) => ("block", print_ranges(ranges)),
                    Subject::Instruction(ranges) => ("inst", print_ranges(ranges)),
                };
                write!(f, "{and}{not}{key}:{}", patterns.join(","))?;
            }
        }
        Ok(())
    }
}

fn print_ranges(ranges: &[(u32, u32)]) -> Vec<String> {
    ranges
        .iter()
        .map(|&(low, high)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(function: &'a str, block: u32, inst: u32, op: &'a str) -> Point<'a> {
        Point {
            function,
            block,
            instruction: Some((inst, op)),
        }
    }

    fn list(text: &str) -> WhenList {
        WhenList::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn clauses_are_alternatives_and_terms_are_joint() {
        let list = list("WHEN=op:LDG*&block:3-5;WHEN=inst:17");
        assert!(list.holds(at("f", 3, 0, "LDG.E")));
        assert!(list.holds(at("f", 5, 0, "ldg")));
        assert!(!list.holds(at("f", 6, 0, "LDG.E")));
        assert!(!list.holds(at("f", 3, 0, "STG.E")));
        assert!(list.holds(at("f", 9, 17, "STG.E")));
    }

    #[test]
    fn patterns_are_alternatives_and_can_be_denied() {
        let list = list("WHEN=!func:main,k*&inst:1,4-6");
        assert!(list.holds(at("other", 0, 5, "x")));
        assert!(!list.holds(at("kernel", 0, 5, "x")));
        assert!(!list.holds(at("main", 0, 1, "x")));
        assert!(!list.holds(at("other", 0, 2, "x")));
    }

    #[test]
    fn a_block_as_a_whole_is_no_instruction() {
        let block = Point {
            function: "f",
            block: 3,
            instruction: None,
        };
        assert!(list("WHEN=block:3").holds(block));
        assert!(!list("WHEN=block:3&op:*").holds(block));
        assert!(!list("WHEN=block:3&!op:LDG").holds(block));
        assert!(list("always").holds(block));
        assert!(!list("never").holds(block));
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, matches) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*", "", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*b*c", "abcbc", true),
            ("*b*c", "abcb", false),
            ("a**b", "axb", true),
        ] {
            assert_eq!(glob_matches(glob, name), matches, "{glob} {name}");
        }
    }

    #[test]
    fn lists_print_and_read_back_equal() {
        for text in [
            "never",
            "always",
            "WHEN=op:LDG*&block:3-5;WHEN=inst:17",
            "WHEN=!func:a,b*&!inst:1,4-6",
        ] {
            assert_eq!(list(text).to_string(), text);
        }
        assert_eq!(
            list(" WHEN= op : A , B & block: 1 - 2 ").to_string(),
            "WHEN=op:A,B&block:1-2"
        );
    }

    #[test]
    fn malformed_lists_name_the_piece_that_is_wrong() {
        for (text, message) in [
            ("", "'': expected 'never', 'always' or 'WHEN=...'"),
            (
                "op:LDG",
                "'op:LDG': expected 'never', 'always' or 'WHEN=...'",
            ),
            (
                "WHEN=",
                "'': expected func:, block:, inst: or op: and a pattern",
            ),
            (
                "WHEN=opcode:LDG",
                "'opcode': expected func, block, inst or op",
            ),
            (
                "WHEN=block:x",
                "'x': expected a number or a range such as 3-5",
            ),
            (
                "WHEN=block:5-3",
                "'5-3': expected a number or a range such as 3-5",
            ),
            (
                "WHEN=op:",
                "'': expected a name, in which * stands for any characters",
            ),
            ("WHEN=op:a;", "'': expected 'never', 'always' or 'WHEN=...'"),
            (
                "WHEN=inst:99999999999",
                "'99999999999': expected a number or a range such as 3-5",
            ),
        ] {
            let error = WhenList::parse(text).expect_err(text);
            assert_eq!(error.to_string(), message, "{text}");
        }
    }
}
