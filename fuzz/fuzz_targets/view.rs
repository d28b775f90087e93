#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| orias_filetests::fuzzing::check("view", input));
