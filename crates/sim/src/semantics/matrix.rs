//! Matrix operations of one warp.

use super::Table;

pub(super) const TABLE: Table = &[];
