//! A reader of what a debugger reads: DWARF 2, the vendor's table of registers, and frame rules.

use orias_cubin::{Body, Cubin};

pub const TAG_SUBPROGRAM: u64 = 0x2e;
pub const TAG_LEXICAL_BLOCK: u64 = 0x0b;
pub const TAG_VARIABLE: u64 = 0x34;
pub const TAG_PARAMETER: u64 = 0x05;
pub const TAG_BASE_TYPE: u64 = 0x24;
pub const TAG_MEMBER: u64 = 0x0d;
pub const TAG_SUBRANGE: u64 = 0x21;
pub const AT_LOCATION: u64 = 0x02;
pub const AT_NAME: u64 = 0x03;
pub const AT_BYTE_SIZE: u64 = 0x0b;
pub const AT_LOW_PC: u64 = 0x11;
pub const AT_HIGH_PC: u64 = 0x12;
pub const AT_MEMBER_LOCATION: u64 = 0x38;
pub const AT_ENCODING: u64 = 0x3e;
pub const AT_TYPE: u64 = 0x49;
pub const AT_ADDRESS_CLASS: u64 = 0x33;
pub const AT_LINKAGE_NAME: u64 = 0x2007;

/// Bytes that are read from the front.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn number(&mut self, bytes: usize) -> u64 {
        let (front, rest) = self.0.split_at(bytes);
        self.0 = rest;
        front
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    }

    pub fn uleb(&mut self) -> u128 {
        let mut value = 0;
        for digit in 0.. {
            let byte = self.number(1);
            value |= u128::from(byte & 0x7f) << (7 * digit);
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    pub fn sleb(&mut self) -> i64 {
        let before = self.0.len();
        let value = self.uleb() as u64;
        let bits = 7 * (before - self.0.len()) as u32;
        let unused = 64_u32.saturating_sub(bits);
        (value << unused) as i64 >> unused
    }

    pub fn text(&mut self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0).expect("a zero");
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        text
    }

    fn block(&mut self, length: usize) -> Vec<u8> {
        let (front, rest) = self.0.split_at(length);
        self.0 = rest;
        front.to_vec()
    }
}

#[derive(Clone, Debug)]
pub enum Value {
    Number(u64),
    Block(Vec<u8>),
    Text(String),
}

/// An entry of `.debug_info`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub offset: u64,
    pub tag: u64,
    pub attributes: Vec<(u64, Value)>,
    pub children: Vec<Entry>,
}

impl Entry {
    pub fn get(&self, attribute: u64) -> Option<&Value> {
        let mut attributes = self.attributes.iter();
        attributes
            .find(|(it, _)| *it == attribute)
            .map(|(_, value)| value)
    }

    pub fn number(&self, attribute: u64) -> Option<u64> {
        match self.get(attribute)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn text(&self, attribute: u64) -> &str {
        match self.get(attribute) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether it covers an address.
    pub fn covers(&self, address: u64) -> bool {
        match (self.number(AT_LOW_PC), self.number(AT_HIGH_PC)) {
            (Some(low), Some(high)) => (low..high).contains(&address),
            _ => false,
        }
    }

    pub fn find(&self, offset: u64) -> Option<&Entry> {
        if self.offset == offset {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(offset))
    }
}

pub fn section<'a>(cubin: &'a Cubin, name: &str) -> &'a [u8] {
    let section = cubin.section(name);
    section
        .and_then(|section| section.bytes())
        .unwrap_or_default()
}

/// Every relocation of a section: where, against which symbol, and what is added.
pub fn relocations(cubin: &Cubin, name: &str) -> Vec<(u64, String, i64)> {
    let index = cubin.section_index(name);
    let mut found = Vec::new();
    for section in &cubin.sections {
        if let Body::Relocations(list) = &section.body
            && Some(section.info as usize) == index
        {
            for one in list {
                let symbol = &cubin.symbols()[one.symbol as usize];
                found.push((one.offset, symbol.name.text.clone(), one.addend));
            }
        }
    }
    found
}

/// The first unit of a cubin.
pub fn unit(cubin: &Cubin) -> Entry {
    let info = section(cubin, ".debug_info");
    let mut reader = Reader(info);
    let length = reader.number(4) as usize;
    assert_eq!(length + 4, info.len(), "one unit fills the section");
    assert_eq!(reader.number(2), 2, "version");
    let abbreviations = reader.number(4) as usize;
    assert_eq!(reader.number(1), 8, "size of an address");
    let shapes = shapes(&section(cubin, ".debug_abbrev")[abbreviations..]);
    entries(info.len(), &mut reader, &shapes)
        .into_iter()
        .next()
        .expect("a unit")
}

struct Shape {
    code: u128,
    tag: u64,
    children: bool,
    attributes: Vec<(u64, u64)>,
}

fn shapes(bytes: &[u8]) -> Vec<Shape> {
    let mut reader = Reader(bytes);
    let mut shapes = Vec::new();
    loop {
        let code = reader.uleb();
        if code == 0 {
            return shapes;
        }
        let tag = reader.uleb() as u64;
        let children = reader.number(1) == 1;
        let mut attributes = Vec::new();
        loop {
            let pair = (reader.uleb() as u64, reader.uleb() as u64);
            if pair == (0, 0) {
                break;
            }
            attributes.push(pair);
        }
        shapes.push(Shape {
            code,
            tag,
            children,
            attributes,
        });
    }
}

fn entries(whole: usize, reader: &mut Reader<'_>, shapes: &[Shape]) -> Vec<Entry> {
    let mut list = Vec::new();
    while !reader.0.is_empty() {
        let offset = (whole - reader.0.len()) as u64;
        let code = reader.uleb();
        if code == 0 {
            break;
        }
        let shape = shapes.iter().find(|shape| shape.code == code);
        let shape = shape.expect("a known abbreviation");
        let attributes = (shape.attributes.iter())
            .map(|&(name, form)| {
                let value = match form {
                    0x01 | 0x07 => Value::Number(reader.number(8)),
                    0x05 => Value::Number(reader.number(2)),
                    0x06 | 0x13 | 0x0e => Value::Number(reader.number(4)),
                    0x0b | 0x0c => Value::Number(reader.number(1)),
                    0x0d => Value::Number(reader.sleb() as u64),
                    0x0f => Value::Number(reader.uleb() as u64),
                    0x08 => Value::Text(reader.text()),
                    0x0a => {
                        let length = reader.number(1) as usize;
                        Value::Block(reader.block(length))
                    }
                    other => panic!("form {other:#x}"),
                };
                (name, value)
            })
            .collect();
        let children = match shape.children {
            true => entries(whole, reader, shapes),
            false => Vec::new(),
        };
        list.push(Entry {
            offset,
            tag: shape.tag,
            attributes,
            children,
        });
    }
    list
}

/// Where a word of a PTX register lies, and from which address of its function to which.
#[derive(Clone, Debug)]
pub struct Placed {
    pub word: u64,
    pub name: String,
    pub place: u64,
    pub start: u64,
    pub end: u64,
}

/// The table of registers, by function.
pub fn registers(cubin: &Cubin) -> Vec<(String, Vec<Placed>)> {
    let mut reader = Reader(section(cubin, ".nv_debug_info_reg_sass"));
    let mut types = Reader(section(cubin, ".nv_debug_info_reg_type"));
    let mut functions = Vec::new();
    while !reader.0.is_empty() {
        let name = reader.text();
        let count = reader.number(4);
        assert_eq!(types.text(), name, "both tables name the same functions");
        assert_eq!(types.number(4), count, "as often");
        let list = (0..count)
            .map(|_| {
                assert!(types.number(1) <= 0x11, "a type of one element");
                Placed {
                    word: reader.number(4),
                    name: reader.text(),
                    place: reader.number(4),
                    start: reader.number(4),
                    end: reader.number(4),
                }
            })
            .collect();
        functions.push((name, list));
    }
    assert!(types.0.is_empty());
    functions
}

/// What the frame rules say at an address.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The register with the return address.
    pub returns_by: u64,
    /// Bytes from the stack pointer to the frame's upper end.
    pub size: u64,
    /// Registers that are stored, and how far below that end.
    pub stored: Vec<(u64, u64)>,
    /// Registers that lie in others.
    pub moved: Vec<(u64, u64)>,
    /// Registers that lie nowhere.
    pub lost: Vec<u64>,
}

impl Frame {
    fn forget(&mut self, register: u64) {
        self.stored.retain(|(it, _)| *it != register);
        self.moved.retain(|(it, _)| *it != register);
        self.lost.retain(|it| *it != register);
    }
}

pub fn frame_at(cubin: &Cubin, address: u64) -> Option<Frame> {
    let whole = section(cubin, ".debug_frame");
    let starts = relocations(cubin, ".debug_frame");
    let mut reader = Reader(whole);
    while !reader.0.is_empty() {
        assert_eq!(reader.number(4), 0xffff_ffff, "64-bit DWARF");
        let length = reader.number(8) as usize;
        let at = whole.len() - reader.0.len();
        let mut entry = Reader(&reader.0[..length]);
        reader.0 = &reader.0[length..];
        let common = entry.number(8);
        if common == u64::MAX {
            continue;
        }
        let start = starts.iter().find(|(offset, ..)| *offset == at as u64 + 8);
        let start = start.map_or(0, |(_, _, addend)| *addend as u64);
        entry.number(8);
        let size = entry.number(8);
        if !(start..start + size).contains(&address) {
            continue;
        }
        let mut frame = Frame::default();
        let mut first = Reader(&whole[common as usize + 12 + 8..]);
        assert_eq!((first.number(1), first.number(1)), (3, 0));
        assert_eq!((first.uleb(), first.sleb()), (4, -4), "alignments");
        frame.returns_by = first.uleb() as u64;
        let mut now = start;
        while !entry.0.is_empty() && now <= address {
            match entry.number(1) {
                0x00 => {}
                0x04 => {
                    now += entry.number(4) * 4;
                    if now > address {
                        break;
                    }
                }
                0x05 => {
                    let register = entry.uleb() as u64 & 0xff;
                    let below = entry.uleb() as u64 * 4;
                    frame.forget(register);
                    frame.stored.push((register, below));
                }
                0x06 => {
                    let register = entry.uleb() as u64 & 0xff;
                    frame.forget(register);
                }
                0x07 => {
                    let register = entry.uleb() as u64 & 0xff;
                    frame.forget(register);
                    frame.lost.push(register);
                }
                0x09 => {
                    let register = entry.uleb() as u64 & 0xff;
                    let other = entry.uleb() as u64 & 0xff;
                    frame.forget(register);
                    frame.moved.push((register, other));
                }
                0x0c => {
                    assert_eq!(entry.uleb(), 0x0500_0001, "the stack pointer");
                    frame.size = entry.uleb() as u64;
                }
                other => panic!("frame operation {other:#x}"),
            }
        }
        return Some(frame);
    }
    None
}
