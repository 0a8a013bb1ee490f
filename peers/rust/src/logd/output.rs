//! What a log server has written, read while it writes: a text file, or a stream of Freeboard's.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use freeboard::stream::{ReaderOptions, StreamReader};
use freeboard_logd::LogRecord;

use super::load::{LOUD_SENDERS_MAX, Numbered};

const READ_BYTES: usize = 256 << 10;

/// Lines behind the last one that was read.
pub enum Output {
    Text {
        path: PathBuf,
        /// `None` until the server has created it.
        file: Option<File>,
        /// The beginning of a line whose end was not written yet, then what was just read.
        bytes: Vec<u8>,
    },
    Stream(Box<StreamReader>),
}

impl Output {
    pub fn text(path: &Path) -> Self {
        Self::Text {
            path: path.to_owned(),
            file: None,
            bytes: Vec::new(),
        }
    }

    /// Of a stream whose writer has started.
    pub fn stream(path: &Path) -> Result<Self> {
        let reader = ReaderOptions::new().open(path);
        let reader = reader.with_context(|| format!("no stream in {}", path.display()))?;
        Ok(Self::Stream(Box::new(reader)))
    }

    /// Hands out lines that are there, up to some hundreds; false if there is none.
    pub fn read(&mut self, mut on_line: impl FnMut(&[u8])) -> Result<bool> {
        match self {
            Self::Text { path, file, bytes } => {
                if file.is_none() {
                    match File::open(path) {
                        Ok(opened) => *file = Some(opened),
                        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                        Err(error) => return Err(error.into()),
                    }
                }
                let file = file.as_mut().context("it is open")?;
                let rest = bytes.len();
                bytes.resize(rest + READ_BYTES, 0);
                let read = file.read(&mut bytes[rest..])?;
                bytes.truncate(rest + read);
                let whole = bytes.iter().rposition(|byte| *byte == b'\n');
                let whole = whole.map_or(0, |end| end + 1);
                bytes[..whole]
                    .split_inclusive(|byte| *byte == b'\n')
                    .for_each(|line| on_line(&line[..line.len() - 1]));
                bytes.drain(..whole);
                Ok(read > 0)
            }
            Self::Stream(reader) => {
                let mut lines = 0;
                while lines < 1_000
                    && let Some(record) = reader.wait_next(Duration::ZERO)?
                {
                    on_line(LogRecord::decode(record.payload)?.text);
                    lines += 1;
                }
                Ok(lines > 0)
            }
        }
    }
}

/// Which lines were found: each is counted once, whatever the order.
#[derive(Default)]
pub struct Found {
    /// A bit for each message of each sender; the last entry is that of the quiet one.
    senders: Vec<Vec<u64>>,
    pub lines: u64,
    pub repeated: u64,
    /// Lines without a number: those of the server itself, or of another loader.
    pub unnumbered: u64,
}

impl Found {
    /// Takes a line; its number, if it has one.
    pub fn add(&mut self, line: &[u8]) -> Option<Numbered> {
        let Some(number) = Numbered::of(line) else {
            self.unnumbered += 1;
            return None;
        };
        let sender = (number.sender as usize).min(LOUD_SENDERS_MAX);
        if self.senders.len() <= sender {
            self.senders.resize_with(sender + 1, Vec::new);
        }
        let (word, bit) = (number.message as usize / 64, 1 << (number.message % 64));
        let bits = &mut self.senders[sender];
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        match bits[word] & bit == 0 {
            true => self.lines += 1,
            false => self.repeated += 1,
        }
        bits[word] |= bit;
        Some(number)
    }
}
