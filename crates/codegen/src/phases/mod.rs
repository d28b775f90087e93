//! The phases: one module each, with one public function named by a verb. [`crate::pipeline`] orders them.

mod balance_pipes;
mod beyond_control_words;
mod check_sync;
mod combine_words;
mod common_subexpressions;
mod convert_unsupported;
mod expand_for_selection;
mod expand_mbarrier;
mod fix_positions;
mod fold_addresses;
mod forward_loads;
mod general_optimize;
mod group_waits;
mod hoist_invariants;
mod hoist_loads;
mod hot_cold;
mod idle_loads;
mod if_conversion;
mod late_expand_sync;
mod memory_changes;
mod merge_accesses;
mod merge_inductions;
mod optimize_sync;
mod pair_products;
mod place_blocks;
mod predicate_choices;
mod promote_locals;
mod recognize_switches;
mod redundant_barriers;
mod regions;
mod remove_nops;
mod rotate_loops;
mod share_constants;
mod simplify_words;
mod sink_predicates;
mod split_carried;
mod stage_and_fence;
mod steer_threads;
mod uniform_datapath;
mod unroll_loops;
mod warpgroup;
mod warpgroup_operands;
mod wide_sums;
mod widen_accesses;

pub use balance_pipes::balance_pipes;
pub use beyond_control_words::{
    apply_allocation_wars, has_unguarded_reads, has_untold_textures, mark_texture_results,
};
pub use check_sync::{apply_sync_wars, check_sync, reads_registers as sync_reads_registers};
pub use combine_words::combine_words;
pub use common_subexpressions::eliminate_common_subexpressions;
pub use convert_unsupported::{
    SLOW_PATHS, call_slow_paths, convert_unsupported, is_slow_path, slow_path,
};
pub(crate) use convert_unsupported::{copied_number, quotient_factors, slow_path_convention};
pub use expand_for_selection::{
    asks_for_register_counts, expand_for_selection, ignores_register_counts,
};
pub use expand_mbarrier::expand_mbarrier;
pub use fix_positions::fix_positions;
pub use fold_addresses::fold_addresses;
pub use forward_loads::forward_loads;
pub use general_optimize::optimize_general;
pub use group_waits::fix_group_waits;
pub use hoist_invariants::hoist_invariants;
pub use hoist_loads::{explain as explain_hoisted_loads, hoist_loads};
pub use hot_cold::{explain_frequencies, optimize_hot_cold_flow, optimize_hot_cold_in_loops};
pub use idle_loads::add_idle_loads;
pub use if_conversion::convert_ifs;
pub use late_expand_sync::late_expand_sync;
pub use merge_accesses::merge_accesses;
pub use merge_inductions::merge_inductions;
pub use optimize_sync::optimize_sync;
pub use pair_products::pair_products;
pub use place_blocks::place_blocks_in_source_order;
pub use predicate_choices::predicate_choices;
pub use promote_locals::promote_locals;
pub use recognize_switches::recognize_switches;
pub use redundant_barriers::{explain as explain_redundant_barriers, remove_redundant_barriers};
pub use regions::open_convergence_regions;
pub use remove_nops::remove_nop_code;
pub use rotate_loops::rotate_loops;
pub(crate) use share_constants::share_what_is_at_hand;
pub use share_constants::{explain as explain_shared_constants, share_constants};
pub use simplify_words::simplify_words;
pub use sink_predicates::sink_predicates;
pub use split_carried::split_carried;
pub use stage_and_fence::{explain as explain_fences, stage_and_fence};
pub use steer_threads::steer_threads;
pub use uniform_datapath::{use_uniform_datapath, use_uniform_numbers};
pub use unroll_loops::{explain as explain_unrolling, unroll_loops};
pub use warpgroup::add_warpgroup_waits;
pub(crate) use warpgroup::{ends_group, is_product, product_registers, product_sum, waits_for};
pub use warpgroup_operands::hold_warpgroup_operands;
pub(crate) use warpgroup_operands::{holds_warpgroup_operands, release_warpgroup_operands};
pub use widen_accesses::widen_accesses;
