//! ptxas's command line.
//!
//! ptxas reads its options in a way of its own, and clients rely on it: a long name follows two dashes and a short one a
//! single dash, never the other way round, however many letters the short name has; a value follows `=` or is the next
//! argument; the two short options that take a number and have one letter, `-O` and `-m`, may have it attached (`-O3`,
//! `-m64`), and `-O` alone takes nothing from the next argument. The last value of a repeated option counts, with a
//! warning when the values differ; lists grow. Options files hold more of the same, separated by white space.
//!
//! What there is to say about one option is one row of [`OPTIONS`]: names, what value it takes, whether Orias acts on it,
//! and the function that acts. [`parse`] is the whole algorithm; it touches nothing but its arguments, so that tests and
//! fuzzers call it with invented options files.

mod apply;
mod invocation;
mod options_file;
mod parse;
mod table;

pub use invocation::{Action, Input, Invocation};
pub use options_file::{OptionsFileError, split_options_file};
pub use parse::{parse, parse_options};
pub use table::{OPTIONS, OptionRow, Status, Takes, help, status_table};
