#![no_main]

#[path = "../../crates/capi/tests/hostile/mod.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    hostile::check(input);
});
