//! Mutants of where lanes meet, for whoever runs them: `gpu mutants --convergence` on the chip, `conformance convergence` in the
//! emulator.
//!
//! The launches of manifests with the cubins of folders; one convergence instruction of a launch's kernel changed or taken away; what the judge says of it; and the
//! table of that against what came of running it. A mutant has a number and is the same everywhere.

use crate::gpu::job::{Job, Words};
use orias_cubin::Cubin;
use orias_sass::Target;
use orias_sass::text::print_instruction;
use orias_verify::judge_program;
use orias_verify::mutate::convergence::{Mutation, mutations};
use orias_verify::program::{Program, WORD};
use std::collections::BTreeMap;
use std::path::Path;

/// A launch whose kernel can be mutated.
pub struct MutableLaunch {
    /// Named after the folder of its cubin and the launch.
    pub job: Job,
    pub image: Vec<u8>,
    /// Where the kernel's code is in the file.
    code_at: usize,
    program: Program,
    mutations: Vec<(usize, Mutation)>,
}

/// One change of a launch's kernel.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Which launch.
    pub source: usize,
    index: usize,
    mutation: Mutation,
}

/// What came of running a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Same,
    Different,
    /// A fault.
    Failed,
    Hangs,
}

/// What the judge says of a mutant: how many findings, and the first.
pub struct Judgement {
    pub findings: usize,
    pub first: String,
}

/// The launches of manifests, with the cubins of folders (both with commas between them), whose kernels meet somewhere and are
/// silent as they are. A launch without a cubin is left out.
pub fn sources(manifests: &str, folders: &str) -> Result<Vec<MutableLaunch>, String> {
    let mut sources = Vec::new();
    for folder in folders.split(',') {
        let label = Path::new(folder).file_name().unwrap_or_default();
        let label = label.to_string_lossy();
        for manifest in manifests.split(',') {
            for test in crate::gpu::tests(manifest)? {
                let cubin = crate::gpu::cubin_of(&test, folder)?;
                if Path::new(&cubin).exists() {
                    let mut job = Job::from_test(&test, cubin)?;
                    job.name = format!("{label}/{}", job.name);
                    sources.extend(source(job)?);
                }
            }
        }
    }
    Ok(sources)
}

/// The code of a launch.
pub struct Code {
    /// The whole cubin.
    pub image: Vec<u8>,
    pub program: Program,
    /// Where the kernel's code begins in it.
    pub code_at: usize,
}

impl Code {
    /// That of a job's kernel in its cubin.
    pub fn of(job: &Job) -> Result<Self, String> {
        let image = std::fs::read(&job.cubin).map_err(|error| format!("{}: {error}", job.cubin))?;
        let cubin = Cubin::read(&image).map_err(|error| format!("{}: {error}", job.cubin))?;
        let functions = cubin.functions();
        let function = (functions.iter())
            .find(|function| function.name == job.kernel)
            .ok_or_else(|| format!("{}: no kernel {}", job.cubin, job.kernel))?;
        let program = Program::of(function, Target::Sm90a).map_err(|error| error.to_string())?;
        let code_at = (image.windows(function.code.len()))
            .position(|window| window == function.code)
            .ok_or_else(|| format!("{}: the code is not in one piece", job.cubin))?;
        Ok(Self {
            image,
            program,
            code_at,
        })
    }
}

fn source(job: Job) -> Result<Option<MutableLaunch>, String> {
    let Code {
        image,
        program,
        code_at,
    } = Code::of(&job)?;
    let found = judge_program(&program).map_err(|error| error.to_string())?;
    if let Some(finding) = found.first() {
        println!("left out: {}: {finding}", job.name);
        return Ok(None);
    }
    let mutations = mutations(&program);
    Ok((!mutations.is_empty()).then(|| MutableLaunch {
        job,
        code_at,
        program,
        mutations,
        image: image.clone(),
    }))
}

/// Mutant `number`: kinds are equally frequent among launches, not the values of a barrier.
pub fn choose(sources: &[MutableLaunch], number: u64) -> Mutant {
    let mut words = Words::new(number);
    let mut below = |n: usize| (words.next() % n.max(1) as u64) as usize;
    let source = below(sources.len());
    let known = &sources[source];
    let kind = |(index, mutation): &(usize, Mutation)| {
        mutation.kind(known.program.instructions[*index].op())
    };
    let mut kinds: Vec<String> = known.mutations.iter().map(kind).collect();
    kinds.sort();
    kinds.dedup();
    let wanted = &kinds[below(kinds.len())];
    let of_kind: Vec<&(usize, Mutation)> = (known.mutations.iter())
        .filter(|mutant| kind(mutant) == *wanted)
        .collect();
    let (index, mutation) = *of_kind[below(of_kind.len())];
    Mutant {
        source,
        index,
        mutation,
    }
}

impl MutableLaunch {
    /// The cubin with a mutant in it.
    pub fn image(&self, mutant: &Mutant) -> Result<Vec<u8>, String> {
        let words = (mutant.mutation).words(&self.program, mutant.index, Target::Sm90a);
        let mut image = self.image.clone();
        for (index, word) in words.map_err(|error| error.to_string())? {
            let at = self.code_at + index * WORD;
            image[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        }
        Ok(image)
    }

    /// What the judge says of the kernel in an image. Code that it cannot follow counts as reported.
    pub fn judge(&self, image: &[u8]) -> Result<Judgement, String> {
        let cubin = Cubin::read(image).map_err(|error| error.to_string())?;
        let functions = cubin.functions();
        let function = functions.iter().find(|one| one.name == self.job.kernel);
        let function = function.ok_or("the kernel is gone")?;
        let program = match Program::of(function, Target::Sm90a) {
            Ok(program) => program,
            Err(error) => {
                return Ok(Judgement {
                    findings: 1,
                    first: error.to_string(),
                });
            }
        };
        let found = judge_program(&program).map_err(|error| error.to_string())?;
        Ok(Judgement {
            findings: found.len(),
            first: found.first().map(ToString::to_string).unwrap_or_default(),
        })
    }

    /// A mutant in words.
    pub fn describe(&self, mutant: &Mutant) -> String {
        let instruction = &self.program.instructions[mutant.index];
        let offset = mutant.index * WORD;
        format!(
            "{} +{offset:#06x} `{}` {}",
            self.job.name,
            print_instruction(instruction, offset as u64),
            mutant.mutation
        )
    }

    fn kind(&self, mutant: &Mutant) -> String {
        (mutant.mutation).kind(self.program.instructions[mutant.index].op())
    }
}

/// A mutant with what the judge said and what came of it.
pub type Tried = (Mutant, Judgement, Outcome);

/// Prints what nobody reported though it went wrong, and the table; fails if there is any.
pub fn report(sources: &[MutableLaunch], tried: &[Tried]) -> Result<(), String> {
    const OUTCOMES: [(Outcome, &str); 4] = [
        (Outcome::Hangs, "hangs"),
        (Outcome::Failed, "faults"),
        (Outcome::Different, "wrong"),
        (Outcome::Same, "equal"),
    ];
    let mut kinds: BTreeMap<String, [[usize; 2]; 4]> = BTreeMap::new();
    let mut missed = 0;
    for (mutant, judgement, outcome) in tried {
        let source = &sources[mutant.source];
        let column = (OUTCOMES.iter().position(|(known, _)| known == outcome)).unwrap_or(3);
        let reported = usize::from(judgement.findings == 0);
        kinds.entry(source.kind(mutant)).or_default()[column][reported] += 1;
        if *outcome != Outcome::Same && judgement.findings == 0 {
            missed += 1;
            println!("MISSED {outcome:?}: {}", source.describe(mutant));
        }
    }
    let mut head = "| mutation | tried |".to_owned();
    for (_, name) in OUTCOMES {
        head += &format!(" {name}, reported | {name}, not reported |");
    }
    println!("{head}\n|{}", " --- |".repeat(2 + 2 * OUTCOMES.len()));
    let mut sum = [[0; 2]; 4];
    for (kind, row) in &kinds {
        print_row(kind, row);
        for (total, value) in sum.iter_mut().zip(row) {
            total[0] += value[0];
            total[1] += value[1];
        }
    }
    print_row("all", &sum);
    if missed == 0 && !tried.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{missed} of {} mutants went wrong and were not reported",
            tried.len()
        ))
    }
}

fn print_row(name: &str, row: &[[usize; 2]; 4]) {
    let tried: usize = row.iter().flatten().sum();
    let cells: Vec<String> = row.iter().flatten().map(ToString::to_string).collect();
    println!("| {name} | {tried} | {} |", cells.join(" | "));
}
