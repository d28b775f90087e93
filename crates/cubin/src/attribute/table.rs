//! Which attributes there are, and what each of them holds.

use super::Format;
use crate::elf::numbers;

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

/// The table of attributes, and a module with a constant for each identifier: a name that no row has does not compile.
macro_rules! attributes {
    (@format -) => { None };
    (@format $format:ident) => { Some(Format::$format) };
    ($($id:literal $name:ident $format:tt $payload:ident $(: $doc:literal)?,)*) => {
        /// Every attribute of `.nv.info` with a public name, by identifier.
        pub const ATTRIBUTES: &[AttributeRow] = &[
            $(AttributeRow {
                id: $id,
                name: stringify!($name),
                format: attributes!(@format $format),
                payload: Payload::$payload,
            },)*
        ];

        /// Identifiers of the attributes of `.nv.info`.
        pub mod id {
            $(
                #[doc = concat!("`", stringify!($name), "`" $(, ": ", $doc)?)]
                pub const $name: u8 = $id;
            )*
        }
    };
}

attributes! {
    0x00 ERROR - Words,
    0x01 PAD - Words,
    0x02 IMAGE_SLOT - Words,
    0x03 JUMPTABLE_RELOCS - Words,
    0x04 CTAIDZ_USED - Opaque,
    0x05 MAX_THREADS Sized Dimensions: "Largest block the kernel may be launched with.",
    0x06 IMAGE_OFFSET - Words,
    0x07 IMAGE_SIZE - Words,
    0x08 TEXTURE_NORMALIZED - Words,
    0x09 SAMPLER_INIT Sized Words: "What a sampler is declared with.",
    0x0a PARAM_CBANK Sized ParamBank: "Where the parameters lie in constant bank 0.",
    0x0b SMEM_PARAM_OFFSETS - Words,
    0x0c CBANK_PARAM_OFFSETS - Words,
    0x0d SYNC_STACK - Words,
    0x0e TEXID_SAMPID_MAP - Words,
    0x0f EXTERNS Sized Symbols: "Functions that are called and not defined here.",
    0x10 REQNTID Sized Dimensions: "The only block the kernel may be launched with.",
    0x11 FRAME_SIZE Sized FunctionValue: "A function's own stack frame, in bytes.",
    0x12 MIN_STACK_SIZE Sized FunctionValue: "The stack a call of the function needs at least, in bytes.",
    0x13 SAMPLER_FORCE_UNNORMALIZED - Words,
    0x14 BINDLESS_IMAGE_OFFSETS - Words,
    0x15 BINDLESS_TEXTURE_BANK Byte Words: "The constant bank that textures' numbers are read from.",
    0x16 BINDLESS_SURFACE_BANK Byte Words: "The constant bank that surfaces' numbers are read from.",
    0x17 KPARAM_INFO Sized Param: "A kernel parameter.",
    0x18 SMEM_PARAM_SIZE - Opaque,
    0x19 CBANK_PARAM_SIZE Half Opaque: "Size of all parameters together.",
    0x1a QUERY_NUMATTRIB - Words,
    0x1b MAXREG_COUNT Half Opaque: "The register limit the kernel was compiled with.",
    0x1c EXIT_INSTR_OFFSETS Sized Offsets: "Where the function exits.",
    0x1d S2RCTAID_INSTR_OFFSETS - Offsets,
    0x1e CRS_STACK_SIZE Sized Words: "Size of the call and branch stack of older chips.",
    0x1f NEED_CNP_WRAPPER - Opaque,
    0x20 NEED_CNP_PATCH - Opaque,
    0x21 EXPLICIT_CACHING - Opaque,
    0x22 ISTYPEP_USED Flag Opaque,
    0x23 MAX_STACK_SIZE Sized FunctionValue: "What the linker computes stacks from, in bytes: 0 in everything seen.",
    0x24 SUQ_USED - Opaque,
    0x25 LD_CACHEMOD_INSTR_OFFSETS - Offsets,
    0x26 LOAD_CACHE_REQUEST - FunctionValue,
    0x27 ATOM_SYS_INSTR_OFFSETS - Offsets,
    0x28 COOP_GROUP_INSTR_OFFSETS Sized Offsets: "Where cooperative groups' warp operations are.",
    0x29 COOP_GROUP_MASK_REGIDS Sized Words: "The registers that hold the masks of those operations.",
    0x2a SW1850030_WAR - Words,
    0x2b WMMA_USED Flag Opaque: "The function uses warp matrix operations.",
    0x2c HAS_PRE_V10_OBJECT - Opaque,
    0x2d ATOMF16_EMUL_INSTR_OFFSETS - Offsets,
    0x2e ATOM16_EMUL_INSTR_REG_MAP Sized OffsetPairs,
    0x2f REGCOUNT Sized FunctionValue: "How many registers a thread has.",
    0x30 SW2393858_WAR - Words,
    0x31 INT_WARP_WIDE_INSTR_OFFSETS Sized Offsets: "Where warp-wide operations are.",
    0x32 SHARED_SCRATCH - Words,
    0x33 STATISTICS - Words,
    0x34 INDIRECT_BRANCH_TARGETS Sized IndirectBranches: "Indirect branches and their targets.",
    0x35 SW2861232_WAR Flag Words,
    0x36 SW_WAR Sized Words: "Work-arounds the code carries.",
    0x37 CUDA_API_VERSION Sized Words: "The CUDA version of the compiler.",
    0x38 NUM_MBARRIERS Half Opaque: "How many mbarriers there are.",
    0x39 MBARRIER_INSTR_OFFSETS Sized Mbarriers: "Instructions that work on mbarriers.",
    0x3a COROUTINE_RESUME_ID_OFFSETS - Words,
    0x3b SAM_REGION_STACK_SIZE - FunctionValue,
    0x3c PER_REG_TARGET_PERF_STATS - Words,
    0x3d CTA_PER_CLUSTER Sized Dimensions: "Blocks in a cluster.",
    0x3e EXPLICIT_CLUSTER Flag Opaque: "The kernel states its cluster's shape.",
    0x3f MAX_CLUSTER_RANK Sized Words: "Largest number of blocks in a cluster.",
    0x40 INSTR_REG_MAP Sized OffsetTriples,
    0x41 RESERVED_SMEM_USED Flag Opaque,
    0x42 RESERVED_SMEM_0_SIZE - Words,
    0x43 UCODE_SECTION_DATA - Words,
    0x44 UNUSED_LOAD_BYTE_OFFSET Sized OffsetPairs,
    0x45 KPARAM_INFO_V2 Sized WideParam: "A kernel parameter too large for [`KPARAM_INFO`].",
    0x46 SYSCALL_OFFSETS Sized Offsets: "Calls of functions that the driver provides.",
    0x47 SW_WAR_MEMBAR_SYS_INSTR_OFFSETS - Offsets,
    0x48 GRAPHICS_GLOBAL_CBANK - Words,
    0x49 SHADER_TYPE - Opaque,
    0x4a VRC_CTA_INIT_COUNT Byte Opaque,
    0x4b TOOLS_PATCH_FUNC - Words,
    0x4c NUM_BARRIERS Byte Opaque: "How many named barriers are used.",
    0x4d TEXMODE_INDEPENDENT Flag Opaque: "Textures and samplers are named apart.",
    0x4e PERF_STATISTICS - Words,
    0x4f AT_ENTRY_FRAGMENTS - Words,
    0x50 SPARSE_MMA_MASK Half Opaque: "Which sparse matrix operations are used.",
    0x51 TCGEN05_1CTA_USED - Opaque,
    0x52 TCGEN05_2CTA_USED - Opaque,
    0x53 GEN_ERRBAR_AT_EXIT Flag Opaque: "Errors of a function's accesses are reported before its threads end.",
    0x54 REG_RECONFIG Flag Opaque: "The kernel changes its register count (`setmaxnreg`).",
    0x55 ANNOTATIONS Sized Words,
    0x57 STACK_CANARY_TRAP_OFFSETS - Offsets,
    0x58 STUB_FUNCTION_KIND - Opaque,
    0x59 LOCAL_CTA_ASYNC_STORE_OFFSETS - Offsets,
    0x5a MERCURY_FINALIZER_OPTIONS - Words,
    0x5b BLOCKS_ARE_CLUSTERS Flag Opaque: "The grid is given in clusters.",
    0x5c SANITIZE Half Opaque: "what a kernel is instrumented for: 0 for threads held up at random, 1 for memcheck",
    0x5d SYSCALLS_FALLBACK - SymbolPairs,
    0x5e CUDA_REQ - Words,
    0x5f MERCURY_ISA_VERSION Half Opaque: "The Mercury version, major and minor.",
    0x61 RTCORE_ENTRY - Words,
    0x62 CLUSTER_LAUNCH_CONTROL_USED - Words,
    0x64 MIN_PER_CTA_MEMORY_SIZE - Words,
    0x65 IGNOREOOB_CP_ASYNC_BULK_INSTR_OFFSETS - Offsets,
    0x66 LANGUAGE - Words,
}

numbers! {
    /// The attributes of `.nv.compat` and their names, without `EICOMPAT_ATTR_`.
    COMPAT_ATTRIBUTES;
    /// Identifiers of the attributes of `.nv.compat`.
    compat: u8 {
        0x00 ERROR,
        0x01 PAD,
        0x02 ISA_CLASS: "The class of the instructions used.",
        0x03 INST_TENSORMAP_V1: "Whether tensor maps of version 1 are used.",
        0x04 INST_TCGEN05_MMA_DEPRECATED,
        0x05 INST_TCGEN05_MMA: "Which tcgen05 operations are used.",
        0x06 ENABLE_OPPORTUNISTIC_FINALIZATION: "Whether the driver may finalize the code for another chip.",
        0x07 MERCURY_ISA_MAJOR_MINOR_VERSION: "The Mercury version.",
        0x08 MERCURY_ISA_PATCH_VERSION,
        0x09 CUDA_ACCELERATOR_TARGET: "1 for an architecture-specific target such as sm_90a.",
        0x0a CUDA_DRIVER_VERSION,
        0x0b CAN_FASTPATH_FINALIZE: "For which chips finalization is trivial.",
    }
}

/// The row of an attribute of `.nv.info`.
pub fn attribute_row(id: u8) -> Option<&'static AttributeRow> {
    let index = ATTRIBUTES.binary_search_by_key(&id, |row| row.id).ok()?;
    ATTRIBUTES.get(index)
}

/// The name of an attribute of `.nv.info`, without `EIATTR_`.
pub fn attribute_name(id: u8) -> Option<&'static str> {
    attribute_row(id).map(|row| row.name)
}

/// The name of an attribute of `.nv.compat`, without `EICOMPAT_ATTR_`.
pub fn compat_name(id: u8) -> Option<&'static str> {
    COMPAT_ATTRIBUTES
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, name)| *name)
}
