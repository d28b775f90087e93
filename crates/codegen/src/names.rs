//! Names that people type: found without regard to case, and suggested when nearly right.

/// The candidate that equals `name` but for upper and lower case.
pub fn find<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    candidates
        .into_iter()
        .position(|candidate| candidate.eq_ignore_ascii_case(name))
}

/// The candidate that `name` was probably meant to be, if one is close: the one with the fewest single-character edits,
/// no more than a third of the name's length. Longer names than any candidate could be a slip of are not looked at.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = name.to_lowercase().chars().take(MAX_TYPED + 1).collect();
    if typed.len() > MAX_TYPED {
        return None;
    }
    let allowed = (typed.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            let lower: Vec<char> = candidate.to_lowercase().chars().collect();
            // What is typed is often the front of a long name.
            let distance = if typed.len() >= 4 && lower.starts_with(&typed) {
                1
            } else {
                edits(&typed, &lower)
            };
            (distance, candidate)
        })
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

const MAX_TYPED: usize = 80;

/// `, did you mean 'X'?` when something is near, and nothing otherwise.
pub fn suggestion<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |near| format!(", did you mean '{near}'?"))
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string alignment), row by
/// row of the usual table: time |a|·|b|, memory |b|.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &[
        "GeneralOptimize",
        "OriRemoveNopCode",
        "PlaceBlocksInSourceOrder",
    ];

    #[test]
    fn case_does_not_matter() {
        assert_eq!(find("generaloptimize", NAMES.iter().copied()), Some(0));
        assert_eq!(find("generaloptimise", NAMES.iter().copied()), None);
    }

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let near = |name| nearest(name, NAMES.iter().copied());
        assert_eq!(near("GeneralOptimise"), Some("GeneralOptimize"));
        assert_eq!(near("genearloptimize"), Some("GeneralOptimize"));
        assert_eq!(near("PlaceBlocks"), Some("PlaceBlocksInSourceOrder"));
        assert_eq!(near("AllocateRegisters"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(1_000_000)), None);
    }

    #[test]
    fn edits_count_insertions_deletions_replacements_and_swaps() {
        let count = |a: &str, b: &str| {
            edits(
                &a.chars().collect::<Vec<_>>(),
                &b.chars().collect::<Vec<_>>(),
            )
        };
        assert_eq!(count("abc", "abc"), 0);
        assert_eq!(count("abc", "ab"), 1);
        assert_eq!(count("ab", "abc"), 1);
        assert_eq!(count("abc", "axc"), 1);
        assert_eq!(count("abc", "acb"), 1);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("kitten", "sitting"), 3);
    }
}
