//! Floating point in every format the chip knows, from one description of a format.
//!
//! A bit pattern is *unpacked* to the exact value it stands for ([`mod@format`]), values are combined without loss or with a
//! sticky digit far below any format's last one ([`exact`]), and the result is *rounded* once ([`round`]). Flushing,
//! saturation and the chip's NaN come around that ([`arithmetic`], [`convert`], [`compare`]).

pub mod arithmetic;
pub mod compare;
pub mod convert;
pub mod exact;
pub mod format;
pub mod round;

pub use arithmetic::Arithmetic;
pub use format::{Finite, Format, Nan, Value};
pub use round::{NanRule, Overflow, Rounding};
