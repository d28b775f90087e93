//! Streams as text, both ways.
//!
//! ```text
//! stream k sm_90a entry {
//! block0: -> block1
//!     [B------:R-:W-:-:S01] MOV R1, c[0x0][0x28] ;
//!     @P0 copy R4..R5<-R8..R9, P1<-PT ;
//!     group d={R4,R5,R8,R9} LDG.E.128 R4, desc[UR4][R2.64] ;
//!     MOV R4, 0x0 ; b=lo(table+8) !expansion
//! block1:
//!     [B------:R-:W-:-:S05] EXIT ;
//! }
//! ```
//!
//! Behind a block's name stands where control may go from it. A node is an instruction as `orias disasm` prints it, or one of the
//! pseudo-instructions `copy`, `swap`, `group` and `call`; its control field is there once it is known. Behind the semicolon stand
//! operands that wait for positions (`slot=lo(name+offset)`, `hi`, `at`, `return`), `indirect=` and the targets of an indirect
//! branch, who made the node (`!expansion`, `!wars`, `!opex`), and what the scheduling record asks for (`!barrier`, `!stall=2`).
//! `//` starts a comment.

use crate::stream::{
    Body, Fixup, Node, NodeData, Origin, Pseudo, Reference, Run, Schedule, Segment, Stream,
};
use cranelift_entity::EntityRef;
use orias_ori::{FunctionKind, SymbolPart};
use orias_sass::text::{Printer, parse_instruction};
use orias_sass::{Guard, Instruction, PlaceKind, Register, RegisterClass, Target};
use std::fmt::Write as _;

/// Text that is no stream.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {message}")]
pub struct StreamError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

const KINDS: [(FunctionKind, &str); 2] = [
    (FunctionKind::Entry, "entry"),
    (FunctionKind::Device, "device"),
];

const ORIGINS: [(Origin, &str); 3] = [
    (Origin::Expansion, "!expansion"),
    (Origin::Wars, "!wars"),
    (Origin::Opex, "!opex"),
];

const PARTS: [(SymbolPart, &str); 3] = [
    (SymbolPart::Whole, "at"),
    (SymbolPart::Low, "lo"),
    (SymbolPart::High, "hi"),
];

fn names<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    let row = table.iter().find(|(known, _)| *known == value);
    row.map_or("", |(_, name)| name)
}

impl Stream {
    /// The text of the stream.
    pub fn print(&self) -> String {
        let kind = names(&KINDS, self.kind);
        let mut out = format!("stream {} {} {kind} {{\n", self.name, self.target);
        for segment in self.segments() {
            let _ = write!(out, "{segment}:");
            for (number, to) in self.successors(segment).iter().enumerate() {
                let _ = write!(out, "{} {to}", if number == 0 { " ->" } else { "," });
            }
            out.push('\n');
            for node in self.nodes(segment) {
                let _ = writeln!(out, "    {}", self.print_node(node));
            }
        }
        out.push_str("}\n");
        out
    }

    /// The text of a node.
    pub fn print_node(&self, node: Node) -> String {
        let data = self.node(node);
        let mut out = String::new();
        let mut shown_as_label = None;
        match &data.body {
            Body::Boundary => out.push_str("boundary"),
            Body::Machine(instruction) => {
                shown_as_label = self.print_instruction(&mut out, data, instruction);
            }
            Body::Pseudo(pseudo) => {
                shown_as_label = self.print_pseudo(&mut out, data, pseudo);
            }
        }
        out.push_str(" ;");
        for fixup in &data.fixups {
            if Some(fixup.slot) != shown_as_label {
                let _ = write!(
                    out,
                    " {}={}",
                    self.slot_name(data, fixup),
                    self.refer(fixup)
                );
            }
        }
        let listed = self.indirect.iter().find(|(branch, _)| *branch == node);
        if let Some((_, targets)) = listed {
            let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let _ = write!(out, " indirect={}", targets.join(","));
        }
        if data.origin != Origin::Source {
            let _ = write!(out, " {}", names(&ORIGINS, data.origin));
        }
        if data.schedule.barrier_needed {
            out.push_str(" !barrier");
        }
        if data.schedule.penalty > 0 {
            let _ = write!(out, " !stall={}", data.schedule.penalty);
        }
        out
    }

    /// The slot whose reference is shown in its place.
    fn print_instruction(
        &self,
        out: &mut String,
        data: &NodeData,
        instruction: &Instruction,
    ) -> Option<u8> {
        if data.schedule.known {
            let _ = write!(out, "{} ", instruction.control);
        }
        let places = instruction.form().places;
        let label = data.fixups.iter().find(|fixup| {
            let place = places.get(usize::from(fixup.slot));
            place.is_some_and(|place| matches!(place.kind, PlaceKind::Target { .. }))
        });
        let text = label.map(|fixup| match fixup.to {
            Reference::Symbol { name, .. } => self.names[name].clone(),
            _ => self.refer(fixup),
        });
        Printer { exact: true }.write(out, instruction, 0, |_| text.as_deref());
        label.map(|fixup| fixup.slot)
    }

    fn print_pseudo(&self, out: &mut String, data: &NodeData, pseudo: &Pseudo) -> Option<u8> {
        match pseudo {
            Pseudo::Copy { guard, runs } => {
                print_guard(out, *guard);
                out.push_str("copy");
                for (number, run) in runs.iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    let (to, from) = (span(run.to, run.count), span(run.from, run.count));
                    let _ = write!(out, "{comma} {to}<-{from}");
                }
            }
            Pseudo::Swap { guard, run } => {
                print_guard(out, *guard);
                let (a, b) = (span(run.to, run.count), span(run.from, run.count));
                let _ = write!(out, "swap {a}, {b}");
            }
            Pseudo::Group {
                instruction,
                slot,
                registers,
                pieces,
            } => {
                let list: Vec<String> = registers.iter().map(ToString::to_string).collect();
                let name = instruction.op().row().slots[usize::from(*slot)].name;
                let _ = write!(out, "group {name}={{{}}}", list.join(","));
                if !pieces.is_empty() {
                    let pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
                    let _ = write!(out, "/{}", pieces.join("+"));
                }
                out.push(' ');
                return self.print_instruction(out, data, instruction);
            }
            Pseudo::Call { guard, link } => {
                print_guard(out, *guard);
                let to = data.fixups.first().map(|fixup| self.refer(fixup));
                let _ = write!(out, "call {}, {link}", to.unwrap_or_default());
                return Some(0);
            }
        }
        None
    }

    fn slot_name(&self, data: &NodeData, fixup: &Fixup) -> &'static str {
        let instruction = match &data.body {
            Body::Machine(instruction) | Body::Pseudo(Pseudo::Group { instruction, .. }) => {
                instruction
            }
            Body::Boundary | Body::Pseudo(_) => return "",
        };
        instruction.op().row().slots[usize::from(fixup.slot)].name
    }

    fn refer(&self, fixup: &Fixup) -> String {
        match fixup.to {
            Reference::Block(segment) => segment.to_string(),
            Reference::Return => "return".to_owned(),
            Reference::Symbol { name, part, addend } => {
                let offset = match addend {
                    0 => String::new(),
                    _ => format!("{addend:+}"),
                };
                format!("{}({}{offset})", names(&PARTS, part), self.names[name])
            }
        }
    }

    /// Reads what [`Stream::print`] writes.
    pub fn parse(text: &str) -> Result<Stream, StreamError> {
        let mut reader = Reader::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default().trim();
            if !line.is_empty() {
                reader.line(line).map_err(|message| StreamError {
                    line: number + 1,
                    message,
                })?;
            }
        }
        let end = text.lines().count();
        reader.finish().map_err(|message| StreamError {
            line: end.max(1),
            message,
        })
    }
}

fn print_guard(out: &mut String, guard: Guard) {
    if !guard.is_always() {
        let not = if guard.negated { "!" } else { "" };
        let _ = write!(out, "@{not}{} ", guard.predicate);
    }
}

fn span(register: Register, count: u8) -> String {
    if count < 2 || register.is_constant() {
        return register.to_string();
    }
    let last = Register::new(register.class, register.index + count - 1);
    format!("{register}..{last}")
}

#[derive(Default)]
struct Reader {
    stream: Option<Stream>,
    segment: Option<Segment>,
    /// Blocks named as successors or targets, to be there at the end.
    mentioned: Vec<Segment>,
    closed: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if self.closed {
            return Err("text behind the stream".to_owned());
        }
        let Some(stream) = &mut self.stream else {
            self.stream = Some(header(line)?);
            return Ok(());
        };
        if line == "}" {
            self.closed = true;
            return Ok(());
        }
        if let Some((name, rest)) = line.split_once(':')
            && let Some(segment) = block(name)
        {
            if stream.add_segment() != segment {
                return Err(format!("{segment} is out of order"));
            }
            self.segment = Some(segment);
            let rest = rest.trim();
            if let Some(list) = rest.strip_prefix("->") {
                let successors = self.blocks(list)?;
                if let Some(stream) = &mut self.stream {
                    stream.set_successors(segment, successors);
                }
            } else if !rest.is_empty() {
                return Err(format!("'{rest}' is not where control goes"));
            }
            return Ok(());
        }
        let Some(segment) = self.segment else {
            return Err("a node outside of all blocks".to_owned());
        };
        self.node(segment, line)
    }

    fn blocks(&mut self, list: &str) -> Result<Vec<Segment>, String> {
        let mut found = Vec::new();
        for name in list.split(',') {
            let name = name.trim();
            found.push(block(name).ok_or_else(|| format!("'{name}' is not a block"))?);
        }
        self.mentioned.extend(&found);
        Ok(found)
    }

    fn node(&mut self, segment: Segment, line: &str) -> Result<(), String> {
        let (text, notes) = line
            .split_once(';')
            .ok_or_else(|| "a node ends with ';'".to_owned())?;
        let text = text.trim();
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let (mut guard, rest) = guard(text)?;
        let (word, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut data = NodeData::new(Body::Boundary, Origin::Source);
        match word {
            "copy" => {
                let runs = operands.split(',').map(|run| copy(run.trim()));
                let runs = runs.collect::<Result<Vec<Run>, String>>()?;
                settle_guard(&mut guard, runs.first().map(|run| run.to));
                data.body = Body::Pseudo(Pseudo::Copy { guard, runs });
            }
            "swap" => {
                let (a, b) = operands.split_once(',').unwrap_or((operands, ""));
                let run = pair(a.trim(), b.trim())?;
                settle_guard(&mut guard, Some(run.to));
                data.body = Body::Pseudo(Pseudo::Swap { guard, run });
            }
            "call" => {
                let (to, link) = operands.split_once(',').unwrap_or((operands, ""));
                let link = Register::from_name(link.trim())
                    .ok_or_else(|| format!("'{}' is not a register", link.trim()))?;
                data.body = Body::Pseudo(Pseudo::Call { guard, link });
                let to = reference(stream, to.trim())?;
                data.fixups.push(Fixup { slot: 0, to });
            }
            "group" => {
                let (group, rest) = operands.split_once(' ').unwrap_or((operands, ""));
                if !guard.is_always() {
                    return Err("the guard of a group stands before its instruction".to_owned());
                }
                let inner = instruction(stream, rest, &mut data)?;
                data.body = Body::Pseudo(read_group(group, inner)?);
            }
            _ => {
                let inner = instruction(stream, text, &mut data)?;
                data.schedule.known = text.starts_with("[B");
                data.body = Body::Machine(inner);
            }
        }
        for fixup in &data.fixups {
            if let Reference::Block(segment) = fixup.to {
                self.mentioned.push(segment);
            }
        }
        let indirect = annotations(stream, notes, &mut data)?;
        let node = stream.append(segment, data);
        if let Some(list) = indirect {
            let targets = self.blocks(&list)?;
            if let Some(stream) = &mut self.stream {
                stream.indirect.push((node, targets));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Stream, String> {
        let Some(stream) = self.stream.filter(|_| self.closed) else {
            return Err("the stream does not end".to_owned());
        };
        match self.mentioned.iter().find(|to| !stream.has_segment(**to)) {
            Some(missing) => Err(format!("there is no {missing}")),
            None => Ok(stream),
        }
    }
}

fn header(line: &str) -> Result<Stream, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["stream", name, target, kind, "{"] = words[..] else {
        return Err("expected 'stream NAME TARGET entry {'".to_owned());
    };
    let target = Target::from_name(target).ok_or_else(|| format!("no target '{target}'"))?;
    let kind = KINDS.iter().find(|(_, name)| *name == kind);
    let (kind, _) = kind.ok_or_else(|| "a stream is 'entry' or 'device'".to_owned())?;
    Ok(Stream::new(name, *kind, target))
}

fn block(name: &str) -> Option<Segment> {
    let number: u32 = name.trim().strip_prefix("block")?.parse().ok()?;
    (number < u32::MAX / 2).then(|| Segment::new(number as usize))
}

fn guard(text: &str) -> Result<(Guard, &str), String> {
    let Some(rest) = text.strip_prefix('@') else {
        return Ok((Guard::ALWAYS, text));
    };
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (negated, name) = match name.strip_prefix('!') {
        Some(name) => (true, name),
        None => (false, name),
    };
    let predicate = Register::from_name(name)
        .filter(|register| matches!(register.class, RegisterClass::P | RegisterClass::UP))
        .ok_or_else(|| format!("'{name}' is not a predicate"))?;
    Ok((Guard { predicate, negated }, rest.trim_start()))
}

/// Uniform operations that always run are guarded by the uniform predicate that is true.
fn settle_guard(guard: &mut Guard, to: Option<Register>) {
    let uniform = to.is_some_and(|to| matches!(to.class, RegisterClass::UR | RegisterClass::UP));
    if guard.is_always() && uniform {
        *guard = Guard::ALWAYS_UNIFORM;
    }
}

fn registers(text: &str) -> Result<(Register, u8), String> {
    let one = |name: &str| {
        let found = Register::from_name(name.trim());
        found.ok_or_else(|| format!("'{name}' is not a register"))
    };
    let Some((first, last)) = text.split_once("..") else {
        return Ok((one(text)?, 1));
    };
    let (first, last) = (one(first)?, one(last)?);
    if first.class != last.class || last.index < first.index || last.is_constant() {
        return Err(format!("'{text}' is not a run of registers"));
    }
    Ok((first, last.index - first.index + 1))
}

fn pair(to: &str, from: &str) -> Result<Run, String> {
    let ((to, count), (from, read)) = (registers(to)?, registers(from)?);
    if count != read && !from.is_constant() {
        return Err("the runs have different lengths".to_owned());
    }
    Ok(Run { to, from, count })
}

fn copy(text: &str) -> Result<Run, String> {
    let (to, from) = text
        .split_once("<-")
        .ok_or_else(|| format!("'{text}' is not a copy"))?;
    pair(to, from)
}

/// Reads an instruction; a label becomes a fixup.
fn instruction(
    stream: &mut Stream,
    text: &str,
    data: &mut NodeData,
) -> Result<Instruction, String> {
    let parsed = parse_instruction(text, 0, stream.target).map_err(|error| error.to_string())?;
    if let Some((label, _)) = parsed.label {
        let places = parsed.instruction.form().places;
        let slot = places
            .iter()
            .position(|place| matches!(place.kind, PlaceKind::Target { .. }))
            .unwrap_or(0);
        let to = match block(&label) {
            Some(segment) => Reference::Block(segment),
            None => Reference::Symbol {
                name: stream.name(&label),
                part: SymbolPart::Whole,
                addend: 0,
            },
        };
        data.fixups.push(Fixup {
            slot: slot as u8,
            to,
        });
    }
    Ok(parsed.instruction)
}

/// `d={R4,R5}/1+1`
fn read_group(text: &str, instruction: Instruction) -> Result<Pseudo, String> {
    let wrong = || format!("'{text}' is not SLOT={{REGISTERS}}");
    let (name, rest) = text.split_once("={").ok_or_else(wrong)?;
    let (list, pieces) = rest.split_once('}').ok_or_else(wrong)?;
    let op = instruction.op();
    let slot = op
        .row()
        .slot_index_of_text(name)
        .ok_or_else(|| format!("{op} has no operand '{name}'"))?;
    let mut group = Vec::new();
    for name in list.split(',').filter(|name| !name.is_empty()) {
        group.push(Register::from_name(name).ok_or_else(wrong)?);
    }
    let mut counts = Vec::new();
    if let Some(pieces) = pieces.strip_prefix('/') {
        for piece in pieces.split('+') {
            counts.push(piece.parse().map_err(|_| wrong())?);
        }
    }
    Ok(Pseudo::Group {
        instruction,
        slot: slot as u8,
        registers: group,
        pieces: counts,
    })
}

fn reference(stream: &mut Stream, text: &str) -> Result<Reference, String> {
    if text == "return" {
        return Ok(Reference::Return);
    }
    if let Some(segment) = block(text) {
        return Ok(Reference::Block(segment));
    }
    let wrong = || format!("'{text}' is not a reference");
    let (part, rest) = text.split_once('(').ok_or_else(wrong)?;
    let part = PARTS.iter().find(|(_, name)| *name == part);
    let (part, _) = part.ok_or_else(wrong)?;
    let inner = rest.strip_suffix(')').ok_or_else(wrong)?;
    let (name, addend) = match inner.rfind(['+', '-']).filter(|&at| at > 0) {
        Some(at) => (&inner[..at], inner[at..].parse().map_err(|_| wrong())?),
        None => (inner, 0),
    };
    Ok(Reference::Symbol {
        name: stream.name(name),
        part: *part,
        addend,
    })
}

/// What stands behind the semicolon; the targets of an indirect branch come back.
fn annotations(
    stream: &mut Stream,
    notes: &str,
    data: &mut NodeData,
) -> Result<Option<String>, String> {
    let mut indirect = None;
    let mut schedule = Schedule {
        known: data.schedule.known,
        ..Schedule::default()
    };
    for word in notes.split_whitespace() {
        if let Some((origin, _)) = ORIGINS.iter().find(|(_, name)| *name == word) {
            data.origin = *origin;
        } else if word == "!barrier" {
            schedule.barrier_needed = true;
        } else if let Some(cycles) = word.strip_prefix("!stall=") {
            schedule.penalty = cycles
                .parse()
                .map_err(|_| format!("'{cycles}' is not a number of cycles"))?;
        } else if let Some(list) = word.strip_prefix("indirect=") {
            indirect = Some(list.to_owned());
        } else if let Some((name, to)) = word.split_once('=') {
            let op = match &data.body {
                Body::Machine(instruction) | Body::Pseudo(Pseudo::Group { instruction, .. }) => {
                    instruction.op()
                }
                Body::Boundary | Body::Pseudo(_) => {
                    return Err(format!("'{word}' does not belong here"));
                }
            };
            let slot = op
                .row()
                .slot_index_of_text(name)
                .ok_or_else(|| format!("{op} has no operand '{name}'"))?;
            let to = reference(stream, to)?;
            data.fixups.push(Fixup {
                slot: slot as u8,
                to,
            });
        } else {
            return Err(format!("'{word}' does not belong here"));
        }
    }
    data.schedule = schedule;
    Ok(indirect)
}
