//! What must hold for any input whatever: one row for each reader of text or bytes from outside.
//!
//! A row's check takes arbitrary bytes and panics when the reader breaks its promise: it must return, without a panic and
//! in time and memory that fit the input, and what it accepts must mean the same when printed and read again. The same rows
//! serve cargo-fuzz (`fuzz/`, which steers by coverage and runs for as long as it is let) and `cargo test`, which runs each on
//! a fixed number of inputs made by [`Mutator`] from the row's seeds.

mod mutator;
mod readers;

pub use mutator::Mutator;
pub use readers::{Target, targets};

/// The check of the target called `name`.
///
/// # Panics
/// If there is none.
pub fn check(name: &str, input: &[u8]) {
    match targets().find(|target| target.name == name) {
        Some(target) => (target.check)(input),
        None => panic!("no target is named {name}"),
    }
}
