//! Lifting: every function of ptxas's cubins becomes Ori and comes back byte for byte.
//!
//! Each function is lifted, verified, printed, parsed and compared, and emitted both from the lifted and from the parsed function.
//! Indirect branches must come back with the targets the container lists.

use super::finished::{self, LEVELS};
use orias::reschedule::lifted;
use orias_cubin::Cubin;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Tally {
    functions: usize,
    instructions: usize,
    wrong: Vec<String>,
    lifting: Duration,
    emitting: Duration,
}

/// `cargo xtask conformance lift [--sample | CUBIN…]`: the whole corpus at every level, every eighth module, or the given files.
pub fn run(args: &[String]) -> Result<(), String> {
    let paths: Vec<(String, std::path::PathBuf)> = match args.first().map(String::as_str) {
        None | Some("--sample") => {
            let every = if args.is_empty() { 1 } else { 8 };
            let cubins = finished::cubins(&LEVELS, every)?;
            cubins.into_iter().map(|one| (one.name, one.path)).collect()
        }
        Some(_) => args
            .iter()
            .map(|path| (path.clone(), path.into()))
            .collect(),
    };
    let mut tally = Tally::default();
    for (name, path) in &paths {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let cubin = Cubin::read(&bytes).map_err(|error| format!("{name}: {error}"))?;
        for view in cubin.functions() {
            tally.functions += 1;
            if let Err(error) = try_function(&cubin, &view, &mut tally) {
                tally.wrong.push(format!("{name}: {error}"));
            }
        }
    }
    println!(
        "{} cubins, {} functions, {} instructions: {} came back equal; lifted in {:.2} s, emitted in {:.2} s",
        paths.len(),
        tally.functions,
        tally.instructions,
        tally.functions - tally.wrong.len(),
        tally.lifting.as_secs_f64(),
        tally.emitting.as_secs_f64(),
    );
    for wrong in tally.wrong.iter().take(30) {
        println!("    WRONG {wrong}");
    }
    if tally.functions == 0 {
        return Err("there was no function to lift".to_owned());
    }
    match tally.wrong.len() {
        0 => Ok(()),
        count => Err(format!("{count} functions came back wrong")),
    }
}

fn try_function(
    cubin: &Cubin,
    view: &orias_cubin::FunctionView<'_>,
    tally: &mut Tally,
) -> Result<(), String> {
    let start = Instant::now();
    let func = lifted(cubin, view).map_err(|error| error.to_string())?;
    tally.lifting += start.elapsed();
    tally.instructions += func.inst_count();
    orias_ori::verify_function(&func).map_err(|errors| errors[0].to_string())?;
    let text = orias_ori::print_function(&func);
    let parsed = orias_ori::parse_function(&text).map_err(|error| error.to_string())?;
    if parsed != func {
        return Err(format!("{}: parses as another function", view.name));
    }
    let start = Instant::now();
    let code = orias_mercury::emit(&func).map_err(|error| error.to_string())?;
    tally.emitting += start.elapsed();
    for code in [
        &code,
        &orias_mercury::emit(&parsed).map_err(|error| error.to_string())?,
    ] {
        if let Some(at) = (0..code.bytes.len().max(view.code.len()))
            .find(|&at| code.bytes.get(at) != view.code.get(at))
        {
            return Err(format!("{}+{at:#x}: another byte", view.name));
        }
        let listed = orias::reschedule::indirect_targets(view);
        for branch in &code.indirect {
            let targets: Vec<usize> = branch.targets.iter().map(|&to| to as usize).collect();
            if listed.get(&(branch.offset as usize)) != Some(&targets) {
                return Err(format!("{}+{:#x}: other targets", view.name, branch.offset));
            }
        }
    }
    Ok(())
}
