//! The phases: one module each, with one public function named by a verb. [`crate::pipeline`] orders them.

mod combine_words;
mod convert_unsupported;
mod equal_values;
mod expand_for_selection;
mod fix_positions;
mod general_optimize;
mod hot_cold;
mod place_blocks;
mod predicate_branches;
mod predicate_choices;
mod regions;
mod remove_nops;
mod warpgroup;

pub use combine_words::combine_words;
pub use convert_unsupported::convert_unsupported;
pub(crate) use convert_unsupported::{copied_number, quotient_factors};
pub use equal_values::share_equal_values;
pub use expand_for_selection::expand_for_selection;
pub use fix_positions::fix_positions;
pub use general_optimize::optimize_general;
pub use hot_cold::{ColdBlocks, optimize_hot_cold_flow, optimize_hot_cold_in_loops};
pub use place_blocks::place_blocks_in_source_order;
pub use predicate_branches::predicate_branches;
pub use predicate_choices::predicate_choices;
pub use regions::open_convergence_regions;
pub use remove_nops::remove_nop_code;
pub use warpgroup::add_warpgroup_waits;
