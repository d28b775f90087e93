//! Giving each written modifier a slot of a row.

use super::holds;
use crate::grammar::{Modifier, Row, Rule, Slot};

/// The kinds of modifiers that keep their order among themselves.
fn ordered_kind(modifier: Modifier) -> u8 {
    if modifier.as_type().is_some() {
        return 1;
    }
    match modifier {
        Modifier::Global | Modifier::Const | Modifier::Local | Modifier::Param => 2,
        Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster => 2,
        Modifier::Row | Modifier::Col => 3,
        // How the bits of a binary matrix are multiplied, then added.
        Modifier::Xor | Modifier::And | Modifier::Popc => 4,
        _ => 0,
    }
}

/// Gives each written modifier a slot of the row, if there is a way.
pub(super) fn assign(row: &Row, modifiers: &[Modifier]) -> Option<Vec<Option<Modifier>>> {
    let required = row.slots.iter().filter(|slot| !slot.optional).count();
    if modifiers.len() > row.slots.len() || modifiers.len() < required {
        return None;
    }
    let mut places: Vec<usize> = Vec::with_capacity(modifiers.len());
    let mut next = 0;
    // Depth-first search: `places[i]` is the slot of modifier `i`, `next` the slot to try for the one after.
    loop {
        let at = places.len();
        if at == modifiers.len() {
            let mut chosen = vec![None; row.slots.len()];
            for (&slot, &modifier) in places.iter().zip(modifiers) {
                chosen[slot] = Some(modifier);
            }
            if complete(row.slots, &chosen) {
                return Some(chosen);
            }
        } else if let Some(slot) = free_slot(row, modifiers, &places, next) {
            places.push(slot);
            next = 0;
            continue;
        }
        next = places.pop()? + 1;
    }
}

fn free_slot(row: &Row, modifiers: &[Modifier], places: &[usize], from: usize) -> Option<usize> {
    let modifier = modifiers[places.len()];
    let kind = ordered_kind(modifier);
    let after = places
        .iter()
        .zip(modifiers)
        .filter(|(_, other)| kind != 0 && ordered_kind(**other) == kind)
        .map(|(&slot, _)| slot + 1)
        .max()
        .unwrap_or(0);
    (from.max(after)..row.slots.len()).find(|&slot| {
        !places.contains(&slot)
            && row.slots[slot]
                .alternatives
                .iter()
                .any(|it| it.modifier == modifier)
    })
}

/// Whether every required slot is filled, and slots that go together are filled together.
pub(super) fn complete(slots: &[Slot], chosen: &[Option<Modifier>]) -> bool {
    slots.iter().zip(chosen).all(|(slot, it)| {
        let partner_differs = slot.group != 0
            && slots.iter().zip(chosen).any(|(other, theirs)| {
                other.group == slot.group && theirs.is_some() != it.is_some()
            });
        (it.is_some() || slot.optional) && !partner_differs
    })
}

/// The first rule of the row that the modifiers break.
pub(super) fn broken(row: &'static Row, chosen: &[Option<Modifier>]) -> Option<&'static Rule> {
    row.rules.iter().find(|rule| match rule {
        Rule::Needs(a, b) => holds(a, chosen) && !holds(b, chosen),
        Rule::Forbids(a, b) => holds(a, chosen) && holds(b, chosen),
        Rule::Since(..) | Rule::Removed(..) => false,
    })
}
