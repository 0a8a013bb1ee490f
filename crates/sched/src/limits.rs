//! How many threads a scheduler may have unless it is told.

use std::sync::OnceLock;

/// The most threads that a scheduler has by default.
pub const THREADS_DEFAULT: usize = 10_000;
/// Threads beyond the workers that it may have even on the smallest system.
const SPARES_LEAST: usize = 8;

/// The most worker threads that a scheduler of so many workers may have by default.
///
/// [`THREADS_DEFAULT`], lowered to a share of what the system allows, so that the rest is left to the
/// rest of the program: half of
/// - memory (the machine's, or the control group's if that is less) at 64 KiB a thread, of which a
///   blocked thread with its kernel stack uses about a third,
/// - the user's processes (`RLIMIT_NPROC`), the control group's (`pids.max`) and the system's threads
///   (`kernel.threads-max`, `kernel.pid_max`);
///
/// and three quarters of the memory mappings (`vm.max_map_count`) at 4 a thread: stack, signal stack,
/// and a guard of each.
///
/// Never less than 8 more than workers. Off Linux, [`THREADS_DEFAULT`].
pub fn threads_max_default(workers: usize) -> usize {
    static ALLOWED: OnceLock<usize> = OnceLock::new();
    let allowed = *ALLOWED.get_or_init(|| usize::try_from(allowed()).unwrap_or(usize::MAX));
    THREADS_DEFAULT
        .min(allowed)
        .max(workers.saturating_add(SPARES_LEAST))
}

#[cfg(target_os = "linux")]
fn allowed() -> u64 {
    use std::fs;

    use rustix::process::{Resource, getrlimit};
    use rustix::system::sysinfo;

    const THREAD_BYTES: u64 = 64 << 10;
    const THREAD_MAPPINGS: u64 = 4;

    // "max", like what is not there, allows all.
    let number = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let info = sysinfo();
    let memory_bytes = Some(info.totalram as u64 * u64::from(info.mem_unit));
    let group_bytes = number("/sys/fs/cgroup/memory.max");
    let threads = [
        memory_bytes.map(|bytes| bytes / THREAD_BYTES),
        group_bytes.map(|bytes| bytes / THREAD_BYTES),
        getrlimit(Resource::Nproc).current,
        number("/sys/fs/cgroup/pids.max"),
        number("/proc/sys/kernel/threads-max"),
        number("/proc/sys/kernel/pid_max"),
    ];
    let mappings = number("/proc/sys/vm/max_map_count");
    let threads = threads.into_iter().flatten().map(|threads| threads / 2);
    let by_mappings = mappings.map(|mappings| mappings / THREAD_MAPPINGS / 4 * 3);
    threads.chain(by_mappings).min().unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> u64 {
    u64::MAX
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_are_always_spares_and_never_too_many() {
        for workers in [1, 2, 64, 1_024] {
            let threads = threads_max_default(workers);
            assert!(threads >= workers + SPARES_LEAST, "{threads}");
            assert!(
                threads <= THREADS_DEFAULT.max(workers + SPARES_LEAST),
                "{threads}"
            );
        }
    }
}
