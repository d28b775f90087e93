//! Cubins.

use super::Target;
use orias_cubin::build::{CubinContents, Entry, Function};
use orias_cubin::{Cubin, PrintOptions};
use orias_sass::text::ListingStyle;

pub(super) const TARGETS: &[Target] = &[Target {
    name: "cubin",
    seeds: || vec![small_cubin()],
    words: &[
        "\x7fELF",
        ".nv.info",
        ".text.k",
        "\0",
        "\u{4}/",
        "\u{4}\u{17}",
    ],
    check: cubin,
}];

/// A cubin with one kernel.
fn small_cubin() -> Vec<u8> {
    let mut module = CubinContents::new(orias::chip_of(orias_sass::Target::DEFAULT));
    module.functions.push(Function {
        name: "k".to_owned(),
        entry: Some(Entry::default()),
        code: vec![0; 128],
        registers: 8,
        exits: vec![0x10],
        ..Function::default()
    });
    let cubin = module.build().expect("a good module");
    cubin.write().expect("a good model")
}

/// A file that is read is written back as it was, and everything in it can be printed; one that is refused is refused at a place in it.
fn cubin(input: &[u8]) {
    match Cubin::read(input) {
        Ok(cubin) => {
            assert_eq!(cubin.write().as_deref(), Ok(input));
            assert!(!orias_cubin::print(&cubin, PrintOptions::default()).is_empty());
            assert!(orias_cubin::to_json(&cubin).is_object());
            for function in cubin.functions() {
                let lines = orias_cubin::line::lines_of(&cubin, function.name);
                assert!(lines.is_sorted_by_key(|line| line.address));
            }
            if let Some(target) = orias::target_of(&cubin) {
                let listing = orias::disassemble(&cubin, target, ListingStyle::default());
                assert!(listing.contains(".target"));
            }
        }
        Err(error) => assert!(error.to_string().contains("file offset")),
    }
}
