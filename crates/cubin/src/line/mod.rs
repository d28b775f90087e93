//! Line tables: `.debug_line`, which leads from code to the source's lines, and `.nv_debug_line_sass`, which leads to the PTX's.
//!
//! Both are DWARF version 2 line programs, one sequence for each function, as ptxas writes them. A row says from which address on code
//! comes from which line. NVIDIA adds one extended opcode (0x90) with two numbers: the row that holds the place code was inlined at,
//! counted from 1 in its sequence, and the offset in `.debug_str` of the name of the function that was inlined. Both hold until the
//! opcode comes again; zeros end it. So the row of a call stands before the rows of what was inlined there, at the same address.
//!
//! [`write()`] makes tables, byte for byte as ptxas does; [`program`] reads those of anybody; [`lines_of`] answers from which line an
//! instruction comes.

mod lookup;
pub mod program;

pub use lookup::{SourceLine, line_at, lines_of, ptx_lines_of, ptx_text_of};

/// A source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path.
    pub path: String,
    /// Time of its last change and size, where the PTX says.
    pub stamp: (u64, u64),
}

/// A row of a line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// The first address it holds for.
    pub address: u64,
    /// The file, counted from 1; 0 for the PTX.
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
    /// The row of the place it was inlined at, counted from 1.
    pub inlined_at: u32,
    /// The offset of its function's name in `.debug_str`, where it was inlined.
    pub function: u32,
}

/// The rows of one function.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sequence {
    /// The rows, by address.
    pub rows: Vec<LineRow>,
    /// The address behind the code.
    pub end: u64,
}

/// The smallest line difference of a special opcode.
const LINE_BASE: i64 = -5;
/// How many line differences special opcodes have.
const LINE_RANGE: i64 = 14;
/// The first special opcode.
const OPCODE_BASE: u8 = 10;
/// How many numbers each standard opcode takes.
const LENGTHS: [u8; 9] = [0, 1, 1, 1, 1, 0, 0, 0, 1];

/// Where the names of inlined functions start in `.debug_str`; tables with inlined rows say so at the end of their header.
const STRINGS_AT: u32 = 0;

const COPY: u8 = 1;
const ADVANCE_PC: u8 = 2;
const ADVANCE_LINE: u8 = 3;
const SET_FILE: u8 = 4;
const SET_COLUMN: u8 = 5;
const NEGATE_STMT: u8 = 6;
const SET_BASIC_BLOCK: u8 = 7;
const CONST_ADD_PC: u8 = 8;
const FIXED_ADVANCE_PC: u8 = 9;
/// Extended opcodes stand behind a zero and their length.
const END_SEQUENCE: u8 = 1;
const SET_ADDRESS: u8 = 2;
/// NVIDIA's: where code was inlined.
const INLINED: u8 = 0x90;

/// The bytes of a table, and the offset of each sequence's address, which a relocation fills in.
pub fn write(files: &[SourceFile], sequences: &[Sequence]) -> (Vec<u8>, Vec<u64>) {
    let mut header = vec![1, 1, LINE_BASE as u8, LINE_RANGE as u8, OPCODE_BASE];
    header.extend(LENGTHS);
    write_files(files, &mut header);
    if sequences
        .iter()
        .any(|one| one.rows.iter().any(|row| row.inlined_at > 0))
    {
        header.extend(STRINGS_AT.to_le_bytes());
    }
    let mut program = Vec::new();
    let mut addresses = Vec::new();
    for sequence in sequences.iter().filter(|one| !one.rows.is_empty()) {
        addresses.push(write_sequence(sequence, &mut program));
    }
    // Version, length of the header, header, program.
    let length = 2 + 4 + header.len() + program.len();
    let mut bytes = Vec::with_capacity(4 + length);
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend(header);
    let start = bytes.len() as u64;
    bytes.extend(program);
    (bytes, addresses.iter().map(|at| at + start).collect())
}

/// Folders in the order of the files that lie in them, then the files.
fn write_files(files: &[SourceFile], out: &mut Vec<u8>) {
    let split = |path: &'_ str| -> (String, String) {
        match path.rfind('/') {
            Some(0) => ("/".to_owned(), path[1..].to_owned()),
            Some(at) => (path[..at].to_owned(), path[at + 1..].to_owned()),
            None => (String::new(), path.to_owned()),
        }
    };
    let mut folders: Vec<String> = Vec::new();
    for file in files {
        let (folder, _) = split(&file.path);
        if !folder.is_empty() && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    for folder in &folders {
        out.extend(folder.bytes());
        out.push(0);
    }
    out.push(0);
    for file in files {
        let (folder, name) = split(&file.path);
        let index = folders.iter().position(|known| *known == folder);
        out.extend(name.bytes());
        out.push(0);
        unsigned(index.map_or(0, |index| index as u64 + 1), out);
        unsigned(file.stamp.0, out);
        unsigned(file.stamp.1, out);
    }
    out.push(0);
}

/// Appends a sequence and returns where its address is.
fn write_sequence(sequence: &Sequence, out: &mut Vec<u8>) -> u64 {
    out.extend([0, 9, SET_ADDRESS]);
    let at = out.len() as u64;
    out.extend([0; 8]);
    let (mut address, mut line, mut file) = (0_u64, 1_i64, None);
    let mut inlined = (0, 0);
    for row in &sequence.rows {
        if file != Some(row.file) {
            out.push(SET_FILE);
            unsigned(u64::from(row.file), out);
            file = Some(row.file);
        }
        let context = (row.inlined_at, row.function);
        if context != inlined {
            let mut numbers = Vec::new();
            unsigned(u64::from(context.0), &mut numbers);
            unsigned(u64::from(context.1), &mut numbers);
            out.push(0);
            unsigned(numbers.len() as u64 + 1, out);
            out.push(INLINED);
            out.extend(numbers);
            inlined = context;
        }
        let (forward, down) = (row.address - address, i64::from(row.line) - line);
        match special(forward, down) {
            Some(opcode) => out.push(opcode),
            None => {
                if down != 0 {
                    out.push(ADVANCE_LINE);
                    signed(down, out);
                }
                if forward != 0 {
                    out.push(ADVANCE_PC);
                    unsigned(forward, out);
                }
                out.push(COPY);
            }
        }
        (address, line) = (row.address, i64::from(row.line));
    }
    out.push(ADVANCE_PC);
    unsigned(sequence.end.saturating_sub(address), out);
    out.extend([0, 1, END_SEQUENCE]);
    at
}

/// The opcode that moves on and makes a row, if there is one; without moving on, ptxas spells it out.
fn special(forward: u64, down: i64) -> Option<u8> {
    if forward == 0 || forward > 16 || !(LINE_BASE..LINE_BASE + LINE_RANGE).contains(&down) {
        return None;
    }
    let opcode = down - LINE_BASE + LINE_RANGE * forward as i64 + i64::from(OPCODE_BASE);
    u8::try_from(opcode).ok()
}

/// Appends a number in groups of seven bits (LEB128).
fn unsigned(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let byte = number as u8 & 0x7f;
        number >>= 7;
        if number == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

/// The same for a number with a sign.
fn signed(mut number: i64, out: &mut Vec<u8>) {
    loop {
        let byte = number as u8 & 0x7f;
        number >>= 7;
        if number == 0 && byte & 0x40 == 0 || number == -1 && byte & 0x40 != 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: u64, line: u32) -> LineRow {
        LineRow {
            address,
            file: 1,
            line,
            inlined_at: 0,
            function: 0,
        }
    }

    /// What ptxas 13.0.88 wrote for a kernel of 384 bytes.
    #[test]
    fn a_table_is_byte_for_byte_ptxas() {
        let files = [SourceFile {
            path: "/tmp/li/t.cu".to_owned(),
            stamp: (0, 0),
        }];
        let rows = vec![row(0, 14), row(0x10, 15), row(0x20, 16), row(0xa0, 17)];
        let (bytes, addresses) = write(&files, &[Sequence { rows, end: 0x180 }]);
        let program = [
            0x00, 0x09, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0x04, 0x01, 0x03, 0x0d, 0x01, 0xf0, 0xf0,
            0x03, 0x01, 0x02, 0x80, 0x01, 0x01, 0x02, 0xe0, 0x01, 0x00, 0x01, 0x01,
        ];
        assert_eq!(&bytes[bytes.len() - program.len()..], program);
        assert_eq!(addresses, [(bytes.len() - program.len() + 3) as u64]);
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(length as usize + 4, bytes.len());
    }

    #[test]
    fn an_inlined_row_names_the_row_of_the_call() {
        let call = row(0x90, 12);
        let inner = LineRow {
            line: 7,
            inlined_at: 1,
            function: 10,
            ..call
        };
        let (bytes, _) = write(
            &[],
            &[Sequence {
                rows: vec![call, inner, row(0xa0, 12)],
                end: 0xb0,
            }],
        );
        let opcode = [0x00, 0x03, 0x90, 0x01, 0x0a, 0x03, 0x7b, 0x01];
        assert!(bytes.windows(opcode.len()).any(|window| window == opcode));
        let back = [0x00, 0x03, 0x90, 0x00, 0x00];
        assert!(bytes.windows(back.len()).any(|window| window == back));
    }
}
