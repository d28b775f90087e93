//! `.file` and `.loc`: numbers of files are given once, and code is inlined at places that were there before.

use super::{Checker, Mode};
use rustc_hash::FxHashSet;

impl Checker<'_, '_> {
    pub(super) fn lines(&mut self) {
        let module = self.module;
        let mut files = FxHashSet::default();
        for file in &module.files {
            if !files.insert(file.index) {
                self.error(file.name, format!("Duplicate file index #{}", file.index));
            }
        }
        let mut places = FxHashSet::default();
        let bodies = module.functions.iter().filter_map(|it| it.body.as_ref());
        for location in bodies.flat_map(|body| &body.locations) {
            if places.is_empty() && files.is_empty() && self.options.mode == Mode::Real {
                self.warning(
                    location.span,
                    ".loc directive without .file directive is found, line information in generated binary may not be complete",
                );
            }
            if let Some(inlined) = location.inlined
                && !places.contains(&inlined.at)
            {
                let (file, line, column) = inlined.at;
                self.error(
                    location.span,
                    format!(
                        "Source location {file} {line} {column} used in inlined_at directive must be used in a preceding .loc directive"
                    ),
                );
            }
            places.insert((location.file, location.line, location.column));
        }
    }
}
