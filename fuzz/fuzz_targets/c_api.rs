#![no_main]

use orias_capi as _; // what the module below drives

#[path = "../../crates/capi/tests/hostile/mod.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    hostile::check(input);
});
