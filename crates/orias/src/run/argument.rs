//! Arguments of a launch, and how they are written.
//!
//! | written | means |
//! | --- | --- |
//! | `i32:7`, `f32:0.5`, `u64:0x10` | a scalar; `0x` gives the bits of any type |
//! | `bytes:01020304` | a parameter by its bytes, lowest address first |
//! | `buf:f32:1024` | a buffer of zeros |
//! | `buf:f32:1024:rand` | random numbers: of [-1, 1) for floating point, of all bits for integers; `rand:SEED` gives others |
//! | `buf:i32:1024:index` | 0, 1, 2, … |
//! | `buf:i32:1024:fill:-1` | one value |
//! | `buf:i32:[1,2,3]` | these values |
//! | `buf:@in.bin`, `buf:f32:@in.bin` | the bytes of a file |
//!
//! Textures, samplers and surfaces are in `image`.

use super::element::Element;
use super::image;
use orias_eval::texture::What;
use orias_random::Rng;

/// Bytes a buffer has at most.
pub(super) const LARGEST_BUFFER: u64 = 1 << 32;

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A buffer in global memory; the kernel gets its address.
    Buffer {
        /// The type of its elements.
        element: Element,
        /// What it holds before the launch.
        bytes: Vec<u8>,
    },
    /// A texture, sampler or surface; the kernel gets its handle.
    Image {
        /// What it is.
        what: What,
        /// The type of its channels.
        element: Element,
        /// What it holds before the launch.
        bytes: Vec<u8>,
    },
    /// A value.
    Scalar {
        /// Its bytes, little-endian.
        bytes: Vec<u8>,
    },
}

impl Argument {
    /// A buffer of given values.
    pub fn buffer(element: Element, bytes: Vec<u8>) -> Self {
        Self::Buffer { element, bytes }
    }

    /// The bytes of the value, or of the buffer's contents.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer { bytes, .. } | Self::Image { bytes, .. } | Self::Scalar { bytes } => {
                bytes
            }
        }
    }

    /// The type of what it holds, where a kernel can change that.
    pub fn changed(&self) -> Option<Element> {
        match self {
            Self::Buffer { element, .. }
            | Self::Image {
                what: What::Surface(_),
                element,
                ..
            } => Some(*element),
            _ => None,
        }
    }

    /// Reads an argument as written on the command line.
    ///
    /// # Errors
    /// It is not understood, or the file it names cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_within(text, LARGEST_BUFFER)
    }

    /// The same, with buffers of at most so many bytes.
    ///
    /// # Errors
    /// It is not understood, it is larger, or the file it names cannot be read.
    pub fn parse_within(text: &str, most: u64) -> Result<Self, String> {
        let understood = || format!("'{text}' is no argument: write TYPE:VALUE or buf:TYPE:COUNT");
        let (head, rest) = text.split_once(':').ok_or_else(understood)?;
        match head {
            "buf" => buffer(rest, most).map_err(|why| format!("'{text}': {why}")),
            "tex" | "surf" => {
                image::image(rest, head == "surf", most).map_err(|why| format!("'{text}': {why}"))
            }
            "sampler" => image::sampler(rest).map_err(|why| format!("'{text}': {why}")),
            "bytes" => hexadecimal(rest)
                .map(|bytes| Self::Scalar { bytes })
                .ok_or_else(|| format!("'{text}': bytes are pairs of hexadecimal digits")),
            name => {
                let element = Element::from_name(name).ok_or_else(understood)?;
                let bytes = element.parse(rest)?;
                Ok(Self::Scalar { bytes })
            }
        }
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

pub(super) fn buffer(text: &str, most: u64) -> Result<Argument, String> {
    if let Some(file) = text.strip_prefix('@') {
        return file_buffer(Element::U8, file);
    }
    let (name, rest) = text.split_once(':').ok_or("write buf:TYPE:COUNT")?;
    let element = Element::from_name(name).ok_or_else(|| format!("'{name}' is no type"))?;
    if let Some(file) = rest.strip_prefix('@') {
        return file_buffer(element, file);
    }
    if let Some(list) = rest.strip_prefix('[') {
        let list = list.strip_suffix(']').ok_or("a list ends with ]")?;
        let mut bytes = Vec::new();
        for value in list.split(',').filter(|value| !value.is_empty()) {
            bytes.extend(element.parse(value.trim())?);
        }
        return Ok(Argument::buffer(element, bytes));
    }
    let mut words = rest.split(':');
    let count = words.next().unwrap_or_default();
    let count: u64 = count
        .parse()
        .map_err(|_| format!("'{count}' is no count"))?;
    if count.saturating_mul(element.bytes() as u64) > most {
        return Err(format!("a buffer has at most {} MiB", most >> 20));
    }
    let words: Vec<&str> = words.collect();
    let bytes: Vec<u8> = match words[..] {
        [] | ["zero"] => vec![0; count as usize * element.bytes()],
        ["rand"] => random(element, count, 0),
        ["rand", seed] => {
            let seed = seed.parse().map_err(|_| format!("'{seed}' is no seed"))?;
            random(element, count, seed)
        }
        ["index"] => (0..count)
            .flat_map(|at| {
                if element.is_float() {
                    element.from_f64(at as f64)
                } else {
                    element.from_bits(at)
                }
            })
            .collect(),
        ["fill", value] => element.parse(value)?.repeat(count as usize),
        _ => return Err("a buffer is filled by zero, rand, rand:SEED, index or fill:VALUE".into()),
    };
    Ok(Argument::buffer(element, bytes))
}

fn file_buffer(element: Element, file: &str) -> Result<Argument, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(Argument::buffer(element, bytes))
}

fn random(element: Element, count: u64, seed: u64) -> Vec<u8> {
    let mut words = Rng::new(seed);
    (0..count)
        .flat_map(|_| {
            let word = words.next_u64();
            if element.is_float() {
                element.from_f64((word >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
            } else {
                element.from_bits(word)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        Argument::parse(text).unwrap().bytes().to_vec()
    }

    #[test]
    fn arguments_are_read_in_every_form() {
        assert_eq!(bytes("i32:-1"), [0xff; 4]);
        assert_eq!(bytes("f32:0.5"), 0.5f32.to_le_bytes());
        assert_eq!(bytes("bytes:0a0B"), [10, 11]);
        assert_eq!(bytes("buf:u16:3"), [0; 6]);
        assert_eq!(bytes("buf:u16:3:index"), [0, 0, 1, 0, 2, 0]);
        assert_eq!(bytes("buf:f32:2:fill:1"), [1f32.to_le_bytes(); 2].concat());
        assert_eq!(bytes("buf:i16:[1, -1]"), [1, 0, 0xff, 0xff]);
        assert_eq!(bytes("buf:f64:5:rand"), bytes("buf:f64:5:rand:0"));
        assert_ne!(bytes("buf:f64:5:rand"), bytes("buf:f64:5:rand:1"));
        let random = Argument::parse("buf:f32:100:rand").unwrap();
        let values = random.bytes().chunks(4).map(|it| Element::F32.to_f64(it));
        assert!(values.into_iter().all(|it| (-1.0..1.0).contains(&it)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for text in [
            "7",
            "i33:7",
            "i32:x",
            "buf:i32",
            "buf:i32:x",
            "buf:i32:4:what",
            "buf:i32:[1",
            "bytes:0",
            "buf:f64:99999999999",
        ] {
            assert!(Argument::parse(text).is_err(), "{text}");
        }
        let missing = Argument::parse("buf:@does-not-exist").unwrap_err();
        assert!(missing.contains("does-not-exist"), "{missing}");
    }
}
