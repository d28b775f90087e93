//! How modifiers of PTX carry over to Ori.
//!
//! Ori's modifiers are named as PTX names them, so an operation's modifiers are found by name: for each kind of modifier
//! its row has, the first modifier of the PTX form that is one of the kind's names. What is spelt differently is in
//! [`ALIASES`]. The types are the form's first (the result's) and last (the source's).

use super::body::{Body, Lowered, Statement};
use super::operands::scalar;
use orias_ori::operation::{AbstractMods, AbstractOp, ModifierKind, SourceType, Space};
use orias_ptx::opcode::Form;

/// Modifiers whose names differ: PTX's, Ori's.
const ALIASES: &[(&str, &str)] = &[
    ("shared::cta", "shared"),
    ("shared::cluster", "shared_cluster"),
    ("param::entry", "param"),
    ("param::func", "param"),
    ("L1::evict_normal", "evict_normal"),
    ("L1::evict_unchanged", "evict_unchanged"),
    ("L1::evict_first", "evict_first"),
    ("L1::evict_last", "evict_last"),
    ("L1::no_allocate", "no_allocate"),
    ("L2::evict_normal", "evict_normal"),
    ("L2::evict_first", "evict_first"),
    ("L2::evict_last", "evict_last"),
    ("L2::evict_unchanged", "evict_unchanged"),
    ("L2::64B", "L2_64B"),
    ("L2::128B", "L2_128B"),
    ("L2::256B", "L2_256B"),
    ("launch_dependents", "launch"),
];

/// Ori's name of a PTX modifier.
fn ori_name(name: &str) -> &str {
    ALIASES
        .iter()
        .find(|(theirs, _)| *theirs == name)
        .map_or(name, |(_, ours)| ours)
}

/// The number of the value a form gives a kind of modifier, if it names one.
fn named(form: &Form, kind: ModifierKind) -> Option<u8> {
    form.modifiers().find_map(|modifier| {
        let name = ori_name(modifier.name());
        let place = kind.names().iter().position(|&it| it == name)?;
        Some(place as u8)
    })
}

/// The state space a form names; generic where it names none.
pub(super) fn space(form: &Form) -> Space {
    modifier(form).unwrap_or(Space::Generic)
}

/// The value of a modifier that a form names, or the first.
pub(super) fn modifier<M: orias_ori::operation::Modifier>(form: &Form) -> Option<M> {
    M::from_number(named(form, M::KIND)?)
}

impl Body<'_, '_> {
    /// The modifiers of `op` that carry over from the PTX instruction. Worked out once for each spelling.
    pub fn carried(&mut self, statement: &Statement<'_>, op: AbstractOp) -> Lowered<AbstractMods> {
        let key = (statement.key, op);
        if let Some(&mods) = self.packed.get(&key) {
            return Ok(mods);
        }
        let mut mods = AbstractMods::NONE;
        let types: Vec<_> = statement.form.types().collect();
        for (place, &kind) in op.row().modifiers.iter().enumerate() {
            let value = match kind {
                ModifierKind::Scalar => match types.first() {
                    Some(&ty) => scalar(ty)? as u8,
                    None => 0,
                },
                ModifierKind::SourceType => match types.last() {
                    Some(&ty) => SourceType::from(scalar(ty)?) as u8,
                    None => 0,
                },
                other => named(statement.form, other).unwrap_or(0),
            };
            mods = mods.with(place, value);
        }
        self.packed.insert(key, mods);
        Ok(mods)
    }
}

/// `mods` with one modifier set; unchanged where the row has none such.
pub(super) fn set<M: orias_ori::operation::Modifier>(
    op: AbstractOp,
    mods: AbstractMods,
    value: M,
) -> AbstractMods {
    op.row().with_modifier(mods, value).unwrap_or(mods)
}
