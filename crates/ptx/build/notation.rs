//! Reads the table notation, line by line, into rows. `docs/ptx-grammar.md` is its definition.
//!
//! A file is read twice: names and classes first, because rows may use any of them, then the rows. A row's head is
//! split into opcode and operands; the opcode becomes slots here, the operands are read by [`crate::operands`].

use crate::checks::CHECKS;
use crate::operands::{self, OperandList};
use std::collections::{BTreeMap, BTreeSet};

/// Everything read from all files.
#[derive(Default)]
pub struct Tables {
    pub rows: Vec<Row>,
    pub families: Vec<(String, String)>,
    pub names: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub file: String,
    pub line: usize,
    pub op: String,
    pub syntax: String,
    pub slots: Vec<Slot>,
    pub shapes: Vec<OperandList>,
    pub maps: Vec<Map>,
    pub rules: Vec<Rule>,
    pub since: Vec<Gate>,
    pub checks: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Slot {
    pub name: String,
    pub optional: bool,
    pub literal: bool,
    pub group: u8,
    pub alternatives: Vec<Alternative>,
}

#[derive(Clone, Debug)]
pub struct Alternative {
    pub modifier: String,
    pub since: Vec<Gate>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    pub ptx: u16,
    pub sm: u16,
    pub scope: char,
}

#[derive(Clone, Debug)]
pub struct Map {
    pub name: String,
    pub slot: usize,
    pub entries: Vec<(String, String)>,
}

pub type Condition = Vec<Vec<Atom>>;

#[derive(Clone, Debug)]
pub struct Atom {
    pub slot: usize,
    pub not: bool,
    pub values: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Rule {
    Needs(Condition, Condition),
    Forbids(Condition, Condition),
    Since(Condition, Vec<Gate>),
    Removed(Condition, Gate),
}

type Classes = BTreeMap<String, Vec<Alternative>>;

/// A logical line: number of its first physical line, whether it is indented, text without comment.
struct Line {
    number: usize,
    indented: bool,
    text: String,
}

/// Reads all files, given as name and text.
pub fn read(sources: &[(String, String)]) -> Result<Tables, Vec<String>> {
    let mut tables = Tables::default();
    let mut errors = Vec::new();
    let files: Vec<(&String, Vec<Line>)> = sources
        .iter()
        .map(|(name, text)| (name, logical_lines(text)))
        .collect();
    for (_, lines) in &files {
        for line in lines.iter().filter(|line| !line.indented) {
            if let Some(names) = line.text.strip_prefix("names ") {
                tables
                    .names
                    .extend(names.split_whitespace().map(str::to_owned));
            }
        }
    }
    for (file, lines) in &files {
        read_file(file, lines, &mut tables, &mut errors);
    }
    if errors.is_empty() {
        Ok(tables)
    } else {
        Err(errors)
    }
}

fn logical_lines(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut continues = false;
    for (index, raw) in text.lines().enumerate() {
        let text = raw.split('#').next().unwrap_or_default().trim_end();
        if text.trim().is_empty() {
            continues = false;
            continue;
        }
        let (body, more) = match text.strip_suffix('\\') {
            Some(body) => (body.trim_end(), true),
            None => (text, false),
        };
        match lines.last_mut() {
            Some(last) if continues => {
                last.text.push(' ');
                last.text.push_str(body.trim());
            }
            _ => lines.push(Line {
                number: index + 1,
                indented: body.starts_with([' ', '\t']),
                text: body.trim().to_owned(),
            }),
        }
        continues = more;
    }
    lines
}

fn read_file(file: &str, lines: &[Line], tables: &mut Tables, errors: &mut Vec<String>) {
    let mut classes = Classes::new();
    let mut at = 0;
    let mut fail =
        |line: usize, message: String| errors.push(format!("tables/{file}:{line}: {message}"));
    while at < lines.len() {
        let head = &lines[at];
        at += 1;
        if head.indented {
            fail(head.number, "an indented line must follow a row".to_owned());
            continue;
        }
        if let Some(title) = head.text.strip_prefix("family ") {
            let title = title.trim().trim_matches('"').to_owned();
            tables.families.push((file.to_owned(), title));
        } else if head.text.starts_with("names ") {
        } else if let Some(definition) = head.text.strip_prefix("class ") {
            match read_class(definition, &classes) {
                Ok((name, alternatives)) => {
                    if classes.insert(name.clone(), alternatives).is_some() {
                        fail(head.number, format!("class @{name} is defined twice"));
                    }
                }
                Err(message) => fail(head.number, message),
            }
        } else {
            let first = at;
            while at < lines.len() && lines[at].indented {
                at += 1;
            }
            let clauses = &lines[first..at];
            match read_row(file, head, clauses, &classes, &tables.names) {
                Ok(row) => tables.rows.push(row),
                Err((line, message)) => fail(line, message),
            }
        }
    }
}

fn read_class(text: &str, classes: &Classes) -> Result<(String, Vec<Alternative>), String> {
    let (name, list) = text
        .split_once('=')
        .ok_or("a class is written `class @name = .a .b`")?;
    let name = name
        .trim()
        .strip_prefix('@')
        .ok_or("a class name starts with @")?;
    Ok((name.to_owned(), read_alternatives(list, classes)?))
}

/// `.a .b(ptx 8.6 sm_100a) @class .m64n[8..256:8]k16`
fn read_alternatives(list: &str, classes: &Classes) -> Result<Vec<Alternative>, String> {
    let mut found = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c.is_whitespace() || c == '(')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        rest = rest[end..].trim_start();
        let mut since = Vec::new();
        if let Some(inner) = rest.strip_prefix('(') {
            let close = inner.find(')').ok_or("`(` without `)`")?;
            since = read_gates(&inner[..close])?;
            rest = inner[close + 1..].trim_start();
        }
        if let Some(class) = word.strip_prefix('@') {
            let class = classes
                .get(class)
                .ok_or_else(|| format!("class @{class} is not defined above"))?;
            found.extend(class.iter().map(|alternative| Alternative {
                modifier: alternative.modifier.clone(),
                since: if since.is_empty() {
                    alternative.since.clone()
                } else {
                    since.clone()
                },
            }));
        } else if let Some(name) = word.strip_prefix('.') {
            for modifier in expand_range(name)? {
                found.push(Alternative {
                    modifier,
                    since: since.clone(),
                });
            }
        } else {
            return Err(format!("'{word}' is neither a .modifier nor a @class"));
        }
    }
    let mut seen = BTreeSet::new();
    for alternative in &found {
        if !seen.insert(&alternative.modifier) {
            return Err(format!(".{} is listed twice", alternative.modifier));
        }
    }
    if found.is_empty() {
        return Err("no alternatives".to_owned());
    }
    Ok(found)
}

/// `m64n[8..256:8]k16` stands for n8, n16, … n256; several ranges stand for every combination.
fn expand_range(name: &str) -> Result<Vec<String>, String> {
    let names = combinations(name)?;
    for name in &names {
        check_modifier(name)?;
    }
    Ok(names)
}

fn combinations(name: &str) -> Result<Vec<String>, String> {
    let Some((before, rest)) = name.split_once('[') else {
        return Ok(vec![name.to_owned()]);
    };
    let wrong = || format!("'.{name}': a range is written [first..last:step]");
    let (range, after) = rest.split_once(']').ok_or_else(wrong)?;
    let (ends, step) = range.split_once(':').unwrap_or((range, "1"));
    let (first, last) = ends.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let (first, last, step) = (number(first)?, number(last)?, number(step)?);
    if step == 0 || last < first {
        return Err(wrong());
    }
    let rest = combinations(after)?;
    let mut names = Vec::new();
    for value in (first..=last).step_by(step as usize) {
        for tail in &rest {
            names.push(format!("{before}{value}{tail}"));
        }
    }
    Ok(names)
}

fn check_modifier(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty() || !name.chars().all(legal) {
        return Err(format!("'.{name}' is not a modifier"));
    }
    Ok(())
}

/// `ptx 8.6 sm_100a | ptx 8.8 sm_100f`; a part without `ptx` takes the version of the part before it.
pub fn read_gates(text: &str) -> Result<Vec<Gate>, String> {
    let mut gates = Vec::new();
    let mut ptx = 0;
    for part in text.split('|') {
        let mut gate = Gate {
            ptx,
            sm: 0,
            scope: '+',
        };
        let mut words = part.split_whitespace();
        let mut any = false;
        while let Some(word) = words.next() {
            any = true;
            if word == "ptx" {
                let version = words.next().ok_or("`ptx` needs a version")?;
                let (major, minor) = version
                    .split_once('.')
                    .ok_or_else(|| format!("'{version}' is not a PTX version"))?;
                let number = |text: &str| {
                    text.parse::<u16>()
                        .map_err(|_| format!("'{version}' is not a PTX version"))
                };
                gate.ptx = number(major)? * 10 + number(minor)?;
                ptx = gate.ptx;
            } else if let Some(sm) = word.strip_prefix("sm_") {
                let (digits, scope) = match sm.strip_suffix(['a', 'f']) {
                    Some(digits) => (digits, sm.chars().last().unwrap_or('+')),
                    None => (sm, '+'),
                };
                gate.sm = digits
                    .parse()
                    .map_err(|_| format!("'{word}' is not a target"))?;
                gate.scope = scope;
            } else {
                return Err(format!(
                    "'{word}': a gate is written `ptx 8.6 sm_100a | sm_110f`"
                ));
            }
        }
        if !any {
            return Err("an empty gate".to_owned());
        }
        gates.push(gate);
    }
    Ok(gates)
}

/// What operands and conditions of a row may refer to.
pub struct Scope<'a> {
    pub slots: &'a [Slot],
    pub maps: &'a [Map],
    pub row_classes: &'a Classes,
    pub classes: &'a Classes,
}

impl Scope<'_> {
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name == name)
    }

    pub fn map(&self, name: &str) -> Option<usize> {
        self.maps.iter().position(|map| map.name == name)
    }

    /// The modifiers of a class, or the literal itself.
    pub fn modifiers(&self, name: &str) -> Vec<String> {
        alternatives_of(name, self.row_classes, self.classes)
            .0
            .into_iter()
            .map(|alternative| alternative.modifier)
            .collect()
    }
}

fn alternatives_of(name: &str, row: &Classes, file: &Classes) -> (Vec<Alternative>, bool) {
    match row.get(name).or_else(|| file.get(name)) {
        Some(alternatives) => (alternatives.clone(), false),
        None => (
            vec![Alternative {
                modifier: name.to_owned(),
                since: Vec::new(),
            }],
            true,
        ),
    }
}

fn read_row(
    file: &str,
    head: &Line,
    clauses: &[Line],
    classes: &Classes,
    names: &BTreeSet<String>,
) -> Result<Row, (usize, String)> {
    let here = |message: String| (head.number, message);
    let (opcode, operand_text) = match head.text.find(char::is_whitespace) {
        Some(split) => (&head.text[..split], head.text[split..].trim()),
        None => (head.text.as_str(), ""),
    };

    let mut row_classes = Classes::new();
    for clause in clauses {
        if let Some(rest) = clause.text.strip_prefix('.')
            && let Some((name, list)) = rest.split_once(" = ")
            && !name.contains(' ')
        {
            let alternatives =
                read_alternatives(list, classes).map_err(|message| (clause.number, message))?;
            if row_classes.insert(name.to_owned(), alternatives).is_some() {
                return Err((clause.number, format!(".{name} is defined twice")));
            }
        }
    }

    let (op, slots) = read_opcode(opcode, &row_classes, classes, names).map_err(here)?;
    let mut row = Row {
        file: file.to_owned(),
        line: head.number,
        op,
        syntax: head.text.split_whitespace().collect::<Vec<_>>().join(" "),
        slots,
        shapes: Vec::new(),
        maps: Vec::new(),
        rules: Vec::new(),
        since: Vec::new(),
        checks: Vec::new(),
    };
    for clause in clauses {
        read_clause(&clause.text, &mut row).map_err(|message| (clause.number, message))?;
    }
    let scope = Scope {
        slots: &row.slots,
        maps: &row.maps,
        row_classes: &row_classes,
        classes,
    };
    let shapes = operands::read(operand_text, &scope).map_err(here)?;
    for name in row_classes.keys() {
        let as_suffix = head.text.contains(&format!(".{name}"));
        if scope.slot(name).is_none() && !as_suffix {
            return Err(here(format!(".{name} is defined but not used in the row")));
        }
    }
    row.shapes = shapes;
    Ok(row)
}

/// Splits `cp.async.bulk{.x}.dst.src` into the instruction's name and its slots.
fn read_opcode(
    opcode: &str,
    row: &Classes,
    file: &Classes,
    names: &BTreeSet<String>,
) -> Result<(String, Vec<Slot>), String> {
    let fixed = opcode.split('{').next().unwrap_or_default();
    let mut op = fixed.split('.').next().unwrap_or_default().to_owned();
    let mut candidate = op.clone();
    for component in fixed.split('.').skip(1) {
        candidate = format!("{candidate}.{component}");
        if names.contains(&candidate) {
            op.clone_from(&candidate);
        }
    }
    if op.is_empty()
        || !op
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._:".contains(c))
    {
        return Err(format!(
            "'{opcode}' does not start with an instruction name"
        ));
    }
    let mut slots = Vec::new();
    let mut rest = &opcode[op.len()..];
    let mut group = 0;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('{') {
            let close = inner.find('}').ok_or("`{` without `}` in the opcode")?;
            let members: Vec<&str> = inner[..close].split('.').skip(1).collect();
            if members.is_empty() || !inner.starts_with('.') {
                return Err("`{` in an opcode is followed by .modifiers".to_owned());
            }
            group += 1;
            for name in &members {
                let shared = if members.len() > 1 { group } else { 0 };
                slots.push(read_slot(name, true, shared, row, file)?);
            }
            rest = &inner[close + 1..];
        } else if let Some(inner) = rest.strip_prefix('.') {
            let end = inner.find(['.', '{']).unwrap_or(inner.len());
            slots.push(read_slot(&inner[..end], false, 0, row, file)?);
            rest = &inner[end..];
        } else {
            return Err(format!("'{rest}' in the opcode: expected .modifier or {{"));
        }
    }
    for (index, slot) in slots.iter().enumerate() {
        if slots[..index].iter().any(|other| other.name == slot.name) {
            return Err(format!(
                ".{} stands twice: name the classes apart",
                slot.name
            ));
        }
    }
    Ok((op, slots))
}

fn read_slot(
    name: &str,
    optional: bool,
    group: u8,
    row: &Classes,
    file: &Classes,
) -> Result<Slot, String> {
    check_modifier(name)?;
    let (alternatives, literal) = alternatives_of(name, row, file);
    Ok(Slot {
        name: name.to_owned(),
        optional,
        literal,
        group,
        alternatives,
    })
}

fn read_clause(text: &str, row: &mut Row) -> Result<(), String> {
    if text.starts_with('.') && text.split_whitespace().nth(1) == Some("=") {
        return Ok(());
    }
    if let Some(gates) = text.strip_prefix("since ") {
        row.since.extend(read_gates(gates)?);
        return Ok(());
    }
    if let Some(gate) = text.strip_prefix("removed ") {
        let gates = read_gates(gate)?;
        row.rules.push(Rule::Removed(vec![Vec::new()], gates[0]));
        return Ok(());
    }
    if let Some(checks) = text.strip_prefix("check ") {
        for check in checks.split_whitespace() {
            if !CHECKS.iter().any(|(name, _)| *name == check) {
                let known: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "no check is named '{check}'; there are {}",
                    known.join(", ")
                ));
            }
            row.checks.push(check.to_owned());
        }
        return Ok(());
    }
    if let Some((name, rest)) = text.split_once(" by ") {
        let (slot, entries) = rest
            .split_once('=')
            .ok_or("a map is written `X by .T = .a:value`")?;
        let map = read_map(name.trim(), slot.trim(), entries, row)?;
        row.maps.push(map);
        return Ok(());
    }
    for (word, make) in [
        (" needs ", Rule::Needs as fn(Condition, Condition) -> Rule),
        (" forbids ", Rule::Forbids),
    ] {
        if let Some((left, right)) = text.split_once(word) {
            let rule = make(
                read_condition(left, &row.slots)?,
                read_condition(right, &row.slots)?,
            );
            row.rules.push(rule);
            return Ok(());
        }
    }
    if let Some((condition, gates)) = text.split_once(" since ") {
        let rule = Rule::Since(read_condition(condition, &row.slots)?, read_gates(gates)?);
        row.rules.push(rule);
        return Ok(());
    }
    if let Some((condition, gate)) = text.split_once(" removed ") {
        let gates = read_gates(gate)?;
        let rule = Rule::Removed(read_condition(condition, &row.slots)?, gates[0]);
        row.rules.push(rule);
        return Ok(());
    }
    Err(format!(
        "'{text}' is no clause: expected `.class = …`, `X by .class = …`, `since`, `removed`, `check`, `… needs …`, \
         `… forbids …`, `… since …` or `… removed …`"
    ))
}

fn read_map(name: &str, slot: &str, entries: &str, row: &Row) -> Result<Map, String> {
    let slot_name = slot.strip_prefix('.').ok_or("a map is by a .slot")?;
    let index = row
        .slots
        .iter()
        .position(|slot| slot.name == slot_name)
        .ok_or_else(|| format!("the row has no slot .{slot_name}"))?;
    let mut found: Vec<(String, String)> = Vec::new();
    for entry in entries.split_whitespace() {
        let (modifiers, value) = entry
            .rsplit_once(':')
            .ok_or_else(|| format!("'{entry}': a map entry is written .modifier:value"))?;
        for modifier in modifiers.split(',') {
            let modifier = modifier
                .strip_prefix('.')
                .ok_or_else(|| format!("'{entry}': a map entry is written .modifier:value"))?;
            for modifier in expand_range(modifier)? {
                found.push((modifier, value.to_owned()));
            }
        }
    }
    for alternative in &row.slots[index].alternatives {
        if !found
            .iter()
            .any(|(modifier, _)| *modifier == alternative.modifier)
        {
            return Err(format!(
                "the map {name} says nothing about .{}",
                alternative.modifier
            ));
        }
    }
    Ok(Map {
        name: name.to_owned(),
        slot: index,
        entries: found,
    })
}

/// `.a & !.b | .T=.f32,.f64`
pub fn read_condition(text: &str, slots: &[Slot]) -> Result<Condition, String> {
    let text = text.trim();
    let text = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .unwrap_or(text);
    text.split('|')
        .map(|all| {
            all.split('&')
                .map(|atom| read_atom(atom.trim(), slots))
                .collect()
        })
        .collect()
}

fn read_atom(text: &str, slots: &[Slot]) -> Result<Atom, String> {
    let (not, body) = match text.strip_prefix('!') {
        Some(body) => (true, body.trim()),
        None => (false, text),
    };
    let body = body
        .strip_prefix('.')
        .ok_or_else(|| format!("'{text}': a condition names a .slot or .slot=.value"))?;
    let (name, values) = body.split_once('=').unwrap_or((body, ""));
    let name = name.trim();
    if let Some(slot) = slots.iter().position(|slot| slot.name == name) {
        let mut found = Vec::new();
        for value in values
            .split(',')
            .map(str::trim)
            .filter(|value| !value.is_empty())
        {
            let value = value
                .strip_prefix('.')
                .ok_or_else(|| format!("'{value}' should start with a dot"))?;
            for value in expand_range(value)? {
                if !slots[slot]
                    .alternatives
                    .iter()
                    .any(|alternative| alternative.modifier == value)
                {
                    return Err(format!(".{name} has no alternative .{value}"));
                }
                found.push(value);
            }
        }
        return Ok(Atom {
            slot,
            not,
            values: found,
        });
    }
    // A bare modifier stands for the only slot that lists it.
    let holders: Vec<usize> = slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| {
            slot.alternatives
                .iter()
                .any(|alternative| alternative.modifier == name)
        })
        .map(|(index, _)| index)
        .collect();
    match holders.as_slice() {
        [slot] if values.is_empty() => Ok(Atom {
            slot: *slot,
            not,
            values: vec![name.to_owned()],
        }),
        [] => Err(format!("the row has no slot or modifier .{name}")),
        _ => Err(format!("several slots allow .{name}: write .slot=.{name}")),
    }
}
