//! The token of a board: out of a file, or of the environment, and never of the command line, which others see.

use std::{
    env,
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
};

use crate::usage::Usage;

/// The variable that may have it.
pub(crate) const VARIABLE: &str = "FREEBOARD_TOKEN";

/// The largest file.
const BYTES_MAX: u64 = 4_096;

/// The token of `file`, or else that of the environment, if there is one.
///
/// # Errors
/// [`Usage`]: the file cannot be read, or other users can read it.
pub(crate) fn find(file: Option<&Path>) -> Result<Option<String>, Usage> {
    let Some(path) = file else {
        return Ok(env::var(VARIABLE).ok().filter(|token| !token.is_empty()));
    };
    read(path)
        .map(Some)
        .map_err(|error| Usage::new(format!("cannot read {}: {error}", path.display())))
}

/// A token that everybody on this machine can read keeps nobody out. A group may be meant to have it. Pipes and devices
/// are as whoever names them wants them.
#[cfg(unix)]
fn check_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.mode() & 0o007 != 0 {
        let reason = "other users have access to it; `chmod 600` it";
        return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &File) -> io::Result<()> {
    Ok(())
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    check_private(&file)?;
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(text.trim().to_owned())
}
