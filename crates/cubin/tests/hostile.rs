//! Damaged and hostile files: the reader refuses with a place, or gives a model that is written back exactly as the file was.

mod common;

use common::module;
use orias_cubin::{Cubin, ErrorKind, PrintOptions, print, to_json};
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let cubin = module().build().expect("a good module");
    cubin.write().expect("a model that can be written")
}

/// The promise. Returns whether the file could be read.
fn check(file: &[u8]) -> bool {
    match Cubin::read(file) {
        Ok(cubin) => {
            assert_eq!(
                cubin.write().as_deref(),
                Ok(file),
                "written back differently"
            );
            true
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("file offset"), "no place in: {message}");
            false
        }
    }
}

/// The promise, and that whatever was read can be printed.
fn check_and_print(file: &[u8]) {
    if check(file) {
        let cubin = Cubin::read(file).expect("it was read before");
        assert!(!print(&cubin, PrintOptions::default()).is_empty());
        assert!(to_json(&cubin).is_object());
    }
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u64_at(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes"))
}

/// The offset of the header of section `index`.
fn section_header(file: &[u8], index: usize) -> usize {
    u64_at(file, 0x28) as usize + 64 * index
}

#[test]
fn every_beginning_of_a_file_is_refused() {
    let file = sample();
    for length in 0..file.len() {
        assert!(!check(&file[..length]), "cut to {length} bytes");
    }
    assert!(check(&file));
}

#[test]
fn bytes_after_the_end_are_kept() {
    let mut file = sample();
    file.extend_from_slice(&[0, 0, 0]);
    assert!(check(&file));
    file.extend_from_slice(&[1, 2, 3]);
    assert!(check(&file));
}

#[test]
fn every_single_bit_of_the_headers_may_flip() {
    let file = sample();
    let tables = u64_at(&file, 0x28) as usize;
    for at in (0..64).chain(tables..file.len()) {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            check(&damaged);
        }
    }
}

#[test]
fn every_byte_of_the_contents_may_change() {
    let file = sample();
    let tables = u64_at(&file, 0x28) as usize;
    for at in 64..tables {
        let mut damaged = file.clone();
        damaged[at] = !damaged[at];
        check(&damaged);
    }
}

#[test]
fn every_field_of_the_section_headers_may_hold_the_largest_number() {
    let file = sample();
    let sections = u16::from_le_bytes([file[60], file[61]]) as usize;
    for index in 0..sections {
        for (field, size) in [
            (0, 4),
            (4, 4),
            (8, 8),
            (16, 8),
            (24, 8),
            (32, 8),
            (40, 4),
            (44, 4),
            (48, 8),
            (56, 8),
        ] {
            for value in [u64::MAX, i64::MAX as u64, 1 << 63, 0x7000_0000, 2, 0] {
                let mut damaged = file.clone();
                let at = section_header(&file, index) + field;
                put(&mut damaged, at, &value.to_le_bytes()[..size]);
                check_and_print(&damaged);
            }
        }
    }
}

#[test]
fn many_sections_over_the_same_bytes_are_refused_without_copying_them() {
    // 60,000 sections that each claim a megabyte.
    const SECTIONS: usize = 60_000;
    const SIZE: usize = 1 << 20;
    let mut file = sample();
    file.truncate(64);
    let tables = 64 + SIZE;
    put(&mut file, 0x28, &(tables as u64).to_le_bytes());
    put(&mut file, 60, &(SECTIONS as u16).to_le_bytes());
    put(&mut file, 62, &[0, 0]);
    put(&mut file, 56, &[0, 0]);
    file.resize(tables + 64 * SECTIONS, 0);
    for index in 0..SECTIONS {
        let at = section_header(&file, index);
        put(&mut file, at + 4, &1_u32.to_le_bytes());
        put(&mut file, at + 24, &64_u64.to_le_bytes());
        put(&mut file, at + 32, &(SIZE as u64).to_le_bytes());
    }
    let error = Cubin::read(&file).expect_err("overlapping");
    assert_eq!(
        error.kind,
        ErrorKind::Unsupported("parts of the file that overlap")
    );
}

#[test]
fn names_that_overlap_do_not_multiply() {
    // 40,000 symbols whose names are the ends of one name of a megabyte.
    const SYMBOLS: usize = 40_000;
    const SIZE: usize = 1 << 20;
    let mut file = sample();
    file.truncate(64);
    file.resize(64 + SIZE, b'a');
    file.push(0);
    file.resize(file.len().next_multiple_of(8), 0);
    let symbols = file.len();
    for index in 0..SYMBOLS {
        file.extend_from_slice(&(index as u32).to_le_bytes());
        file.extend_from_slice(&[0; 20]);
    }
    let tables = file.len();
    put(&mut file, 0x28, &(tables as u64).to_le_bytes());
    put(&mut file, 56, &[0, 0]);
    put(&mut file, 60, &3_u16.to_le_bytes());
    put(&mut file, 62, &[0, 0]);
    file.resize(tables + 64 * 3, 0);
    for (index, kind, start, size, link) in [
        (1, 3_u32, 64, SIZE + 1, 0_u32),
        (2, 2, symbols, SYMBOLS * 24, 1),
    ] {
        let at = section_header(&file, index);
        put(&mut file, at + 4, &kind.to_le_bytes());
        put(&mut file, at + 24, &(start as u64).to_le_bytes());
        put(&mut file, at + 32, &(size as u64).to_le_bytes());
        put(&mut file, at + 40, &link.to_le_bytes());
    }
    put(&mut file, 32, &[0; 8]);
    let error = Cubin::read(&file).expect_err("too many names");
    assert_eq!(
        error.kind,
        ErrorKind::Unsupported("names that share most of their bytes")
    );
}

#[test]
fn errors_say_what_and_where() {
    let file = sample();
    let message = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut damaged = file.clone();
        change(&mut damaged);
        Cubin::read(&damaged).expect_err("damaged").to_string()
    };
    assert_eq!(
        message(&|file| file.clear()),
        "file offset 0x0: not an ELF file"
    );
    assert_eq!(
        message(&|file| put(file, 18, &[62, 0])),
        "file offset 0x12: e_machine is 0x3e, a cubin has 0xbe"
    );
    assert_eq!(
        message(&|file| file.truncate(40)),
        "file offset 0x28: the file header needs 8 bytes, 0 are left"
    );
    let symbols = section_header(&file, 3);
    assert_eq!(
        message(&|file| put(file, symbols + 24, &0x10_0000_u64.to_le_bytes())),
        format!(
            "section 3, file offset 0x100000: the section at 0x100000 with {:#x} bytes does not fit in a file of {:#x} bytes",
            u64_at(&file, symbols + 32),
            file.len()
        )
    );
    assert_eq!(
        message(&|file| put(file, symbols + 40, &99_u32.to_le_bytes())),
        format!(
            "section 3 (.symtab), file offset {:#x}: string table 99 does not exist, there are {}",
            u64_at(&file, symbols + 24),
            file[60]
        )
    );
    let info = section_header(&file, 7);
    let start = u64_at(&file, info + 24);
    assert_eq!(
        message(&|file| put(file, start as usize + 2, &[0xff, 0xff])),
        format!(
            "section 7 (.nv.info), file offset {:#x}: an attribute's payload needs 65535 bytes, {} are left",
            start + 4,
            u64_at(&file, info + 32) - 4
        )
    );
    assert_eq!(
        message(&|file| put(file, info + 48, &[3])),
        format!("section 7 (.nv.info), file offset {info:#x}: alignment 0x3 is not a power of two")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn several_changes_at_once(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut file = sample();
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        check_and_print(&file);
    }

    #[test]
    fn parts_moved_around(from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), count in 1_usize..200) {
        let mut file = sample();
        let (from, to) = (from.index(file.len()), to.index(file.len()));
        let count = count.min(file.len() - from).min(file.len() - to);
        file.copy_within(from..from + count, to);
        check_and_print(&file);
    }

    #[test]
    fn any_bytes_after_a_good_start(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut file = sample()[..64].to_vec();
        put(&mut file, 0x28, &64_u64.to_le_bytes());
        put(&mut file, 60, &2_u16.to_le_bytes());
        file.extend_from_slice(&bytes);
        check_and_print(&file);
    }
}
