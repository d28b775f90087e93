//! `.debug_frame`: how a debugger finds the caller's frame, in the form ptxas gives it.
//!
//! 64-bit DWARF, version 3. Every function gets a common entry and a frame entry of its own. Register 1 is the stack pointer, the
//! return address has no register. The frame entries written here say one thing: the frame is at the stack pointer from the first
//! instruction to the last.

use crate::bytes::Put;

/// A part of a text section that is a function of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
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

fn common_entry() -> Vec<u8> {
    let mut content = Vec::new();
    content.put_u64(COMMON);
    content.put_u8(3); // version
    content.put_u8(0); // no augmentation
    content.put_u8(4); // code alignment
    content.put_u8(0x7c); // data alignment: -4
    content.extend_from_slice(&RETURN_COLUMN);
    content.put_u8(DW_CFA_DEF_CFA);
    content.extend_from_slice(&STACK_POINTER);
    content.put_u8(0);
    for register in [RETURN_ADDRESS, STACK_POINTER] {
        content.put_u8(DW_CFA_SAME_VALUE);
        content.extend_from_slice(&register);
    }
    content
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
pub(crate) fn write(functions: &[Covered]) -> (Vec<u8>, Vec<FrameEntry>) {
    let mut bytes = Vec::new();
    let mut addresses = Vec::new();
    for function in functions {
        let common = bytes.len() as u64;
        put_entry(&mut bytes, common_entry());
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
