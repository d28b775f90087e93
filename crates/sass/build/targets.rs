//! Reads `targets.tbl` and writes the type for a target.

use std::fmt::Write;
use std::path::Path;

/// A target that code can be made for. The position in the list is the bit in a set.
pub struct Target {
    pub name: String,
    sm: u16,
    accelerated: bool,
    /// The target whose rows it has.
    like: Option<String>,
    made_up: bool,
    default: bool,
}

/// The rows of the table.
pub fn read(path: &Path) -> Result<Vec<Target>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut targets: Vec<Target> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        if line.trim().is_empty() {
            continue;
        }
        let row = row(line).map_err(|error| format!("targets.tbl:{}: {error}", index + 1))?;
        let known = |name: &str| targets.iter().any(|target| target.name == name);
        if known(&row.name) {
            return Err(format!("targets.tbl: {} stands there twice", row.name));
        }
        if let Some(like) = row.like.as_deref().filter(|like| !known(like)) {
            return Err(format!("targets.tbl: no target {like} before {}", row.name));
        }
        targets.push(row);
    }
    if targets.len() > 32 {
        return Err("targets.tbl: a set of targets has 32 bits".to_owned());
    }
    if targets.iter().filter(|target| target.default).count() != 1 {
        return Err("targets.tbl: one target is the default".to_owned());
    }
    Ok(targets)
}

fn row(line: &str) -> Result<Target, String> {
    let mut words = line.split_whitespace();
    if words.next() != Some("target") {
        return Err("a row begins with `target`".to_owned());
    }
    let mut row = Target {
        name: words.next().ok_or("no name")?.to_owned(),
        sm: 0,
        accelerated: false,
        like: None,
        made_up: false,
        default: false,
    };
    while let Some(word) = words.next() {
        match word {
            "sm" => {
                let number = words.next().unwrap_or_default();
                row.sm = number
                    .parse()
                    .map_err(|_| format!("'{number}' is not a number"))?;
            }
            "accelerated" => row.accelerated = true,
            "like" => row.like = Some(words.next().ok_or("like what?")?.to_owned()),
            "default" => row.default = true,
            "made-up" => row.made_up = true,
            _ => return Err(format!("'{word}' is not understood")),
        }
    }
    if row.sm == 0 {
        return Err(format!("{} has no number", row.name));
    }
    Ok(row)
}

/// The bits of the named targets and of those that are like them.
pub fn set(targets: &[Target], words: &[String]) -> Result<u32, String> {
    let mut set = 0;
    for word in words {
        if !targets.iter().any(|target| target.name == *word) {
            return Err(format!("'{word}' is not a target"));
        }
        for (bit, target) in targets.iter().enumerate() {
            if target.name == *word || target.like.as_ref() == Some(word) {
                set |= 1 << bit;
            }
        }
    }
    Ok(set)
}

/// `Sm90a` for `sm_90a`.
fn variant(name: &str) -> String {
    let mut variant = name.replace('_', "");
    variant[..1].make_ascii_uppercase();
    variant
}

/// The type, as Rust.
pub fn rust(targets: &[Target]) -> String {
    let mut out = String::from(
        "/// A target that code can be made for: a row of `tables/targets.tbl`.\n\
         #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]\n#[repr(u8)]\npub enum Target {\n",
    );
    for target in targets {
        let _ = writeln!(out, "/// `{}`.\n{},", target.name, variant(&target.name));
    }
    let _ = writeln!(
        out,
        "}}\n\nimpl Target {{\n/// Every target, in the order of the table.\npub const ALL: [Target; {}] = [",
        targets.len()
    );
    for target in targets {
        let _ = writeln!(out, "Target::{},", variant(&target.name));
    }
    let default = targets.iter().find(|target| target.default);
    let default = default.map_or_else(String::new, |target| variant(&target.name));
    let _ = writeln!(
        out,
        "];\n\n/// What tools take where nobody says.\npub const DEFAULT: Target = Target::{default};\n"
    );
    let mut column = |doc: &str, head: &str, value: &dyn Fn(&Target) -> String| {
        let _ = writeln!(
            out,
            "/// {doc}\n#[must_use]\npub const fn {head} {{\nmatch self {{"
        );
        for target in targets {
            let _ = writeln!(
                out,
                "Target::{} => {},",
                variant(&target.name),
                value(target)
            );
        }
        out.push_str("}\n}\n\n");
    };
    column(
        "What options and directives call it: `sm_90a`.",
        "name(self) -> &'static str",
        &|target| format!("{:?}", target.name),
    );
    column(
        "What a cubin says its SM is: 90.",
        "sm(self) -> u16",
        &|target| target.sm.to_string(),
    );
    column(
        "Whether its code runs on no other SM: `sm_90a`.",
        "is_accelerated(self) -> bool",
        &|target| target.accelerated.to_string(),
    );
    column(
        "Whether it exists for tests only.",
        "is_made_up(self) -> bool",
        &|target| target.made_up.to_string(),
    );
    out.push_str("}\n");
    out
}
