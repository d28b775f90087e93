//! Texels as bytes and as numbers.

use crate::float::{Format as Float, Overflow, Rounding, convert};

/// What a channel of a texel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// An integer without sign, of so many bytes.
    Unsigned(u8),
    /// An integer with sign, of so many bytes.
    Signed(u8),
    /// Half precision.
    Half,
    /// Single precision.
    Single,
}

impl Channel {
    /// Bytes it takes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Channel::Unsigned(bytes) | Channel::Signed(bytes) => bytes as u32,
            Channel::Half => 2,
            Channel::Single => 4,
        }
    }
}

/// What a texel consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    channel: Channel,
    count: u8,
    /// Whether integers are read as fractions of the largest.
    fractions: bool,
}

/// A number of one format in another.
fn converted(from: Float, to: Float, bits: u32) -> u32 {
    convert::to_format(from, bits.into(), to, Rounding::NearestEven, Overflow::Ieee) as u32
}

/// The bits of 1.
const ONE: u32 = 0x3f80_0000;

impl Format {
    /// Texels of one, two or four channels.
    ///
    /// # Errors
    /// Why there are none.
    pub fn new(channel: Channel, count: u8, fractions: bool) -> Result<Self, String> {
        if !matches!(count, 1 | 2 | 4) {
            return Err("a texel has 1, 2 or 4 channels".into());
        }
        let narrow = matches!(channel, Channel::Unsigned(1 | 2) | Channel::Signed(1 | 2));
        if fractions && !narrow {
            return Err("fractions are integers of 8 or 16 bits".into());
        }
        Ok(Self {
            channel,
            count,
            fractions,
        })
    }

    /// Its channels.
    #[must_use]
    pub const fn channel(self) -> Channel {
        self.channel
    }

    /// How many channels there are.
    #[must_use]
    pub const fn count(self) -> u8 {
        self.count
    }

    /// Bytes of a texel.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.channel.bytes() * self.count as u32
    }

    /// Whether texels are read as integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        !self.fractions && matches!(self.channel, Channel::Unsigned(_) | Channel::Signed(_))
    }

    /// The channels of a texel as words: integers, or the bits of singles.
    #[must_use]
    pub fn decode(self, texel: u128) -> [u32; 4] {
        let one = if self.is_integer() { 1 } else { ONE };
        let mut words = [0, 0, 0, one];
        let bits = 8 * self.channel.bytes();
        for (at, word) in (0u32..).zip(words.iter_mut().take(usize::from(self.count))) {
            let raw = (texel >> (at * bits)) as u32;
            *word = self.decode_channel(raw, bits);
        }
        words
    }

    fn decode_channel(self, raw: u32, bits: u32) -> u32 {
        let up = 32 - bits;
        let (unsigned, signed) = (raw << up >> up, (raw << up).cast_signed() >> up);
        let largest = |bits: u32| ((1u32 << bits) - 1) as f32;
        match self.channel {
            Channel::Unsigned(_) if self.fractions => (unsigned as f32 / largest(bits)).to_bits(),
            // The least number and the one above it are both -1.
            Channel::Signed(_) if self.fractions => {
                (signed as f32 / largest(bits - 1)).max(-1.0).to_bits()
            }
            Channel::Unsigned(_) => unsigned,
            Channel::Signed(_) => signed.cast_unsigned(),
            Channel::Half => converted(Float::F16, Float::F32, unsigned),
            Channel::Single => raw,
        }
    }

    /// The bytes of a texel whose channels are such words: integers are cut off at the largest and least there are. Channels that are not given are 0.
    #[must_use]
    pub fn encode(self, words: &[u32]) -> u128 {
        let bits = 8 * self.channel.bytes();
        let mask = u128::from(u32::MAX >> (32 - bits));
        let mut texel = 0;
        for (at, &word) in (0u32..).zip(words.iter().take(usize::from(self.count))) {
            texel |= (u128::from(self.encode_channel(word, bits)) & mask) << (at * bits);
        }
        texel
    }

    fn encode_channel(self, word: u32, bits: u32) -> u32 {
        let (most, least) = (i32::MAX >> (32 - bits), i32::MIN >> (32 - bits));
        match self.channel {
            Channel::Unsigned(_) => word.min(u32::MAX >> (32 - bits)),
            Channel::Signed(_) => word.cast_signed().clamp(least, most).cast_unsigned(),
            Channel::Half => converted(Float::F32, Float::F16, word),
            Channel::Single => word,
        }
    }

    /// The number that `txq` and `suq` have for the type of a channel: that of OpenCL.
    #[must_use]
    pub const fn channel_data_type(self) -> u32 {
        match (self.channel, self.fractions) {
            (Channel::Signed(1), true) => 0x10d0,
            (Channel::Signed(_), true) => 0x10d1,
            (Channel::Unsigned(1), true) => 0x10d2,
            (Channel::Unsigned(_), true) => 0x10d3,
            (Channel::Signed(1), false) => 0x10d7,
            (Channel::Signed(2), false) => 0x10d8,
            (Channel::Signed(_), false) => 0x10d9,
            (Channel::Unsigned(1), false) => 0x10da,
            (Channel::Unsigned(2), false) => 0x10db,
            (Channel::Unsigned(_), false) => 0x10dc,
            (Channel::Half, _) => 0x10dd,
            (Channel::Single, _) => 0x10de,
        }
    }

    /// The same for which channels there are.
    #[must_use]
    pub const fn channel_order(self) -> u32 {
        match self.count {
            1 => 0x10b0,
            2 => 0x10b2,
            _ => 0x10b5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_read_and_written() {
        let bytes = Format::new(Channel::Unsigned(1), 4, true).unwrap();
        let read = bytes.decode(0x8000_ff33).map(f32::from_bits);
        assert_eq!(read, [0.2, 1.0, 0.0, 128.0 / 255.0]);
        let signed = Format::new(Channel::Signed(2), 2, true).unwrap();
        let read = signed.decode(0x8000_7fff).map(f32::from_bits);
        assert_eq!(read, [1.0, -1.0, 0.0, 1.0]);
        let words = Format::new(Channel::Signed(1), 2, false).unwrap();
        assert_eq!(words.decode(0x7fff), [u32::MAX, 127, 0, 1]);
        assert_eq!(words.encode(&[200, (-200i32).cast_unsigned(), 7]), 0x807f);
        let half = Format::new(Channel::Half, 1, false).unwrap();
        assert_eq!(half.decode(0x3c00), [ONE, 0, 0, ONE]);
        assert_eq!(half.encode(&[ONE]), 0x3c00);
        assert!(Format::new(Channel::Single, 3, false).is_err());
        assert!(Format::new(Channel::Unsigned(4), 1, true).is_err());
    }
}
