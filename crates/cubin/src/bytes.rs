//! Little-endian reading with bounds checks, and writing.

use crate::error::{Error, ErrorKind, Result};

/// A range of the file that is read from front to back.
///
/// It knows where in the file it lies, so that every error names the byte.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
}

impl<'a> Cursor<'a> {
    /// Reads `bytes`, which start at file offset `base`.
    pub(crate) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, at: 0, base }
    }

    /// The file offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// The next `count` bytes, which hold `what`.
    pub(crate) fn take(&mut self, count: u64, what: &'static str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let truncated = Error::at(
            self.offset(),
            ErrorKind::Truncated {
                what,
                needed: count,
                left: rest.len() as u64,
            },
        );
        let count = usize::try_from(count).map_err(|_| truncated.clone())?;
        let taken = rest.get(..count).ok_or(truncated)?;
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }
}

/// Appends little-endian numbers.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}

/// `value` rounded up to a multiple of `align`; 0 and 1 both mean no alignment. Saturates instead of wrapping.
pub(crate) fn align_up(value: u64, align: u64) -> u64 {
    if align <= 1 {
        value
    } else {
        value.div_ceil(align).saturating_mul(align)
    }
}
