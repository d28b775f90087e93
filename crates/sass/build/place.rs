//! Fields, places and the attributes of a slot.

/// A field of the word: runs of bits, least significant first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Field(pub Vec<(u8, u8)>);

impl Field {
    pub fn one(at: u8, len: u8) -> Field {
        Field(vec![(at, len)])
    }

    pub fn len(&self) -> u32 {
        self.0.iter().map(|run| u32::from(run.1)).sum()
    }

    /// Its bits in the word, the least significant first.
    pub fn positions(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|&(at, len)| at..at + len)
    }

    pub fn mask(&self) -> u128 {
        self.0
            .iter()
            .fold(0, |mask, (at, len)| mask | ((1u128 << len) - 1) << at)
    }

    /// `pos`, `pos:len` or several joined by `+`; `default` is the length where none is written.
    pub fn parse(text: &str, default: u8) -> Result<Field, String> {
        let mut runs = Vec::new();
        for run in text.split('+') {
            let (at, len) = match run.split_once(':') {
                Some((at, len)) => (number(at)?, number(len)?),
                None => (number(run)?, default),
            };
            if len == 0 || u32::from(at) + u32::from(len) > 128 {
                return Err(format!("'{run}' is not a run of bits of a 128-bit word"));
            }
            runs.push((at, len));
        }
        if runs.len() > 3 {
            return Err(format!("'{text}' has more than three runs"));
        }
        Ok(Field(runs))
    }

    pub fn rust(&self) -> String {
        let mut runs = self.0.clone();
        runs.resize(3, (0, 0));
        format!("Field {{ runs: {runs:?} }}")
    }
}

fn number(text: &str) -> Result<u8, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a bit number"))
}

/// A register class's name and the length of its index.
const CLASSES: &[(&str, u8)] = &[("UR", 6), ("UP", 3), ("R", 8), ("P", 3), ("B", 4)];

/// Immediates: the letter of the notation and the name of the format.
const IMMEDIATES: &[(&str, &str)] = &[
    ("GSB", "GroupScoreboard"),
    ("BS", "ScoreboardSet"),
    ("SB", "Scoreboard"),
    ("S", "Signed"),
    ("U", "Unsigned"),
    ("N", "Decimal"),
    ("F", "F32"),
    ("D", "F64High"),
    ("H", "F16x2"),
    ("T", "Bf16x2"),
    ("h", "F16"),
    ("t", "Bf16"),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    pub class: &'static str,
    pub field: Field,
    pub kind: &'static str,
    pub width: u8,
    pub scale: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Register {
        class: &'static str,
        field: Field,
        complemented: bool,
    },
    Immediate {
        field: Field,
        format: &'static str,
    },
    Constant {
        bank: Field,
        handle: Option<Field>,
        index: Option<(&'static str, Field)>,
        offset: Field,
        signed: bool,
        scale: u8,
        spaced: bool,
    },
    Address {
        base: Option<Base>,
        uniform: Option<Field>,
        uniform_width: u8,
        hide_urz: bool,
        descriptor: Option<Field>,
        /// The descriptor is the register after the one another slot has in the same field.
        tied: bool,
        offset: Field,
        signed_alone: bool,
    },
    /// A matrix descriptor, and how many registers of it are not read.
    Descriptor(Field, u8),
    Target {
        field: Field,
        scale: u8,
        relative: bool,
        absolute: bool,
    },
    Special(Field),
}

impl Kind {
    /// Its fields.
    fn fields(&self) -> Vec<&Field> {
        match self {
            Kind::Register { field, .. }
            | Kind::Immediate { field, .. }
            | Kind::Descriptor(field, _)
            | Kind::Target { field, .. }
            | Kind::Special(field) => vec![field],
            Kind::Constant {
                bank,
                handle,
                index,
                offset,
                ..
            } => [Some(bank), Some(offset), handle.as_ref()]
                .into_iter()
                .chain([index.as_ref().map(|(_, field)| field)])
                .flatten()
                .collect(),
            Kind::Address {
                base,
                uniform,
                descriptor,
                tied,
                offset,
                ..
            } => [Some(offset), base.as_ref().map(|base| &base.field)]
                .into_iter()
                .chain([uniform.as_ref(), descriptor.as_ref().filter(|_| !tied)])
                .flatten()
                .collect(),
        }
    }

    pub fn mask(&self) -> u128 {
        self.fields()
            .iter()
            .fold(0, |mask, field| mask | field.mask())
    }

    /// How many bits all its fields have, to notice fields of one place that overlap.
    pub fn bits(&self) -> u32 {
        self.fields().iter().map(|field| field.len()).sum()
    }

    /// Whether the operand can be cached for reuse.
    pub fn reusable(&self) -> bool {
        matches!(self, Kind::Register { class: "R", .. })
    }

    /// Reads a concrete place.
    pub fn parse(text: &str) -> Result<Kind, String> {
        if let Some(inner) = text
            .strip_prefix("gdesc[")
            .and_then(|t| t.strip_suffix(']'))
        {
            let (inner, skip) = match inner.rsplit_once('+') {
                Some((inner, skip)) => (inner, number(skip)?),
                None => (inner, 0),
            };
            let (_, field) = register(inner, "UR")?;
            return Ok(Kind::Descriptor(field, skip));
        }
        if text.starts_with('[') || text.starts_with("desc[") {
            return address(text);
        }
        if text.starts_with("c[") || text.starts_with("cx[") {
            return constant(text);
        }
        if let Some(rest) = text.strip_prefix("SR") {
            return Ok(Kind::Special(Field::parse(rest, 8)?));
        }
        if let Some(rest) = text.strip_prefix('J') {
            let (rest, relative, absolute) = match rest.strip_prefix(['R', 'A']) {
                Some(after) => (after, true, rest.starts_with('A')),
                None => (rest, false, false),
            };
            let (field, scale) = match rest.split_once('*') {
                Some((field, scale)) => (field, number(scale)?),
                None => (rest, 1),
            };
            return Ok(Kind::Target {
                field: Field::parse(field, 32)?,
                scale,
                relative,
                absolute,
            });
        }
        let digits = text
            .find(|c: char| c.is_ascii_digit())
            .ok_or_else(|| format!("'{text}' is not a place"))?;
        let (letters, rest) = text.split_at(digits);
        let (class_name, complemented) = match letters.strip_prefix('n') {
            Some(name) => (name, true),
            None => (letters, false),
        };
        if let Some((class, bits)) = CLASSES.iter().find(|(name, _)| *name == class_name) {
            return Ok(Kind::Register {
                class,
                field: Field::parse(rest, *bits)?,
                complemented,
            });
        }
        if let Some((_, format)) = IMMEDIATES.iter().find(|(name, _)| *name == letters) {
            return Ok(Kind::Immediate {
                field: Field::parse(rest, 32)?,
                format,
            });
        }
        Err(format!("'{letters}' is not a kind of place"))
    }
}

/// The format named by one letter in `imm=`.
pub fn immediate_format(letter: &str) -> Result<&'static str, String> {
    IMMEDIATES
        .iter()
        .find(|(name, _)| *name == letter)
        .map(|(_, format)| *format)
        .ok_or_else(|| format!("'{letter}' is not an immediate format"))
}

/// How many bits from 32 on an immediate of a flexible source has.
pub fn immediate_bits(format: &str) -> u8 {
    match format {
        "F16" | "Bf16" => 16,
        _ => 32,
    }
}

fn register(text: &str, expected: &str) -> Result<(&'static str, Field), String> {
    let digits = text
        .find(|c: char| c.is_ascii_digit())
        .ok_or_else(|| format!("'{text}' is not a register place"))?;
    let (letters, rest) = text.split_at(digits);
    let (class, bits) = CLASSES
        .iter()
        .find(|(name, _)| *name == letters)
        .ok_or_else(|| format!("'{letters}' is not a register class"))?;
    if !expected.is_empty() && *class != expected {
        return Err(format!(
            "expected a place of class {expected}, not '{text}'"
        ));
    }
    Ok((class, Field::parse(rest, *bits)?))
}

/// `[R24.64{scale}+UR32+S40:24]`, with `desc[UR32]` before it; `*n` after a register: it is read as n registers. A lone
/// `desc[UR32]` is a cache policy; `desc[UR32+1]` is the register after another slot's `UR32`.
fn address(text: &str) -> Result<Kind, String> {
    let malformed = || format!("'{text}' is not an address place");
    let (descriptor, tied, rest) = match text.strip_prefix("desc[") {
        Some(rest) => {
            let (inner, rest) = rest.split_once(']').ok_or_else(malformed)?;
            let (inner, tied) = match inner.strip_suffix("+1") {
                Some(inner) => (inner, true),
                None => (inner, false),
            };
            (Some(register(inner, "UR")?.1), tied, rest)
        }
        None => (None, false, text),
    };
    if rest.is_empty() && descriptor.is_some() {
        return Ok(Kind::Address {
            base: None,
            uniform: None,
            uniform_width: 1,
            descriptor,
            tied,
            hide_urz: false,
            signed_alone: false,
            offset: Field::default(),
        });
    }
    let inner = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or_else(malformed)?;
    let mut base = None;
    let mut uniform = None;
    let mut uniform_width = 1;
    let mut hide_urz = false;
    let mut offset = Field::default();
    let mut signed_alone = false;
    for part in split_parts(inner) {
        if let Some(field) = part.strip_prefix(['S', 's']) {
            offset = Field::parse(field, 24)?;
            signed_alone = part.starts_with('s');
            continue;
        }
        let part = match part.strip_suffix('?') {
            Some(part) => {
                hide_urz = true;
                part
            }
            None => part,
        };
        let (part, scale) = match part.split_once('{') {
            Some((before, after)) => {
                let (name, after) = after.split_once('}').ok_or_else(malformed)?;
                (format!("{before}{after}"), Some(name.to_owned()))
            }
            None => (part.to_owned(), None),
        };
        let (part, width) = match part.split_once('*') {
            Some((before, width)) => (before.to_owned(), Some(number(width)?)),
            None => (part, None),
        };
        let (part, kind) = match part.split_once('.') {
            Some((before, "64")) => (before.to_owned(), "Wide"),
            Some((before, "U32")) => (before.to_owned(), "Zero"),
            Some(_) => return Err(malformed()),
            None => (part, "Plain"),
        };
        let (class, field) = register(&part, "")?;
        if class == "UR" {
            if uniform.replace(field).is_some() || kind != "Plain" || scale.is_some() {
                return Err(malformed());
            }
            uniform_width = width.unwrap_or(1);
        } else {
            let width = width.unwrap_or(if kind == "Wide" { 2 } else { 1 });
            let place = Base {
                class,
                field,
                kind,
                width,
                scale,
            };
            if base.replace(place).is_some() {
                return Err(malformed());
            }
        }
    }
    Ok(Kind::Address {
        base,
        uniform,
        uniform_width,
        hide_urz,
        descriptor,
        tied,
        offset,
        signed_alone,
    })
}

/// Splits at `+` where a register or an offset starts, not inside a field of several runs.
fn split_parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices('+') {
        if text[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// `c[54:5][38:16]`, `c[54:5][R24+S38:16]`, `cx[UR32][S40:14*4]`.
fn constant(text: &str) -> Result<Kind, String> {
    let malformed = || format!("'{text}' is not a constant place");
    let (bank, rest) = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .ok_or_else(malformed)?;
    let inner = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or_else(malformed)?;
    let (bank, handle) = if text.starts_with("cx") {
        (Field::default(), Some(register(bank, "UR")?.1))
    } else {
        (Field::parse(bank, 5)?, None)
    };
    let mut index = None;
    let mut offset = Field::default();
    let mut signed = false;
    let mut scale = 1;
    for part in split_parts(inner) {
        let part = match part.split_once('*') {
            Some((part, factor)) => {
                scale = number(factor)?;
                part
            }
            None => part,
        };
        if part.starts_with(|c: char| c.is_ascii_digit()) {
            offset = Field::parse(part, 16)?;
        } else if let Some(field) = part.strip_prefix('S') {
            offset = Field::parse(field, 16)?;
            signed = true;
        } else {
            index = Some(register(part, "")?);
        }
    }
    Ok(Kind::Constant {
        bank,
        handle,
        index,
        offset,
        signed,
        scale,
        spaced: false,
    })
}
