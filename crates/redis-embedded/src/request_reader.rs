//! From bytes to requests, however the bytes are cut. Touches no socket.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$1\r\nk\r\n     an array of strings, as clients send it
//!   GET k\r\n                          a line, as a person types it
//! ```
//!
//! What has not come whole is given again with more behind it, and is gone on with where the last look ended.
//! Arguments stay where they are, which is why [`freeboard_redis::protocol`] does not read them: its values are
//! copies, and it takes any value where a request has strings only.

use crate::{
    arguments::{Arguments, Place},
    inline,
    integer::integer,
    malformed::Malformed,
};

/// The longest line: an inline request, or the head of an array or a string. Redis' own limit.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The most arguments that an array declares. Redis' own limit.
const ARGUMENTS_MAX: i64 = i32::MAX as i64;
/// What a client may send before it has given the password. Redis' own limits.
const ARGUMENTS_BEFORE_LOGIN_MAX: i64 = 10;
const LENGTH_BEFORE_LOGIN_MAX: i64 = 16 << 10;
/// Arguments whose places are kept between requests.
const PLACES_KEPT: usize = 64;

/// Makes requests of bytes that come in pieces.
#[derive(Debug)]
pub(crate) struct RequestReader {
    request_bytes_max: usize,
    /// How far the present request was read.
    at: usize,
    /// Arguments of it that are to come.
    left: usize,
    places: Vec<Place>,
    /// What an inline request comes to.
    words: Vec<u8>,
    is_inline: bool,
}

impl RequestReader {
    pub(crate) fn new(request_bytes_max: usize) -> Self {
        Self {
            request_bytes_max,
            at: 0,
            left: 0,
            places: Vec::new(),
            words: Vec::new(),
            is_inline: false,
        }
    }

    /// The bytes of the first request in `input`, if it is there whole: `arguments` has it then. Otherwise what
    /// was given is to be given again, with more behind it.
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

    /// What is kept of a request that has not come whole, beside its bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        size_of_val::<[Place]>(&self.places)
    }

    /// Of the request that was found last; `input` is what it was found in.
    pub(crate) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.is_inline { &self.words } else { input };
        Arguments::new(bytes, &self.places)
    }

    /// Whether the first line was there.
    fn begin(&mut self, input: &[u8], is_logged_in: bool) -> Result<bool, Malformed> {
        self.places.clear();
        self.places.shrink_to(PLACES_KEPT);
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
        if !inline::split(line, &mut self.words, &mut self.places) {
            return Err(Malformed::Quotes);
        }
        self.at = end + 1;
        Ok(true)
    }

    fn take_argument(&mut self, input: &[u8], is_logged_in: bool) -> Result<bool, Malformed> {
        let Some((head, start)) = line(input, self.at, Malformed::LongLength)? else {
            return Ok(false);
        };
        // An empty line is no `$` either.
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
        // As Redis, which does not look at the line end either.
        if input.len() < end + 2 {
            return Ok(false);
        }
        self.places.extend(Place::new(start, end));
        self.at = end + 2;
        Ok(true)
    }
}

/// A line that begins at `at`, without its end, and where the next one begins.
fn line(input: &[u8], at: usize, too_long: Malformed) -> Result<Option<(&[u8], usize)>, Malformed> {
    let rest = input.get(at..).unwrap_or_default();
    let end = memchr::memchr(b'\r', rest);
    if end.unwrap_or(rest.len()) > LINE_BYTES_MAX {
        return Err(too_long);
    }
    let whole = end.filter(|end| end + 2 <= rest.len());
    Ok(whole.map(|end| (&rest[..end], at + end + 2)))
}
