//! A real log, to be replayed: bytes, not text, cut at each line feed.

use std::{fs, io::Read, path::Path};

use anyhow::{Context, Result};

/// The lines of a log, in memory.
#[derive(Debug)]
pub(crate) struct Log {
    bytes: Vec<u8>,
    /// Where each line ends, without its line feed.
    ends: Vec<usize>,
}

impl Log {
    /// Reads a file, or standard input if the path is `-`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let mut input = std::io::stdin().lock();
            input
                .read_to_end(&mut bytes)
                .context("cannot read standard input")?;
            return Ok(Self::new(bytes));
        }
        let bytes =
            fs::read(path).with_context(|| format!("cannot read the input {}", path.display()))?;
        Ok(Self::new(bytes))
    }

    /// Cuts it into lines. Empty lines count; what follows the last line feed is a line unless it
    /// is empty.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let feeds = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let mut ends: Vec<usize> = feeds.map(|(at, _)| at).collect();
        if bytes.last().is_some_and(|last| *last != b'\n') {
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The line of this number, from 0, without its line feed.
    pub(crate) fn line(&self, number: u64) -> &[u8] {
        let number = number as usize;
        let start = match number.checked_sub(1) {
            Some(before) => self.ends[before] + 1,
            None => 0,
        };
        &self.bytes[start..self.ends[number]]
    }

    /// Bytes of all lines.
    pub(crate) fn bytes_len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], lines: &[&[u8]]) {
        let log = Log::new(bytes.to_vec());
        let found: Vec<&[u8]> = (0..log.len()).map(|number| log.line(number)).collect();
        assert_eq!(found, lines);
    }

    #[test]
    fn lines_end_at_line_feeds_and_at_the_end() {
        check(b"", &[]);
        check(b"\n", &[b""]);
        check(b"a", &[b"a"]);
        check(b"a\n", &[b"a"]);
        check(b"\n\na\r\n\xff\x00", &[b"", b"", b"a\r", b"\xff\x00"]);
    }
}
