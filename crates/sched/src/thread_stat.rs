//! The kernel's statistics of a thread: its processor time, and whether it is blocked.
//!
//! The processor time alone cannot tell a blocked thread from one that waits for a processor: on a crowded machine both
//! have little of it. So the state of a thread with little processor time is read, too. (The sums in
//! `/proc/.../schedstat`, which include the wait for a processor, are updated only at the kernel's ticks, every 1 to 10
//! ms.)

/// One thread's statistics, readable by other threads. `None` where the system has none.
pub(crate) struct ThreadStat {
    #[cfg(target_os = "linux")]
    clock: Option<libc::clockid_t>,
    /// The kernel's number of the thread. Its file is opened for each read: an open file for each of thousands of threads
    /// would use up the program's limit.
    #[cfg(target_os = "linux")]
    id: rustix::thread::Pid,
}

#[cfg(target_os = "linux")]
impl ThreadStat {
    /// The statistics of the calling thread.
    pub(crate) fn of_current_thread() -> Self {
        let mut clock = 0;
        // SAFETY: the thread is the calling one, and `clock` is valid for writing.
        let error = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        Self {
            clock: (error == 0).then_some(clock),
            id: rustix::thread::gettid(),
        }
    }

    /// Processor time so far, in nanoseconds; `None` if the thread has terminated.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for writing; the clock of a terminated thread is an error.
        let error = unsafe { libc::clock_gettime(self.clock?, &raw mut time) };
        (error == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Whether the thread, which has not terminated, is neither running nor runnable.
    pub(crate) fn is_blocked(&self) -> Option<bool> {
        use std::{fs::File, io::Read};
        let path = format!("/proc/self/task/{}/stat", self.id.as_raw_nonzero());
        let mut text = [0; 128];
        let length = File::open(path).ok()?.read(&mut text).ok()?;
        state_letter(&text[..length]).map(|letter| letter != b'R')
    }
}

#[cfg(not(target_os = "linux"))]
impl ThreadStat {
    pub(crate) fn of_current_thread() -> Self {
        Self {}
    }

    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        None
    }

    pub(crate) fn is_blocked(&self) -> Option<bool> {
        None
    }
}

/// The letter after the thread's name, which is in parentheses and may contain parentheses.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "a Linux file"))]
fn state_letter(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_name() {
        assert_eq!(state_letter(b"17 (a) b) (c)) S 1 17"), Some(b'S'));
        assert_eq!(state_letter(b"17 (name)"), None);
        assert_eq!(state_letter(b""), None);
    }

    #[test]
    fn this_thread_runs() {
        let stat = ThreadStat::of_current_thread();
        let before_ns = stat.cpu_ns().unwrap();
        while stat.cpu_ns().unwrap() == before_ns {}
        assert_eq!(stat.is_blocked(), Some(false));
    }
}
