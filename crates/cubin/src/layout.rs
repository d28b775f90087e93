//! Where the parts of a file lie: the rules ptxas follows, used to read and to write.
//!
//! The file header, then the sections in the order of their indices, each at the next multiple of its alignment; sections without
//! bytes in the file are placed as if they were empty. Then the section headers, aligned to 8, and the program headers directly
//! after them. A program header covers a longest run of sections that are in memory and have the same permissions; before those
//! runs stand one header of type PHDR and one of type LOAD for the table of program headers itself.

use crate::bytes::align_up;
use crate::elf::{self, occupies_no_file, pt, shf, size};
use crate::model::{Extent, Placement, Section, Segment};

/// A section as far as placing it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
    /// Its alignment.
    pub align: u64,
}

/// Where a part that must be aligned to `align` starts, if the parts before it end at `end` and start at `starts`.
pub(crate) fn place(end: u64, align: u64, placement: Placement, starts: &[u64]) -> u64 {
    match placement {
        Placement::After { slack } => align_up(end.saturating_add(slack), align),
        Placement::At(offset) => offset,
        Placement::With(index) => starts.get(index).copied().unwrap_or(end),
    }
}

/// How a part that starts at `start` is placed, if the parts before it end at `end`.
pub(crate) fn placement(end: u64, align: u64, start: u64) -> Placement {
    if place(end, align, Placement::NEXT, &[]) == start {
        return Placement::NEXT;
    }
    let placement = Placement::After {
        slack: start.wrapping_sub(end),
    };
    if start > end && place(end, align, placement, &[]) == start {
        placement
    } else {
        Placement::At(start)
    }
}

/// The range of the file and the size in memory that a program header over these sections states.
///
/// The padding before a section without bytes in the file counts as bytes of the file.
pub(crate) fn extent_of(starts: &[u64], parts: &[Part]) -> (u64, u64, u64) {
    let Some(&offset) = starts.first() else {
        return (0, 0, 0);
    };
    let mut file_end = offset;
    let mut memory_end = offset;
    for (&start, part) in starts.iter().zip(parts) {
        file_end = start.saturating_add(part.file_size);
        memory_end = align_up(memory_end, part.align).saturating_add(part.memory_size);
    }
    (
        offset,
        file_end.saturating_sub(offset),
        memory_end.saturating_sub(offset),
    )
}

/// The permissions of a section that is in memory, as a program header states them.
fn permissions(section: &Section) -> Option<u32> {
    if section.flags & shf::ALLOC == 0 || section.flags & shf::MERCURY != 0 {
        return None;
    }
    let mut flags = pt::FLAG_R;
    if section.flags & shf::WRITE != 0 {
        flags |= pt::FLAG_W;
    }
    if section.flags & shf::EXECINSTR != 0 {
        flags |= pt::FLAG_X;
    }
    Some(flags)
}

/// The longest runs of sections that are in memory with the same permissions.
pub(crate) fn runs(sections: &[Section]) -> Vec<(usize, usize, u32)> {
    let mut runs: Vec<(usize, usize, u32)> = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let Some(flags) = permissions(section) else {
            continue;
        };
        match runs.last_mut() {
            Some((_, last, run_flags)) if *last + 1 == index && *run_flags == flags => {
                *last = index;
            }
            _ => runs.push((index, index, flags)),
        }
    }
    runs
}

/// The program headers ptxas would give these sections in a file for the driver.
pub fn derive_segments(sections: &[Section]) -> Vec<Segment> {
    let segment = |kind, flags, extent| Segment {
        kind,
        flags,
        virtual_address: 0,
        physical_address: 0,
        align: 8,
        extent,
    };
    let mut segments = vec![
        segment(pt::PHDR, pt::FLAG_R, Extent::ProgramHeaders),
        segment(pt::LOAD, pt::FLAG_R, Extent::ProgramHeaders),
    ];
    segments.extend(
        runs(sections)
            .into_iter()
            .map(|(first, last, flags)| segment(pt::LOAD, flags, Extent::Sections { first, last })),
    );
    segments
}

/// The bytes a section of this type and size takes in the file.
pub(crate) fn file_size(kind: u32, bytes: u64) -> u64 {
    if kind == elf::sht::NULL || occupies_no_file(kind) {
        0
    } else {
        bytes
    }
}

/// The alignment of the section headers.
pub(crate) const TABLE_ALIGN: u64 = 8;

/// The end of the file header, where the first section starts.
pub(crate) const FIRST_PART: u64 = size::HEADER;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_leads_back_to_the_start_it_was_made_from() {
        for (end, align, start) in [
            (0x40, 1, 0x40),
            (0x41, 8, 0x48),
            (0x41, 8, 0x50),
            (0x41, 8, 0x51),
            (0x41, 1, 0x80),
            (0x100, 8, 0x40),
        ] {
            assert_eq!(place(end, align, placement(end, align, start), &[]), start);
        }
        assert_eq!(placement(0x41, 8, 0x48), Placement::NEXT);
        assert_eq!(placement(0x41, 1, 0x45), Placement::After { slack: 4 });
        assert_eq!(placement(0x41, 8, 0x51), Placement::At(0x51));
    }

    #[test]
    fn memory_without_bytes_in_the_file_counts_in_the_file_with_its_padding_only() {
        let part = |file_size, memory_size, align| Part {
            file_size,
            memory_size,
            align,
        };
        let parts = [part(0x18, 0x18, 8), part(0, 0xa, 1), part(0, 0x40, 16)];
        assert_eq!(
            extent_of(&[0x100, 0x118, 0x120], &parts),
            (0x100, 0x20, 0x70)
        );
    }
}
