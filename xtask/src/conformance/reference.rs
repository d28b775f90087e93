//! `conformance reference [FILTER]`: every launch of the CUDA corpus, executed as PTX in the interpreter, leaves the buffers it
//! left on an H200.
//!
//! The digests are those of `conformance sim`. Launches that stop at an instruction that the interpreter does not execute yet are
//! counted apart.

use super::{corpus, sim};
use crate::gpu::job::Job;
use crate::parallel;
use crate::programs::interpreted_job;

pub fn run(args: &[String]) -> Result<(), String> {
    let filter = match args {
        [] => "",
        [filter] if !filter.starts_with('-') => filter,
        _ => return Err("usage: conformance reference [FILTER]".into()),
    };
    let recorded = sim::recorded()?;
    let folder = corpus::packed().join("cuda-sm90a");
    let manifest = crate::gpu::tests(&folder.join("manifest.json").to_string_lossy())?;
    let (mut equal, mut later, mut different) = (0, 0, 0);
    let mut cases = Vec::new();
    for test in &manifest {
        let job = Job::from_test(test, String::new())?;
        let Some(expected) = recorded
            .get(&job.name)
            .filter(|_| job.name.contains(filter))
        else {
            continue;
        };
        let module = test["ptx"].as_str().ok_or("a test without ptx")?;
        let path = folder.join(module);
        let source =
            std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        cases.push((job, source, expected));
    }
    let results = parallel::map(&cases, |(job, source, _)| interpreted_job(source, job));
    for ((job, _, expected), result) in cases.iter().zip(results) {
        match result {
            Ok(hashes) if hashes == **expected => equal += 1,
            Ok(_) => {
                different += 1;
                println!("different  {}", job.name);
            }
            Err(error) if error.contains("not supported yet") => {
                later += 1;
                let what = error.lines().next().unwrap_or_default();
                println!("later      {}: {what}", job.name);
            }
            Err(error) => {
                different += 1;
                println!("stopped    {}: {error}", job.name);
            }
        }
    }
    println!("{equal} equal, {later} not executed yet, {different} wrong");
    match different {
        0 if equal > 0 => Ok(()),
        _ => Err(format!(
            "{different} launches are not what they were on the chip"
        )),
    }
}
