//! The attributes of `.nv.info`, `.nv.info.<function>` and `.nv.compat`: what the driver and the tools are told about code.
//!
//! Both kinds of section are a stream of records. A record is a format byte, an identifier byte, and then either two bytes of
//! immediate value (formats 1 to 3) or a 16-bit length and that many bytes (format 4). The identifier alone decides what the
//! payload means; [`ATTRIBUTES`] says so, one row an attribute. A payload whose length does not fit its row, and every
//! attribute without a row, is kept as bytes, so nothing is lost on the way through the model.
//!
//! Names are those that the public `cuobjdump -elf` prints for each identifier (13.2.51); formats are given where ptxas 13.0.88
//! was seen to emit the attribute.

use crate::bytes::{Cursor, Put};
use crate::error::{Error, ErrorKind, Result};

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

/// What the bytes of a [`Format::Sized`] attribute are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing is known, or the attribute is never [`Format::Sized`].
    Opaque,
    /// 32-bit numbers.
    Words,
    /// Offsets of instructions in the function's text.
    Offsets,
    /// Pairs of an instruction's offset and a number.
    OffsetPairs,
    /// Triples of an instruction's offset and two numbers.
    OffsetTriples,
    /// A function and a number that holds for it.
    FunctionValue,
    /// Symbols.
    Symbols,
    /// Pairs of symbols.
    SymbolPairs,
    /// Three numbers: x, y, z.
    Dimensions,
    /// Where parameters lie in a constant bank.
    ParamBank,
    /// One kernel parameter.
    Param,
    /// One kernel parameter too large for the older record.
    WideParam,
    /// Indirect branches and where they may go.
    IndirectBranches,
    /// Instructions that work on mbarriers.
    Mbarriers,
}

/// One row of [`ATTRIBUTES`].
#[derive(Clone, Copy, Debug)]
pub struct AttributeRow {
    /// The identifier byte.
    pub id: u8,
    /// NVIDIA's name, without `EIATTR_`.
    pub name: &'static str,
    /// The format ptxas 13.0.88 was seen to use; `None` for attributes it was not seen to emit.
    pub format: Option<Format>,
    /// What a sized payload holds.
    pub payload: Payload,
}

const fn row(id: u8, name: &'static str, format: Option<Format>, payload: Payload) -> AttributeRow {
    AttributeRow {
        id,
        name,
        format,
        payload,
    }
}

/// Every attribute of `.nv.info` with a public name, by identifier.
#[rustfmt::skip]
pub const ATTRIBUTES: &[AttributeRow] = &[
    row(0x00, "ERROR", None, Payload::Words),
    row(0x01, "PAD", None, Payload::Words),
    row(0x02, "IMAGE_SLOT", None, Payload::Words),
    row(0x03, "JUMPTABLE_RELOCS", None, Payload::Words),
    row(0x04, "CTAIDZ_USED", None, Payload::Opaque),
    row(0x05, "MAX_THREADS", Some(Format::Sized), Payload::Dimensions),
    row(0x06, "IMAGE_OFFSET", None, Payload::Words),
    row(0x07, "IMAGE_SIZE", None, Payload::Words),
    row(0x08, "TEXTURE_NORMALIZED", None, Payload::Words),
    row(0x09, "SAMPLER_INIT", None, Payload::Words),
    row(0x0a, "PARAM_CBANK", Some(Format::Sized), Payload::ParamBank),
    row(0x0b, "SMEM_PARAM_OFFSETS", None, Payload::Words),
    row(0x0c, "CBANK_PARAM_OFFSETS", None, Payload::Words),
    row(0x0d, "SYNC_STACK", None, Payload::Words),
    row(0x0e, "TEXID_SAMPID_MAP", None, Payload::Words),
    row(0x0f, "EXTERNS", Some(Format::Sized), Payload::Symbols),
    row(0x10, "REQNTID", Some(Format::Sized), Payload::Dimensions),
    row(0x11, "FRAME_SIZE", Some(Format::Sized), Payload::FunctionValue),
    row(0x12, "MIN_STACK_SIZE", Some(Format::Sized), Payload::FunctionValue),
    row(0x13, "SAMPLER_FORCE_UNNORMALIZED", None, Payload::Words),
    row(0x14, "BINDLESS_IMAGE_OFFSETS", None, Payload::Words),
    row(0x15, "BINDLESS_TEXTURE_BANK", Some(Format::Byte), Payload::Words),
    row(0x16, "BINDLESS_SURFACE_BANK", Some(Format::Byte), Payload::Words),
    row(0x17, "KPARAM_INFO", Some(Format::Sized), Payload::Param),
    row(0x18, "SMEM_PARAM_SIZE", None, Payload::Opaque),
    row(0x19, "CBANK_PARAM_SIZE", Some(Format::Half), Payload::Opaque),
    row(0x1a, "QUERY_NUMATTRIB", None, Payload::Words),
    row(0x1b, "MAXREG_COUNT", Some(Format::Half), Payload::Opaque),
    row(0x1c, "EXIT_INSTR_OFFSETS", Some(Format::Sized), Payload::Offsets),
    row(0x1d, "S2RCTAID_INSTR_OFFSETS", None, Payload::Offsets),
    row(0x1e, "CRS_STACK_SIZE", Some(Format::Sized), Payload::Words),
    row(0x1f, "NEED_CNP_WRAPPER", None, Payload::Opaque),
    row(0x20, "NEED_CNP_PATCH", None, Payload::Opaque),
    row(0x21, "EXPLICIT_CACHING", None, Payload::Opaque),
    row(0x22, "ISTYPEP_USED", Some(Format::Flag), Payload::Opaque),
    row(0x23, "MAX_STACK_SIZE", Some(Format::Sized), Payload::FunctionValue),
    row(0x24, "SUQ_USED", None, Payload::Opaque),
    row(0x25, "LD_CACHEMOD_INSTR_OFFSETS", None, Payload::Offsets),
    row(0x26, "LOAD_CACHE_REQUEST", None, Payload::FunctionValue),
    row(0x27, "ATOM_SYS_INSTR_OFFSETS", None, Payload::Offsets),
    row(0x28, "COOP_GROUP_INSTR_OFFSETS", Some(Format::Sized), Payload::Offsets),
    row(0x29, "COOP_GROUP_MASK_REGIDS", Some(Format::Sized), Payload::Words),
    row(0x2a, "SW1850030_WAR", None, Payload::Words),
    row(0x2b, "WMMA_USED", Some(Format::Flag), Payload::Opaque),
    row(0x2c, "HAS_PRE_V10_OBJECT", None, Payload::Opaque),
    row(0x2d, "ATOMF16_EMUL_INSTR_OFFSETS", None, Payload::Offsets),
    row(0x2e, "ATOM16_EMUL_INSTR_REG_MAP", Some(Format::Sized), Payload::OffsetPairs),
    row(0x2f, "REGCOUNT", Some(Format::Sized), Payload::FunctionValue),
    row(0x30, "SW2393858_WAR", None, Payload::Words),
    row(0x31, "INT_WARP_WIDE_INSTR_OFFSETS", Some(Format::Sized), Payload::Offsets),
    row(0x32, "SHARED_SCRATCH", None, Payload::Words),
    row(0x33, "STATISTICS", None, Payload::Words),
    row(0x34, "INDIRECT_BRANCH_TARGETS", Some(Format::Sized), Payload::IndirectBranches),
    row(0x35, "SW2861232_WAR", Some(Format::Flag), Payload::Words),
    row(0x36, "SW_WAR", Some(Format::Sized), Payload::Words),
    row(0x37, "CUDA_API_VERSION", Some(Format::Sized), Payload::Words),
    row(0x38, "NUM_MBARRIERS", Some(Format::Half), Payload::Opaque),
    row(0x39, "MBARRIER_INSTR_OFFSETS", Some(Format::Sized), Payload::Mbarriers),
    row(0x3a, "COROUTINE_RESUME_ID_OFFSETS", None, Payload::Words),
    row(0x3b, "SAM_REGION_STACK_SIZE", None, Payload::FunctionValue),
    row(0x3c, "PER_REG_TARGET_PERF_STATS", None, Payload::Words),
    row(0x3d, "CTA_PER_CLUSTER", Some(Format::Sized), Payload::Dimensions),
    row(0x3e, "EXPLICIT_CLUSTER", Some(Format::Flag), Payload::Opaque),
    row(0x3f, "MAX_CLUSTER_RANK", Some(Format::Sized), Payload::Words),
    row(0x40, "INSTR_REG_MAP", Some(Format::Sized), Payload::OffsetTriples),
    row(0x41, "RESERVED_SMEM_USED", Some(Format::Flag), Payload::Opaque),
    row(0x42, "RESERVED_SMEM_0_SIZE", None, Payload::Words),
    row(0x43, "UCODE_SECTION_DATA", None, Payload::Words),
    row(0x44, "UNUSED_LOAD_BYTE_OFFSET", Some(Format::Sized), Payload::OffsetPairs),
    row(0x45, "KPARAM_INFO_V2", Some(Format::Sized), Payload::WideParam),
    row(0x46, "SYSCALL_OFFSETS", Some(Format::Sized), Payload::Offsets),
    row(0x47, "SW_WAR_MEMBAR_SYS_INSTR_OFFSETS", None, Payload::Offsets),
    row(0x48, "GRAPHICS_GLOBAL_CBANK", None, Payload::Words),
    row(0x49, "SHADER_TYPE", None, Payload::Opaque),
    row(0x4a, "VRC_CTA_INIT_COUNT", Some(Format::Byte), Payload::Opaque),
    row(0x4b, "TOOLS_PATCH_FUNC", None, Payload::Words),
    row(0x4c, "NUM_BARRIERS", Some(Format::Byte), Payload::Opaque),
    row(0x4d, "TEXMODE_INDEPENDENT", None, Payload::Opaque),
    row(0x4e, "PERF_STATISTICS", None, Payload::Words),
    row(0x4f, "AT_ENTRY_FRAGMENTS", None, Payload::Words),
    row(0x50, "SPARSE_MMA_MASK", Some(Format::Half), Payload::Opaque),
    row(0x51, "TCGEN05_1CTA_USED", None, Payload::Opaque),
    row(0x52, "TCGEN05_2CTA_USED", None, Payload::Opaque),
    row(0x53, "GEN_ERRBAR_AT_EXIT", Some(Format::Flag), Payload::Opaque),
    row(0x54, "REG_RECONFIG", Some(Format::Flag), Payload::Opaque),
    row(0x55, "ANNOTATIONS", Some(Format::Sized), Payload::Words),
    row(0x57, "STACK_CANARY_TRAP_OFFSETS", None, Payload::Offsets),
    row(0x58, "STUB_FUNCTION_KIND", None, Payload::Opaque),
    row(0x59, "LOCAL_CTA_ASYNC_STORE_OFFSETS", None, Payload::Offsets),
    row(0x5a, "MERCURY_FINALIZER_OPTIONS", None, Payload::Words),
    row(0x5b, "BLOCKS_ARE_CLUSTERS", None, Payload::Opaque),
    row(0x5c, "SANITIZE", None, Payload::Opaque),
    row(0x5d, "SYSCALLS_FALLBACK", None, Payload::SymbolPairs),
    row(0x5e, "CUDA_REQ", None, Payload::Words),
    row(0x5f, "MERCURY_ISA_VERSION", Some(Format::Half), Payload::Opaque),
    row(0x61, "RTCORE_ENTRY", None, Payload::Words),
    row(0x62, "CLUSTER_LAUNCH_CONTROL_USED", None, Payload::Words),
    row(0x64, "MIN_PER_CTA_MEMORY_SIZE", None, Payload::Words),
    row(0x65, "IGNOREOOB_CP_ASYNC_BULK_INSTR_OFFSETS", None, Payload::Offsets),
    row(0x66, "LANGUAGE", None, Payload::Words),];

/// The attributes of `.nv.compat` and their names, without `EICOMPAT_ATTR_`.
pub const COMPAT_ATTRIBUTES: &[(u8, &str)] = &[
    (0x00, "ERROR"),
    (0x01, "PAD"),
    (0x02, "ISA_CLASS"),
    (0x03, "INST_TENSORMAP_V1"),
    (0x04, "INST_TCGEN05_MMA_DEPRECATED"),
    (0x05, "INST_TCGEN05_MMA"),
    (0x06, "ENABLE_OPPORTUNISTIC_FINALIZATION"),
    (0x07, "MERCURY_ISA_MAJOR_MINOR_VERSION"),
    (0x08, "MERCURY_ISA_PATCH_VERSION"),
    (0x09, "CUDA_ACCELERATOR_TARGET"),
    (0x0a, "CUDA_DRIVER_VERSION"),
    (0x0b, "CAN_FASTPATH_FINALIZE"),
];

/// The row of an attribute of `.nv.info`.
pub fn attribute_row(id: u8) -> Option<&'static AttributeRow> {
    let index = ATTRIBUTES.binary_search_by_key(&id, |row| row.id).ok()?;
    ATTRIBUTES.get(index)
}

/// The name of an attribute of `.nv.info`, without `EIATTR_`.
pub fn attribute_name(id: u8) -> Option<&'static str> {
    attribute_row(id).map(|row| row.name)
}

/// The identifier of a named attribute of `.nv.info`.
pub fn attribute_id(name: &str) -> Option<u8> {
    ATTRIBUTES
        .iter()
        .find(|row| row.name == name)
        .map(|row| row.id)
}

/// The name of an attribute of `.nv.compat`, without `EICOMPAT_ATTR_`.
pub fn compat_name(id: u8) -> Option<&'static str> {
    COMPAT_ATTRIBUTES
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, name)| *name)
}

/// Identifiers of the attributes that this crate itself writes or looks for.
pub mod id {
    /// Largest block the kernel may be launched with.
    pub const MAX_THREADS: u8 = 0x05;
    /// Where the parameters lie in constant bank 0.
    pub const PARAM_CBANK: u8 = 0x0a;
    /// Functions that are called and not defined here.
    pub const EXTERNS: u8 = 0x0f;
    /// The only block the kernel may be launched with.
    pub const REQNTID: u8 = 0x10;
    /// A function's own stack frame, in bytes.
    pub const FRAME_SIZE: u8 = 0x11;
    /// The stack a call of the function needs at least, in bytes.
    pub const MIN_STACK_SIZE: u8 = 0x12;
    /// A kernel parameter.
    pub const KPARAM_INFO: u8 = 0x17;
    /// Size of all parameters together.
    pub const CBANK_PARAM_SIZE: u8 = 0x19;
    /// The register limit the kernel was compiled with.
    pub const MAXREG_COUNT: u8 = 0x1b;
    /// Where the function exits.
    pub const EXIT_INSTR_OFFSETS: u8 = 0x1c;
    /// Size of the call and branch stack of older chips.
    pub const CRS_STACK_SIZE: u8 = 0x1e;
    /// Where cooperative groups' warp operations are.
    pub const COOP_GROUP_INSTR_OFFSETS: u8 = 0x28;
    /// The registers that hold the masks of those operations.
    pub const COOP_GROUP_MASK_REGIDS: u8 = 0x29;
    /// The function uses warp matrix operations.
    pub const WMMA_USED: u8 = 0x2b;
    /// How many registers a thread has.
    pub const REGCOUNT: u8 = 0x2f;
    /// Where warp-wide operations are.
    pub const INT_WARP_WIDE_INSTR_OFFSETS: u8 = 0x31;
    /// Indirect branches and their targets.
    pub const INDIRECT_BRANCH_TARGETS: u8 = 0x34;
    /// Work-arounds the code carries.
    pub const SW_WAR: u8 = 0x36;
    /// The CUDA version of the compiler.
    pub const CUDA_API_VERSION: u8 = 0x37;
    /// How many mbarriers there are.
    pub const NUM_MBARRIERS: u8 = 0x38;
    /// Instructions that work on mbarriers.
    pub const MBARRIER_INSTR_OFFSETS: u8 = 0x39;
    /// Blocks in a cluster.
    pub const CTA_PER_CLUSTER: u8 = 0x3d;
    /// The kernel states its cluster's shape.
    pub const EXPLICIT_CLUSTER: u8 = 0x3e;
    /// Largest number of blocks in a cluster.
    pub const MAX_CLUSTER_RANK: u8 = 0x3f;
    /// A kernel parameter too large for [`KPARAM_INFO`].
    pub const KPARAM_INFO_V2: u8 = 0x45;
    /// Calls of functions that the driver provides.
    pub const SYSCALL_OFFSETS: u8 = 0x46;
    /// How many named barriers are used.
    pub const NUM_BARRIERS: u8 = 0x4c;
    /// Which sparse matrix operations are used.
    pub const SPARSE_MMA_MASK: u8 = 0x50;
    /// The kernel changes its register count (`setmaxnreg`).
    pub const REG_RECONFIG: u8 = 0x54;
    /// The Mercury version, major and minor.
    pub const MERCURY_ISA_VERSION: u8 = 0x5f;
    /// In `.nv.compat`: the class of the instructions used.
    pub const COMPAT_ISA_CLASS: u8 = 0x02;
    /// In `.nv.compat`: whether tensor maps of version 1 are used.
    pub const COMPAT_INST_TENSORMAP_V1: u8 = 0x03;
    /// In `.nv.compat`: which tcgen05 operations are used.
    pub const COMPAT_INST_TCGEN05_MMA: u8 = 0x05;
    /// In `.nv.compat`: whether the driver may finalize the code for another chip.
    pub const COMPAT_OPPORTUNISTIC_FINALIZATION: u8 = 0x06;
    /// In `.nv.compat`: the Mercury version.
    pub const COMPAT_MERCURY_VERSION: u8 = 0x07;
    /// In `.nv.compat`: 1 for an architecture-specific target such as sm_90a.
    pub const COMPAT_ACCELERATOR_TARGET: u8 = 0x09;
    /// In `.nv.compat`: for which chips finalization is trivial.
    pub const COMPAT_CAN_FASTPATH_FINALIZE: u8 = 0x0b;
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
    /// What the instruction does, an index into [`MBARRIER_KINDS`], in its lower four bits; the upper four are the stride.
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
        MBARRIER_KINDS
            .get(usize::from(self.kind_and_stride & 0xf))
            .copied()
    }
}

/// What an instruction may do with an mbarrier, by number.
pub const MBARRIER_KINDS: &[&str] = &[
    "INIT",
    "ARRIVE",
    "ARRIVE_NOCOMPLETE",
    "ARRIVE_DROP",
    "ARRIVE_DROP_NOCOMPLETE",
    "TEST_WAIT",
    "TEST_WAIT_PARITY",
    "CP_ASYNC_ARRIVE",
    "INVAL",
    "TRY_WAIT",
    "TRY_WAIT_PARITY",
];

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

fn words(bytes: &[u8]) -> Option<Vec<u32>> {
    let (chunks, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    Some(
        chunks
            .iter()
            .map(|chunk| u32::from_le_bytes(*chunk))
            .collect(),
    )
}

fn tuples<const N: usize>(bytes: &[u8]) -> Option<Vec<[u32; N]>> {
    let words = words(bytes)?;
    let (chunks, []) = words.as_chunks::<N>() else {
        return None;
    };
    Some(chunks.to_vec())
}

fn three(bytes: &[u8]) -> Option<[u32; 3]> {
    words(bytes)?.try_into().ok()
}

/// What `bytes` say if they are a `payload`; as they are if they cannot be.
fn decode(payload: Payload, bytes: &[u8]) -> Value {
    let value = match payload {
        Payload::Opaque => None,
        Payload::Words => words(bytes).map(Value::Words),
        Payload::Offsets => words(bytes).map(Value::Offsets),
        Payload::OffsetPairs => tuples(bytes).map(Value::OffsetPairs),
        Payload::OffsetTriples => tuples(bytes).map(Value::OffsetTriples),
        Payload::Symbols => words(bytes).map(Value::Symbols),
        Payload::SymbolPairs => tuples(bytes).map(Value::SymbolPairs),
        Payload::FunctionValue => match tuples::<2>(bytes).as_deref() {
            Some([[symbol, value]]) => Some(Value::FunctionValue {
                symbol: *symbol,
                value: *value,
            }),
            _ => None,
        },
        Payload::Dimensions => three(bytes).map(Value::Dimensions),
        Payload::ParamBank => match tuples::<2>(bytes).as_deref() {
            Some([[symbol, place]]) => Some(Value::ParamBank {
                symbol: *symbol,
                offset: *place as u16,
                size: (*place >> 16) as u16,
            }),
            _ => None,
        },
        Payload::Param => three(bytes).map(|words| Value::Param(ParamInfo::from_narrow(words))),
        Payload::WideParam => {
            three(bytes).map(|words| Value::WideParam(ParamInfo::from_wide(words)))
        }
        Payload::IndirectBranches => indirect_branches(bytes).map(Value::IndirectBranches),
        Payload::Mbarriers => tuples(bytes).map(|uses| {
            Value::Mbarriers(
                uses.into_iter()
                    .map(|[offset, register, displacement, packed]| {
                        let [kind_and_stride, flag, uniform_register, reserved] =
                            packed.to_le_bytes();
                        MbarrierUse {
                            offset,
                            register,
                            displacement: displacement as i32,
                            kind_and_stride,
                            flag,
                            uniform_register,
                            reserved,
                        }
                    })
                    .collect(),
            )
        }),
    };
    value.unwrap_or_else(|| Value::Raw(bytes.to_vec()))
}

fn indirect_branches(bytes: &[u8]) -> Option<Vec<IndirectBranch>> {
    let words = words(bytes)?;
    let mut rest = words.as_slice();
    let mut branches = Vec::new();
    while let [offset, kind, count, after @ ..] = rest {
        let (targets, next) = after.split_at_checked(usize::try_from(*count).ok()?)?;
        branches.push(IndirectBranch {
            offset: *offset,
            kind: *kind as u16,
            reserved: (*kind >> 16) as u16,
            targets: targets.to_vec(),
        });
        rest = next;
    }
    rest.is_empty().then_some(branches)
}

/// The payload of a sized value.
fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.put_u32(*word));
    match value {
        Value::Flag(_) | Value::Byte(..) | Value::Half(_) => {}
        Value::Words(words) | Value::Offsets(words) | Value::Symbols(words) => put(words),
        Value::OffsetPairs(pairs) | Value::SymbolPairs(pairs) => put(pairs.as_flattened()),
        Value::OffsetTriples(triples) => put(triples.as_flattened()),
        Value::FunctionValue { symbol, value } => put(&[*symbol, *value]),
        Value::Dimensions(dimensions) => put(dimensions),
        Value::ParamBank {
            symbol,
            offset,
            size,
        } => put(&[*symbol, u32::from(*offset) | u32::from(*size) << 16]),
        Value::Param(param) => put(&param.to_narrow()),
        Value::WideParam(param) => put(&param.to_wide()),
        Value::IndirectBranches(branches) => {
            for branch in branches {
                put(&[
                    branch.offset,
                    u32::from(branch.kind) | u32::from(branch.reserved) << 16,
                    branch.targets.len() as u32,
                ]);
                put(&branch.targets);
            }
        }
        Value::Mbarriers(uses) => {
            for one in uses {
                put(&[
                    one.offset,
                    one.register,
                    one.displacement as u32,
                    u32::from_le_bytes([
                        one.kind_and_stride,
                        one.flag,
                        one.uniform_register,
                        one.reserved,
                    ]),
                ]);
            }
        }
        Value::Raw(raw) => bytes.extend_from_slice(raw),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_identifier_and_names_are_unique() {
        assert!(ATTRIBUTES.is_sorted_by(|a, b| a.id < b.id));
        for row in ATTRIBUTES {
            assert_eq!(attribute_id(row.name), Some(row.id));
        }
    }

    #[test]
    fn the_identifiers_this_crate_writes_have_the_rows_they_are_meant_to_have() {
        for (id, name) in [
            (id::REGCOUNT, "REGCOUNT"),
            (id::KPARAM_INFO, "KPARAM_INFO"),
            (id::KPARAM_INFO_V2, "KPARAM_INFO_V2"),
            (id::EXIT_INSTR_OFFSETS, "EXIT_INSTR_OFFSETS"),
            (id::NUM_BARRIERS, "NUM_BARRIERS"),
            (id::MERCURY_ISA_VERSION, "MERCURY_ISA_VERSION"),
            (id::SYSCALL_OFFSETS, "SYSCALL_OFFSETS"),
        ] {
            assert_eq!(attribute_name(id), Some(name));
        }
        assert_eq!(
            compat_name(id::COMPAT_ACCELERATOR_TARGET),
            Some("CUDA_ACCELERATOR_TARGET")
        );
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
