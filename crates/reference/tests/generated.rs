//! Generated programs are definite: they run to their end, read nothing that was not written, and leave the same behind
//! whether threads take long or short turns.

use orias_generate::ptx::{
    BLOCK, GRID, INPUT_BYTES, KERNEL, OUTPUT_BYTES, Options, SCRATCH_BYTES, input, program,
};
use orias_reference::{Launch, Program};

#[test]
fn generated_programs_run_to_their_end() {
    let mut nothing = 0;
    for seed in 0..60 {
        let text = program(seed, &Options::default());
        let (module, found) = orias_ptx::parse(text.as_bytes());
        assert!(!found.has_errors());
        let mut loaded = Program::load(&module).unwrap();
        let bytes = input(seed);
        assert_eq!(bytes.len(), INPUT_BYTES);
        let memory = loaded.memory_mut();
        let addresses = [bytes, vec![0; OUTPUT_BYTES], vec![0; SCRATCH_BYTES]]
            .map(|bytes| memory.allocate(bytes));
        let mut launch = Launch::new(KERNEL, [GRID, 1, 1], [BLOCK, 1, 1]);
        launch.check_uninitialised = true;
        launch.step_limit = Some(20_000_000);
        for address in addresses {
            launch = launch.argument(address.to_le_bytes());
        }
        if let Err(fault) = loaded.launch(&launch) {
            panic!("seed {seed}: {fault}\n{text}");
        }
        let output = loaded.memory().read(addresses[1], OUTPUT_BYTES).unwrap();
        nothing += usize::from(output[..8] == output[8..16]);
    }
    assert!(nothing < 3, "threads of {nothing} programs agree by chance");
}
