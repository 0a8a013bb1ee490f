//! Asks the kernel for short time slices, so that the timer thread runs as soon as a timer is due.
//!
//! When every processor is busy, a thread that wakes up waits until a running one has used up its slice, on Linux 3 ms. A
//! thread that asks for shorter slices than the running one preempts it. It gets the same share of processor time as before,
//! so this needs no privilege. Linux has it since 6.12 (EEVDF); older kernels accept the call and change nothing.

/// The shortest one that the kernel grants.
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

/// For the calling thread. Without effect where it is not known, or for a thread with a real-time policy.
#[cfg(target_os = "linux")]
pub(super) fn request_short() {
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: integers, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // The niceness stays as it is: changing it may need a privilege.
    // SAFETY: `attributes` is valid for writing `size` bytes; 0 is the calling thread.
    let error = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if error != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.sched_runtime = SLICE_NS;
    // An error means that the slice stays as it is.
    // SAFETY: `attributes` is valid for reading, and has its size in it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn request_short() {}
