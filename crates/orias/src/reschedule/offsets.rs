//! What a container says about instructions by their offsets, after they moved.
//!
//! Attributes of `.nv.info.<function>` list exits, warp-wide operations, mbarrier operations, loads, and more; relocations name the
//! word they are to be written into. All of them follow their instruction. Lists that ptxas has in the order of the code are put into
//! that order again. Whatever is not known to be free of offsets is refused by name.

use orias_cubin::attribute::{Attribute, Payload, Value, attribute_name, attribute_row, id};
use orias_cubin::{Body, Cubin};
use orias_mercury::WORD;

/// The identifier of `ANNOTATIONS`: pairs of a kind and the offset of an instruction.
const ANNOTATIONS: u8 = 0x55;

/// The only kind of annotation that was ever seen.
const ANNOTATION_OF_INSTRUCTION: u32 = 1;

/// Attributes of unknown content whose names speak of code.
const UNKNOWN: &[&str] = &[
    "JUMPTABLE_RELOCS",
    "COROUTINE_RESUME_ID_OFFSETS",
    "UCODE_SECTION_DATA",
    "AT_ENTRY_FRAGMENTS",
    "TOOLS_PATCH_FUNC",
];

/// Something about offsets that cannot follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffsetError {
    /// An attribute whose content is not known.
    #[error("attribute {0} may hold offsets into the code and is not understood")]
    Attribute(String),
    /// An offset that is no instruction's.
    #[error("attribute {attribute} names {offset:#x}, where no instruction is")]
    Outside {
        /// The attribute.
        attribute: String,
        /// The offset.
        offset: u32,
    },
    /// A relocation outside the code.
    #[error("a relocation names {0:#x}, where no instruction is")]
    Relocation(u64),
    /// A section with debug information that names instructions.
    #[error(
        "{0} describes the code instruction by instruction, and rewriting it is not supported yet"
    )]
    Debug(String),
}

/// Where each instruction of a function went.
#[derive(Clone, Debug)]
pub struct Moves {
    /// By the index it had: the index it has.
    to: Vec<u32>,
}

impl Moves {
    /// From a list of the old indices in the new order.
    pub fn new(order: &[u32]) -> Moves {
        let mut to = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            to[old as usize] = new as u32;
        }
        Moves { to }
    }

    /// How many instructions stand elsewhere.
    pub fn count(&self) -> usize {
        let moved = self.to.iter().enumerate();
        moved.filter(|(old, new)| *old as u32 != **new).count()
    }

    /// The new offset of an instruction, or of a byte in it. What lies behind the last instruction stays.
    pub fn offset(&self, offset: u64) -> u64 {
        let word = WORD as u64;
        match self.to.get((offset / word) as usize) {
            Some(&to) => u64::from(to) * word + offset % word,
            None => offset,
        }
    }

    fn of_attribute(&self, attribute: &Attribute, offset: u32) -> Result<u32, OffsetError> {
        if !(offset as usize).is_multiple_of(WORD) || offset as usize / WORD >= self.to.len() {
            return Err(OffsetError::Outside {
                attribute: name_of(attribute),
                offset,
            });
        }
        Ok(self.offset(u64::from(offset)) as u32)
    }
}

fn name_of(attribute: &Attribute) -> String {
    attribute_name(attribute.id).map_or_else(|| format!("{:#04x}", attribute.id), str::to_owned)
}

/// Lets all that names instructions of the text section `section` follow them.
pub fn follow(cubin: &mut Cubin, section: usize, moves: &Moves) -> Result<(), OffsetError> {
    if moves.count() == 0 {
        return Ok(());
    }
    let named = |link: u32| link as usize == section;
    for other in &mut cubin.sections {
        match &mut other.body {
            Body::Info(attributes) if named(other.info) => follow_attributes(attributes, moves)?,
            Body::Relocations(relocations) if named(other.info) => {
                let end = (moves.to.len() * WORD) as u64;
                for relocation in relocations {
                    if relocation.offset >= end {
                        return Err(OffsetError::Relocation(relocation.offset));
                    }
                    relocation.offset = moves.offset(relocation.offset);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn follow_attributes(attributes: &mut [Attribute], moves: &Moves) -> Result<(), OffsetError> {
    let mut masks = None;
    for slot in attributes.iter_mut() {
        let attribute = slot.clone();
        let to = |offset: u32| moves.of_attribute(&attribute, offset);
        let value = match &attribute.value {
            Value::Offsets(offsets) => {
                let mut moved: Vec<(u32, usize)> = Vec::with_capacity(offsets.len());
                for (place, &offset) in offsets.iter().enumerate() {
                    moved.push((to(offset)?, place));
                }
                moved.sort_unstable();
                if attribute.id == id::COOP_GROUP_INSTR_OFFSETS {
                    masks = Some(moved.iter().map(|(_, place)| *place).collect::<Vec<_>>());
                }
                Value::Offsets(moved.into_iter().map(|(offset, _)| offset).collect())
            }
            Value::OffsetPairs(pairs) => {
                let moved = pairs.iter().map(|&[offset, rest]| Ok([to(offset)?, rest]));
                let mut moved = moved.collect::<Result<Vec<_>, OffsetError>>()?;
                moved.sort_unstable();
                Value::OffsetPairs(moved)
            }
            Value::OffsetTriples(triples) => {
                let moved = triples
                    .iter()
                    .map(|&[offset, a, b]| Ok([to(offset)?, a, b]));
                let mut moved = moved.collect::<Result<Vec<_>, OffsetError>>()?;
                moved.sort_unstable();
                Value::OffsetTriples(moved)
            }
            Value::Mbarriers(uses) => {
                let mut moved = uses.clone();
                for one in &mut moved {
                    one.offset = to(one.offset)?;
                }
                moved.sort_by_key(|one| one.offset);
                Value::Mbarriers(moved)
            }
            Value::IndirectBranches(branches) => {
                // Branches end blocks and their targets start them: neither moves.
                let mut moved = branches.clone();
                for branch in &mut moved {
                    branch.offset = to(branch.offset)?;
                }
                Value::IndirectBranches(moved)
            }
            Value::Words(words) if attribute.id == ANNOTATIONS => {
                Value::Words(follow_annotations(&attribute, words, moves)?)
            }
            _ => {
                refuse_unknown(&attribute)?;
                continue;
            }
        };
        slot.value = value;
    }
    // The masks of warp operations are listed in the order of the operations.
    if let Some(order) = masks {
        for attribute in attributes {
            if let Value::Words(words) = &mut attribute.value
                && attribute.id == id::COOP_GROUP_MASK_REGIDS
                && words.len() == order.len()
            {
                *words = order.iter().map(|&place| words[place]).collect();
            }
        }
    }
    Ok(())
}

fn follow_annotations(
    attribute: &Attribute,
    words: &[u32],
    moves: &Moves,
) -> Result<Vec<u32>, OffsetError> {
    let mut offsets = Vec::with_capacity(words.len() / 2);
    for pair in words.chunks(2) {
        match *pair {
            [ANNOTATION_OF_INSTRUCTION, offset] => {
                offsets.push(moves.of_attribute(attribute, offset)?);
            }
            _ => return Err(OffsetError::Attribute(name_of(attribute))),
        }
    }
    offsets.sort_unstable();
    let pairs = offsets.into_iter();
    Ok(pairs
        .flat_map(|offset| [ANNOTATION_OF_INSTRUCTION, offset])
        .collect())
}

/// Refuses an attribute that may name instructions in a way that is not understood.
fn refuse_unknown(attribute: &Attribute) -> Result<(), OffsetError> {
    let row = attribute_row(attribute.id);
    let unread = matches!(attribute.value, Value::Raw(_))
        && row.is_none_or(|row| {
            matches!(
                row.payload,
                Payload::Offsets
                    | Payload::OffsetPairs
                    | Payload::OffsetTriples
                    | Payload::IndirectBranches
                    | Payload::Mbarriers
                    | Payload::Opaque
            )
        });
    if unread || row.is_some_and(|row| UNKNOWN.contains(&row.name)) {
        return Err(OffsetError::Attribute(name_of(attribute)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(id: u8, value: Value) -> Attribute {
        Attribute { id, value }
    }

    #[test]
    fn lists_of_offsets_follow_and_stay_in_the_order_of_the_code() {
        // The third instruction comes first.
        let moves = Moves::new(&[2, 0, 1, 3]);
        assert_eq!(moves.count(), 3);
        let mut attributes = vec![
            attribute(id::COOP_GROUP_MASK_REGIDS, Value::Words(vec![7, 9])),
            attribute(
                id::COOP_GROUP_INSTR_OFFSETS,
                Value::Offsets(vec![0x10, 0x20]),
            ),
            attribute(id::EXIT_INSTR_OFFSETS, Value::Offsets(vec![0x30])),
            attribute(
                id::UNUSED_LOAD_BYTE_OFFSET,
                Value::OffsetPairs(vec![[0, 12], [0x20, 8]]),
            ),
            attribute(id::ANNOTATIONS, Value::Words(vec![1, 0x10, 1, 0x20])),
            attribute(id::REGCOUNT, Value::Words(vec![0x20])),
        ];
        follow_attributes(&mut attributes, &moves).expect("all is understood");
        let values: Vec<_> = attributes.into_iter().map(|one| one.value).collect();
        assert_eq!(
            values,
            [
                Value::Words(vec![9, 7]),
                Value::Offsets(vec![0, 0x20]),
                Value::Offsets(vec![0x30]),
                Value::OffsetPairs(vec![[0, 8], [0x10, 12]]),
                Value::Words(vec![1, 0, 1, 0x20]),
                Value::Words(vec![0x20]),
            ]
        );
    }

    #[test]
    fn what_may_hold_offsets_and_is_not_understood_is_refused() {
        let moves = Moves::new(&[1, 0]);
        let refused = |attribute| follow_attributes(&mut [attribute], &moves).unwrap_err();
        assert!(
            refused(attribute(id::JUMPTABLE_RELOCS, Value::Words(vec![0])))
                .to_string()
                .contains("JUMPTABLE_RELOCS")
        );
        assert!(
            refused(attribute(id::ANNOTATIONS, Value::Words(vec![2, 0])))
                .to_string()
                .contains("ANNOTATIONS")
        );
        assert!(
            refused(attribute(
                id::EXIT_INSTR_OFFSETS,
                Value::Offsets(vec![0x48])
            ))
            .to_string()
            .contains("0x48")
        );
    }
}
