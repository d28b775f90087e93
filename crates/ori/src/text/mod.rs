//! The text form: every function at every level prints and parses back equal.
//!
//! ```text
//! func scale abstract sm_90a -> r {        ; kind, name, level, target, results
//!   local 16                               ; attributes, one a line
//!   loc #0 = 1:12:5                        ; file:line:column
//! block0(v0:r, v1:rx2):
//!     v2:r = add.s32 v0, 4  #0             ; results = operation operands, #location
//!     v3:p = setp.lt.s32 v2, 0
//!     @v3 v4:r~v2 = mov.b32 0              ; guarded: v4 is v2 where v3 is false
//!     cbr v3 -> block1(v4), block2         ; edges follow an arrow
//! …
//! }
//! ```
//!
//! Machine instructions are written in the order of their row's slots, with what each defines in place, every slot present,
//! and after allocation with physical registers: `[B0-----:R-:W1:-:S02] @!P0 LDS.64 R4..R5, [R2+UR4+0x10]`.
//!
//! | text | meaning |
//! | --- | --- |
//! | `v12`, `v12:rx2` | a value; with its type where it is defined |
//! | `R4`, `R4..R7`, `RZ` | a physical register, a tuple, a constant register |
//! | `_` | an operand left out, a result nobody wants; not written at the end of an abstract operation's results or operands |
//! | `-v1`, `\|v1\|`, `!v1`, `R4.reuse` | source modifiers |
//! | `7`, `-1`, `0x3f800000` | an immediate of 64 bits; floats by their pattern |
//! | `c[0x0][0x210]`, `c[3][v1+8]`, `cx[v2][0x10]` | constant banks |
//! | `[v1.64+v2+&name+8]`, `desc[v3][v1.64]` | memory operands: base, uniform base, name, offset |
//! | `gdesc[v1]` | a matrix descriptor |
//! | `SR_TID.X`, `SR73` | a special register, by number where it has no name |
//! | `&name`, `lo(&name+8)`, `hi(&name)` | addresses of names outside |
//! | `block3(v1, v2)` | an edge with its arguments |
//! | `uses(R4)`, `defs(R8..R11)` | registers touched without being encoded |
//!
//! A comment goes from `;` to the end of the line. One instruction stands on one line. Numbers of values and blocks are
//! kept, so the text form of a function does not change by passing through it.

mod control_word;
mod cursor;
mod header;
mod mnemonic;
mod operands;
mod parse;
mod print;

pub use parse::{ParseError, parse_function, parse_module};
pub(crate) use print::is_plain_name;
pub use print::{print_function, print_inst};
