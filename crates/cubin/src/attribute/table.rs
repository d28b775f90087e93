//! Which attributes there are, and what each of them holds.

use super::Format;

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
    row(0x09, "SAMPLER_INIT", Some(Format::Sized), Payload::Words),
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
    row(0x4d, "TEXMODE_INDEPENDENT", Some(Format::Flag), Payload::Opaque),
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
    row(0x5b, "BLOCKS_ARE_CLUSTERS", Some(Format::Flag), Payload::Opaque),
    row(0x5c, "SANITIZE", Some(Format::Half), Payload::Opaque),
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
    /// What a sampler is declared with.
    pub const SAMPLER_INIT: u8 = 0x09;
    /// The constant bank that textures' numbers are read from.
    pub const BINDLESS_TEXTURE_BANK: u8 = 0x15;
    /// The constant bank that surfaces' numbers are read from.
    pub const BINDLESS_SURFACE_BANK: u8 = 0x16;
    /// Textures and samplers are named apart.
    pub const TEXMODE_INDEPENDENT: u8 = 0x4d;
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
    /// What the linker computes stacks from, in bytes: 0 in everything seen.
    pub const MAX_STACK_SIZE: u8 = 0x23;
    /// A kernel parameter.
    pub const KPARAM_INFO: u8 = 0x17;
    /// Size of all parameters together.
    pub const CBANK_PARAM_SIZE: u8 = 0x19;
    /// The register limit the kernel was compiled with.
    pub const MAXREG_COUNT: u8 = 0x1b;
    /// What a kernel is instrumented for: 0 for threads held up at random, 1 for memcheck.
    pub const SANITIZE: u8 = 0x5c;
    /// Errors of a function's accesses are reported before its threads end.
    pub const GEN_ERRBAR_AT_EXIT: u8 = 0x53;
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
    /// The grid is given in clusters.
    pub const BLOCKS_ARE_CLUSTERS: u8 = 0x5b;
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
