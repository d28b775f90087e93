//! The phases: one module each, with one public function named by a verb. [`crate::pipeline`] orders them.

mod convert_unsupported;
mod fix_positions;
mod general_optimize;
mod place_blocks;
mod remove_nops;

pub use convert_unsupported::convert_unsupported;
pub use fix_positions::fix_positions;
pub use general_optimize::optimize_general;
pub use place_blocks::place_blocks_in_source_order;
pub use remove_nops::remove_nop_code;
