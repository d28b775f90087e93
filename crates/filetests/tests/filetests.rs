//! Every file below `tests/` at the repository's root is one test, named by its path.

use libtest_mimic::{Arguments, Failed, Trial};
use orias_filetests::{Bless, KINDS, find_files, run_file};
use std::path::Path;

fn main() {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let bless = match std::env::var_os("BLESS") {
        Some(value) if value != "0" && !value.is_empty() => Bless::Yes,
        _ => Bless::No,
    };
    let files = find_files(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let trials = files
        .into_iter()
        .map(|path| {
            let name = path
                .strip_prefix(&folder)
                .unwrap_or(&path)
                .display()
                .to_string();
            Trial::test(name, move || {
                run_file(KINDS, &path, bless).map_err(Failed::from)
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
