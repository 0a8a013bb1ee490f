//! Encoding and buffering of replies, in the protocol version of the client.

use bytes::{BufMut, Bytes, BytesMut};
use freeboard_net::tcp::Outgoing;
use freeboard_redis::Value;

/// Larger values are shared, not copied.
const SHARED_BYTES_MIN: usize = 8 << 10;
/// Limit of a header: type, digits and line end.
const HEAD_BYTES_MAX: usize = 24;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Has no types for maps, nulls and push messages.
    #[default]
    Resp2,
    Resp3,
}

/// Replies that were not written to the socket yet.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) outgoing: Outgoing,
    pub(crate) protocol: Protocol,
    /// From this size on, no further request is executed.
    write_bytes: usize,
    /// Beyond this size, the connection is closed.
    bytes_max: usize,
}

impl Output {
    pub(crate) fn new(write_bytes: usize, bytes_max: usize) -> Self {
        Self {
            outgoing: Outgoing::new(),
            protocol: Protocol::default(),
            write_bytes,
            bytes_max,
        }
    }

    /// Whether another request may be executed.
    pub(crate) fn has_capacity(&self) -> bool {
        self.outgoing.len() < self.write_bytes
    }

    /// Whether the limit is exceeded.
    pub(crate) fn is_over(&self) -> bool {
        self.outgoing.len() > self.bytes_max
    }

    pub(crate) fn line(&mut self, line: &'static [u8]) {
        self.append(|to| to.put_slice(line));
    }

    pub(crate) fn ok(&mut self) {
        self.line(b"+OK\r\n");
    }

    /// An error with its code. Like Redis, this replaces line ends by blanks.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.append(|to| {
            to.put_u8(b'-');
            let is_end = |byte: u8| matches!(byte, b'\r' | b'\n');
            to.extend(
                text.iter()
                    .map(|&byte| if is_end(byte) { b' ' } else { byte }),
            );
            to.put_slice(b"\r\n");
        });
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    pub(crate) fn count(&mut self, number: usize) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(crate) fn null(&mut self) {
        self.line(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// A string, copied.
    pub(crate) fn bulk(&mut self, text: &[u8]) {
        self.append(|to| {
            to.reserve(text.len() + HEAD_BYTES_MAX + 2);
            put_head(to, b'$', text.len());
            to.put_slice(text);
            to.put_slice(b"\r\n");
        });
    }

    /// A string, copied only if it is small.
    pub(crate) fn value(&mut self, value: &Bytes) {
        if value.len() < SHARED_BYTES_MIN {
            return self.bulk(value);
        }
        self.head(b'$', value.len());
        if !self.is_over() {
            self.outgoing.push(value.clone());
        }
        self.line(b"\r\n");
    }

    /// A string or null.
    pub(crate) fn maybe(&mut self, value: Option<&Bytes>) {
        match value {
            Some(value) => self.value(value),
            None => self.null(),
        }
    }

    /// The header of an array.
    pub(crate) fn array(&mut self, values: usize) {
        self.head(b'*', values);
    }

    /// The header of a map.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', 2 * pairs),
            Protocol::Resp3 => self.head(b'%', pairs),
        }
    }

    /// The header of a push message.
    pub(crate) fn push(&mut self, values: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', values),
            Protocol::Resp3 => self.head(b'>', values),
        }
    }

    /// A script's answer: integers, strings, null, and arrays of them.
    pub(crate) fn answer(&mut self, answer: &Value) {
        match answer {
            Value::Integer(number) => self.integer(*number),
            Value::Bulk(value) => self.value(value),
            Value::Array(values) => {
                self.array(values.len());
                values.iter().for_each(|value| self.answer(value));
            }
            _ => self.null(),
        }
    }

    /// Drops everything beyond the limit, because the connection is about to be closed.
    fn append(&mut self, write: impl FnOnce(&mut BytesMut)) {
        if !self.is_over() {
            self.outgoing.append(write);
        }
    }

    fn head(&mut self, kind: u8, number: impl itoa::Integer) {
        self.append(|to| put_head(to, kind, number));
    }
}

fn put_head(to: &mut BytesMut, kind: u8, number: impl itoa::Integer) {
    to.put_u8(kind);
    to.put_slice(itoa::Buffer::new().format(number).as_bytes());
    to.put_slice(b"\r\n");
}
