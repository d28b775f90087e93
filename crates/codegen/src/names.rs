//! Names that people type: found without regard to case, and suggested when nearly right.

/// The candidate that equals `name` but for upper and lower case.
pub fn find<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<usize> {
    candidates
        .into_iter()
        .position(|candidate| candidate.eq_ignore_ascii_case(name))
}

/// The candidate that `name` was probably meant to be, if one is close: the one with the fewest insertions, deletions,
/// replacements and swaps of neighbours, no more than a third of the name's length. Longer names than any candidate could
/// be a slip of are not looked at.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().take(MAX_TYPED + 1).count();
    if length > MAX_TYPED {
        return None;
    }
    let typed = name.to_lowercase();
    let allowed = (length / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            let lower = candidate.to_lowercase();
            // What is typed is often the front of a long name.
            let distance = if length >= 4 && lower.starts_with(&typed) {
                1
            } else {
                strsim::osa_distance(&typed, &lower)
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
}
