//! The page: one HTML file with everything in it.
//!
//! Style and scripts lie in `web/` as plain files, without a framework or a step that builds them, and are put into the page here. So a
//! page works from a folder, from a mail, without a network. Data is put in as JSON that no script can break out of; the engine, where a
//! page compiles for itself, is a script beside it.

use serde_json::{Value, json};

const FRAME: &str = include_str!("../../../../web/page.html");
const STYLE: &str = include_str!("../../../../web/style.css");

/// The scripts, in the order they are run.
const SCRIPTS: &[&str] = &[
    include_str!("../../../../web/code.js"),
    include_str!("../../../../web/source.js"),
    include_str!("../../../../web/listing.js"),
    include_str!("../../../../web/timeline.js"),
    include_str!("../../../../web/details.js"),
    include_str!("../../../../web/stepper.js"),
    include_str!("../../../../web/compare.js"),
    include_str!("../../../../web/engine.js"),
    include_str!("../../../../web/main.js"),
];

/// The examples of a page that compiles for itself: name, how it is launched, PTX.
const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "vector_add: y = a + b",
        "--grid 2 --block 64 buf:f32:128:index buf:f32:128:fill:0.5 buf:f32:128 u32:100",
        include_str!("../../../../examples/vector_add.ptx"),
    ),
    (
        "collatz: lanes that part and meet",
        "--block 32 buf:u32:32:index buf:u32:32",
        include_str!("../../../../examples/collatz.ptx"),
    ),
    (
        "block_sum: shared memory, shuffles, a barrier",
        "--block 128 buf:f32:128:index buf:f32:1",
        include_str!("../../../../examples/block_sum.ptx"),
    ),
    (
        "dot_tile: a tile of a matrix product on tensor cores",
        "--block 32 buf:f16:128:fill:1 buf:f16:64:fill:2 buf:f32:128",
        include_str!("../../../../examples/dot_tile.ptx"),
    ),
    (
        "polynomial: a long chain, many registers",
        "--block 32 buf:f32:32:index buf:f32:32",
        include_str!("../../../../examples/polynomial.ptx"),
    ),
];

/// A page that shows `documents` (the second is what the first is compared with) and perhaps a trace of the first.
pub fn page(title: &str, documents: &[Value], trace: Option<&Value>) -> String {
    let data = json!({"documents": documents, "trace": trace});
    assembled(title, &data, "")
}

/// A page that compiles what is typed into it, by the engine in a script beside it of the name `engine`.
pub fn live_page(engine: &str) -> String {
    let examples = EXAMPLES
        .iter()
        .map(|(name, launch, ptx)| json!({"name": name, "launch": launch, "ptx": ptx}));
    let data = json!({"documents": [], "trace": null, "examples": examples.collect::<Vec<_>>()});
    let engine = format!("<script src=\"{}\"></script>\n", escape(engine));
    assembled("Orias", &data, &engine)
}

fn assembled(title: &str, data: &Value, engine: &str) -> String {
    // No text of the data can end the script element, or begin a comment in it.
    let data = data.to_string().replace('<', "\\u003c");
    let scripts = SCRIPTS.join("\n");
    let mut page = String::with_capacity(FRAME.len() + STYLE.len() + scripts.len() + data.len());
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("<!--[") {
        page.push_str(before);
        let (name, after) = after.split_once("]-->").unwrap_or((after, ""));
        match name {
            "title" => page.push_str(&escape(title)),
            "style" => page.push_str(STYLE),
            "data" => page.push_str(&data),
            "engine" => page.push_str(engine),
            "scripts" => page.push_str(&scripts),
            _ => {}
        }
        rest = after;
    }
    page.push_str(rest);
    page
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

    #[test]
    fn a_page_needs_no_network_and_data_cannot_leave_its_element() {
        let hostile = json!({"name": "</script><script>alert(1)</script><!--", "functions": []});
        let page = page("a <b> & \"c\"", &[hostile], None);
        assert!(page.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"));
        assert!(!page.contains("alert(1)</script>"));
        // A namespace's name is all that looks like an address.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(!page.contains("<!--["));
    }

    #[test]
    fn the_live_page_names_its_engine_and_has_examples() {
        let page = live_page("engine.js");
        assert!(page.contains("<script src=\"engine.js\"></script>"));
        assert!(page.contains("collatz"));
    }

    #[test]
    fn every_example_compiles_runs_and_passes_the_judge() {
        use crate::view::{Subject, View};
        for (name, launch, ptx) in EXAMPLES {
            let view = View {
                name,
                subject: Subject::Ptx(ptx.as_bytes()),
                options: Vec::new(),
                reschedule: None,
            };
            let document = view
                .inspect()
                .unwrap_or_else(|said| panic!("{name}: {said:?}"));
            assert_eq!(document["functions"][0]["findings"], 0, "{name}");
            assert_eq!(document["functions"][0]["notes"], json!([]), "{name}");
            let words: Vec<&str> = launch.split_whitespace().collect();
            let trace = view.trace(&words, ([0; 3], 0), false);
            let trace = trace.unwrap_or_else(|said| panic!("{name}: {said:?}"));
            assert_eq!(trace["fault"], Value::Null, "{name}");
            assert!(
                trace["steps"].as_array().is_some_and(|it| it.len() > 5),
                "{name}"
            );
        }
    }
}
