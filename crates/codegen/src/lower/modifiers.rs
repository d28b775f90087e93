//! How modifiers of PTX carry over to Ori.
//!
//! Ori's modifiers are named as PTX names them, so an operation's modifiers are found by name: for each kind of modifier
//! its row has, the first modifier of the PTX form that is one of the kind's names. What is spelt differently is told by
//! [`renamed`]. The types are the form's first (the result's) and last (the source's).

use super::body::{Body, Lowered, Statement};
use super::operands::scalar;
use orias_ori::operation::{
    AbstractMods, AbstractOp, Evict, Modifier, ModifierKind, Prefetch, SourceType, Space,
};
use orias_ptx::grammar::Modifier as PtxModifier;
use orias_ptx::opcode::Form;

/// What a modifier of PTX is in Ori, where their names differ: the kind and the number of its value.
fn renamed(modifier: PtxModifier) -> Option<(ModifierKind, u8)> {
    fn is<M: Modifier>(value: M) -> (ModifierKind, u8) {
        (M::KIND, value.number())
    }
    Some(match modifier {
        PtxModifier::SharedCta => is(Space::Shared),
        PtxModifier::SharedCluster => is(Space::SharedCluster),
        PtxModifier::ParamEntry | PtxModifier::ParamFunc => is(Space::Param),
        PtxModifier::L1NoAllocate => is(Evict::NoAllocate),
        PtxModifier::L2_64B => is(Prefetch::B64),
        PtxModifier::L2_128B => is(Prefetch::B128),
        PtxModifier::L2_256B => is(Prefetch::B256),
        other => is(eviction(other)?),
    })
}

/// The priority with which a cache line is evicted, of modifiers that name one and the cache.
pub(super) fn eviction(modifier: PtxModifier) -> Option<Evict> {
    Some(match modifier {
        PtxModifier::L1EvictNormal | PtxModifier::L2EvictNormal => Evict::Normal,
        PtxModifier::L1EvictUnchanged | PtxModifier::L2EvictUnchanged => Evict::Unchanged,
        PtxModifier::L1EvictFirst | PtxModifier::L2EvictFirst => Evict::First,
        PtxModifier::L1EvictLast | PtxModifier::L2EvictLast => Evict::Last,
        _ => return None,
    })
}

/// The number of the value a form gives a kind of modifier, if it names one.
fn named(form: &Form, kind: ModifierKind) -> Option<u8> {
    form.modifiers()
        .find_map(|modifier| match renamed(modifier) {
            Some((its, number)) => (its == kind).then_some(number),
            None => {
                let place = kind.names().iter().position(|&it| it == modifier.name())?;
                Some(place as u8)
            }
        })
}

/// The state space a form names; generic where it names none.
pub(super) fn space(form: &Form) -> Space {
    modifier(form).unwrap_or(Space::Generic)
}

/// The value of a modifier that a form names, or the first.
pub(super) fn modifier<M: Modifier>(form: &Form) -> Option<M> {
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
pub(super) fn set<M: Modifier>(op: AbstractOp, mods: AbstractMods, value: M) -> AbstractMods {
    op.row().with_modifier(mods, value).unwrap_or(mods)
}
