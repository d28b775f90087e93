//! Fields of bits that change the text other than as a number, and what their values are called.

use super::bits::Findings;
use super::text::parts;
use super::{Nvdisasm, ranges};
use std::fmt::Write;

/// Fields wider than this are not enumerated.
const WIDEST: usize = 8;
/// Bits looked at in one class, so that pairs stay few.
const MOST_BITS: usize = 24;

/// A field and the text of the first base with each of its values.
pub struct Field {
    bits: Vec<u8>,
    texts: Vec<Option<String>>,
}

/// Gathers the modifier bits of a class into fields and tries every value of each.
pub fn fields(nvdisasm: &Nvdisasm, class: &str, findings: &Findings) -> Result<Vec<Field>, String> {
    let bits = &findings.modifiers[..findings.modifiers.len().min(MOST_BITS)];
    let Some((base, _)) = findings.bases.first() else {
        return Ok(Vec::new());
    };
    let mut fields = Vec::new();
    for bits in groups(nvdisasm, class, *base, bits)? {
        let tried = &bits[..bits.len().min(WIDEST)];
        let words: Vec<u128> = (0..1u32 << tried.len())
            .map(|value| with_value(*base, tried, value))
            .collect();
        let texts = nvdisasm
            .texts(&words)?
            .into_iter()
            .zip(nvdisasm.classes(&words)?)
            .map(|(text, found)| text.filter(|_| found.as_deref() == Some(class)))
            .collect();
        fields.push(Field { bits, texts });
    }
    Ok(fields)
}

/// Bits that belong together: the effect of one on the text depends on the other.
fn groups(
    nvdisasm: &Nvdisasm,
    class: &str,
    base: u128,
    bits: &[u8],
) -> Result<Vec<Vec<u8>>, String> {
    let mut pairs = Vec::new();
    let mut words = Vec::new();
    for first in 0..bits.len() {
        for second in first + 1..bits.len() {
            pairs.push((first, second));
            for value in 0..4 {
                words.push(with_value(base, &[bits[first], bits[second]], value));
            }
        }
    }
    let texts: Vec<Option<String>> = nvdisasm
        .texts(&words)?
        .into_iter()
        .zip(nvdisasm.classes(&words)?)
        .map(|(text, found)| text.filter(|_| found.as_deref() == Some(class)))
        .collect();
    let mut group: Vec<usize> = (0..bits.len()).collect();
    for ((first, second), texts) in pairs.into_iter().zip(texts.chunks(4)) {
        if depend(texts) {
            let (old, new) = (group[second], group[first]);
            for entry in &mut group {
                if *entry == old {
                    *entry = new;
                }
            }
        }
    }
    let mut names = group.clone();
    names.sort_unstable();
    names.dedup();
    Ok(names
        .into_iter()
        .map(|name| {
            let members = bits.iter().zip(&group).filter(|(_, group)| **group == name);
            members.map(|(bit, _)| *bit).collect()
        })
        .collect())
}

/// Whether the effect of the first bit differs with the second: texts for the values 0 to 3 of both.
fn depend(texts: &[Option<String>]) -> bool {
    match texts {
        [Some(none), Some(first), Some(second), Some(both)] => {
            effect(none, first) != effect(second, both)
                || effect(none, second) != effect(first, both)
        }
        [none, first, second, both] => {
            let exists = [none, first, second, both].map(Option::is_some);
            // Refusals that one bit explains alone do not tie it to the other.
            !(exists[0] == exists[1] && exists[2] == exists[3]
                || exists[0] == exists[2] && exists[1] == exists[3])
        }
        _ => false,
    }
}

/// What changes between two texts: mnemonic components gone and come, and which operands change.
fn effect<'t>(before: &'t str, after: &'t str) -> (Vec<&'t str>, Vec<&'t str>, Vec<usize>) {
    let (old, new) = (parts(before), parts(after));
    let gone = missing(&old.mnemonic, &new.mnemonic);
    let come = missing(&new.mnemonic, &old.mnemonic);
    let operands = if old.operands.len() == new.operands.len() {
        (0..old.operands.len())
            .filter(|i| old.operands[*i] != new.operands[*i])
            .collect()
    } else {
        vec![usize::MAX, new.operands.len().abs_diff(old.operands.len())]
    };
    (gone, come, operands)
}

/// The components of `of` that `from` does not have.
fn missing<'t>(of: &[&'t str], from: &[&'t str]) -> Vec<&'t str> {
    of.iter()
        .filter(|component| !from.contains(component))
        .copied()
        .collect()
}

fn with_value(word: u128, bits: &[u8], value: u32) -> u128 {
    bits.iter().enumerate().fold(word, |word, (index, bit)| {
        word & !(1 << bit) | u128::from(value >> index & 1) << bit
    })
}

impl Field {
    /// Appends the field's bits and the text of each value.
    pub fn write(&self, out: &mut String) {
        let _ = writeln!(out, "  field {}", ranges(&self.bits));
        for (value, text) in self.texts.iter().enumerate() {
            let text = text.as_deref().unwrap_or("refused, or another class");
            let _ = writeln!(out, "    {value}: {text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{depend, with_value};

    fn texts(texts: [&str; 4]) -> Vec<Option<String>> {
        texts.map(|text| Some(text.to_owned())).to_vec()
    }

    #[test]
    fn flags_of_their_own_are_independent() {
        assert!(!depend(&texts(["A", "A.X", "A.Y", "A.X.Y"])));
    }

    #[test]
    fn values_of_one_field_depend() {
        assert!(depend(&texts(["A", "A.RM", "A.RP", "A.RZ"])));
    }

    #[test]
    fn a_value_is_spread_over_its_bits() {
        assert_eq!(with_value(0xff, &[0, 7], 0b10), 0xfe);
    }
}
