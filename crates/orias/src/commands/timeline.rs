//! The timeline of a schedule as text: per block a line an instruction with the cycle it issues in, the cycles nothing issued before
//! it and why, its pipe, the general registers that are live behind it, and the longest chain. As a page it is `orias::view`'s.

use orias_codegen::schedule::post::{BlockStory, FunctionStory, Line};
use orias_codegen::schedule::units::Pipe;
use std::fmt::Write as _;

/// The report as text.
pub fn text(functions: &[FunctionStory]) -> String {
    let mut out = String::new();
    for function in functions {
        let _ = writeln!(out, "{}", function.name);
        for block in &function.blocks {
            block_text(&mut out, block);
        }
    }
    out
}

fn summary(block: &BlockStory) -> String {
    let mut text = format!(
        "{} cycles, {} instructions, longest chain {}",
        block.length,
        block.lines.len(),
        block.chain
    );
    if block.depth > 0 {
        let _ = write!(text, ", loop depth {}", block.depth);
    }
    if block.cold {
        text += ", cold";
    }
    let _ = write!(
        text,
        ", {} bank conflicts, {} reuses",
        block.conflicts, block.hits
    );
    text
}

/// The pipes that a block uses, with their shares of its issue slots.
fn pipes(block: &BlockStory) -> String {
    let used = Pipe::ALL.into_iter().filter_map(|pipe| {
        let slots = block.pipes[pipe as usize];
        (slots > 0).then(|| format!("{} {slots}", pipe.name()))
    });
    used.collect::<Vec<_>>().join(", ")
}

fn block_text(out: &mut String, block: &BlockStory) {
    let _ = writeln!(out, "  {}: {}", block.block, summary(block));
    let _ = writeln!(out, "    pipes: {}", pipes(block));
    let _ = writeln!(out, "    cycle idle live pipe        instruction");
    for line in &block.lines {
        let _ = write!(
            out,
            "   {}{:>5} {:>4} {:>4} {:<11} {}",
            if line.critical { '*' } else { ' ' },
            line.issue,
            line.idle,
            line.live,
            line.pipe.name(),
            line.text
        );
        if line.idle > 0 && !line.cause.is_empty() {
            let _ = write!(out, "   <- {}", blame(block, line));
        }
        out.push('\n');
    }
    if block.path.len() > 1 {
        let _ = writeln!(out, "    longest chain:");
        for (line, why) in &block.path {
            let why = why.as_deref().unwrap_or("start");
            let _ = writeln!(out, "      {why:<16} {}", block.lines[*line].text);
        }
    }
}

/// Why a line did not issue earlier, with the line that is to blame.
fn blame(block: &BlockStory, line: &Line) -> String {
    match line.blamed {
        Some(blamed) => format!("{} after cycle {}", line.cause, block.lines[blamed].issue),
        None => line.cause.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_codegen::knobs::Knobs;
    use orias_codegen::schedule::post::{self, Options};
    use orias_ori::parse_function;

    fn story() -> Vec<FunctionStory> {
        let func = parse_function(
            "entry k physical sm_90a {
  fixed R1
block0:
    LDS R4, [R2]
    FADD R5, R4, R4
    ISETP.LT.AND P0, PT, R5, R4, PT
    @P0 STS [R2+0x4], R5
    EXIT PT
}
",
        )
        .expect("a function");
        let knobs = Knobs::default();
        vec![post::tell(&func, &Options::of(&knobs)).expect("a story")]
    }

    #[test]
    fn the_text_names_cycles_causes_and_the_longest_chain() {
        let story = story();
        let raw = format!("RAW {} cycles", story[0].blocks[0].lines[0].latency);
        let text = text(&story);
        for part in ["block0", "longest chain", raw.as_str(), "shared"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn the_page_has_every_instruction_with_its_cycle() {
        let story = story();
        let shown = orias::view::of_stories("k", &story);
        let instructions = shown["functions"][0]["instructions"].as_array();
        let instructions = instructions.expect("instructions");
        assert_eq!(instructions.len(), 5);
        assert!(
            instructions[3]["text"]
                .as_str()
                .unwrap()
                .contains("@P0 STS")
        );
        let issue = story[0].blocks[0].lines[1].issue;
        assert_eq!(instructions[1]["model"]["issue"], issue);
        assert_eq!(instructions[1]["model"]["blamed"], 0);
    }
}
