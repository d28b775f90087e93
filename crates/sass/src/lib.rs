//! The instruction set: one table per SM from which encoder, decoder, assembler and disassembler come.
//!
//! **For:** the shape of machine instructions: operations, their forms, operands and modifiers, what each reads and
//! writes, and the 128-bit words that stand for them, control fields included.
//!
//! **May know:** bits, text and the effects an operation has on registers and memory.
//!
//! **Must never know:** time (latencies, pipes and limits are `machine`'s), what an operation computes (`eval`'s), the
//! container, or any IR.
