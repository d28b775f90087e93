//! What synchronisation is known to have happened: what the phases that take fences, barriers and waits out rest on.
//!
//! - [`available`]: forward over the flow graph, what holds on every way to a place and has not been undone since.
//! - [`fences`]: which fence makes which other one needless.
//! - [`aligned_barriers`]: barriers that all threads of a block come to equally often and in the same order.
//!
//! **The obligation.** Something that synchronises may go only if its twin holds on *every* way to it and nothing lies between the two that another thread could see, or through
//! which this thread could see another one: no access to memory, no other synchronisation, no call. Between such twins nothing happens, so every outcome without
//! the second is one with it. ptxas 13.0.88 took none of them out of the samples tried at -O3, so code never has more of them than ptxas's.

pub(crate) mod aligned_barriers;
pub(crate) mod available;
pub(crate) mod fences;
