//! How a thread spent its time according to the kernel: on a processor, waiting for one, or blocked.
//!
//! The processor time alone cannot tell a blocked thread from one that computes and is not let to a
//! processor because others are: on a crowded machine both show little of it. Linux keeps the second
//! figure too, in `/proc/thread-self/schedstat` (time on a processor, time in its queue; in
//! nanoseconds), which can be read through a file that the thread opened for itself.

use std::{fs::File, io};

/// The kernel's sums for one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    /// On a processor.
    pub(crate) cpu_ns: u64,
    /// Ready to run, and waiting for a processor.
    pub(crate) queued_ns: u64,
}

/// A view on one thread's times, for other threads to read.
pub(crate) struct ThreadStat(Option<File>);

impl ThreadStat {
    /// The calling thread's. Where the system has none, `read` gives nothing.
    pub(crate) fn of_current_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    pub(crate) fn read(&self) -> Option<ThreadTimes> {
        let mut text = [0; 96];
        let length = read_at_start(self.0.as_ref()?, &mut text).ok()?;
        parse(std::str::from_utf8(&text[..length]).ok()?)
    }
}

#[cfg(unix)]
fn read_at_start(file: &File, into: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, 0)
}

#[cfg(not(unix))]
fn read_at_start(_: &File, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

fn parse(text: &str) -> Option<ThreadTimes> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    Some(ThreadTimes {
        cpu_ns: fields.next()?.ok()?,
        queued_ns: fields.next()?.ok()?,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let times = parse("1466386 24190 17\n").unwrap();
        assert_eq!((times.cpu_ns, times.queued_ns), (1_466_386, 24_190));
        assert_eq!(parse(""), None);
        assert_eq!(parse("12 x 3"), None);
    }
}
