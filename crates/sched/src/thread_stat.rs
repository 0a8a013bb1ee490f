//! How a thread fares according to the kernel: its processor time, and whether it is blocked.
//!
//! The processor time alone cannot tell a blocked thread from one that computes and is not let to a
//! processor because others are: on a crowded machine both show little of it. So a thread that shows
//! little is asked for its state, too. (The sums in `/proc/.../schedstat`, which would tell how long it
//! waited for a processor, are brought up to date at the kernel's own ticks only, every 1 to 10 ms.)

/// A view on one thread, for other threads to read. Where the system has none, it tells nothing.
pub(crate) struct ThreadStat {
    #[cfg(target_os = "linux")]
    clock: Option<libc::clockid_t>,
    /// The kernel's number of the thread. Its file is opened when it is read: one open file for each of
    /// thousands of threads would use up the program's limit.
    #[cfg(target_os = "linux")]
    id: rustix::thread::Pid,
}

#[cfg(target_os = "linux")]
impl ThreadStat {
    /// The calling thread's.
    pub(crate) fn of_current_thread() -> Self {
        let mut clock = 0;
        // SAFETY: the thread is the calling one, and `clock` is valid for writing.
        let error = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        Self {
            clock: (error == 0).then_some(clock),
            id: rustix::thread::gettid(),
        }
    }

    /// Time on a processor so far, in nanoseconds; nothing if the thread has ended.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for writing; a clock whose thread has ended is an error.
        let error = unsafe { libc::clock_gettime(self.clock?, &raw mut time) };
        (error == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Whether the thread, which has not ended, neither runs nor wants to.
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

/// The letter behind the thread's name, which stands in parentheses and may contain some itself.
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
