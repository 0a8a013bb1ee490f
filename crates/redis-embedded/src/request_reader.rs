//! An incremental parser of requests. Uses no socket.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$1\r\nk\r\n     an array of strings, as clients send it
//!   GET k\r\n                          an inline request, as typed in a terminal
//! ```
//!
//! The caller passes an incomplete request again with more bytes, and parsing continues at the saved offset.
//! Arguments are borrowed from the input. [`freeboard_redis::protocol`] copies values and accepts types that a
//! request may not contain, so it is not used here.

use crate::arguments::{Arguments, Span, integer};

/// Limit of a line: an inline request, or the header of an array or a string. Redis' limit.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Limit of arguments of an array. Redis' limit.
const ARGUMENTS_MAX: i64 = i32::MAX as i64;
/// Limits before the client is authenticated. Redis' limits.
const ARGUMENTS_BEFORE_LOGIN_MAX: i64 = 10;
const LENGTH_BEFORE_LOGIN_MAX: i64 = 16 << 10;
/// Capacity of `spans` kept between requests.
const SPANS_KEPT: usize = 64;

/// Parses requests from bytes that arrive in pieces.
#[derive(Debug)]
pub(crate) struct RequestReader {
    request_bytes_max: usize,
    /// Parsed bytes of the current request.
    at: usize,
    /// Arguments of it that are missing.
    left: usize,
    spans: Vec<Span>,
    /// The unquoted words of an inline request.
    words: Vec<u8>,
    is_inline: bool,
}

impl RequestReader {
    pub(crate) fn new(request_bytes_max: usize) -> Self {
        Self {
            request_bytes_max,
            at: 0,
            left: 0,
            spans: Vec::new(),
            words: Vec::new(),
            is_inline: false,
        }
    }

    /// The length of the first request in `input`, if it is complete; see `arguments`. Otherwise pass the input
    /// again with more bytes.
    pub(crate) fn next(
        &mut self,
        input: &[u8],
        is_logged_in: bool,
    ) -> Result<Option<usize>, Malformed> {
        if self.at == 0 && !self.begin(input, is_logged_in)? {
            return Ok(None);
        }
        while self.left > 0 {
            if !self.take_argument(input, is_logged_in)? {
                return Ok(None);
            }
            self.left -= 1;
        }
        Ok(Some(std::mem::take(&mut self.at)))
    }

    /// Memory of an incomplete request, without its bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        size_of_val::<[Span]>(&self.spans)
    }

    /// The arguments of the last request; `input` is the input in which it was found.
    pub(crate) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.is_inline { &self.words } else { input };
        Arguments::new(bytes, &self.spans)
    }

    /// Parses the first line. `false` if it is incomplete.
    fn begin(&mut self, input: &[u8], is_logged_in: bool) -> Result<bool, Malformed> {
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT);
        self.words = Vec::new();
        let Some(first) = input.first() else {
            return Ok(false);
        };
        self.is_inline = *first != b'*';
        if self.is_inline {
            return self.take_inline(input);
        }
        let Some((count, end)) = line(input, 0, Malformed::LongCount)? else {
            return Ok(false);
        };
        let count = integer(&count[1..]).filter(|count| *count <= ARGUMENTS_MAX);
        let count = count.ok_or(Malformed::Count)?;
        if count > ARGUMENTS_BEFORE_LOGIN_MAX && !is_logged_in {
            return Err(Malformed::CountBeforeLogin);
        }
        self.left = usize::try_from(count).unwrap_or(0);
        self.at = end;
        Ok(true)
    }

    fn take_inline(&mut self, input: &[u8]) -> Result<bool, Malformed> {
        let end = memchr::memchr(b'\n', input);
        if end.unwrap_or(input.len()) > LINE_BYTES_MAX {
            return Err(Malformed::LongInline);
        }
        let Some(end) = end else {
            return Ok(false);
        };
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !split_inline(line, &mut self.words, &mut self.spans) {
            return Err(Malformed::Quotes);
        }
        self.at = end + 1;
        Ok(true)
    }

    fn take_argument(&mut self, input: &[u8], is_logged_in: bool) -> Result<bool, Malformed> {
        let Some((head, start)) = line(input, self.at, Malformed::LongLength)? else {
            return Ok(false);
        };
        // An empty line is not a `$` either.
        let (kind, length) = head.split_first().unwrap_or((&b'\r', &[]));
        if *kind != b'$' {
            return Err(Malformed::NoBulk(*kind));
        }
        let length = integer(length).ok_or(Malformed::Length)?;
        if length > LENGTH_BEFORE_LOGIN_MAX && !is_logged_in {
            return Err(Malformed::LengthBeforeLogin);
        }
        let length = usize::try_from(length).map_err(|_| Malformed::Length)?;
        if length > self.request_bytes_max {
            return Err(Malformed::Length);
        }
        let end = start + length;
        if end > self.request_bytes_max {
            return Err(Malformed::LongRequest);
        }
        // Like Redis, this does not check the line end.
        if input.len() < end + 2 {
            return Ok(false);
        }
        self.spans.extend(Span::new(start, end));
        self.at = end + 2;
        Ok(true)
    }
}

/// The line at `at` without its end, and the offset of the next line.
fn line(input: &[u8], at: usize, too_long: Malformed) -> Result<Option<(&[u8], usize)>, Malformed> {
    let rest = input.get(at..).unwrap_or_default();
    let end = memchr::memchr(b'\r', rest);
    if end.unwrap_or(rest.len()) > LINE_BYTES_MAX {
        return Err(too_long);
    }
    let whole = end.filter(|end| end + 2 <= rest.len());
    Ok(whole.map(|end| (&rest[..end], at + end + 2)))
}

/// Why the stream of requests cannot be parsed further, in Redis' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("Protocol error: too big inline request")]
    LongInline,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    #[error("Protocol error: too big mbulk count string")]
    LongCount,
    #[error("Protocol error: invalid multibulk length")]
    Count,
    #[error("Protocol error: unauthenticated multibulk length")]
    CountBeforeLogin,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    NoBulk(u8),
    #[error("Protocol error: too big bulk count string")]
    LongLength,
    #[error("Protocol error: invalid bulk length")]
    Length,
    #[error("Protocol error: unauthenticated bulk length")]
    LengthBeforeLogin,
    /// Redis closes the connection silently.
    #[error("Protocol error: too big request")]
    LongRequest,
    /// Redis evicts the largest clients instead.
    #[error("unfinished requests of all clients take too many bytes")]
    Unfinished,
}

/// Splits an inline request into words, which are appended to `text`. `false` if a quote is not closed, or not at
/// the end of its word.
///
/// As in Redis' `sdssplitargs`, double quotes know `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`, and keep any other escaped
/// byte; single quotes know `\'` only.
fn split_inline(line: &[u8], text: &mut Vec<u8>, spans: &mut Vec<Span>) -> bool {
    let mut rest = line;
    loop {
        while let Some((first, behind)) = rest.split_first()
            && is_blank(*first)
        {
            rest = behind;
        }
        if rest.is_empty() {
            return true;
        }
        let start = text.len();
        let Some(behind) = word(rest, text) else {
            return false;
        };
        rest = behind;
        spans.extend(Span::new(start, text.len()));
    }
}

/// Like C's `isspace`, which includes the vertical tab.
const fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Takes a word. Returns the rest.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let Some((&first, behind)) = rest.split_first() {
        match first {
            b'"' => return ended(double_quoted(behind, text)?),
            b'\'' => return ended(single_quoted(behind, text)?),
            _ if is_blank(first) => return Some(rest),
            _ => text.push(first),
        }
        rest = behind;
    }
    Some(rest)
}

/// A closing quote must be followed by a blank or nothing.
fn ended(rest: &[u8]) -> Option<&[u8]> {
    rest.first()
        .is_none_or(|&byte| is_blank(byte))
        .then_some(rest)
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'x', high, low, behind @ ..]
                if let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low)) =>
            {
                (high << 4 | low, behind)
            }
            [b'\\', escaped, behind @ ..] => (unescaped(*escaped), behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        text.push(byte);
        rest = behind;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = match rest {
            [b'\'', behind @ ..] => return Some(behind),
            [b'\\', b'\'', behind @ ..] => (b'\'', behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        text.push(byte);
        rest = behind;
    }
}

fn hexadecimal(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

const fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}
