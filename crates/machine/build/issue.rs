//! Reads `issue.tbl`: what issue asks for, operation by operation.

use crate::read::{self, ClassRow, Keeps};

/// Operations of one line: names, names with `*`, and classes.
pub type Patterns<'t> = Vec<&'t str>;

#[derive(Default)]
pub struct Rules<'t> {
    pub units: Vec<(&'static str, Vec<Keeps>, Patterns<'t>)>,
    /// Columns, and what a matrix operation of a warpgroup with more of them keeps.
    pub wide_matrix: Option<(u32, Vec<Keeps>)>,
    pub stalls: Vec<(u8, Patterns<'t>)>,
    pub extra: Vec<(u8, Patterns<'t>)>,
    pub drains: Patterns<'t>,
    pub no_waits: Patterns<'t>,
    pub late_uniform: Patterns<'t>,
    pub read_to_write: Vec<(&'static str, u8)>,
    pub tokens: Vec<OrderToken<'t>>,
    pub no_tokens: Patterns<'t>,
    pub collective: Patterns<'t>,
}

pub struct OrderToken<'t> {
    pub token: &'static str,
    pub role: &'static str,
    pub scopes: Vec<&'t str>,
    pub operations: Patterns<'t>,
}

pub fn rules<'t>(text: &'t str, classes: &[ClassRow<'_>]) -> Result<Rules<'t>, String> {
    let mut rules = Rules::default();
    for (at, line) in read::lines(text) {
        add(&mut rules, line, classes).map_err(|error| format!("issue.tbl:{at}: {error}"))?;
    }
    Ok(rules)
}

fn add<'t>(rules: &mut Rules<'t>, line: &'t str, classes: &[ClassRow<'_>]) -> Result<(), String> {
    let (head, operations) = match line.split_once(" : ") {
        Some((head, operations)) => (head, operations.split_whitespace().collect()),
        None => (line, Vec::new()),
    };
    for pattern in &operations {
        if let Some(name) = pattern.strip_prefix('=')
            && classes.iter().all(|row| row.name != name)
        {
            return Err(format!("'{name}' is not a class"));
        }
    }
    let mut words: Vec<&str> = head.split_whitespace().collect();
    read::provenance(words.pop())?;
    let kind = words.first().copied().unwrap_or_default();
    let rest = &words[1.min(words.len())..];
    let needs_operations = !matches!(kind, "wide-matrix" | "read-to-write");
    if needs_operations == operations.is_empty() {
        return Err("operations, or none".to_owned());
    }
    match (kind, rest) {
        ("unit", [unit, keeps @ ..]) => {
            let keeps = match keeps {
                [] => Vec::new(),
                ["keeps", keeps @ ..] => read::keeps(keeps)?,
                _ => return Err("what it keeps follows `keeps`".to_owned()),
            };
            let unit = read::unit(Some(unit))?;
            rules.units.push((unit, keeps, operations));
        }
        ("wide-matrix", [columns, "keeps", keeps @ ..]) => {
            let known = (read::number(Some(columns))?, read::keeps(keeps)?);
            rules.wide_matrix.get_or_insert(known);
        }
        ("stall", [cycles]) => rules.stalls.push((read::number(Some(cycles))?, operations)),
        ("extra", [cycles]) => rules.extra.push((read::number(Some(cycles))?, operations)),
        ("drains", []) => rules.drains.extend(operations),
        ("no-wait", []) => rules.no_waits.extend(operations),
        ("late-uniform", []) => rules.late_uniform.extend(operations),
        ("read-to-write", [unit, cycles]) => rules
            .read_to_write
            .push((read::unit(Some(unit))?, read::number(Some(cycles))?)),
        ("token", [token, role, scopes @ ..]) => {
            let scopes = match scopes {
                [] => Vec::new(),
                ["scope", scopes @ ..] => scopes.to_vec(),
                _ => return Err("scopes follow `scope`".to_owned()),
            };
            rules.tokens.push(OrderToken {
                token: read::token(Some(token))?,
                role: read::role(Some(role))?,
                scopes,
                operations,
            });
        }
        ("no-token", []) => rules.no_tokens.extend(operations),
        ("collective", []) => rules.collective.extend(operations),
        _ => return Err(format!("'{head}' is not understood")),
    }
    Ok(())
}
