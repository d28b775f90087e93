//! `cargo xtask rewrite`: cubins through our reader and writer, for `cargo xtask gpu launches`.

use std::path::Path;

use orias_cubin::Cubin;
use orias_cubin::build::CubinContents;

/// `rewrite [--build] FROM TO`: every cubin of folder FROM, read and written back into folder TO.
///
/// With `--build` each is taken apart and put together by our builder, so that nothing of another tool's layout is left.
pub fn run(args: &[String]) -> Result<(), String> {
    let (build, from, to) = match args {
        [from, to] => (false, from, to),
        [flag, from, to] if flag == "--build" => (true, from, to),
        _ => return Err("usage: rewrite [--build] FROM TO".to_owned()),
    };
    let (from, to) = (Path::new(from), Path::new(to));
    let at = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    std::fs::create_dir_all(to).map_err(|error| at(to, &error))?;
    let (mut count, mut equal) = (0, 0);
    for entry in std::fs::read_dir(from).map_err(|error| at(from, &error))? {
        let path = entry.map_err(|error| at(from, &error))?.path();
        let (Some(name), Some("cubin")) = (
            path.file_name(),
            path.extension().and_then(|extension| extension.to_str()),
        ) else {
            continue;
        };
        let file = std::fs::read(&path).map_err(|error| at(&path, &error))?;
        let mut cubin = Cubin::read(&file).map_err(|error| at(&path, &error))?;
        if build {
            let module = CubinContents::extract(&cubin, orias::chip_named)
                .map_err(|error| at(&path, &error))?;
            cubin = module.build().map_err(|error| at(&path, &error))?;
        }
        let bytes = cubin.write().map_err(|error| at(&path, &error))?;
        count += 1;
        equal += usize::from(bytes == file);
        let out = to.join(name);
        std::fs::write(&out, bytes).map_err(|error| at(&out, &error))?;
    }
    println!(
        "{count} cubins in {}, {equal} of them byte for byte what was read",
        to.display()
    );
    Ok(())
}
