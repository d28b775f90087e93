//! Ori, the intermediate representation: entities, instructions, control-flow graph, text form, verifier and analyses.
//!
//! **For:** holding a function from lowering to the last byte, in one form that prints, parses back equal, and is checked
//! between any two phases.
//!
//! **May know:** `sass`, whose operations are Ori's machine operations.
//!
//! **Must never know:** PTX, latencies, or which phases exist.
