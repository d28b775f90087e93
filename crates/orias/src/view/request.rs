//! Requests of the page and their answers.

use super::{base64, document, trace};
use crate::command_line::parse_options;
use crate::compile::{Source, compile};
use crate::diagnostics::{Diagnostic, Diagnostics, Severity};
use crate::reschedule::{Request, reschedule};
use crate::run::named_target;
use orias_codegen::knobs::Knobs;
use orias_codegen::knobs::registry::KNOBS;
use orias_cubin::Cubin;
use serde_json::{Value, json};

/// What a view is of.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A PTX module, to be compiled.
    Ptx(&'a [u8]),
    /// A finished cubin.
    Cubin(&'a [u8]),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// What the subject is called.
    pub name: &'a str,
    /// The code.
    pub subject: Subject<'a>,
    /// Options of the command line that it is compiled by. Without a target it is the one that the PTX names.
    pub options: Vec<String>,
    /// Whether it gets a new order, and from what random order, if from one.
    pub reschedule: Option<Option<u64>>,
}

/// Why there is nothing to show: messages, the last of which says most.
pub type Refusal = Vec<Value>;

fn refusal(text: impl Into<String>) -> Refusal {
    vec![json!({"severity": "error", "text": text.into()})]
}

impl View<'_> {
    /// The finished code, and what the compiler said on the way.
    pub(super) fn cubin(&self) -> Result<(Vec<u8>, Vec<Value>), Refusal> {
        let (image, messages) = match self.subject {
            Subject::Cubin(_) if !self.options.is_empty() => {
                return Err(refusal("options are for PTX: a cubin is compiled already"));
            }
            Subject::Cubin(image) => (image.to_vec(), Vec::new()),
            Subject::Ptx(text) => self.compiled(text)?,
        };
        let Some(shuffle) = self.reschedule else {
            return Ok((image, messages));
        };
        let knobs = Knobs::default();
        let request = Request {
            knobs: &knobs,
            shuffle,
            alternative: None,
            stories: false,
        };
        let cubin = Cubin::read(&image).map_err(|error| refusal(error.to_string()))?;
        let done = reschedule(&cubin, &request).map_err(|error| refusal(error.to_string()))?;
        let image = done.cubin.write();
        Ok((image.map_err(|error| refusal(error.to_string()))?, messages))
    }

    fn compiled(&self, text: &[u8]) -> Result<(Vec<u8>, Vec<Value>), Refusal> {
        let mut words = self.options.clone();
        let names_target = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            matches!(name, "-arch" | "--gpu-name")
        };
        if !words.iter().any(names_target) {
            words.insert(0, format!("-arch={}", named_target(text)));
        }
        let invocation = parse_options(words).map_err(|said| messages(&said))?;
        let mut options = invocation.options;
        options.verbose = true;
        options.line_info = !options.no_debug_info;
        // Where there are no threads to be had, asking for some would be an error.
        options.threads = Some(1);
        let source = Source {
            name: self.name,
            text,
        };
        let mut said = Diagnostics(invocation.remarks);
        said.0.extend(invocation.warnings);
        match compile(&source, &options) {
            Ok(compiled) => {
                said.0.extend(compiled.diagnostics.0);
                match compiled.cubin {
                    Some(cubin) => Ok((cubin, messages(&said))),
                    None => Err(refusal("a virtual target has no code to show")),
                }
            }
            Err(errors) => {
                said.0.extend(errors.0);
                Err(messages(&said))
            }
        }
    }

    /// The document that the page shows.
    pub fn inspect(&self) -> Result<Value, Refusal> {
        let (image, messages) = self.cubin()?;
        let cubin = Cubin::read(&image).map_err(|error| refusal(error.to_string()))?;
        let ptx = match self.subject {
            Subject::Ptx(text) => Some(String::from_utf8_lossy(text)),
            Subject::Cubin(_) => None,
        };
        let mut shown = document(&cubin, self.name, ptx.as_deref()).map_err(refusal)?;
        shown["messages"] = json!(messages);
        shown["options"] = json!(self.options.join(" "));
        shown["rescheduled"] = json!(self.reschedule.is_some());
        Ok(shown)
    }

    /// The steps of one warp of a launch, which is written as for `orias run`. Arguments may name files only if `files` says so.
    pub fn trace(
        &self,
        launch: &[&str],
        watch: ([u32; 3], u32),
        files: bool,
    ) -> Result<Value, Refusal> {
        let (image, _) = self.cubin()?;
        trace::trace(&image, launch, watch, files).map_err(refusal)
    }
}

/// Messages as the page has them.
fn messages(said: &Diagnostics) -> Vec<Value> {
    let message = |it: &Diagnostic| {
        let severity = match it.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error | Severity::Fatal => "error",
        };
        let mut shown = json!({"severity": severity, "text": it.message});
        if let Some(place) = &it.place {
            shown["line"] = json!(place.line);
            shown["column"] = json!(place.column);
        }
        if let Some(hint) = &it.hint {
            shown["hint"] = json!(hint);
        }
        shown
    };
    said.iter().map(message).collect()
}

/// Answers a request. Both are JSON; the head of this file lists them.
///
/// ```
/// let answer = orias::view::call(r#"{"do": "inspect", "ptx": "nonsense"}"#);
/// assert!(answer.contains(r#""ok":false"#), "{answer}");
/// ```
pub fn call(request: &str) -> String {
    let answered = match serde_json::from_str::<Value>(request) {
        Ok(request) => answer(&request),
        Err(error) => Err(refusal(format!("the request is no JSON: {error}"))),
    };
    let answer = answered.unwrap_or_else(|messages| {
        let error = messages.iter().rev().find(|it| it["severity"] == "error");
        let error = error.or(messages.last()).map(|it| it["text"].clone());
        json!({"ok": false, "error": error, "messages": messages})
    });
    answer.to_string()
}

fn answer(request: &Value) -> Result<Value, Refusal> {
    let action = request["do"].as_str().unwrap_or_default();
    if action == "knobs" {
        let knobs = KNOBS.iter().map(|knob| {
            json!({
                "name": knob.name, "type": knob.default.type_name(), "default": knob.default.to_string(),
                "phase": knob.phase, "about": knob.about,
            })
        });
        return Ok(json!({"ok": true, "knobs": knobs.collect::<Vec<_>>()}));
    }
    let text = |field: &str| match &request[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_str())),
        _ => Err(refusal(format!("'{field}' is no text"))),
    };
    let cubin = match text("cubin")? {
        None => None,
        Some(letters) => {
            let bytes = base64::decode(letters);
            Some(bytes.ok_or_else(|| refusal("'cubin' is not in base64"))?)
        }
    };
    let subject = match (&cubin, text("ptx")?) {
        (Some(image), None) => Subject::Cubin(image),
        (None, Some(ptx)) => Subject::Ptx(ptx.as_bytes()),
        _ => return Err(refusal("a request has either 'ptx' or 'cubin'")),
    };
    let words = |field| Ok::<_, Refusal>(text(field)?.unwrap_or_default().split_whitespace());
    let view = View {
        name: text("name")?.unwrap_or("input"),
        subject,
        options: words("options")?.map(str::to_owned).collect(),
        reschedule: match &request["reschedule"] {
            Value::Bool(true) => Some(request["shuffle"].as_u64()),
            Value::Bool(false) | Value::Null => None,
            _ => return Err(refusal("'reschedule' is neither true nor false")),
        },
    };
    match action {
        "inspect" => Ok(json!({"ok": true, "document": view.inspect()?})),
        "trace" => {
            let launch: Vec<&str> = words("launch")?.collect();
            let number = |value: &Value| match value {
                Value::Null => Ok(0),
                other => (other.as_u64().and_then(|it| u32::try_from(it).ok()))
                    .ok_or_else(|| refusal(format!("{other} is no number of a block or warp"))),
            };
            let block = &request["block"];
            let block = [number(&block[0])?, number(&block[1])?, number(&block[2])?];
            let traced = view.trace(&launch, (block, number(&request["warp"])?), false)?;
            Ok(json!({"ok": true, "trace": traced}))
        }
        _ => Err(refusal(format!("'{action}' is nothing to do"))),
    }
}
