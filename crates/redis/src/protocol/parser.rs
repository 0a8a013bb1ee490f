//! An incremental parser: bytes in pieces of any size become values.
//!
//! ```text
//!   input ──▶ line ──▶ a value, or the start of a string or an aggregate
//!                │                        │
//!                │ cut: kept              ▼
//!                ▼              bulk: the bytes so far        frames: open aggregates
//! ```
//!
//! No byte is parsed twice: the state of a partial value is in `line`, `bulk` and `frames`. A declared length
//! reserves nothing: memory grows with the bytes received. A short element needs many times its bytes on the
//! wire, so each element also counts with the size of a [`Value`]. Memory is therefore at most a small
//! multiple of [`Limits::reply_bytes`].

use bytes::Bytes;

use super::value::{Malformed, ProtocolError, ServerError, Value};

/// Limit of a line: a header, a simple string, an error, a number.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Counted for each value in addition to its bytes on the wire.
const VALUE_BYTES: u64 = size_of::<Value>() as u64;
/// Initial capacity of an aggregate at most, whatever it declares.
const ELEMENTS_RESERVED: usize = 64;

/// Limits of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one string; default 512 MiB, which is Redis' own limit.
    pub bulk_bytes: u64,
    /// Elements of one reply, in all of its aggregates; default 1 Mi.
    pub elements: usize,
    /// Bytes of one reply: bytes on the wire plus the size of a [`Value`] for each value; default 1 GiB.
    pub reply_bytes: u64,
    /// Depth of nested aggregates; default 32.
    pub nesting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_bytes: 512 << 20,
            elements: 1 << 20,
            reply_bytes: 1 << 30,
            nesting: 32,
        }
    }
}

/// Parses values from bytes that arrive in pieces.
///
/// ```
/// use freeboard_redis::protocol::{Limits, Parser, Value};
///
/// let mut parser = Parser::new(Limits::default());
/// let mut first: &[u8] = b":1\r\n$5\r\nhe";
/// assert_eq!(parser.next(&mut first)?, Some(Value::Integer(1)));
/// assert_eq!(parser.next(&mut first)?, None);
/// let mut second: &[u8] = b"llo\r\n";
/// assert_eq!(parser.next(&mut second)?, Some(Value::Bulk("hello".into())));
/// # Ok::<(), freeboard_redis::protocol::ProtocolError>(())
/// ```
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// An incomplete line.
    line: Vec<u8>,
    /// An incomplete string.
    bulk: Option<Bulk>,
    /// Open aggregates, outermost first.
    frames: Vec<Frame>,
    /// Elements declared so far in the current reply.
    elements: usize,
    /// Bytes consumed from the stream.
    at: u64,
    /// Offset of the current reply.
    reply_at: u64,
}

#[derive(Debug)]
struct Bulk {
    kind: BulkKind,
    /// With its line end.
    length: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum BulkKind {
    Text,
    Error,
    Verbatim,
}

#[derive(Debug)]
struct Frame {
    kind: FrameKind,
    left: usize,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

/// The meaning of a line.
enum Header {
    Value(Value),
    Bulk(BulkKind, usize),
    /// An aggregate, with its number of elements.
    Frame(FrameKind, usize),
}

impl Parser {
    /// A parser for a new stream.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            bulk: None,
            frames: Vec::new(),
            elements: 0,
            at: 0,
            reply_at: 0,
        }
    }

    /// The next value, if `input` completes one. Consumed bytes are removed from `input`, which is empty after
    /// `None`.
    ///
    /// # Errors
    /// [`ProtocolError`]. Neither the stream nor the parser can be used afterwards.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Value>, ProtocolError> {
        let value = self.advance(input);
        value.map_err(|what| self.error(what))
    }

    /// An error at the current offset.
    pub(crate) fn error(&self, what: Malformed) -> ProtocolError {
        ProtocolError { what, at: self.at }
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        loop {
            let value = if self.bulk.is_some() {
                self.fill_bulk(input)?
            } else {
                self.begin(input)?
            };
            let is_cut = value.is_none() && input.is_empty();
            let values = self.elements as u64 + 1;
            let reply_bytes = self.at - self.reply_at + values.saturating_mul(VALUE_BYTES);
            if reply_bytes > self.limits.reply_bytes {
                return Err(Malformed::LongReply(self.limits.reply_bytes));
            }
            if let Some(value) = value.and_then(|value| self.add(value)) {
                (self.elements, self.reply_at) = (0, self.at);
                return Ok(Some(value));
            }
            if is_cut {
                return Ok(None);
            }
        }
    }

    /// Parses a line, or a complete string. `None` if the value is not complete yet.
    fn begin(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        if self.line.is_empty()
            && let Some((text, rest)) = whole_bulk(input)
            && text.len() as u64 <= self.limits.bulk_bytes
        {
            self.at += (input.len() - rest.len()) as u64;
            *input = rest;
            return Ok(Some(Value::Bulk(Bytes::copy_from_slice(text))));
        }
        let Some(end) = memchr::memchr(b'\n', input) else {
            return self.keep_line(input);
        };
        let (piece, rest) = input.split_at(end + 1);
        let header = if self.line.is_empty() {
            header(piece)?
        } else {
            self.line.extend_from_slice(piece);
            let header = header(&self.line)?;
            self.line.clear();
            header
        };
        *input = rest;
        self.at += piece.len() as u64;
        match header {
            Header::Value(value) => Ok(Some(value)),
            Header::Bulk(kind, length) => self.begin_bulk(kind, length),
            Header::Frame(kind, elements) => self.begin_frame(kind, elements),
        }
    }

    fn keep_line(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        if self.line.len() + input.len() > LINE_BYTES_MAX {
            return Err(Malformed::LongLine(LINE_BYTES_MAX));
        }
        self.line.extend_from_slice(input);
        self.at += input.len() as u64;
        *input = &[];
        Ok(None)
    }

    fn begin_bulk(&mut self, kind: BulkKind, length: usize) -> Result<Option<Value>, Malformed> {
        if length as u64 > self.limits.bulk_bytes {
            return Err(Malformed::LongBulk {
                length: length as u64,
                limit: self.limits.bulk_bytes,
            });
        }
        self.bulk = Some(Bulk {
            kind,
            length: length + 2,
            bytes: Vec::new(),
        });
        Ok(None)
    }

    fn fill_bulk(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Malformed> {
        let Some(bulk) = &mut self.bulk else {
            return Ok(None);
        };
        let have = bulk.bytes.len();
        let (piece, rest) = input.split_at(input.len().min(bulk.length - have));
        if bulk.bytes.capacity() - have < piece.len() {
            // Doubles, but never exceeds the length: the buffer becomes the value without a copy.
            let wanted = (have + piece.len()).max(2 * have).min(bulk.length);
            bulk.bytes.reserve_exact(wanted - have);
        }
        bulk.bytes.extend_from_slice(piece);
        *input = rest;
        self.at += piece.len() as u64;
        if bulk.bytes.len() < bulk.length {
            return Ok(None);
        }
        let Some(mut bulk) = self.bulk.take() else {
            return Ok(None);
        };
        if !bulk.bytes.ends_with(b"\r\n") {
            return Err(Malformed::LineEnd);
        }
        bulk.bytes.truncate(bulk.length - 2);
        bulk_value(bulk.kind, bulk.bytes.into()).map(Some)
    }

    fn begin_frame(
        &mut self,
        kind: FrameKind,
        elements: usize,
    ) -> Result<Option<Value>, Malformed> {
        if kind == FrameKind::Push && !self.frames.is_empty() {
            return Err(Malformed::NestedPush);
        }
        if self.frames.len() >= self.limits.nesting {
            return Err(Malformed::Nesting(self.limits.nesting));
        }
        self.elements = self.elements.saturating_add(elements);
        if self.elements > self.limits.elements {
            return Err(Malformed::ManyElements(self.limits.elements));
        }
        let frame = Frame {
            kind,
            left: elements,
            values: Vec::with_capacity(elements.min(ELEMENTS_RESERVED)),
        };
        if elements > 0 {
            self.frames.push(frame);
            return Ok(None);
        }
        Ok(frame.into_value())
    }

    /// Adds a value to the innermost aggregate. Returns the reply if that completes it.
    fn add(&mut self, mut value: Value) -> Option<Value> {
        while let Some(frame) = self.frames.last_mut() {
            frame.values.push(value);
            frame.left -= 1;
            if frame.left > 0 {
                return None;
            }
            value = self.frames.pop()?.into_value()?;
        }
        Some(value)
    }
}

impl Frame {
    /// `None` for an attribute: its value follows.
    fn into_value(self) -> Option<Value> {
        match self.kind {
            FrameKind::Array => Some(Value::Array(self.values)),
            FrameKind::Set => Some(Value::Set(self.values)),
            FrameKind::Push => Some(Value::Push(self.values)),
            FrameKind::Map => {
                let mut pairs = Vec::with_capacity(self.values.len() / 2);
                let mut values = self.values.into_iter();
                while let (Some(key), Some(value)) = (values.next(), values.next()) {
                    pairs.push((key, value));
                }
                Some(Value::Map(pairs))
            }
            FrameKind::Attribute => None,
        }
    }
}

fn bulk_value(kind: BulkKind, bytes: Bytes) -> Result<Value, Malformed> {
    match kind {
        BulkKind::Text => Ok(Value::Bulk(bytes)),
        BulkKind::Error => Ok(Value::Error(server_error(&bytes))),
        BulkKind::Verbatim => match bytes[..] {
            [first, second, third, b':', ..] => Ok(Value::Verbatim {
                format: [first, second, third],
                text: bytes.slice(4..),
            }),
            _ => Err(Malformed::Verbatim),
        },
    }
}

fn server_error(text: &[u8]) -> ServerError {
    ServerError::new(&String::from_utf8_lossy(text))
}

/// Fast path for a complete string, the most common reply. Returns it and the rest; `None` for everything else,
/// malformed input included.
#[inline]
fn whole_bulk(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, digits) = input.strip_prefix(b"$")?.split_first()?;
    let mut length = usize::from(first.checked_sub(b'0').filter(|digit| *digit < 10)?);
    let mut rest = digits;
    // A read is shorter than seven digits of bytes.
    for _ in 0..6 {
        let (&byte, behind) = rest.split_first()?;
        if byte == b'\r' {
            break;
        }
        length = length * 10 + usize::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
        rest = behind;
    }
    let (text, rest) = rest.strip_prefix(b"\r\n")?.split_at_checked(length)?;
    Some((text, rest.strip_prefix(b"\r\n")?))
}

/// Parses a line, with its line end.
fn header(line: &[u8]) -> Result<Header, Malformed> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Malformed::LongLine(LINE_BYTES_MAX));
    }
    let line = line.strip_suffix(b"\r\n").ok_or(Malformed::LineEnd)?;
    let Some((kind, text)) = line.split_first() else {
        return Err(Malformed::LineEnd);
    };
    let value = match kind {
        b'$' => return bulk_header(BulkKind::Text, text),
        b'!' => return bulk_header(BulkKind::Error, text),
        b'=' => return bulk_header(BulkKind::Verbatim, text),
        b'*' if text == b"-1" => Value::Null,
        b'*' => return Ok(Header::Frame(FrameKind::Array, length(text)?)),
        b'~' => return Ok(Header::Frame(FrameKind::Set, length(text)?)),
        b'>' => return Ok(Header::Frame(FrameKind::Push, length(text)?)),
        b'%' => return Ok(Header::Frame(FrameKind::Map, pairs(text)?)),
        b'|' => return Ok(Header::Frame(FrameKind::Attribute, pairs(text)?)),
        b'+' => Value::Simple(simple(text)?),
        b'-' if !text.contains(&b'\r') => Value::Error(server_error(text)),
        b'-' => return Err(Malformed::LineEnd),
        b':' => Value::Integer(integer(text)?),
        b',' => Value::Double(double(text)?),
        b'(' => Value::BigNumber(big_number(text)?),
        b'_' if text.is_empty() => Value::Null,
        b'#' if text == b"t" => Value::Boolean(true),
        b'#' if text == b"f" => Value::Boolean(false),
        b'_' | b'#' => return Err(Malformed::Literal),
        other => return Err(Malformed::UnknownType(*other)),
    };
    Ok(Header::Value(value))
}

fn bulk_header(kind: BulkKind, text: &[u8]) -> Result<Header, Malformed> {
    if matches!(kind, BulkKind::Text) && text == b"-1" {
        return Ok(Header::Value(Value::Null));
    }
    Ok(Header::Bulk(kind, length(text)?))
}

fn simple(text: &[u8]) -> Result<Bytes, Malformed> {
    match text {
        b"OK" => Ok(Bytes::from_static(b"OK")),
        b"QUEUED" => Ok(Bytes::from_static(b"QUEUED")),
        _ if text.contains(&b'\r') => Err(Malformed::LineEnd),
        _ => Ok(Bytes::copy_from_slice(text)),
    }
}

/// A length, limited so that doubling it does not overflow.
fn length(text: &[u8]) -> Result<usize, Malformed> {
    // 18 digits fit in a `u64`.
    if text.is_empty() || text.len() > 18 {
        return Err(Malformed::Length);
    }
    let length = text.iter().try_fold(0_u64, |length, digit| match digit {
        b'0'..=b'9' => Ok(length * 10 + u64::from(digit - b'0')),
        _ => Err(Malformed::Length),
    })?;
    let length = usize::try_from(length).map_err(|_| Malformed::Length)?;
    (length < usize::MAX / 4)
        .then_some(length)
        .ok_or(Malformed::Length)
}

fn pairs(text: &[u8]) -> Result<usize, Malformed> {
    length(text).map(|pairs| 2 * pairs)
}

fn integer(text: &[u8]) -> Result<i64, Malformed> {
    let text = str::from_utf8(text).map_err(|_| Malformed::Number)?;
    text.parse().map_err(|_| Malformed::Number)
}

fn double(text: &[u8]) -> Result<f64, Malformed> {
    let text = str::from_utf8(text).map_err(|_| Malformed::Number)?;
    text.parse().map_err(|_| Malformed::Number)
}

fn big_number(text: &[u8]) -> Result<Bytes, Malformed> {
    let digits = match text {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::Number);
    }
    Ok(Bytes::copy_from_slice(text))
}
