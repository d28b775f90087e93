//! The attributes of `.nv.info`, `.nv.info.<function>` and `.nv.compat`: what the driver and the tools are told about code.
//!
//! Both kinds of section are a stream of records. A record is a format byte, an identifier byte, and then either two bytes of
//! immediate value (formats 1 to 3) or a 16-bit length and that many bytes (format 4). The identifier alone decides what the
//! payload means; [`ATTRIBUTES`] says so, one row an attribute. A payload whose length does not fit its row, and every
//! attribute without a row, is kept as bytes, so nothing is lost on the way through the model.
//!
//! Names are those that the public `cuobjdump -elf` prints for each identifier (13.2.51); formats are given where ptxas 13.0.88
//! was seen to emit the attribute.

mod payload;
mod table;

pub use table::{
    ATTRIBUTES, AttributeRow, COMPAT_ATTRIBUTES, Payload, attribute_name, attribute_row, compat,
    compat_name, id,
};

use crate::bytes::{Cursor, Put};
use crate::error::{Error, ErrorKind, Result};
use payload::{decode, encode};

/// How a record carries its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Format 1, `EIFMT_NVAL`: the presence of the attribute is all it says.
    Flag,
    /// Format 2, `EIFMT_BVAL`: one byte.
    Byte,
    /// Format 3, `EIFMT_HVAL`: two bytes.
    Half,
    /// Format 4, `EIFMT_SVAL`: a length and that many bytes.
    Sized,
}

impl Format {
    /// The byte that stands for it.
    pub fn code(self) -> u8 {
        match self {
            Format::Flag => 1,
            Format::Byte => 2,
            Format::Half => 3,
            Format::Sized => 4,
        }
    }

    /// The name NVIDIA's tools print.
    pub fn name(self) -> &'static str {
        match self {
            Format::Flag => "EIFMT_NVAL",
            Format::Byte => "EIFMT_BVAL",
            Format::Half => "EIFMT_HVAL",
            Format::Sized => "EIFMT_SVAL",
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Format::Flag, Format::Byte, Format::Half, Format::Sized]
            .into_iter()
            .find(|format| format.code() == code)
    }
}

/// A kernel parameter, from either of the two records that describe one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Zero in everything seen.
    pub index: u32,
    /// Which parameter it is, from 0.
    pub ordinal: u16,
    /// Where it lies among the parameters, in bytes.
    pub offset: u16,
    /// Its size in bytes.
    pub size: u16,
    /// For a pointer with `.ptr .align`, the logarithm of the alignment.
    pub pointee_log_align: u8,
    /// For a pointer with `.ptr`, the state space it points into (4 bits).
    pub space: u8,
    /// The remaining bits: constant bank (5 bits) and whether the parameter lies in shared memory (1 bit) in the older record,
    /// the upper four bits in the wider one.
    pub rest: u8,
}

impl ParamInfo {
    /// [`ParamInfo::rest`] as ptxas writes it in the older record: no bank of its own.
    pub const NO_BANK: u8 = 0x1f;
    /// The largest size the older record can say.
    pub const MAX_NARROW_SIZE: u16 = 0x3fff;

    fn from_narrow(words: [u32; 3]) -> Self {
        let [index, place, packed] = words;
        Self {
            index,
            ordinal: place as u16,
            offset: (place >> 16) as u16,
            size: (packed >> 18) as u16,
            pointee_log_align: packed as u8,
            space: (packed >> 8 & 0xf) as u8,
            rest: (packed >> 12 & 0x3f) as u8,
        }
    }

    fn to_narrow(self) -> [u32; 3] {
        [
            self.index,
            u32::from(self.ordinal) | u32::from(self.offset) << 16,
            u32::from(self.pointee_log_align)
                | u32::from(self.space & 0xf) << 8
                | u32::from(self.rest & 0x3f) << 12
                | u32::from(self.size & Self::MAX_NARROW_SIZE) << 18,
        ]
    }

    fn from_wide(words: [u32; 3]) -> Self {
        let [index, place, packed] = words;
        Self {
            index,
            ordinal: place as u16,
            offset: (place >> 16) as u16,
            size: packed as u16,
            pointee_log_align: (packed >> 16) as u8,
            space: (packed >> 24 & 0xf) as u8,
            rest: (packed >> 28) as u8,
        }
    }

    fn to_wide(self) -> [u32; 3] {
        [
            self.index,
            u32::from(self.ordinal) | u32::from(self.offset) << 16,
            u32::from(self.size)
                | u32::from(self.pointee_log_align) << 16
                | u32::from(self.space & 0xf) << 24
                | u32::from(self.rest & 0xf) << 28,
        ]
    }
}

/// An indirect branch and the places it may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndirectBranch {
    /// Offset of the branch instruction.
    pub offset: u32,
    /// What kind of branch; 0 for `BRX` in everything ptxas emits, other values are calls.
    pub kind: u16,
    /// The upper half of that word.
    pub reserved: u16,
    /// Offsets of the instructions it may go to.
    pub targets: Vec<u32>,
}

/// An instruction that works on an mbarrier, and how it addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbarrierUse {
    /// Offset of the instruction.
    pub offset: u32,
    /// The address's general register; 255 is RZ.
    pub register: u32,
    /// The address's constant part.
    pub displacement: i32,
    /// What the instruction does, a number of [`MbarrierKind`], in its lower four bits; the upper four are the stride.
    pub kind_and_stride: u8,
    /// One in everything seen.
    pub flag: u8,
    /// The address's uniform register; 63 is URZ.
    pub uniform_register: u8,
    /// Zero in everything seen.
    pub reserved: u8,
}

impl MbarrierUse {
    /// What the instruction does, in the public tools' words.
    pub fn kind_name(&self) -> Option<&'static str> {
        let kind = MbarrierKind::ALL.get(usize::from(self.kind_and_stride & 0xf))?;
        kind.name()
    }
}

/// What an instruction may do with an mbarrier, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierKind {
    /// `mbarrier.init`.
    Init,
    /// `mbarrier.arrive`.
    Arrive,
    /// `mbarrier.arrive.noComplete`.
    ArriveNoComplete,
    /// `mbarrier.arrive_drop`.
    ArriveDrop,
    /// `mbarrier.arrive_drop.noComplete`.
    ArriveDropNoComplete,
    /// `mbarrier.test_wait`.
    TestWait,
    /// `mbarrier.test_wait.parity`.
    TestWaitParity,
    /// `cp.async.mbarrier.arrive`.
    CpAsyncArrive,
    /// `mbarrier.inval`.
    Inval,
    /// `mbarrier.try_wait`.
    TryWait,
    /// `mbarrier.try_wait.parity`.
    TryWaitParity,
    /// `mbarrier.expect_tx`: the public tools have no name for it.
    ExpectTx,
    /// `mbarrier.complete_tx`: the public tools have no name for it.
    CompleteTx,
}

impl MbarrierKind {
    /// All of them, by number.
    pub const ALL: [Self; 13] = [
        Self::Init,
        Self::Arrive,
        Self::ArriveNoComplete,
        Self::ArriveDrop,
        Self::ArriveDropNoComplete,
        Self::TestWait,
        Self::TestWaitParity,
        Self::CpAsyncArrive,
        Self::Inval,
        Self::TryWait,
        Self::TryWaitParity,
        Self::ExpectTx,
        Self::CompleteTx,
    ];

    /// Its name in the public tools' words.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Init => "INIT",
            Self::Arrive => "ARRIVE",
            Self::ArriveNoComplete => "ARRIVE_NOCOMPLETE",
            Self::ArriveDrop => "ARRIVE_DROP",
            Self::ArriveDropNoComplete => "ARRIVE_DROP_NOCOMPLETE",
            Self::TestWait => "TEST_WAIT",
            Self::TestWaitParity => "TEST_WAIT_PARITY",
            Self::CpAsyncArrive => "CP_ASYNC_ARRIVE",
            Self::Inval => "INVAL",
            Self::TryWait => "TRY_WAIT",
            Self::TryWaitParity => "TRY_WAIT_PARITY",
            Self::ExpectTx | Self::CompleteTx => return None,
        })
    }
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// It is there; the two bytes that follow are 0 in everything seen.
    Flag(u16),
    /// A byte, and the byte of padding after it.
    Byte(u8, u8),
    /// A 16-bit number.
    Half(u16),
    /// 32-bit numbers.
    Words(Vec<u32>),
    /// Offsets of instructions.
    Offsets(Vec<u32>),
    /// Pairs of an instruction's offset and a number.
    OffsetPairs(Vec<[u32; 2]>),
    /// Triples of an instruction's offset and two numbers.
    OffsetTriples(Vec<[u32; 3]>),
    /// A number that holds for a function.
    FunctionValue {
        /// Index of the function's symbol.
        symbol: u32,
        /// The number.
        value: u32,
    },
    /// Indices of symbols.
    Symbols(Vec<u32>),
    /// Pairs of indices of symbols.
    SymbolPairs(Vec<[u32; 2]>),
    /// Three numbers: x, y, z.
    Dimensions([u32; 3]),
    /// Where parameters lie in a constant bank.
    ParamBank {
        /// Index of the symbol of the bank's section.
        symbol: u32,
        /// The first parameter's offset in the bank.
        offset: u16,
        /// Size of all parameters together.
        size: u16,
    },
    /// A kernel parameter.
    Param(ParamInfo),
    /// A kernel parameter, in the record for large ones.
    WideParam(ParamInfo),
    /// Indirect branches and their targets.
    IndirectBranches(Vec<IndirectBranch>),
    /// Instructions that work on mbarriers.
    Mbarriers(Vec<MbarrierUse>),
    /// A payload that is not understood.
    Raw(Vec<u8>),
}

impl Value {
    /// How a record carries this value.
    pub fn format(&self) -> Format {
        match self {
            Value::Flag(_) => Format::Flag,
            Value::Byte(..) => Format::Byte,
            Value::Half(_) => Format::Half,
            _ => Format::Sized,
        }
    }
}

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its identifier; what it means depends on the section (see [`attribute_name`] and [`compat_name`]).
    pub id: u8,
    /// What it says.
    pub value: Value,
}

/// Which of the two tables of identifiers a stream of attributes uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// `.nv.info` and `.nv.info.<function>`.
    Info,
    /// `.nv.compat`.
    Compat,
}

/// Reads all attributes of a section.
pub(crate) fn read(mut cursor: Cursor<'_>, vocabulary: Vocabulary) -> Result<Vec<Attribute>> {
    let mut attributes = Vec::new();
    while !cursor.is_empty() {
        let start = cursor.offset();
        let format = cursor.u8("an attribute")?;
        let id = cursor.u8("an attribute")?;
        let immediate = cursor.array::<2>("an attribute")?;
        let half = u16::from_le_bytes(immediate);
        let value = match Format::from_code(format) {
            Some(Format::Flag) => Value::Flag(half),
            Some(Format::Byte) => Value::Byte(immediate[0], immediate[1]),
            Some(Format::Half) => Value::Half(half),
            Some(Format::Sized) => {
                let bytes = cursor.take(u64::from(half), "an attribute's payload")?;
                let payload = match vocabulary {
                    Vocabulary::Info => {
                        attribute_row(id).map_or(Payload::Opaque, |row| row.payload)
                    }
                    Vocabulary::Compat => Payload::Words,
                };
                decode(payload, bytes)
            }
            None => return Err(Error::at(start, ErrorKind::BadFormat { id, format })),
        };
        attributes.push(Attribute { id, value });
    }
    Ok(attributes)
}

/// The records of `attributes`; the identifier of the first whose payload is too long for the 16-bit length if one is.
pub(crate) fn write(attributes: &[Attribute]) -> std::result::Result<Vec<u8>, u8> {
    let mut bytes = Vec::new();
    for attribute in attributes {
        bytes.put_u8(attribute.value.format().code());
        bytes.put_u8(attribute.id);
        match &attribute.value {
            Value::Flag(half) | Value::Half(half) => bytes.put_u16(*half),
            Value::Byte(value, pad) => {
                bytes.put_u8(*value);
                bytes.put_u8(*pad);
            }
            sized => {
                let payload = encode(sized);
                bytes.put_u16(u16::try_from(payload.len()).map_err(|_| attribute.id)?);
                bytes.extend_from_slice(&payload);
            }
        }
    }
    Ok(bytes)
}

/// How many numbers a list attribute can hold: the length field has 16 bits.
pub const MAX_WORDS: usize = u16::MAX as usize / 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_identifier_so_that_every_row_is_found() {
        assert!(ATTRIBUTES.is_sorted_by(|a, b| a.id < b.id));
        assert_eq!(attribute_name(id::SYSCALL_OFFSETS), Some("SYSCALL_OFFSETS"));
        let name = compat_name(compat::CUDA_ACCELERATOR_TARGET);
        assert_eq!(name, Some("CUDA_ACCELERATOR_TARGET"));
    }

    /// A record of `payload` for attribute `id`, read and written.
    fn round_trip(id: u8, payload: &[u32]) -> Value {
        let mut bytes = vec![4, id];
        bytes.put_u16(payload.len() as u16 * 4);
        payload.iter().for_each(|word| bytes.put_u32(*word));
        let attributes = read(Cursor::new(&bytes, 0), Vocabulary::Info).expect("well-formed");
        assert_eq!(write(&attributes), Ok(bytes), "attribute {id:#x}");
        attributes[0].value.clone()
    }

    #[test]
    fn every_attribute_keeps_every_payload_it_is_given() {
        for id in 0..=u8::MAX {
            for length in 0..9 {
                let payload: Vec<u32> = (0..length)
                    .map(|word| 0x8765_4321_u32.rotate_left(word * 7))
                    .collect();
                round_trip(id, &payload);
            }
        }
    }

    #[test]
    fn a_kernel_parameter_is_taken_apart() {
        let value = round_trip(id::KPARAM_INFO, &[0, 0x0010_0002, 0x0011_f000]);
        let Value::Param(param) = value else {
            panic!("not a parameter: {value:?}")
        };
        assert_eq!((param.ordinal, param.offset, param.size), (2, 0x10, 4));
        assert_eq!(param.rest, ParamInfo::NO_BANK);
    }

    #[test]
    fn indirect_branches_with_a_count_that_overruns_stay_raw() {
        let value = round_trip(id::INDIRECT_BRANCH_TARGETS, &[0x490, 0, 3, 0x4a0]);
        assert!(matches!(value, Value::Raw(_)), "{value:?}");
        let value = round_trip(id::INDIRECT_BRANCH_TARGETS, &[0x490, 0, 2, 0x4a0, 0x4d0]);
        assert_eq!(
            value,
            Value::IndirectBranches(vec![IndirectBranch {
                offset: 0x490,
                kind: 0,
                reserved: 0,
                targets: vec![0x4a0, 0x4d0],
            }])
        );
    }

    #[test]
    fn a_record_that_runs_past_the_section_names_what_and_where() {
        let bytes = [4, 0x2f, 8, 0, 1, 0];
        let error = read(Cursor::new(&bytes, 0x100), Vocabulary::Info).unwrap_err();
        assert_eq!(
            error.to_string(),
            "file offset 0x104: an attribute's payload needs 8 bytes, 2 are left"
        );
        let error = read(Cursor::new(&[9, 0x2f, 0, 0], 0), Vocabulary::Info).unwrap_err();
        assert_eq!(
            error.to_string(),
            "file offset 0x0: attribute 0x2f has format 9, formats are 1 to 4"
        );
    }
}
