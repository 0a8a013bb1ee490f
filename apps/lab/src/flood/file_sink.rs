//! A file behind the sink: raw writes each line with a `write(2)` of its own; buffered is
//! `delayed_write`: 64 KiB or 2 s, whichever comes first.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    time::{Duration, Instant},
};

/// What a buffered sink gathers before it writes, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long a buffered sink keeps a line at the most.
pub(crate) const DELAY: Duration = Duration::from_secs(2);
/// A buffered sink reads the clock once in this many lines; a timer flushes the last ones.
const LINES_PER_LOOK: u64 = 16;

/// The file, and what waits to be written to it.
#[derive(Debug)]
pub(crate) struct FileSink {
    file: File,
    is_buffered: bool,
    buffer: Vec<u8>,
    lines_buffered: u64,
    lines_written: u64,
    /// When the buffer's first line came.
    buffered_at: Option<Instant>,
}

impl FileSink {
    /// Writes each line by itself.
    pub(crate) fn raw(file: File) -> Self {
        Self::new(file, false)
    }

    /// Gathers lines.
    pub(crate) fn buffered(file: File) -> Self {
        Self::new(file, true)
    }

    fn new(file: File, is_buffered: bool) -> Self {
        Self {
            file,
            is_buffered,
            buffer: Vec::with_capacity(BUFFER_BYTES + 128),
            lines_buffered: 0,
            lines_written: 0,
            buffered_at: None,
        }
    }

    /// Writes a line, or keeps it for later.
    #[inline]
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');
        self.lines_buffered += 1;
        let is_due = !self.is_buffered || self.buffer.len() >= BUFFER_BYTES || self.is_overdue();
        if is_due { self.flush() } else { Ok(()) }
    }

    fn is_overdue(&mut self) -> bool {
        match self.buffered_at {
            None => {
                self.buffered_at = Some(Instant::now());
                false
            }
            Some(since) => {
                self.lines_buffered.is_multiple_of(LINES_PER_LOOK) && since.elapsed() >= DELAY
            }
        }
    }

    /// How long the buffer's first line may still stay; `None` if nothing is buffered.
    pub(crate) fn flush_due_in(&self) -> Option<Duration> {
        let since = self.buffered_at?;
        Some(DELAY.saturating_sub(since.elapsed()))
    }

    /// Whether lines wait.
    #[inline]
    pub(crate) fn has_buffered(&self) -> bool {
        self.lines_buffered > 0
    }

    /// Lines that are in the file.
    pub(crate) fn lines_written(&self) -> u64 {
        self.lines_written
    }

    /// Writes all that is buffered. After an error what was not written is dropped: it is counted
    /// as not written, and a log server that cannot write has to end.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let outcome = write_whole(&mut self.file, &self.buffer);
        self.lines_written += match &outcome {
            Ok(()) => self.lines_buffered,
            Err((bytes, _)) => line_feeds(&self.buffer[..*bytes]),
        };
        self.buffer.clear();
        self.lines_buffered = 0;
        self.buffered_at = None;
        outcome.map_err(|(_, error)| error)
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// As `write_all`, but says how many bytes were written before an error.
fn write_whole(file: &mut impl Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, then is full.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0).min(3);
            self.0 -= taken;
            if taken == 0 {
                Err(ErrorKind::StorageFull.into())
            } else {
                Ok(taken)
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failed_write_says_how_far_it_came() {
        let text = b"one\ntwo\nthree\n";
        assert!(write_whole(&mut Disk(100), text).is_ok());
        for room in 0..text.len() {
            let (bytes, error) = write_whole(&mut Disk(room), text).unwrap_err();
            assert_eq!((bytes, error.kind()), (room, ErrorKind::StorageFull));
        }
        assert_eq!(line_feeds(&text[..9]), 2);
    }
}
