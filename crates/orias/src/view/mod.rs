//! What the page shows: a module as data, and the page itself.
//!
//! [`call`] takes a request as JSON and answers in JSON: PTX is compiled, a cubin is read, and everything that is known about each
//! instruction is put together ([`document`]); a kernel is run in the emulator and one warp's steps are kept (`trace`). It is the
//! one door of the page: in a browser it is called through WebAssembly, `orias view` calls it natively and writes the answers into the
//! page, and tests call it as they are. Nothing is read or written, nothing is shared between calls, and whatever the request is, the
//! answer is an object with `ok` and, if that is false, `error`.
//!
//! | request | answer |
//! | --- | --- |
//! | `{"do": "inspect", "ptx": TEXT or "cubin": BASE64, "options": "-arch=sm_90a -O3 …"}` | `{"ok": true, "document": …}` |
//! | the same with `"reschedule": true`, and perhaps `"shuffle": SEED` | the code in the order that `orias reschedule` gives it |
//! | the same with `"do": "trace", "launch": "--grid 1 --block 32 buf:f32:32 …"`, and perhaps `"warp"`, `"block"` | `{"ok": true, "trace": …}` |
//! | `{"do": "knobs"}` | `{"ok": true, "knobs": […]}` |
//!
//! The cost is that of compiling and judging, and linear in the code for the rest.

pub mod base64;
mod control;
mod document;
mod page;
mod request;
mod trace;

pub use control::explain_control;
pub use document::{document, of_stories};
pub use page::{live_page, page};
pub use request::{Subject, View, call};
