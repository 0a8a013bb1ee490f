//! When the system has no file descriptors or memory left, of which there may be some later.

use std::{io, time::Duration};

/// How long who needs some rests before it tries again.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Whether that is why something failed.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory || is_out_of_descriptors(error)
}

/// Those of the process, or of the system: neither error has a kind of its own.
#[cfg(unix)]
fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

#[cfg(not(unix))]
fn is_out_of_descriptors(_: &io::Error) -> bool {
    false
}
