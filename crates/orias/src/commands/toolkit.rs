//! `orias toolkit`: a shadow of an installed CUDA toolkit whose `ptxas` is Orias.
//!
//! nvcc takes the folder it was called in for its own, whatever its file is a link to: there it reads `nvcc.profile`, finds the rest of the
//! toolkit in the folder above, and finds its tools. So a folder of links is a toolkit: every entry of the real one is linked, `bin` is a
//! folder of its own with a link to each tool, and `ptxas` there is a link to this command. Nothing is copied, and the real toolkit is not
//! touched.

use crate::report::Report;
use clap::Parser;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a shadow of an installed CUDA toolkit whose ptxas is Orias, and compiles a first kernel with it.
#[derive(Parser)]
#[command(name = "toolkit", bin_name = "orias toolkit")]
struct Arguments {
    /// The folder to make; a shadow that is there already is made anew
    folder: PathBuf,
    /// The real toolkit; without it CUDA_HOME, CUDA_PATH, the nvcc on the path or /usr/local/cuda names one
    #[arg(long, value_name = "PATH")]
    cuda: Option<PathBuf>,
    /// Do not try the shadow
    #[arg(long)]
    no_check: bool,
}

/// What a shadow has and a toolkit has not: it names the toolkit.
const MARK: &str = "orias-toolkit.txt";

/// Where a toolkit lies if nobody says.
const USUAL_PLACE: &str = "/usr/local/cuda";

/// The kernel that a new shadow compiles.
const FIRST_KERNEL: &str =
    "__global__ void first(float *x, float a) { x[blockIdx.x * blockDim.x + threadIdx.x] *= a; }\n";

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    match make(&arguments) {
        Ok(said) => Report::success(said),
        Err(error) => Report::failure("toolkit", error),
    }
}

fn make(arguments: &Arguments) -> Result<String, String> {
    let toolkit = match &arguments.cuda {
        Some(path) => path.clone(),
        None => installed().ok_or("no CUDA toolkit is found: name it with --cuda")?,
    };
    let toolkit = fs::canonicalize(&toolkit).map_err(failed(&toolkit))?;
    let bin = toolkit.join("bin");
    if !bin.is_dir() {
        let toolkit = toolkit.display();
        return Err(format!("{toolkit}: a CUDA toolkit has a folder 'bin'"));
    }
    if toolkit.join(MARK).is_file() {
        return Err(format!(
            "{}: this is a shadow itself; name the toolkit",
            toolkit.display()
        ));
    }
    let orias = std::env::current_exe().and_then(fs::canonicalize);
    let orias = orias.map_err(|error| format!("this command is not found: {error}"))?;
    let folder = &arguments.folder;
    clear(folder)?;
    let own = folder.join("bin");
    fs::create_dir_all(&own).map_err(failed(&own))?;
    let folder = &fs::canonicalize(folder).map_err(failed(folder))?;
    if folder.starts_with(&toolkit) {
        return Err(format!(
            "{}: the shadow must not lie in the toolkit",
            folder.display()
        ));
    }
    fs::write(folder.join(MARK), format!("{}\n", toolkit.display())).map_err(failed(folder))?;
    link_entries(&toolkit, folder, &["bin", MARK])?;
    link_entries(&bin, &folder.join("bin"), &["ptxas"])?;
    let ptxas = folder.join("bin/ptxas");
    link(&orias, &ptxas).map_err(failed(&ptxas))?;
    let mut said = format!(
        "{}: {} with the ptxas of {}\n",
        folder.display(),
        toolkit.display(),
        orias.display()
    );
    if !arguments.no_check {
        said += &check(folder)?;
    }
    said += &format!("PATH={}:$PATH\n", folder.join("bin").display());
    Ok(said)
}

/// The toolkit that users mean if they name none.
fn installed() -> Option<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter();
    let named = named.filter_map(std::env::var_os).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| folder.join("nvcc").is_file());
    let on_path = on_path.and_then(|folder| {
        // A link to nvcc that lies elsewhere leads to the toolkit, a folder of tools is a part of it.
        let real = fs::canonicalize(folder.join("nvcc")).ok()?;
        let bin = real.parent()?;
        let bin = match bin.join("nvcc.profile").is_file() {
            true => bin.to_path_buf(),
            false => folder,
        };
        Some(bin.parent()?.to_path_buf())
    });
    let mut all = named.chain(on_path).chain([PathBuf::from(USUAL_PLACE)]);
    all.find(|toolkit| toolkit.join("bin").is_dir() && !toolkit.join(MARK).is_file())
}

/// Removes a shadow that is there, and nothing else.
fn clear(folder: &Path) -> Result<(), String> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(folder)(error)),
    };
    let is_shadow = folder.join(MARK).is_file();
    for entry in entries {
        let path = entry.map_err(failed(folder))?.path();
        if !is_shadow {
            let folder = folder.display();
            return Err(format!("{folder}: there is something in it already"));
        }
        let real = fs::symlink_metadata(&path).map_err(failed(&path))?;
        let removed = match real.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(failed(&path))?;
    }
    Ok(())
}

/// Links every entry of a folder but some.
fn link_entries(from: &Path, to: &Path, but: &[&str]) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let name = entry.map_err(failed(from))?.file_name();
        if !but.iter().any(|other| name == *other) {
            let place = to.join(&name);
            link(&from.join(&name), &place).map_err(failed(&place))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(to: &Path, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, place)
}

#[cfg(not(unix))]
fn link(_to: &Path, _place: &Path) -> io::Result<()> {
    Err(io::Error::other(
        "not supported yet: a shadow where there are no symbolic links",
    ))
}

/// Asks nvcc for its version and lets it compile a kernel; without nvcc, asks ptxas for its version.
fn check(folder: &Path) -> Result<String, String> {
    let (nvcc, ptxas) = (folder.join("bin/nvcc"), folder.join("bin/ptxas"));
    let asked = match nvcc.exists() {
        true => &nvcc,
        false => &ptxas,
    };
    let version = output(Command::new(asked).arg("--version"))?;
    let release = version.lines().find(|line| line.contains("release"));
    let release = release.ok_or_else(|| format!("{}: no release is named", asked.display()))?;
    if !nvcc.exists() {
        return Ok(format!("ptxas: {release}; there is no nvcc to try\n"));
    }
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (source, cubin) = (
        scratch.path().join("first.cu"),
        scratch.path().join("first.cubin"),
    );
    let log = scratch.path().join("log");
    fs::write(&source, FIRST_KERNEL).map_err(failed(&source))?;
    let mut command = Command::new(&nvcc);
    command
        .arg(format!("-arch={}", orias_sass::Target::DEFAULT.name()))
        .args(["-cubin", "-o"])
        .args([&cubin, &source])
        .env("ORIAS_LOG", &log)
        .env_remove("ORIAS_FALLBACK");
    output(&mut command)?;
    let compiled = fs::read_to_string(&log).unwrap_or_default();
    if !compiled.contains("\"by\":\"orias\"") || !cubin.is_file() {
        return Err(format!(
            "{} compiles, but does not ask the ptxas beside it",
            nvcc.display()
        ));
    }
    Ok(format!(
        "nvcc: {release}; a first kernel is compiled by Orias\n"
    ))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = Path::new(command.get_program()).display().to_string();
    let done = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match done.status.success() {
        true => Ok(text(&done.stdout)),
        false => Err(format!(
            "{name}: {}\n{}",
            done.status,
            text(&done.stderr).trim_end()
        )),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
