//! Kernels written as SASS: what `gpu clock` and `gpu latency` launch.
//!
//! Such a kernel has one parameter, the address of its answers, and the control words that its text states.

use orias_cubin::{Cubin, build};
use orias_sass::text::parse_instruction;
use orias_sass::{Target, encode};

/// The code of a kernel under construction.
#[derive(Default)]
pub struct Code {
    /// The instructions.
    pub words: Vec<u128>,
    /// Offsets of the exits.
    exits: Vec<u32>,
}

impl Code {
    /// Appends an instruction with its control fields, `B01----:R-:W-:-:S15` for instance, and says which it is.
    pub fn push(&mut self, control: &str, text: &str) -> Result<usize, String> {
        let at = self.words.len();
        let word = word(control, text, at as u64 * 16)?;
        if text == "EXIT" {
            self.exits.push(at as u32 * 16);
        }
        self.words.push(word);
        Ok(at)
    }

    /// A cubin with this kernel, 40 registers, and so many bytes of shared memory.
    pub fn cubin(&self, name: &str, shared: Option<u32>) -> Result<Cubin, String> {
        let mut code: Vec<u8> = (self.words.iter())
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let padding = word("B------:R-:W-:-:S00", "NOP", 0)?.to_le_bytes();
        while !code.len().is_multiple_of(128) {
            code.extend_from_slice(&padding);
        }
        let mut module = build::CubinContents::new(orias::chip_of(Target::DEFAULT));
        module.functions.push(build::Function {
            name: name.to_owned(),
            entry: Some(build::Entry {
                params: vec![build::Param {
                    offset: 0,
                    size: 8,
                    pointee_log_align: 0,
                    space: 0,
                }],
                params_size: 8,
                max_threads: None,
                required_threads: None,
                cluster: None,
                max_cluster_rank: None,
                explicit_cluster: false,
                blocks_are_clusters: false,
            }),
            code,
            registers: 40,
            exits: self.exits.clone(),
            shared: shared.map(|size| build::Shared {
                size: size.into(),
                align: 16,
            }),
            ..build::Function::default()
        });
        module.build().map_err(|error| error.to_string())
    }
}

fn word(control: &str, text: &str, pc: u64) -> Result<u128, String> {
    let line = format!("[{control}] {text} ;");
    let parsed = parse_instruction(&line, pc, Target::Sm90a).map_err(|e| format!("{text}: {e}"))?;
    encode(&parsed.instruction).map_err(|error| format!("{text}: {error}"))
}
