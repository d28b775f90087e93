//! What may be an address, by instruction.
//!
//! ptxas takes registers of any width for an address and leaves the rest to the machine, but for a few families of
//! instructions that it expands itself; and it looks at the space of a variable even where the address is generic.

use crate::ast::Space;
use crate::grammar::Op;

/// What an instruction takes for an address.
#[derive(Debug, PartialEq, Eq)]
pub struct AddressRule {
    /// How many bits a register needs for a generic address.
    pub generic_bits: u32,
    /// How many it needs where the instruction names a space.
    pub bits: u32,
    /// The spaces of variables whose names stand for a generic address.
    pub generic: &'static [Space],
    /// Whether a constant is a generic address.
    pub constant: bool,
}

/// The rule of most instructions.
pub(super) static PLAIN: AddressRule = AddressRule {
    generic_bits: 8,
    bits: 8,
    generic: &[Space::Global, Space::Shared, Space::Local],
    constant: false,
};

/// The rules of the others, by how their names start; the first that fits counts.
static RULES: &[(&str, AddressRule)] = &[
    ("multimem.red", wide(64, 64)),
    ("wmma.", wide(32, 32)),
    ("cp.async.mbarrier.arrive", wide(32, 8)),
    ("createpolicy.range", wide(32, 8)),
    ("red.async", wide(32, 8)),
    ("st.async", wide(32, 8)),
    ("tensormap.replace", wide(32, 8)),
    ("ldmatrix", wide(32, 8)),
    ("stmatrix", wide(32, 8)),
    ("mbarrier.", within(&[Space::Shared])),
    ("prefetchu", within(&[Space::Global])),
    // Tensor maps.
    ("cp.async.bulk.tensor", within(&[Space::Global])),
    ("cp.async.bulk.prefetch.tensor", within(&[Space::Global])),
    ("cp.reduce.async.bulk.tensor", within(&[Space::Global])),
    (
        "fence.proxy",
        AddressRule {
            generic_bits: 8,
            bits: 8,
            generic: &[
                Space::Global,
                Space::Shared,
                Space::Local,
                Space::Const,
                Space::Param,
            ],
            constant: true,
        },
    ),
];

const fn wide(generic_bits: u32, bits: u32) -> AddressRule {
    AddressRule {
        generic_bits,
        bits,
        generic: &[Space::Global, Space::Shared, Space::Local],
        constant: false,
    }
}

const fn within(generic: &'static [Space]) -> AddressRule {
    AddressRule {
        generic_bits: 8,
        bits: 8,
        generic,
        constant: false,
    }
}

/// The rule of an instruction.
pub(super) fn address_rule(op: Op) -> &'static AddressRule {
    RULES
        .iter()
        .find(|(start, _)| op.name().starts_with(start))
        .map_or(&PLAIN, |(_, rule)| rule)
}
