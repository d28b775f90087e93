//! Knobs: named, numbered, typed settings that steer single decisions of single phases.
//!
//! A knob is a [`Key`] declared in [`registry`] with its number and name, type, default, and the phase that reads it; the
//! phase asks [`Knobs`] for its value through that key, so a value of the wrong type cannot be asked for. Users set knobs by
//! name or by number, `NAME=VALUE`, from a command line, a file or the library's options; a name that does not exist and a
//! value of the wrong type are errors that suggest what was meant. Nothing about knobs is global: each compilation has its
//! own [`Knobs`].

pub mod registry;
pub mod scheduling;
mod settings;
mod when;

pub use registry::{DefaultValue, Key, Knob};
pub use settings::{KnobError, Knobs};
pub use when::{Point, WhenError, WhenList};
