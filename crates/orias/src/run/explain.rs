//! Why a launch issued instructions for few lanes: the branches that parted them, the costliest first.

use orias_cubin::Cubin;
use orias_cubin::line::{SourceLine, line_at, lines_of};
use orias_sim::{DivergenceCounts, LoadedModule, Profile};
use std::fmt::Write as _;

/// Branches that are shown.
const SHOWN: usize = 20;

/// A line for each branch that parted lanes: what it cost, and where its lanes met.
pub(super) fn divergences(
    image: &[u8],
    module: &LoadedModule,
    kernel: &str,
    profile: &Profile,
) -> String {
    let places = Places {
        module,
        kernel,
        lines: Cubin::read(image).map_or_else(|_| Vec::new(), |it| lines_of(&it, kernel)),
    };
    let mut divergences: Vec<(u32, &DivergenceCounts)> = (profile.divergences.iter())
        .map(|(branch, counts)| (*branch, counts))
        .filter(|(_, counts)| counts.lost > 0)
        .collect();
    divergences.sort_by_key(|(branch, counts)| (std::cmp::Reverse(counts.lost), *branch));
    let mut out = String::new();
    // Writing to a string cannot fail.
    if divergences.is_empty() {
        let _ = writeln!(out, "no branch parted lanes");
        return out;
    }
    let _ = writeln!(
        out,
        "{:>12} {:>10} {:>10}  lanes parted at, and met at",
        "lanes lost", "issues", "parted"
    );
    for (branch, counts) in divergences.iter().take(SHOWN) {
        let _ = writeln!(
            out,
            "{:>12} {:>10} {:>10}  {}",
            counts.lost,
            counts.issues,
            counts.parted,
            places.show(*branch)
        );
        let mut met: Vec<(u32, u64)> = counts.met.iter().map(|(at, n)| (*at, *n)).collect();
        met.sort_by_key(|(at, times)| (std::cmp::Reverse(*times), *at));
        for (at, times) in met {
            let _ = writeln!(
                out,
                "{:>34}    met {times} times at {}",
                "",
                places.show(at)
            );
        }
        let never = counts.parted.saturating_sub(counts.met.values().sum());
        if never > 0 {
            let _ = writeln!(
                out,
                "{:>34}    {never} times not before they ended or parted anew",
                ""
            );
        }
    }
    if let Some(more) = divergences
        .len()
        .checked_sub(SHOWN)
        .filter(|more| *more > 0)
    {
        let _ = writeln!(out, "and {more} more branches");
    }
    out
}

/// What is known of instructions.
struct Places<'a> {
    module: &'a LoadedModule,
    kernel: &'a str,
    /// Where they come from, if the cubin says.
    lines: Vec<SourceLine>,
}

impl Places<'_> {
    /// An instruction with its address and, if it is known, its line.
    fn show(&self, index: u32) -> String {
        let text = self.module.instruction(self.kernel, index);
        let text = text.unwrap_or_default();
        let address = u64::from(index) * 16;
        let line = match line_at(&self.lines, address) {
            Some(SourceLine {
                path: Some(path),
                line,
                ..
            }) => format!(" ({path}:{line})"),
            Some(SourceLine { line, .. }) => format!(" (PTX line {line})"),
            None => String::new(),
        };
        format!("/*{address:04x}*/ {text}{line}")
    }
}
