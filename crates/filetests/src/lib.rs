//! Runs the text tests below `tests/`.
//!
//! **For:** one runner for every room: input, directives and expected text in one file, rewritten by `BLESS=1`.
//!
//! **May know:** the public functions of every room.
//!
//! **Must never know:** anything that is not public: a filetest is a bug report a user could have written.
//!
//! # The form of a test
//!
//! ```text
//! ; test: phase GeneralOptimize
//! func @f ...
//!
//! ; expected:
//! ; func @f ...
//! ```
//!
//! The first line says in the comment syntax of the file's type which kind of test it is, followed by the kind's
//! arguments. Then comes the input, and after a line `expected:` what the test must print, commented out, so that the
//! whole file stays valid input for every other tool. The input given to the test is the file from its first line, so
//! line numbers in messages are those of the file. Where the output is the input, `expected: the input` says so.
//!
//! [`KINDS`] has one row per kind of test, [`FILE_TYPES`] one per type of file.

mod case;
pub mod fuzzing;
mod kinds;
mod run;

pub use case::{Case, Expected, FILE_TYPES, FileType, parse_case};
pub use kinds::{KINDS, Kind};
pub use run::{Bless, find_files, run_file};
