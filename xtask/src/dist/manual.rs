//! Manual pages and completions that are handed out: what the command prints of itself, where systems look for it, below
//! `target/dist/share`.

use super::failed;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each shell and where it looks.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/orias"),
    ("zsh", "zsh/site-functions/_orias"),
    ("fish", "fish/vendor_completions.d/orias.fish"),
];

/// Lets the command `orias` write its pages below `result`.
pub fn run(orias: &Path, result: &Path) -> Result<(), String> {
    let share = result.join("share");
    let mut files = vec![(share.join("man/man1/orias.1"), said(orias, &["manual"])?)];
    for name in subcommands(&said(orias, &["help"])?) {
        let place = share.join(format!("man/man1/orias-{name}.1"));
        files.push((place, said(orias, &["manual", &name])?));
    }
    for (shell, place) in COMPLETIONS {
        files.push((share.join(place), said(orias, &["completions", shell])?));
    }
    for (place, text) in files {
        let folder = place.parent().map(Path::to_path_buf).unwrap_or_default();
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        std::fs::write(&place, text).map_err(failed(&place))?;
    }
    println!("{}", share.display());
    Ok(())
}

/// The command as `cargo build` makes it.
pub fn built(root: &Path) -> Result<PathBuf, String> {
    let mut build = Command::new(env!("CARGO"));
    super::succeed(build.current_dir(root).args(["build", "-p", "orias"]))?;
    Ok(root.join("target/debug/orias"))
}

fn said(orias: &Path, words: &[&str]) -> Result<String, String> {
    let output = Command::new(orias).args(words).output();
    let output = output.map_err(failed(orias))?;
    if !output.status.success() {
        return Err(format!("orias {}: {}", words.join(" "), output.status));
    }
    String::from_utf8(output.stdout).map_err(failed(orias))
}

/// The names that `orias help` lists.
fn subcommands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| !line.starts_with("Subcommands"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_read_off_the_help() {
        let help = "Orias\n\nSubcommands ('orias help')\n  check   explain\n  run     run it\n\nUsage: x\n";
        assert_eq!(subcommands(help), ["check", "run"]);
    }
}
