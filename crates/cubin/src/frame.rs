//! `.debug_frame`: how a debugger finds the caller's frame, in the form ptxas gives it.
//!
//! 64-bit DWARF, version 3. Every function gets a common entry and a frame entry of its own. Register 1 is the stack pointer. Without
//! [`FrameRules`] the return address has no register and the frame is at the stack pointer from the first instruction to the last. With
//! them, the common entry says which registers a call keeps, and the frame entry how far the frame is from the stack pointer and where
//! registers of the caller are stored meanwhile.

use crate::bytes::Put;

/// How a debugger finds the frame of a function's caller, and what the caller had in registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameRules {
    /// The general register that holds where the function returns to; a kernel has none.
    pub return_register: Option<u8>,
    /// General registers that are the caller's again when the function returns, besides the stack pointer.
    pub kept: Vec<u8>,
    /// What changes, and from which offset on, in order.
    pub steps: Vec<(u64, FrameStep)>,
}

/// A change of the rules within a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStep {
    /// The frame has so many bytes above the stack pointer.
    Size(u32),
    /// A register of the caller is stored so many bytes below the frame's upper end.
    Stored(u8, u32),
    /// What the caller had in a register lies in another one.
    Moved(u8, u8),
    /// What the caller had in a register is gone.
    Lost(u8),
    /// A register has again what the caller had in it.
    Restored(u8),
}

/// A part of a text section that is a function of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered<'a> {
    /// What changes in it.
    pub rules: Option<&'a FrameRules>,
    /// Index of the symbol its address is relative to.
    pub symbol: u32,
    /// Its offset from that symbol.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The stack pointer R1 as a DWARF register: a class in the upper bits and the number, in LEB128.
const STACK_POINTER: [u8; 4] = [0x81, 0x80, 0x80, 0x28];
/// The pseudo-register for the return address, likewise.
const RETURN_ADDRESS: [u8; 4] = [0xff, 0x81, 0x80, 0x28];
/// The number ptxas gives as the return address column.
const RETURN_COLUMN: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x0f];

/// A general register as a DWARF register: a class above the number.
const GENERAL: u32 = 5 << 24;
/// How many general registers rules are given for.
const GENERAL_REGISTERS: u8 = 255;
/// The code alignment: advances count multiples of it.
const CODE_UNIT: u64 = 4;
/// The negated data alignment: offsets count multiples of it.
const DATA_UNIT: u32 = 4;

const DW_CFA_ADVANCE_LOC4: u8 = 0x04;
const DW_CFA_OFFSET_EXTENDED: u8 = 0x05;
const DW_CFA_RESTORE_EXTENDED: u8 = 0x06;
const DW_CFA_UNDEFINED: u8 = 0x07;
const DW_CFA_REGISTER: u8 = 0x09;
const DW_CFA_DEF_CFA: u8 = 0x0c;
const DW_CFA_SAME_VALUE: u8 = 0x08;
const DW_CFA_NOP: u8 = 0x00;

/// Marks the 64-bit form of an entry's length.
const DWARF64: u32 = 0xffff_ffff;
/// Marks a common entry.
const COMMON: u64 = u64::MAX;

/// An entry: its length, then its content padded with no-operations to a multiple of 8.
fn put_entry(bytes: &mut Vec<u8>, mut content: Vec<u8>) {
    // The four bytes of the marker count towards the alignment, the content therefore is 4 more than a multiple of 8.
    while content.len() % 8 != 4 {
        content.push(DW_CFA_NOP);
    }
    bytes.put_u32(DWARF64);
    bytes.put_u64(content.len() as u64);
    bytes.extend_from_slice(&content);
}

fn put_leb(content: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        content.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    content.put_u8(value as u8);
}

fn put_general(content: &mut Vec<u8>, register: u8) {
    put_leb(content, u64::from(GENERAL | u32::from(register)));
}

fn common_entry(rules: Option<&FrameRules>) -> Vec<u8> {
    let mut content = Vec::new();
    content.put_u64(COMMON);
    content.put_u8(3); // version
    content.put_u8(0); // no augmentation
    content.put_u8(4); // code alignment
    content.put_u8(0x7c); // data alignment: -4
    match rules.and_then(|rules| rules.return_register) {
        Some(register) => put_general(&mut content, register),
        None => content.extend_from_slice(&RETURN_COLUMN),
    }
    content.put_u8(DW_CFA_DEF_CFA);
    content.extend_from_slice(&STACK_POINTER);
    content.put_u8(0);
    for register in [RETURN_ADDRESS, STACK_POINTER] {
        content.put_u8(DW_CFA_SAME_VALUE);
        content.extend_from_slice(&register);
    }
    if let Some(rules) = rules {
        for register in (0..GENERAL_REGISTERS).filter(|&register| register != 1) {
            content.put_u8(match rules.kept.contains(&register) {
                true => DW_CFA_SAME_VALUE,
                false => DW_CFA_UNDEFINED,
            });
            put_general(&mut content, register);
        }
    }
    content
}

fn put_steps(content: &mut Vec<u8>, steps: &[(u64, FrameStep)]) {
    let mut at = 0;
    for &(offset, step) in steps {
        if offset > at {
            content.put_u8(DW_CFA_ADVANCE_LOC4);
            content.put_u32(((offset - at) / CODE_UNIT) as u32);
            at = offset;
        }
        match step {
            FrameStep::Size(bytes) => {
                content.put_u8(DW_CFA_DEF_CFA);
                content.extend_from_slice(&STACK_POINTER);
                put_leb(content, bytes.into());
            }
            FrameStep::Stored(register, below) => {
                content.put_u8(DW_CFA_OFFSET_EXTENDED);
                put_general(content, register);
                put_leb(content, (below / DATA_UNIT).into());
            }
            FrameStep::Moved(register, to) => {
                content.put_u8(DW_CFA_REGISTER);
                put_general(content, register);
                put_general(content, to);
            }
            FrameStep::Lost(register) => {
                content.put_u8(DW_CFA_UNDEFINED);
                put_general(content, register);
            }
            FrameStep::Restored(register) => {
                content.put_u8(DW_CFA_RESTORE_EXTENDED);
                put_general(content, register);
            }
        }
    }
}

/// Where the entry of a function has what relocations fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameEntry {
    /// Where its common entry starts; it says so in the eight bytes before the address.
    pub common: u64,
    /// Where its address is; the size stands behind it.
    pub address: u64,
}

/// The section's bytes, and for each function what relocations fill in.
pub(crate) fn write(functions: &[Covered<'_>]) -> (Vec<u8>, Vec<FrameEntry>) {
    let mut bytes = Vec::new();
    let mut addresses = Vec::new();
    for function in functions {
        let common = bytes.len() as u64;
        put_entry(&mut bytes, common_entry(function.rules));
        let mut content = Vec::new();
        content.put_u64(common);
        // Marker and length stand before the content, the common entry's offset before the address.
        addresses.push(FrameEntry {
            common,
            address: bytes.len() as u64 + 12 + 8,
        });
        content.put_u64(0);
        content.put_u64(function.size);
        content.put_u8(DW_CFA_DEF_CFA);
        content.extend_from_slice(&STACK_POINTER);
        content.put_u8(0);
        if let Some(rules) = function.rules {
            put_steps(&mut content, &rules.steps);
        }
        put_entry(&mut bytes, content);
    }
    (bytes, addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_gets_two_entries_and_an_address_to_relocate() {
        let function = |size| Covered {
            rules: None,
            symbol: 7,
            offset: 0,
            size,
        };
        let (bytes, addresses) = write(&[function(0x180), function(0x80)]);
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(addresses.len(), 2);
        for (address, size) in addresses.iter().zip([0x180_u64, 0x80]) {
            let at = address.address as usize;
            assert_eq!(bytes[at..at + 8], [0; 8]);
            assert_eq!(bytes[at + 8..at + 16], size.to_le_bytes());
        }
        // The second function's entry points at its own common entry.
        let second = addresses[1].address as usize;
        let common = u64::from_le_bytes(bytes[second - 8..second].try_into().expect("8 bytes"));
        assert_eq!(common, addresses[1].common);
        assert_eq!(bytes[common as usize..][..4], DWARF64.to_le_bytes());
        assert_eq!(bytes[common as usize + 12..][..8], COMMON.to_le_bytes());
    }
}
