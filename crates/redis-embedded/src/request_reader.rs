//! An incremental parser of requests. Uses no socket.
//!
//! A request is an array of strings, such as `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`.
//!
//! The caller passes an incomplete request again with more bytes, and parsing continues at the saved offset.
//! Arguments are borrowed from the input. [`freeboard_redis::protocol`] copies values and accepts types that a
//! request may not contain, so it is not used here.

use crate::arguments::{Arguments, Span, integer};

/// Limit of a line: the header of an array or a string. Redis' limit.
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
}

impl RequestReader {
    pub(crate) fn new(request_bytes_max: usize) -> Self {
        Self {
            request_bytes_max,
            at: 0,
            left: 0,
            spans: Vec::new(),
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
        Arguments::new(input, &self.spans)
    }

    /// Parses the first line. `false` if it is incomplete.
    fn begin(&mut self, input: &[u8], is_logged_in: bool) -> Result<bool, Malformed> {
        self.spans.clear();
        self.spans.shrink_to(SPANS_KEPT);
        let Some(first) = input.first() else {
            return Ok(false);
        };
        if *first != b'*' {
            return Err(Malformed::NoArray);
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
    /// The connection is closed without a reply: the peer may be a browser that sends HTTP.
    #[error("Protocol error: expected '*'")]
    NoArray,
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
