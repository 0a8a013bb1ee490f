//! From bytes to lines: where a message ends in what a connection sends.
//!
//! ```text
//!   read ──▶ rest of the read before + read ──▶ whole lines (ranges of one buffer)
//!                  ▲                                 │
//!                  └──── bytes after the last line ◀─┘   bound: line_bytes_max and a few bytes
//! ```
//!
//! Newline framing and octet counting are those of RFC 6587. A read that completes no line is appended to the rest, so
//! a client that sends single bytes costs no more per byte than others. The lines do not depend on how the bytes were
//! cut into reads.
//!
//! - *Newline*: a line ends with LF or NUL (glibc's `syslog` ends messages with NUL on stream sockets). Empty lines are
//!   skipped.
//! - *Octet-counted*: `83 <34>1 2003-...`. LF, CR and NUL between messages are skipped. Where a count should be and is not,
//!   the text up to the next line end is kept and marked [`Marks::MALFORMED`]; then a count is expected again.
//! - *Detect* decides once, by the first bytes of the connection: a count, a space and `<` mean octet counting. This is
//!   rsyslog's rule and stricter: `1700000000 started` is a line, not the head of a message of 1.7 GB.
//!
//! At most two of CR, LF and NUL are removed at the end of a line. A longer line than `line_bytes_max` is cut into
//! frames of that size; all but the last are marked [`Marks::CONTINUED`].

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use crate::batch::Marks;

/// The most digits of a count: more than 10 GB are not a message.
const COUNT_DIGITS_MAX: usize = 10;

/// The most bytes that are removed at the end of a line, besides the byte that ends it.
const LINE_END_BYTES_MAX: usize = 2;

/// Frames that a framer keeps memory for between two reads: more than a read of common lines has, and less than 64 KiB of
/// lines of one byte need.
const FRAMES_KEPT: usize = 512;

/// A framer holds at most `line_bytes_max` and so many bytes.
pub const PENDING_BYTES_EXTRA: usize = LINE_END_BYTES_MAX;

/// How lines are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// Octet counting if the connection begins with a count, else newlines.
    #[default]
    Detect,
    /// LF or NUL ends a line.
    Newline,
    /// The length is in front of each message.
    OctetCounted,
    /// Each read is one message, as with datagrams; newlines may be inside.
    Whole,
}

/// A line, or a part of a long one: a range of [`Frames::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins in the text.
    pub at: u32,
    /// Its bytes, without the line end.
    pub bytes: u32,
    /// [`Marks::CONTINUED`], [`Marks::TRUNCATED`] and [`Marks::MALFORMED`].
    pub marks: Marks,
    /// It continues the frame before, whose priority it has; it is not to be parsed.
    pub is_continuation: bool,
}

/// The whole lines that a read has completed.
#[derive(Debug)]
pub struct Frames<'a> {
    /// The bytes that the frames are ranges of: the read, or the rest of the read before and the read.
    pub text: Bytes,
    /// The lines, in order.
    pub frames: &'a [Frame],
}

impl Frames<'_> {
    /// The frames with their text.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = (&Frame, &[u8])> {
        let line = |frame: &Frame| &self.text[frame.at as usize..][..frame.bytes as usize];
        self.frames.iter().map(move |frame| (frame, line(frame)))
    }
}

/// What the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The first of the connection.
    First,
    /// Of a line.
    Line,
    /// Of a count.
    Count,
    /// Of a message with so many bytes left.
    Counted(u64),
    /// Of text that has no count, up to a line end.
    Uncounted,
    /// Of a message that is one read.
    Whole,
}

/// The result of reading a count.
enum Count {
    /// Its bytes, with the space, and its value.
    Is(usize, u64),
    /// More bytes are needed.
    Unfinished,
    /// It is none.
    Not,
}

/// Cuts the bytes of one connection into lines.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    line_bytes_max: usize,
    expected: Expected,
    /// The frame before was marked continued.
    is_continued: bool,
    /// The bytes of the line that is not complete.
    rest: BytesMut,
    frames: Vec<Frame>,
}

impl Framer {
    /// For a connection that has sent nothing yet.
    ///
    /// # Panics
    /// `line_bytes_max` is 0.
    #[must_use]
    pub fn new(framing: Framing, line_bytes_max: usize) -> Self {
        assert!(line_bytes_max > 0, "a line has at least one byte");
        Self {
            framing,
            line_bytes_max,
            expected: first_of(framing),
            is_continued: false,
            rest: BytesMut::new(),
            frames: Vec::new(),
        }
    }

    /// The bytes that it holds: the beginning of a line. At most `line_bytes_max` plus [`PENDING_BYTES_EXTRA`].
    #[must_use]
    pub fn pending(&self) -> usize {
        self.rest.len()
    }

    /// The lines that this read completes.
    ///
    /// # Panics
    /// The read and the rest before have 4 GiB or more.
    pub fn feed(&mut self, read: Bytes) -> Frames<'_> {
        self.frames.clear();
        if self.completes_nothing(&read) {
            self.append_to_rest(&read);
            return self.frames_of(Bytes::new());
        }
        let searched = self.rest.len();
        let text = if searched == 0 {
            read
        } else {
            let mut text = BytesMut::with_capacity(searched + read.len());
            text.extend_from_slice(&self.rest);
            text.extend_from_slice(&read);
            self.rest = BytesMut::new();
            text.freeze()
        };
        let end = self.cut(&text, searched);
        if end < text.len() {
            self.rest = BytesMut::from(&text[end..]);
        }
        self.frames_of(text)
    }

    /// The rest, at the end of the connection: at most one line, marked [`Marks::TRUNCATED`]. The framer is then as new.
    pub fn finish(&mut self) -> Frames<'_> {
        self.frames.clear();
        let text = std::mem::take(&mut self.rest).freeze();
        if self.expected == Expected::Count {
            self.expected = Expected::Uncounted;
        }
        self.push_line(&text, 0, text.len(), Marks::TRUNCATED);
        self.expected = first_of(self.framing);
        self.frames_of(text)
    }

    fn frames_of(&self, text: Bytes) -> Frames<'_> {
        Frames {
            text,
            frames: &self.frames,
        }
    }

    /// Frees what only the frames of a read of very many lines needed. A connection may be silent from then on.
    pub fn trim(&mut self) {
        self.frames.clear();
        self.frames.shrink_to(FRAMES_KEPT);
    }

    /// Its memory is at most doubled, and at most that of the longest line.
    fn append_to_rest(&mut self, read: &[u8]) {
        let needed = self.rest.len() + read.len();
        if needed > self.rest.capacity() {
            let capacity = needed.max((2 * self.rest.capacity()).min(self.pending_max()));
            let mut rest = BytesMut::with_capacity(capacity);
            rest.extend_from_slice(&self.rest);
            self.rest = rest;
        }
        self.rest.extend_from_slice(read);
    }

    /// Whether the line that was begun goes on behind this read, and is not too long yet.
    fn completes_nothing(&self, read: &[u8]) -> bool {
        let pending = self.rest.len() + read.len();
        !self.rest.is_empty()
            && pending <= self.pending_max()
            && match self.expected {
                Expected::Line | Expected::Uncounted => memchr2(b'\n', 0, read).is_none(),
                Expected::Counted(left) => (pending as u64) < left,
                Expected::First | Expected::Count | Expected::Whole => false,
            }
    }

    fn pending_max(&self) -> usize {
        self.line_bytes_max.saturating_add(PENDING_BYTES_EXTRA)
    }

    /// Pushes the frames of `text`; returns where the rest begins. The first `searched` bytes have no line end that
    /// counts.
    fn cut(&mut self, text: &[u8], searched: usize) -> usize {
        assert!(u32::try_from(text.len()).is_ok(), "a read is short");
        let mut at = 0;
        while at < text.len() {
            match self.expected {
                Expected::First => match read_count(&text[at..]) {
                    Count::Unfinished => return at,
                    Count::Is(bytes, _) => match text.get(at + bytes) {
                        None => return at,
                        Some(b'<') => self.expected = Expected::Count,
                        Some(_) => self.expected = Expected::Line,
                    },
                    Count::Not => self.expected = Expected::Line,
                },
                Expected::Line | Expected::Uncounted => {
                    let from = at.max(searched);
                    let Some(found) = memchr2(b'\n', 0, &text[from..]) else {
                        return self.push_begun(text, at);
                    };
                    self.push_line(text, at, from + found, Marks::default());
                    at = from + found + 1;
                    if self.expected == Expected::Uncounted {
                        self.expected = Expected::Count;
                    }
                }
                Expected::Count if is_line_end(text[at]) => at += 1,
                Expected::Count => match read_count(&text[at..]) {
                    Count::Unfinished => return at,
                    Count::Is(bytes, count) => {
                        at += bytes;
                        self.expected = Expected::Counted(count);
                    }
                    Count::Not => self.expected = Expected::Uncounted,
                },
                Expected::Counted(left) => match usize::try_from(left) {
                    Ok(left) if left <= text.len() - at => {
                        self.push_line(text, at, at + left, Marks::default());
                        at += left;
                        self.expected = Expected::Count;
                    }
                    _ => {
                        let end = self.push_begun(text, at);
                        self.expected = Expected::Counted(left - (end - at) as u64);
                        return end;
                    }
                },
                Expected::Whole => {
                    self.push_line(text, at, text.len(), Marks::default());
                    at = text.len();
                }
            }
        }
        at
    }

    /// A line whose end has not come: pushes what is too long to keep. Returns where the rest begins.
    fn push_begun(&mut self, text: &[u8], mut at: usize) -> usize {
        // More than the bytes that may be the line's end: the line is then too long in any case.
        while text.len() - at > self.pending_max() {
            self.push(at, self.line_bytes_max, Marks::CONTINUED);
            at += self.line_bytes_max;
        }
        at
    }

    /// A line from `at` to `end`; its last frame gets `marks`.
    fn push_line(&mut self, text: &[u8], mut at: usize, end: usize, marks: Marks) {
        let end = at + without_line_end(&text[at..end]).len();
        while end - at > self.line_bytes_max {
            self.push(at, self.line_bytes_max, Marks::CONTINUED);
            at += self.line_bytes_max;
        }
        if end > at {
            self.push(at, end - at, marks);
        }
    }

    fn push(&mut self, at: usize, bytes: usize, marks: Marks) {
        let marks = match self.expected {
            Expected::Uncounted => marks.with(Marks::MALFORMED),
            _ => marks,
        };
        self.frames.push(Frame {
            at: at as u32,
            bytes: bytes as u32,
            marks,
            is_continuation: self.is_continued,
        });
        self.is_continued = marks.has(Marks::CONTINUED);
    }
}

fn first_of(framing: Framing) -> Expected {
    match framing {
        Framing::Detect => Expected::First,
        Framing::Newline => Expected::Line,
        Framing::OctetCounted => Expected::Count,
        Framing::Whole => Expected::Whole,
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let ends = line.iter().rev().take(LINE_END_BYTES_MAX);
    let removed = ends.take_while(|byte| is_line_end(**byte)).count();
    &line[..line.len() - removed]
}

/// `MSG-LEN SP`: digits that do not begin with 0.
fn read_count(bytes: &[u8]) -> Count {
    let mut count = 0;
    for (index, byte) in bytes.iter().enumerate().take(COUNT_DIGITS_MAX + 1) {
        match byte {
            b' ' if index > 0 => return Count::Is(index + 1, count),
            b'0'..=b'9' if count > 0 || *byte != b'0' => {
                count = count * 10 + u64::from(byte - b'0')
            }
            _ => return Count::Not,
        }
    }
    if bytes.len() > COUNT_DIGITS_MAX {
        Count::Not
    } else {
        Count::Unfinished
    }
}
