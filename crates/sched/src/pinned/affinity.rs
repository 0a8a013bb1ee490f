//! Binding a thread to one core.

use std::io;

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// # Errors
/// If the process may not use that core, or the system does not know of affinity.
#[cfg(target_os = "linux")]
pub(super) fn check(core: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    if core < CpuSet::MAX_CPU && allowed.is_set(core) {
        return Ok(());
    }
    let text = format!("core {core} is none of those that this process may use");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Binds the calling thread; a core that was taken away since [`check`] leaves it where it is.
#[cfg(target_os = "linux")]
pub(super) fn set(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    let _ = sched_setaffinity(None, &cores);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set(_: usize) {}
