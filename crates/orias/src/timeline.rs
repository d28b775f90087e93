//! The timeline of a schedule: as text, as JSON, and as one HTML page that needs nothing but a browser.
//!
//! All show the same [`FunctionStory`]: per block a line an instruction with the cycle it issues in, the cycles nothing issued before
//! it and why, its pipe, the general registers that are live behind it, and the longest chain. The page draws the cycles as bars:
//! one column a pipe would be too wide for a screen, so a bar starts where the instruction issues, is dark as long as it keeps its unit,
//! and light until its result is there.

use crate::disassemble::target_of;
use crate::reschedule::{Knobs, RescheduleError, lifted};
pub use orias_codegen::schedule::post::FunctionStory;
use orias_codegen::schedule::post::{self, BlockStory, Line};
use orias_codegen::schedule::units::Pipe;
use orias_cubin::Cubin;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Longer timelines are drawn to scale.
const WIDEST: u32 = 720;

/// What there is to tell of every function of a finished cubin, in the order its instructions have.
///
/// # Errors
/// There are no tables for its target, or its code cannot be lifted.
pub fn of_cubin(cubin: &Cubin) -> Result<Vec<FunctionStory>, RescheduleError> {
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
pub fn to_json(functions: &[FunctionStory]) -> Value {
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
    let block = |block: &BlockStory| {
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
    let function = |function: &FunctionStory| {
        json!({
            "name": function.name,
            "blocks": function.blocks.iter().map(block).collect::<Vec<_>>(),
        })
    };
    Value::Array(functions.iter().map(function).collect())
}

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

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em;color:#222}\
h2{margin:1.2em 0 .2em}details{margin:.4em 0}summary{cursor:pointer}\
table{border-collapse:collapse;font:12px/1.35 ui-monospace,monospace}\
th{text-align:left;font-weight:600;border-bottom:1px solid #999;padding:0 .6em}\
td{padding:0 .6em;white-space:pre;vertical-align:top}td.n{text-align:right}\
tr.c td.i{font-weight:700}tr:hover{background:#f2f2f2}\
.t{position:relative;height:1.1em;background:#fafafa}.b{position:absolute;top:.15em;height:.8em}\
.l{opacity:.3}.w{color:#a33}ol{font:12px/1.35 ui-monospace,monospace}";

/// A colour a pipe.
fn colour(pipe: Pipe) -> &'static str {
    match pipe {
        Pipe::Integer => "#4477aa",
        Pipe::Fp32 => "#228833",
        Pipe::Fp64 => "#117733",
        Pipe::Tensor => "#aa3377",
        Pipe::LoadStore => "#ee6677",
        Pipe::Texture => "#cc3311",
        Pipe::Branch => "#666666",
        Pipe::Shared => "#cc8800",
        Pipe::Special => "#66aacc",
        Pipe::Uniform => "#8866cc",
    }
}

/// The report as one HTML page.
pub fn html(functions: &[FunctionStory]) -> String {
    let mut out =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = write!(
        out,
        "<title>Schedule</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>Schedule</h1>\n"
    );
    out += "<p>A bar starts in the cycle an instruction issues in; it is dark as long as its unit is kept and light until \
            its result is there. Bold instructions are on the longest chain of their block.</p>\n<p>";
    for pipe in Pipe::ALL {
        let _ = write!(
            out,
            "<span style=\"color:{}\">&#9632; {}</span> ",
            colour(pipe),
            pipe.name()
        );
    }
    out += "</p>\n";
    for function in functions {
        let _ = writeln!(out, "<h2>{}</h2>", escape(&function.name));
        for block in &function.blocks {
            block_html(&mut out, block);
        }
    }
    out += "</body>\n</html>\n";
    out
}

fn block_html(out: &mut String, block: &BlockStory) {
    let open = if block.lines.len() > 1 { " open" } else { "" };
    let _ = writeln!(
        out,
        "<details{open}><summary>{}: {}</summary>\n<p>{}</p>",
        escape(&block.block.to_string()),
        escape(&summary(block)),
        escape(&pipes(block))
    );
    let end = block
        .lines
        .iter()
        .map(|line| line.issue + line.keeps.max(line.latency).max(1))
        .max()
        .unwrap_or(1)
        .max(block.length)
        .max(1);
    let scale = f64::from(WIDEST.min(end * 8)) / f64::from(end);
    out.push_str(
        "<table><thead><tr><th>cycle</th><th>idle</th><th>live</th><th>instruction</th><th>waits for</th><th>timeline</th></tr></thead><tbody>\n",
    );
    for line in &block.lines {
        let class = if line.critical { " class=\"c\"" } else { "" };
        let _ = write!(
            out,
            "<tr{class}><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"i\">{}</td><td class=\"w\">{}</td>",
            line.issue,
            line.idle,
            line.live,
            escape(&line.text),
            if line.idle > 0 {
                escape(&blame(block, line))
            } else {
                String::new()
            }
        );
        let bar = |from: u32, cycles: u32, light: &str| {
            format!(
                "<div class=\"b{light}\" style=\"left:{:.1}px;width:{:.1}px;background:{}\"></div>",
                f64::from(from) * scale,
                (f64::from(cycles) * scale).max(1.0),
                colour(line.pipe)
            )
        };
        let _ = writeln!(
            out,
            "<td><div class=\"t\" style=\"width:{:.0}px\">{}{}</div></td></tr>",
            f64::from(end) * scale,
            bar(line.issue, line.latency.max(1), " l"),
            bar(line.issue, line.keeps.max(1), "")
        );
    }
    out.push_str("</tbody></table>\n");
    if block.path.len() > 1 {
        out.push_str("<p>Longest chain:</p>\n<ol>\n");
        for (line, why) in &block.path {
            let _ = writeln!(
                out,
                "<li>{} {}</li>",
                escape(why.as_deref().unwrap_or("start")),
                escape(&block.lines[*line].text)
            );
        }
        out.push_str("</ol>\n");
    }
    out.push_str("</details>\n");
}

/// Text as HTML has it.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_codegen::knobs::Knobs;
    use orias_codegen::schedule::post::Options;
    use orias_ori::parse_function;
    use std::collections::BTreeMap;

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

    /// Reads HTML as a browser's tokenizer does where nothing is implied: every tag is closed, in order, and no letter is left that should
    /// have been escaped. Returns how often each tag was opened.
    fn balanced(html: &str) -> BTreeMap<String, usize> {
        const EMPTY: [&str; 2] = ["!DOCTYPE", "meta"];
        let mut open = Vec::new();
        let mut seen = BTreeMap::new();
        let mut rest = html;
        while let Some(at) = rest.find('<') {
            let text = &rest[..at];
            if open.last() != Some(&"style".to_owned()) {
                assert!(!text.contains('>'), "{text}");
            }
            let end = rest[at..].find('>').expect("the end of a tag") + at;
            let tag = &rest[at + 1..end];
            let name: String = tag
                .chars()
                .take_while(|letter| !letter.is_whitespace())
                .collect();
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
            } else if !EMPTY.contains(&name.as_str()) {
                *seen.entry(name.clone()).or_default() += 1;
                open.push(name);
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
        seen
    }

    #[test]
    fn the_json_has_every_instruction_and_the_chain() {
        let story = super::to_json(&story());
        let block = &story[0]["blocks"][0];
        assert_eq!(block["lines"].as_array().map(Vec::len), Some(5));
        assert_eq!(block["lines"][0]["issue"], 0);
        let path = block["path"].as_array().expect("a chain");
        assert!(path.iter().all(|at| at.as_u64().is_some_and(|at| at < 5)));
        assert!(block["pipes"]["shared"].as_u64().is_some(), "{block}");
    }

    #[test]
    fn the_page_is_whole_and_needs_no_network() {
        let html = super::html(&story());
        let tags = balanced(&html);
        // A row for the head and one an instruction, each with its two bars.
        assert_eq!(tags["tr"], 1 + 5);
        assert_eq!(tags["div"], 5 * 3);
        for word in ["http", "src=", "<script", "@import", "url("] {
            assert!(!html.contains(word), "{word}");
        }
        assert!(html.contains("@P0 STS"), "{html}");
    }
}
