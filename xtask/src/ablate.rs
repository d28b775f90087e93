//! `cargo xtask ablate`: one cubin for each thing that can be left out of a cubin.

use std::path::Path;

use orias_cubin::Cubin;
use orias_cubin::build::CubinContents;
use orias_cubin::omit::Omission;

/// `ablate BASE FOLDER`: writes `base.cubin` and, for each thing that can be left out of BASE, a cubin named after it.
///
/// BASE is a cubin. With `--ours` before it, its parts are built again by our builder first, so that nothing of another tool's layout
/// is in the files. `cargo xtask gpu ablation FOLDER MANIFEST` then launches them all.
pub fn run(args: &[String]) -> Result<(), String> {
    let (ours, base, folder) = match args {
        [base, folder] => (false, base, folder),
        [flag, base, folder] if flag == "--ours" => (true, base, folder),
        _ => return Err("usage: ablate [--ours] BASE.cubin FOLDER".to_owned()),
    };
    let file = std::fs::read(base).map_err(|error| format!("{base}: {error}"))?;
    let mut cubin = Cubin::read(&file).map_err(|error| format!("{base}: {error}"))?;
    if ours {
        let module = CubinContents::extract(&cubin, orias::chip_named)
            .map_err(|error| format!("{base}: {error}"))?;
        cubin = module.build().map_err(|error| format!("{base}: {error}"))?;
    }
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let save = |name: &str, bytes: &[u8]| {
        let path = folder.join(format!("{}.cubin", name.replace('/', "_")));
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    let whole = cubin.write().map_err(|error| error.to_string())?;
    save("base", &whole)?;
    let omissions = Omission::all(&cubin);
    for omission in &omissions {
        let bytes = omission
            .apply(&cubin)
            .map_err(|error| format!("{omission}: {error}"))?;
        save(&omission.to_string(), &bytes)?;
    }
    println!(
        "{} cubins in {}: the whole one and {} with one thing left out",
        omissions.len() + 1,
        folder.display(),
        omissions.len()
    );
    Ok(())
}
