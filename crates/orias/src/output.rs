//! Output files appear whole or not at all.
//!
//! The bytes go to a temporary file beside the wanted one, which then takes its place in one step; whatever happens before
//! that step, an older file stays as it was. What is not a file on disk (`/dev/null`, a pipe) cannot be replaced and is
//! written to directly.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Makes `path` a file that holds `bytes`. A symbolic link stays, and the file it names is replaced; a file that exists
/// keeps its permissions, and one that may not be written is an error.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = follow_links(path)?;
    match fs::metadata(&target) {
        Ok(existing) if existing.is_file() => {
            // Refuse to replace what its owner protected.
            File::options().append(true).open(&target)?;
            replace(&target, bytes, Some(existing.permissions()))
        }
        Ok(_) => File::options()
            .write(true)
            .open(&target)
            .and_then(|mut file| file.write_all(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(&target, bytes, None),
        Err(error) => Err(error),
    }
}

fn replace(target: &Path, bytes: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut temporary = new_file_in(folder)?;
    temporary.write_all(bytes)?;
    if let Some(permissions) = permissions {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.persist(target)?;
    Ok(())
}

/// A temporary file with the permissions any new file has; it is removed unless it is kept.
fn new_file_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".orias-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The process's mask applies, as it does to files made in the ordinary way.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// How many links are followed before they are taken for a circle, as Linux does.
const MAX_LINKS: usize = 40;

/// Where `path` leads, whether something is there or not.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => {
                path = path
                    .parent()
                    .map_or_else(|| target.clone(), |folder| folder.join(&target));
            }
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_or_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        for bytes in [b"one".as_slice(), b"second".as_slice()] {
            write_whole(&path, bytes).expect("written");
            assert_eq!(fs::read(&path).expect("read"), bytes);
            assert_eq!(names_in(folder.path()), ["out"]);
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_no_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(write_whole(&folder.path().join("no/out"), b"x").is_err());
        assert!(write_whole(folder.path(), b"x").is_err());
        assert_eq!(names_in(folder.path()), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_permissions_are_kept() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        symlink("real", &link).expect("a link");
        write_whole(&link, b"one").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).expect("permissions");
        write_whole(&link, b"two").expect("written");
        assert_eq!(fs::read(&real).expect("read"), b"two");
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(
            fs::metadata(&real).expect("a file").permissions().mode() & 0o777,
            0o755
        );
        symlink("circle", folder.path().join("circle")).expect("a link");
        assert!(write_whole(&folder.path().join("circle"), b"x").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |name: &str| {
            fs::metadata(folder.path().join(name))
                .expect("a file")
                .permissions()
                .mode()
        };
        fs::write(folder.path().join("ordinary"), b"").expect("written");
        write_whole(&folder.path().join("ours"), b"").expect("written");
        assert_eq!(mode("ours"), mode("ordinary"));
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        write_whole(Path::new("/dev/null"), b"gone").expect("written");
        assert!(!fs::metadata("/dev/null").expect("a device").is_file());
    }
}
