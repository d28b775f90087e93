//! Fences, cache control, and waits for copies.

use super::Table;
use crate::operand::{Lack, Reader};
use crate::program::Action;

pub(super) const TABLE: Table = &[
    ("MEMBAR", fence),
    ("ERRBAR", nothing),
    ("CGAERRBAR", nothing),
    ("FENCE.VIEW.ASYNC", nothing),
    ("CCTL", nothing),
    ("CCTL.IVALL", nothing),
    ("CCTLL", nothing),
    ("DEPBAR", nothing),
    ("DEPBAR.LE", nothing),
    ("LDGDEPBAR", nothing),
    ("PREEXIT", nothing),
    ("ACQBULK", nothing),
    ("PMTRIG", nothing),
];

/// Memory is consistent at every step here: only the search for races must know.
fn fence(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|core| {
        core.block.shared.synchronize();
        Ok(())
    }))
}

fn nothing(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|_| Ok(())))
}
