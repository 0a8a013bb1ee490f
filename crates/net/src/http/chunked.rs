//! Decoder of the chunked transfer coding (RFC 9112, 7.1).

use bytes::{Buf, BytesMut};
use http::{HeaderName, HeaderValue};

use super::limits::Refusal;

/// The longest line of a chunk size with its extensions, or of a trailer, in bytes.
const LINE_BYTES_MAX: usize = 1_024;
/// The most bytes of trailers.
const TRAILERS_BYTES_MAX: usize = 16 << 10;

/// The state of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunked {
    Size,
    /// So many bytes of the chunk are missing.
    Data(usize),
    /// The line end after a chunk.
    DataEnd,
    /// Trailers, of which so many bytes were read.
    Trailers(usize),
}

impl Chunked {
    /// Moves body bytes from `inbox` to `body`. `true` once the body is complete.
    pub(super) fn advance(
        &mut self,
        inbox: &mut BytesMut,
        body: &mut BytesMut,
        body_bytes_max: usize,
    ) -> Result<bool, Refusal> {
        loop {
            match *self {
                Self::Size => {
                    let Some(line) = take_line(inbox)? else {
                        return Ok(false);
                    };
                    let size = size(&line)?;
                    if size > body_bytes_max - body.len() {
                        return Err(Refusal::BodyTooLong);
                    }
                    *self = match size {
                        0 => Self::Trailers(0),
                        size => Self::Data(size),
                    };
                }
                Self::Data(missing) => {
                    let here = missing.min(inbox.len());
                    body.extend_from_slice(&inbox[..here]);
                    inbox.advance(here);
                    if here < missing {
                        *self = Self::Data(missing - here);
                        return Ok(false);
                    }
                    *self = Self::DataEnd;
                }
                Self::DataEnd => match inbox[..] {
                    [b'\r', b'\n', ..] => {
                        inbox.advance(2);
                        *self = Self::Size;
                    }
                    [] | [b'\r'] => return Ok(false),
                    _ => return Err(Refusal::Malformed("a chunk's end")),
                },
                Self::Trailers(before) => {
                    let Some(line) = take_line(inbox)? else {
                        return Ok(false);
                    };
                    if line.is_empty() {
                        return Ok(true);
                    }
                    if !is_field(&line) {
                        return Err(Refusal::Malformed("a trailer"));
                    }
                    let bytes = before + line.len();
                    if bytes > TRAILERS_BYTES_MAX {
                        return Err(Refusal::HeadTooLong);
                    }
                    *self = Self::Trailers(bytes);
                }
            }
        }
    }
}

/// A line without its CR LF; `None` if it is incomplete.
fn take_line(inbox: &mut BytesMut) -> Result<Option<BytesMut>, Refusal> {
    let shown = &inbox[..inbox.len().min(LINE_BYTES_MAX)];
    let Some(end) = shown.iter().position(|&byte| byte == b'\n') else {
        if inbox.len() >= LINE_BYTES_MAX {
            return Err(Refusal::Malformed("a chunk's line"));
        }
        return Ok(None);
    };
    let mut line = inbox.split_to(end + 1);
    match line.strip_suffix(b"\r\n") {
        Some(text) if !text.contains(&b'\r') => {
            let length = text.len();
            line.truncate(length);
            Ok(Some(line))
        }
        _ => Err(Refusal::Malformed("a chunk's line")),
    }
}

/// Whether the line is a header field, `name: value`.
fn is_field(line: &[u8]) -> bool {
    let colon = line.iter().position(|&byte| byte == b':');
    colon.is_some_and(|colon| {
        HeaderName::from_bytes(&line[..colon]).is_ok()
            && HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).is_ok()
    })
}

fn size(line: &[u8]) -> Result<usize, Refusal> {
    if line
        .iter()
        .any(|&byte| byte.is_ascii_control() && byte != b'\t')
    {
        return Err(Refusal::Malformed("a chunk's line"));
    }
    let mut digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    while let [rest @ .., b' ' | b'\t'] = digits {
        digits = rest;
    }
    let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if !is_hex {
        return Err(Refusal::Malformed("a chunk's size"));
    }
    // All are digits: a number that does not parse exceeds every limit.
    Ok(usize::from_str_radix(text, 16).unwrap_or(usize::MAX))
}
