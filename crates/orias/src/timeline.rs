//! The timeline of a schedule: as text, as JSON, and as one HTML page that needs nothing but a browser.
//!
//! All show the same [`FunctionSchedule`]: per block a line an instruction with the cycle it issues in, the cycles nothing issued before
//! it and why, its pipe, the general registers that are live behind it, and the longest chain. The page is that of [`view`].

use crate::disassemble::target_of;
use crate::reschedule::{Knobs, RescheduleError, lifted};
use crate::view;
pub use orias_codegen::schedule::post::FunctionSchedule;
use orias_codegen::schedule::post::{self, BlockSchedule, Line};
use orias_codegen::schedule::units::Pipe;
use orias_cubin::Cubin;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What there is to tell of every function of a finished cubin, in the order its instructions have.
///
/// # Errors
/// There are no tables for its target, or its code cannot be lifted.
pub fn of_cubin(cubin: &Cubin) -> Result<Vec<FunctionSchedule>, RescheduleError> {
    if target_of(cubin).is_none() {
        return Err(RescheduleError::Target(cubin.target()));
    }
    let knobs = Knobs::default();
    let options = post::Options::of(&knobs);
    let functions = cubin.functions();
    let told = functions.iter().map(|view| {
        post::tell(&lifted(cubin, view)?, &options).map_err(|error| RescheduleError::Order {
            function: view.name.to_owned(),
            error,
        })
    });
    told.collect()
}

/// The report as JSON: functions, their blocks, and the instructions of each with cycle, pipe, wait and cause.
pub fn to_json(functions: &[FunctionSchedule]) -> Value {
    let line = |line: &Line| {
        json!({
            "text": line.text,
            "issue": line.issue,
            "idle": line.idle,
            "cause": line.cause,
            "blamed": line.blamed,
            "pipe": line.pipe.name(),
            "keeps": line.keeps,
            "latency": line.latency,
            "live": line.live,
            "critical": line.critical,
        })
    };
    let block = |block: &BlockSchedule| {
        json!({
            "block": block.block.to_string(),
            "depth": block.depth,
            "cold": block.cold,
            "cycles": block.length,
            "chain": block.chain,
            "conflicts": block.conflicts,
            "reuses": block.hits,
            "pipes": Pipe::ALL
                .into_iter()
                .filter(|pipe| block.pipes[*pipe as usize] > 0)
                .map(|pipe| (pipe.name().to_owned(), json!(block.pipes[pipe as usize])))
                .collect::<serde_json::Map<String, Value>>(),
            "lines": block.lines.iter().map(line).collect::<Vec<_>>(),
            "path": block.path.iter().map(|(at, _)| at).collect::<Vec<_>>(),
        })
    };
    let function = |function: &FunctionSchedule| {
        json!({
            "name": function.name,
            "blocks": function.blocks.iter().map(block).collect::<Vec<_>>(),
        })
    };
    Value::Array(functions.iter().map(function).collect())
}

/// The report as text.
pub fn text(functions: &[FunctionSchedule]) -> String {
    let mut out = String::new();
    for function in functions {
        let _ = writeln!(out, "{}", function.name);
        for block in &function.blocks {
            block_text(&mut out, block);
        }
    }
    out
}

fn summary(block: &BlockSchedule) -> String {
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
fn pipes(block: &BlockSchedule) -> String {
    let used = Pipe::ALL.into_iter().filter_map(|pipe| {
        let slots = block.pipes[pipe as usize];
        (slots > 0).then(|| format!("{} {slots}", pipe.name()))
    });
    used.collect::<Vec<_>>().join(", ")
}

fn block_text(out: &mut String, block: &BlockSchedule) {
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
fn blame(block: &BlockSchedule, line: &Line) -> String {
    match line.blamed {
        Some(blamed) => format!("{} after cycle {}", line.cause, block.lines[blamed].issue),
        None => line.cause.clone(),
    }
}

/// The report as one HTML page.
pub fn html(functions: &[FunctionSchedule]) -> String {
    view::page("Schedule", &[view::of_stories("Schedule", functions)], None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_codegen::knobs::Knobs;
    use orias_codegen::schedule::post::Options;
    use orias_ori::parse_function;

    fn story() -> Vec<FunctionSchedule> {
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
        let shown = view::of_stories("k", &story);
        let instructions = shown["functions"][0]["instructions"].as_array();
        let instructions = instructions.expect("instructions");
        assert_eq!(instructions.len(), 5);
        let text = instructions[3]["text"].as_str().unwrap_or_default();
        assert!(text.contains("@P0 STS"), "{text}");
        let issue = story[0].blocks[0].lines[1].issue;
        assert_eq!(instructions[1]["model"]["issue"], issue);
        assert_eq!(instructions[1]["model"]["blamed"], 0);
        assert!(html(&story).contains("@P0 STS"));
    }
}
