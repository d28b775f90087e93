//! The last mile, Ori to bytes: convert, encode and decode again, expand, resolve hazards, emit.
//!
//! **For:** turning scheduled Ori on physical registers into words that are proved equal to what was meant, and finished
//! SASS back into Ori.
//!
//! **May know:** `ori`, `sass`, `machine`.
//!
//! **Must never know:** `codegen`. What it needs from there (the one control-word pass) is handed to it by the pipeline
//! table.
