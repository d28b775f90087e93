//! MercEncodeAndDecode (117), and the words it leaves for emission.
//!
//! Every instruction is encoded, decoded again and compared with what was meant, control field included: a difference is an error of
//! the tables, found here rather than on the chip. Emission asks for the same instructions again, and instructions repeat themselves: so a
//! word that was compared once is kept under the FNV-1a hash of what it stands for, and is not decoded again. (Two instructions of one
//! hash have two words, and only one of them is kept.)

use crate::error::EmitError;
use crate::stream::{Node, Stream};
use orias_sass::{self as sass, Instruction, Target};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// FNV-1a with 64 bits: a multiplication for each piece that is hashed.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Fnv {
    fn take(&mut self, piece: u64) {
        self.0 = (self.0 ^ piece).wrapping_mul(PRIME);
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.take(u64::from(byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.take(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.take(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.take(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.take(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.take(number as u64);
    }
}

/// Takes a number that is a hash already for its hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Words that read as what they stand for.
#[derive(Clone, Debug)]
pub struct EncodingCache {
    words: Option<HashMap<u64, u128, BuildHasherDefault<Hashed>>>,
    /// How often a word was found.
    pub hits: usize,
    /// How often it was made.
    pub misses: usize,
}

impl Default for EncodingCache {
    fn default() -> EncodingCache {
        EncodingCache {
            words: Some(HashMap::default()),
            hits: 0,
            misses: 0,
        }
    }
}

impl EncodingCache {
    /// A cache that keeps nothing: everything is encoded and compared each time.
    pub fn off() -> EncodingCache {
        EncodingCache {
            words: None,
            ..EncodingCache::default()
        }
    }

    /// Makes room for so many words.
    fn expect(&mut self, count: usize) {
        if let Some(words) = &mut self.words {
            words.reserve(count);
        }
    }

    /// The word of an instruction, compared with it.
    pub(crate) fn word(
        &mut self,
        instruction: &Instruction,
        target: Target,
    ) -> Result<u128, CacheError> {
        let word = sass::encode(instruction).map_err(CacheError::Encode)?;
        let mut hasher = Fnv::default();
        if self.words.is_some() {
            instruction.hash(&mut hasher);
        }
        let hash = hasher.finish();
        if self.words.as_ref().and_then(|words| words.get(&hash)) == Some(&word) {
            self.hits += 1;
            return Ok(word);
        }
        self.misses += 1;
        if sass::decode(word, target).as_ref() != Ok(instruction) {
            return Err(CacheError::Mismatch(word));
        }
        if let Some(words) = &mut self.words {
            words.insert(hash, word);
        }
        Ok(word)
    }
}

/// Why an instruction has no word.
pub(crate) enum CacheError {
    Encode(sass::EncodeError),
    Mismatch(u128),
}

impl CacheError {
    pub(crate) fn at(self, stream: &Stream, node: Node, offset: usize) -> EmitError {
        let function = stream.name.clone();
        let inst = stream.print_node(node);
        match self {
            CacheError::Encode(error) => EmitError::Encode {
                function,
                offset,
                inst,
                error,
            },
            CacheError::Mismatch(word) => EmitError::Mismatch {
                function,
                inst,
                word,
            },
        }
    }
}

/// Runs phase 117: every instruction of the stream is encoded, decoded and compared.
pub fn encode_and_decode(stream: &mut Stream, cache: &mut EncodingCache) -> Result<(), EmitError> {
    cache.expect(stream.node_count());
    for segment in stream.segments() {
        let mut at = stream.first(segment);
        let end = stream.end(segment);
        while at != end {
            stream.note("ENCODING", at);
            if let Some(instruction) = stream.node(at).instruction() {
                cache
                    .word(instruction, stream.target)
                    .map_err(|error| error.at(stream, at, 0))?;
            }
            at = stream.next(at).unwrap_or(end);
        }
    }
    Ok(())
}
