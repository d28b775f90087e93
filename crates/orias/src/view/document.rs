//! A cubin as the page shows it: each instruction with its control word explained, the line it comes from, when it issues and why not
//! earlier, what it depends on, and what the judge has to say about it.
//!
//! Two cycle models are shown, and neither is of this module: what the control words ask for (`post::timeline_by_words`), which holds for
//! anybody's code, and what the dependences allow (`post::tell`), by which the scheduler chose. Where a function cannot be lifted or
//! judged the document says why, and shows the rest.

use super::control::explain_control;
use crate::disassemble::disassemble_json;
use crate::reschedule::{lifted, loop_weight};
use crate::target_of;
use orias_codegen::knobs::Knobs;
use orias_codegen::schedule::post::{self, BlockSchedule, BlockWords, FunctionSchedule};
use orias_codegen::schedule::units::Pipe;
use orias_cubin::line::{line_at, lines_of, ptx_lines_of, ptx_text_of};
use orias_cubin::{Cubin, FunctionView};
use orias_sass::Target;
use orias_verify::program::Program;
use orias_verify::{Finding, dependences, judge_program};
use serde_json::{Map, Value, json};

/// Bytes of an instruction.
const WORD: usize = 16;

/// All there is to show about a cubin. `ptx` is the text it was compiled from, if that is known.
pub fn document(cubin: &Cubin, name: &str, ptx: Option<&str>) -> Result<Value, String> {
    let target = target_of(cubin)
        .ok_or_else(|| format!("not supported yet: code for {}", cubin.target()))?;
    let mut listing = disassemble_json(cubin, target);
    let kept = match ptx {
        Some(_) => None,
        None => ptx_text_of(cubin),
    };
    let mut functions = Vec::new();
    let listed = listing["functions"].as_array_mut().map(std::mem::take);
    for (view, listed) in cubin.functions().iter().zip(listed.unwrap_or_default()) {
        functions.push(function(cubin, view, target, listed));
    }
    Ok(json!({
        "name": name,
        "target": target.to_string(),
        "ptx": ptx.or(kept.as_deref()),
        "pipes": pipe_names(),
        "functions": functions,
    }))
}

/// What the scheduler saw, without finished code: as much of a document as there is in it.
pub fn of_stories(name: &str, stories: &[FunctionSchedule]) -> Value {
    let functions = stories.iter().map(|story| {
        let mut instructions: Vec<Map<String, Value>> = Vec::new();
        for line in story.blocks.iter().flat_map(|block| &block.lines) {
            let mut shown = Map::new();
            shown.insert("text".into(), json!(line.text));
            instructions.push(shown);
        }
        let blocks = add_story(&mut instructions, story, None);
        json!({
            "name": story.name,
            "kernel": true,
            "labels": {},
            "instructions": instructions,
            "blocks": blocks,
            "notes": [],
            "findings": 0,
        })
    });
    json!({
        "name": name,
        "target": "",
        "ptx": null,
        "pipes": pipe_names(),
        "functions": functions.collect::<Vec<_>>(),
    })
}

fn pipe_names() -> Vec<&'static str> {
    Pipe::ALL.iter().map(|pipe| pipe.name()).collect()
}

fn function(cubin: &Cubin, view: &FunctionView<'_>, target: Target, mut listed: Value) -> Value {
    let mut notes: Vec<String> = Vec::new();
    let instructions = listed["instructions"].as_array_mut().map(std::mem::take);
    let instructions = instructions.unwrap_or_default().into_iter();
    let mut instructions: Vec<Map<String, Value>> = instructions
        .map(|it| match it {
            Value::Object(mut fields) => {
                // Addresses follow from places, and registers stand in the text: pages of large modules are large enough.
                for field in ["address", "reads", "writes"] {
                    fields.remove(field);
                }
                fields
            }
            _ => Map::new(),
        })
        .collect();
    add_lines(&mut instructions, cubin, view.name);
    let mut findings = 0;
    match Program::of(view, target) {
        Ok(program) => findings = add_judgement(&mut instructions, &program, &mut notes),
        Err(error) => notes.push(format!("The code cannot be judged: {error}")),
    }
    let mut blocks = Vec::new();
    match timeline(cubin, view) {
        Ok((story, words)) => {
            blocks = add_story(&mut instructions, &story, Some(&words));
            // What fills the section behind the code is no part of it.
            let count = story.blocks.iter().map(|block| block.lines.len()).sum();
            instructions.truncate(count);
        }
        Err(error) => notes.push(format!("There is no timeline: {error}")),
    }
    json!({
        "name": view.name,
        "kernel": view.is_entry,
        "labels": listed["labels"],
        "registers": view.registers,
        "stack": view.frame_size,
        "shared": view.shared_size,
        "barriers": view.barriers,
        "parameters": view.params.iter().map(|it| it.size).collect::<Vec<_>>(),
        "findings": findings,
        "notes": notes,
        "blocks": blocks,
        "instructions": instructions,
    })
}

/// The function as both cycle models see it.
fn timeline(
    cubin: &Cubin,
    view: &FunctionView<'_>,
) -> Result<(FunctionSchedule, Vec<BlockWords>), String> {
    let func = lifted(cubin, view).map_err(|error| error.to_string())?;
    let knobs = Knobs::default();
    let story = post::tell(&func, &post::Options::of(&knobs)).map_err(|error| error.to_string())?;
    Ok((story, post::timeline_by_words(&func)))
}

/// Adds the lines of the PTX and of the source.
fn add_lines(instructions: &mut [Map<String, Value>], cubin: &Cubin, name: &str) {
    let ptx = ptx_lines_of(cubin, name);
    let source: Vec<_> = lines_of(cubin, name)
        .into_iter()
        .filter(|line| line.path.is_some())
        .collect();
    for (index, fields) in instructions.iter_mut().enumerate() {
        let address = (index * WORD) as u64;
        if let Some(line) = line_at(&ptx, address).filter(|line| line.line > 0) {
            fields.insert("line".into(), json!(line.line));
        }
        if let Some(line) = line_at(&source, address)
            && let Some(path) = &line.path
        {
            fields.insert("source".into(), json!(format!("{path}:{}", line.line)));
        }
    }
}

/// Adds control words in words, dependences and findings; how many findings there are.
fn add_judgement(
    instructions: &mut [Map<String, Value>],
    program: &Program,
    notes: &mut Vec<String>,
) -> usize {
    for (fields, instruction) in instructions.iter_mut().zip(&program.instructions) {
        let control = instruction.control;
        fields.insert("explained".into(), json!(explain_control(instruction)));
        fields.insert("stall".into(), json!(control.stall()));
        let waits: Vec<u8> = control.wait.iter().map(|it| it.index()).collect();
        if !waits.is_empty() {
            fields.insert("waits".into(), json!(waits));
        }
    }
    let mut depends: Vec<Vec<Value>> = vec![Vec::new(); instructions.len()];
    match dependences(program) {
        Ok(found) => {
            for dependence in found {
                let Some(list) = depends.get_mut(dependence.later) else {
                    continue;
                };
                list.push(json!({
                    "on": dependence.earlier,
                    "register": dependence.register.to_string(),
                    "hazard": dependence.hazard,
                    "needed": dependence.needed,
                    "found": dependence.found,
                    "met": dependence.met,
                    "tight": dependence.tight,
                }));
            }
        }
        Err(error) => notes.push(format!("Dependences are not known: {error}")),
    }
    let findings = match judge_program(program) {
        Ok(findings) => findings,
        Err(error) => {
            notes.push(format!("The code cannot be judged: {error}"));
            Vec::new()
        }
    };
    for (fields, depends) in instructions.iter_mut().zip(depends) {
        if !depends.is_empty() {
            fields.insert("depends".into(), Value::Array(depends));
        }
    }
    for finding in &findings {
        if let Some(fields) = instructions.get_mut(finding.offset / WORD) {
            let list = fields.entry("findings").or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(finding_json(finding));
            }
        }
    }
    findings.len()
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "check": finding.check.name(),
        "earlier": finding.earlier.as_ref().map(|(offset, _)| offset / WORD),
        "register": finding.register.map(|it| it.to_string()),
        "needed": finding.needed,
        "found": finding.found,
    })
}

/// Adds what both cycle models say to the instructions; the blocks come back.
fn add_story(
    instructions: &mut [Map<String, Value>],
    story: &FunctionSchedule,
    words: Option<&[BlockWords]>,
) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut first = 0;
    for (number, block) in story.blocks.iter().enumerate() {
        let words = words.and_then(|words| words.get(number));
        let range = first..(first + block.lines.len()).min(instructions.len());
        let rows = instructions.get_mut(range).unwrap_or_default();
        for (at, (fields, line)) in rows.iter_mut().zip(&block.lines).enumerate() {
            fields.insert("pipe".into(), json!(line.pipe as usize));
            fields.insert("live".into(), json!(line.live));
            let mut model = json!({
                "issue": line.issue, "idle": line.idle, "latency": line.latency, "keeps": line.keeps,
            });
            if line.critical {
                model["critical"] = json!(true);
            }
            if !line.cause.is_empty() {
                model["cause"] = json!(line.cause);
            }
            if let Some(blamed) = line.blamed {
                model["blamed"] = json!(first + blamed);
            }
            fields.insert("model".into(), model);
            if let Some(word) = words.and_then(|words| words.lines.get(at)) {
                let holds: Vec<Value> = (word.holds.iter().flatten())
                    .map(|hold| json!([hold.barrier.index(), hold.writes, hold.until]))
                    .collect();
                let mut by_word = json!({"issue": word.issue});
                if word.waited > 0 {
                    by_word["waited"] = json!(word.waited);
                }
                if let Some(blamed) = word.blamed {
                    by_word["blamed"] = json!(first + blamed);
                }
                if !holds.is_empty() {
                    by_word["holds"] = json!(holds);
                }
                fields.insert("words".into(), by_word);
            }
        }
        blocks.push(block_json(block, words, first));
        first += block.lines.len();
    }
    blocks
}

fn block_json(block: &BlockSchedule, words: Option<&BlockWords>, first: usize) -> Value {
    let path: Vec<Value> = (block.path.iter())
        .map(|(line, why)| json!([first + line, why]))
        .collect();
    let mut shown = json!({
        "name": block.block.to_string(),
        "first": first,
        "count": block.lines.len(),
        "depth": block.depth,
        "weight": loop_weight(block.depth),
        "cold": block.cold,
        "model": block.length,
        "chain": block.chain,
        "conflicts": block.conflicts,
        "reuses": block.hits,
        "path": path,
    });
    if let Some(words) = words {
        shown["words"] = json!(words.cycles.cycles);
        shown["waited"] = json!(words.cycles.waited);
        shown["entry"] = json!(words.entry);
    }
    shown
}
