//! The numbers of the ELF format and of NVIDIA's additions to it.
//!
//! Section types, relocation types and their names are those that the public `cuobjdump -elf` prints for each number (13.2.51).

/// A table of numbers and their names, and a module with a constant for each: a name that no row has does not compile.
macro_rules! numbers {
    (
        $(#[$table_doc:meta])* $table:ident;
        $(#[$module_doc:meta])* $module:ident: $ty:ty { $($number:literal $name:ident $(: $doc:literal)?,)* }
    ) => {
        $(#[$table_doc])*
        pub const $table: &[($ty, &str)] = &[$(($number, stringify!($name)),)*];

        $(#[$module_doc])*
        pub mod $module {
            $(
                #[doc = concat!("`", stringify!($name), "`" $(, ": ", $doc)?)]
                pub const $name: $ty = $number;
            )*
        }
    };
}

pub(crate) use numbers;

/// `e_machine` of a cubin.
pub const EM_CUDA: u16 = 190;
/// `EI_OSABI` of a cubin since ABI version 8.
pub const ELFOSABI_CUDA: u8 = 0x41;
/// `e_type` of a relocatable object (`ptxas -c`).
pub const ET_REL: u16 = 1;
/// `e_type` of what the driver loads.
pub const ET_EXEC: u16 = 2;
/// `e_type` of an extensible whole program (`ptxas -ewp`).
pub const ET_EXTENSIBLE: u16 = 0xff00;

/// Sizes of the fixed records of a 64-bit ELF file.
pub mod size {
    /// The file header.
    pub const HEADER: u64 = 64;
    /// A section header.
    pub const SECTION_HEADER: u64 = 64;
    /// A program header.
    pub const PROGRAM_HEADER: u64 = 56;
    /// A symbol.
    pub const SYMBOL: u64 = 24;
    /// A relocation without addend.
    pub const REL: u64 = 16;
    /// A relocation with addend.
    pub const RELA: u64 = 24;
}

/// Section flags.
pub mod shf {
    /// Writable.
    pub const WRITE: u64 = 1;
    /// Occupies memory.
    pub const ALLOC: u64 = 2;
    /// Code.
    pub const EXECINSTR: u64 = 4;
    /// `sh_info` is a section's index.
    pub const INFO_LINK: u64 = 0x40;
    /// Mercury's copy of a section, from sm_100 on; never loaded.
    pub const MERCURY: u64 = 0x1000_0000;
    /// On `.note.nv.cuinfo`: seen there and nowhere else.
    pub const NOTE_CUINFO: u64 = 0x0100_0000;
    /// On `.note.nv.tkinfo`: seen there and nowhere else.
    pub const NOTE_TKINFO: u64 = 0x0200_0000;
}

/// Symbol types.
pub mod stt {
    /// No type.
    pub const NOTYPE: u8 = 0;
    /// A variable.
    pub const OBJECT: u8 = 1;
    /// A function.
    pub const FUNC: u8 = 2;
    /// A section.
    pub const SECTION: u8 = 3;
    /// A texture.
    pub const CUDA_TEXTURE: u8 = 10;
    /// A sampler.
    pub const CUDA_SAMPLER: u8 = 11;
    /// A surface.
    pub const CUDA_SURFACE: u8 = 12;
    /// A variable in a relocatable object.
    pub const CUDA_OBJECT: u8 = 13;
}

/// Symbol bindings.
pub mod stb {
    /// Seen in this file only.
    pub const LOCAL: u8 = 0;
    /// Seen everywhere.
    pub const GLOBAL: u8 = 1;
    /// Seen everywhere, and yields to a global one.
    pub const WEAK: u8 = 2;
}

/// Bits of `st_other`.
pub mod sto {
    /// The visibility of generic ELF.
    pub const VISIBILITY: u8 = 0x03;
    /// A `.managed` variable.
    pub const MANAGED: u8 = 0x04;
    /// A kernel.
    pub const ENTRY: u8 = 0x10;
    /// Three bits that say which memory a variable lies in.
    pub const SPACE: u8 = 0xe0;
}

/// Program header types and flags.
pub mod pt {
    /// A part of the file that is loaded.
    pub const LOAD: u32 = 1;
    /// The program headers themselves.
    pub const PHDR: u32 = 6;
    /// Executable.
    pub const FLAG_X: u32 = 1;
    /// Writable.
    pub const FLAG_W: u32 = 2;
    /// Readable.
    pub const FLAG_R: u32 = 4;
}

numbers! {
    /// Section types and their names.
    SECTION_TYPES;
    /// Section types.
    sht: u32 {
        0x0 NULL: "No section.",
        0x1 PROGBITS: "Bytes.",
        0x2 SYMTAB: "Symbols.",
        0x3 STRTAB: "Strings.",
        0x4 RELA: "Relocations with addends.",
        0x5 HASH,
        0x6 DYNAMIC,
        0x7 NOTE: "Notes.",
        0x8 NOBITS: "Memory without bytes in the file.",
        0x9 REL: "Relocations without addends.",
        0xa SHLIB,
        0xb DYNSYM,
        0xe INIT_ARRAY,
        0xf FINI_ARRAY,
        0x10 PREINIT_ARRAY,
        0x11 GROUP,
        0x12 SYMTAB_SHNDX,
        0x7000_0000 CUDA_INFO: "Attributes.",
        0x7000_0001 CUDA_CALLGRAPH: "Who calls whom.",
        0x7000_0002 CUDA_PROTOTYPE: "Prototypes of indirect calls.",
        0x7000_0003 CUDA_RESOLVED_RELA,
        0x7000_0004 CUDA_METADATA,
        0x7000_0006 CUDA_CONSTANT,
        0x7000_0007 CUDA_GLOBAL: "Global variables without initialisers, in relocatable objects.",
        0x7000_0008 CUDA_GLOBAL_INIT: "Global variables with initialisers, in relocatable objects.",
        0x7000_0009 CUDA_LOCAL: "Local memory, in relocatable objects.",
        0x7000_000a CUDA_SHARED: "Shared memory, in relocatable objects.",
        0x7000_000b CUDA_RELOCINFO,
        0x7000_000c CUDA_MERCURY,
        0x7000_000d CUDA_MERCURY_SASS_MAP,
        0x7000_000e CUDA_UFT,
        0x7000_0010 CUDA_UIDX,
        0x7000_0011 CUDA_UFT_ENTRY,
        0x7000_0012 CUDA_UDT,
        0x7000_0014 CUDA_UDT_ENTRY,
        0x7000_0015 CUDA_RESERVED_SHARED: "Shared memory that the system keeps for itself.",
        0x7000_0016 CUDA_CAPMERC,
        0x7000_0064 CUDA_CONSTANT_B0: "Constant bank 0, in relocatable objects; bank n has this plus n.",
        0x7000_0065 CUDA_CONSTANT_B1,
        0x7000_0066 CUDA_CONSTANT_B2,
        0x7000_0067 CUDA_CONSTANT_B3,
        0x7000_0068 CUDA_CONSTANT_B4,
        0x7000_0069 CUDA_CONSTANT_B5,
        0x7000_006a CUDA_CONSTANT_B6,
        0x7000_006b CUDA_CONSTANT_B7,
        0x7000_0078 CUDA_MERCURY_CONSTANT_PARAMS,
        0x7000_0079 CUDA_MERCURY_CONSTANT_IMGHDR,
        0x7000_007a CUDA_MERCURY_CONSTANT_DRIVER,
        0x7000_007b CUDA_MERCURY_CONSTANT_OPT,
        0x7000_007c CUDA_MERCURY_CONSTANT_USER,
        0x7000_007d CUDA_MERCURY_CONSTANT_PIC,
        0x7000_007e CUDA_MERCURY_CONSTANT_TOOLS,
        0x7000_0082 CUDA_MERCURY_RELA,
        0x7000_0083 CUDA_MERCURY_INFO,
        0x7000_0084 CUDA_MERCURY_PROGBITS,
        0x7000_0085 CUDA_MERCURY_SYMTAB,
        0x7000_0086 CUDA_COMPAT_INFO: "What a driver must support.",
        0x7000_0087 CUDA_EMBEDDED_HOST,
        0x7000_0088 CUDA_MERCURY_RESOLVED_RELA,
    }
}

numbers! {
    /// Relocation types and their names. In a name such as `ABS32_LO_32` the first number is the width of the field in bits, the last
    /// its position in the instruction.
    RELOCATION_TYPES;
    /// Relocation types.
    relocation: u32 {
        0x01 R_CUDA_32,
        0x02 R_CUDA_64,
        0x03 R_CUDA_G32,
        0x04 R_CUDA_G64,
        0x05 R_CUDA_ABS32_26,
        0x06 R_CUDA_TEX_HEADER_INDEX,
        0x07 R_CUDA_SAMP_HEADER_INDEX,
        0x08 R_CUDA_SURF_HW_DESC,
        0x09 R_CUDA_SURF_HW_SW_DESC,
        0x0a R_CUDA_ABS32_LO_26,
        0x0b R_CUDA_ABS32_HI_26,
        0x0c R_CUDA_ABS32_23,
        0x0d R_CUDA_ABS32_LO_23,
        0x0e R_CUDA_ABS32_HI_23,
        0x0f R_CUDA_ABS24_26,
        0x10 R_CUDA_ABS24_23,
        0x11 R_CUDA_ABS16_26,
        0x12 R_CUDA_ABS16_23,
        0x13 R_CUDA_TEX_SLOT,
        0x14 R_CUDA_SAMP_SLOT,
        0x15 R_CUDA_SURF_SLOT,
        0x16 R_CUDA_TEX_BINDLESSOFF13_32,
        0x17 R_CUDA_TEX_BINDLESSOFF13_47,
        0x18 R_CUDA_CONST_FIELD19_28,
        0x19 R_CUDA_CONST_FIELD19_23,
        0x1a R_CUDA_TEX_SLOT9_49,
        0x1b R_CUDA_6_31,
        0x1c R_CUDA_2_47,
        0x1d R_CUDA_TEX_BINDLESSOFF13_41,
        0x1e R_CUDA_TEX_BINDLESSOFF13_45,
        0x1f R_CUDA_FUNC_DESC32_23,
        0x20 R_CUDA_FUNC_DESC32_LO_23,
        0x21 R_CUDA_FUNC_DESC32_HI_23,
        0x22 R_CUDA_FUNC_DESC_32,
        0x23 R_CUDA_FUNC_DESC_64,
        0x24 R_CUDA_CONST_FIELD21_26,
        0x25 R_CUDA_QUERY_DESC21_37,
        0x26 R_CUDA_CONST_FIELD19_26,
        0x27 R_CUDA_CONST_FIELD21_23,
        0x28 R_CUDA_PCREL_IMM24_26,
        0x29 R_CUDA_PCREL_IMM24_23,
        0x2a R_CUDA_ABS32_20,
        0x2b R_CUDA_ABS32_LO_20,
        0x2c R_CUDA_ABS32_HI_20,
        0x2d R_CUDA_ABS24_20,
        0x2e R_CUDA_ABS16_20,
        0x2f R_CUDA_FUNC_DESC32_20,
        0x30 R_CUDA_FUNC_DESC32_LO_20,
        0x31 R_CUDA_FUNC_DESC32_HI_20,
        0x32 R_CUDA_CONST_FIELD19_20,
        0x33 R_CUDA_BINDLESSOFF13_36,
        0x34 R_CUDA_SURF_HEADER_INDEX,
        0x35 R_CUDA_INSTRUCTION64,
        0x36 R_CUDA_CONST_FIELD21_20,
        0x37 R_CUDA_ABS32_32,
        0x38 R_CUDA_ABS32_LO_32,
        0x39 R_CUDA_ABS32_HI_32,
        0x3a R_CUDA_ABS47_34,
        0x3b R_CUDA_ABS16_32,
        0x3c R_CUDA_ABS24_32,
        0x3d R_CUDA_FUNC_DESC32_32,
        0x3e R_CUDA_FUNC_DESC32_LO_32,
        0x3f R_CUDA_FUNC_DESC32_HI_32,
        0x40 R_CUDA_CONST_FIELD19_40,
        0x41 R_CUDA_BINDLESSOFF14_40,
        0x42 R_CUDA_CONST_FIELD21_38,
        0x43 R_CUDA_INSTRUCTION128,
        0x44 R_CUDA_YIELD_OPCODE9_0,
        0x45 R_CUDA_YIELD_CLEAR_PRED4_87,
        0x46 R_CUDA_32_LO,
        0x47 R_CUDA_32_HI,
        0x48 R_CUDA_UNUSED_CLEAR32,
        0x49 R_CUDA_UNUSED_CLEAR64,
        0x4a R_CUDA_ABS24_40,
        0x4b R_CUDA_ABS55_16_34,
        0x4c R_CUDA_8_0,
        0x4d R_CUDA_8_8,
        0x4e R_CUDA_8_16,
        0x4f R_CUDA_8_24,
        0x50 R_CUDA_8_32,
        0x51 R_CUDA_8_40,
        0x52 R_CUDA_8_48,
        0x53 R_CUDA_8_56,
        0x54 R_CUDA_G8_0,
        0x55 R_CUDA_G8_8,
        0x56 R_CUDA_G8_16,
        0x57 R_CUDA_G8_24,
        0x58 R_CUDA_G8_32,
        0x59 R_CUDA_G8_40,
        0x5a R_CUDA_G8_48,
        0x5b R_CUDA_G8_56,
        0x5c R_CUDA_FUNC_DESC_8_0,
        0x5d R_CUDA_FUNC_DESC_8_8,
        0x5e R_CUDA_FUNC_DESC_8_16,
        0x5f R_CUDA_FUNC_DESC_8_24,
        0x60 R_CUDA_FUNC_DESC_8_32,
        0x61 R_CUDA_FUNC_DESC_8_40,
        0x62 R_CUDA_FUNC_DESC_8_48,
        0x63 R_CUDA_FUNC_DESC_8_56,
        0x64 R_CUDA_ABS20_44,
        0x65 R_CUDA_SAMP_HEADER_INDEX_0,
        0x66 R_CUDA_UNIFIED,
        0x67 R_CUDA_UNIFIED_32,
        0x68 R_CUDA_UNIFIED_8_0,
        0x69 R_CUDA_UNIFIED_8_8,
        0x6a R_CUDA_UNIFIED_8_16,
        0x6b R_CUDA_UNIFIED_8_24,
        0x6c R_CUDA_UNIFIED_8_32,
        0x6d R_CUDA_UNIFIED_8_40,
        0x6e R_CUDA_UNIFIED_8_48,
        0x6f R_CUDA_UNIFIED_8_56,
        0x70 R_CUDA_UNIFIED32_LO_32,
        0x71 R_CUDA_UNIFIED32_HI_32,
        0x72 R_CUDA_ABS56_16_34,
        0x73 R_CUDA_CONST_FIELD22_37,
    }
}

/// Types of relocations in data.
pub mod r_cuda {
    use super::relocation;

    /// The 32-bit address of a symbol in its memory.
    pub const ADDRESS_32: u32 = relocation::R_CUDA_32;
    /// The 64-bit address of a symbol in its memory.
    pub const ADDRESS_64: u32 = relocation::R_CUDA_64;
    /// The 64-bit generic address of a variable.
    pub const GENERIC_64: u32 = relocation::R_CUDA_G64;
    /// The number of a texture.
    pub const TEXTURE_HEADER: u32 = relocation::R_CUDA_TEX_HEADER_INDEX;
    /// The number of a surface.
    pub const SURFACE_HEADER: u32 = relocation::R_CUDA_SURF_HEADER_INDEX;
    /// The number of a sampler.
    pub const SAMPLER_HEADER: u32 = relocation::R_CUDA_SAMP_HEADER_INDEX_0;
    /// The 64-bit address of a function's descriptor.
    pub const FUNCTION_64: u32 = relocation::R_CUDA_FUNC_DESC_64;
    /// The lowest byte of an address; those above follow.
    pub const ADDRESS_8: u32 = relocation::R_CUDA_8_0;
    /// The lowest byte of a generic address; those above follow.
    pub const GENERIC_8: u32 = relocation::R_CUDA_G8_0;
    /// The lowest byte of the address of a function's descriptor; those above follow.
    pub const FUNCTION_8: u32 = relocation::R_CUDA_FUNC_DESC_8_0;

    /// The 64-bit address that programs have of a function, for the linker to fill in.
    pub const UNIFIED_64: u32 = relocation::R_CUDA_UNIFIED;
    /// Its lowest byte; those above follow.
    pub const UNIFIED_8: u32 = relocation::R_CUDA_UNIFIED_8_0;
    /// Nothing, unless the linker leaves the symbol out: then zero.
    pub const CLEARED_64: u32 = relocation::R_CUDA_UNUSED_CLEAR64;

    /// How many bytes a relocation of data fills in; `None` for types that occur in code only.
    pub const fn data_bytes(kind: u32) -> Option<u64> {
        match kind {
            ADDRESS_64 | GENERIC_64 | FUNCTION_64 | UNIFIED_64 => Some(8),
            ADDRESS_8..=relocation::R_CUDA_FUNC_DESC_8_56
            | UNIFIED_8..=relocation::R_CUDA_UNIFIED_8_56 => Some(1),
            _ => None,
        }
    }
}

fn name_in(table: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    let index = table.binary_search_by_key(&number, |row| row.0).ok()?;
    Some(table[index].1)
}

/// The name of a section type.
pub fn section_type_name(number: u32) -> Option<&'static str> {
    name_in(SECTION_TYPES, number)
}

/// The name of a relocation type.
pub fn relocation_type_name(number: u32) -> Option<&'static str> {
    name_in(RELOCATION_TYPES, number)
}

/// Whether sections of this type have a size in memory but no bytes in the file.
pub(crate) fn occupies_no_file(kind: u32) -> bool {
    matches!(
        kind,
        sht::NOBITS
            | sht::CUDA_GLOBAL
            | sht::CUDA_LOCAL
            | sht::CUDA_SHARED
            | sht::CUDA_RESERVED_SHARED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_so_that_every_row_is_found() {
        for (table, name) in [
            (SECTION_TYPES, "section types"),
            (RELOCATION_TYPES, "relocation types"),
        ] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0), "{name}");
        }
        assert_eq!(
            section_type_name(sht::CUDA_COMPAT_INFO),
            Some("CUDA_COMPAT_INFO")
        );
        assert_eq!(relocation_type_name(2), Some("R_CUDA_64"));
        assert_eq!(relocation_type_name(0x7f), None);
    }
}
