//! A command, encoded as the server reads it.

use std::fmt;

use bytes::BytesMut;

use crate::routing::hash_slot;

/// `*` or `$`, the most digits of a number and the line end.
const HEADER_BYTES_MAX: usize = 24;

/// Commands that break the one reply per command, or change a connection that other callers share.
/// Subscriptions have their own call; scripts replace transactions.
const NOT_ALLOWED: &[&str] = &[
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "MONITOR",
    "SYNC",
    "PSYNC",
    "HELLO",
    "AUTH",
    "SELECT",
    "RESET",
    "QUIT",
    "MULTI",
    "EXEC",
    "DISCARD",
    "READONLY",
    "READWRITE",
    "ASKING",
];

/// The same, for commands of two words.
const NOT_ALLOWED_PAIRS: &[(&str, &str, &str)] = &[
    ("CLIENT", "REPLY", "CLIENT REPLY"),
    ("CLIENT", "TRACKING", "CLIENT TRACKING"),
    ("CLIENT", "NO-TOUCH", "CLIENT NO-TOUCH"),
    ("SCRIPT", "DEBUG", "SCRIPT DEBUG"),
];

/// A command with its arguments, encoded as they are added.
///
/// ```
/// use freeboard_redis::Command;
///
/// let command = Command::new("SET").key("user:7").arg(b"\0\xff").arg("EX").integer(60);
/// let mut wire = bytes::BytesMut::new();
/// command.encode(&mut wire);
/// assert!(wire.starts_with(b"*5\r\n$3\r\nSET\r\n$6\r\nuser:7\r\n"));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Command {
    /// The name and the arguments, each a bulk string.
    body: Body,
    arguments: u32,
    /// Offset of the first key in the body, and its length.
    key: Option<(u32, u32)>,
    /// Whether the keys belong to more than one hash slot.
    is_crossing: bool,
}

impl Command {
    /// A command without arguments.
    #[inline]
    pub fn new(name: &str) -> Self {
        let command = Self {
            body: Body::default(),
            arguments: 0,
            key: None,
            is_crossing: false,
        };
        command.arg(name)
    }

    /// Adds an argument.
    #[inline]
    pub fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        let argument = argument.as_ref();
        with_number(b'$', argument.len(), |head| self.body.push(head));
        self.body.push(argument);
        self.body.push(b"\r\n");
        self.arguments += 1;
        self
    }

    /// Adds an argument that is a key. The first key selects the node of a cluster, and the connection under
    /// [`crate::Routing::Hash`].
    #[inline]
    pub fn key(self, key: impl AsRef<[u8]>) -> Self {
        let length = key.as_ref().len();
        let is_crossing = self
            .slot()
            .is_some_and(|slot| slot != hash_slot(key.as_ref()));
        let mut command = self.arg(key);
        command.is_crossing |= is_crossing;
        if command.key.is_none() {
            let start = command.body.as_slice().len() - 2 - length;
            command.key = u32::try_from(start).ok().zip(u32::try_from(length).ok());
        }
        command
    }

    /// Adds a number.
    pub fn integer(self, number: i64) -> Self {
        self.arg(itoa::Buffer::new().format(number))
    }

    /// Adds several arguments.
    pub fn args<A: AsRef<[u8]>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Adds several keys.
    pub fn keys<A: AsRef<[u8]>>(self, keys: impl IntoIterator<Item = A>) -> Self {
        keys.into_iter().fold(self, Self::key)
    }

    /// Appends the command in its wire format.
    pub fn encode(&self, to: &mut BytesMut) {
        let body = self.body.as_slice();
        to.reserve(body.len() + HEADER_BYTES_MAX);
        with_number(b'*', self.arguments as usize, |head| {
            to.extend_from_slice(head)
        });
        to.extend_from_slice(body);
    }

    pub(crate) fn encoded_len_max(&self) -> usize {
        self.body.as_slice().len() + HEADER_BYTES_MAX
    }

    /// The hash slot of the first key.
    pub(crate) fn slot(&self) -> Option<u16> {
        let (start, length) = self.key?;
        let behind = self.body.as_slice().get(start as usize..)?;
        behind.get(..length as usize).map(hash_slot)
    }

    /// Whether the keys belong to more than one hash slot.
    pub(crate) fn is_crossing(&self) -> bool {
        self.is_crossing
    }

    /// The name of the command, if it must not be sent over a shared connection.
    pub(crate) fn objection(&self) -> Option<&'static str> {
        let mut rest = self.body.as_slice();
        let name = next_argument(&mut rest)?;
        let is = |argument: &[u8], known: &str| argument.eq_ignore_ascii_case(known.as_bytes());
        if let Some(known) = NOT_ALLOWED.iter().find(|known| is(name, known)) {
            return Some(known);
        }
        if !NOT_ALLOWED_PAIRS.iter().any(|(first, ..)| is(name, first)) {
            return None;
        }
        let second = next_argument(&mut rest)?;
        let is_pair = |pair: &&(&str, &str, &str)| is(name, pair.0) && is(second, pair.1);
        NOT_ALLOWED_PAIRS.iter().find(is_pair).map(|pair| pair.2)
    }
}

/// Bytes that are kept in place.
const INLINE_BYTES: usize = 118;

/// An append-only buffer. Most commands are short and need no allocation.
#[derive(Clone)]
enum Body {
    Inline {
        length: u8,
        bytes: [u8; INLINE_BYTES],
    },
    Heap(Vec<u8>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Inline {
            length: 0,
            bytes: [0; INLINE_BYTES],
        }
    }
}

impl Body {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Heap(bytes) => bytes,
        }
    }

    #[inline]
    fn push(&mut self, piece: &[u8]) {
        if let Self::Inline { length, bytes } = self {
            let start = usize::from(*length);
            if let Some(space) = bytes.get_mut(start..start + piece.len()) {
                space.copy_from_slice(piece);
                *length += piece.len() as u8;
                return;
            }
        }
        self.push_to_heap(piece);
    }

    #[cold]
    fn push_to_heap(&mut self, piece: &[u8]) {
        match self {
            Self::Heap(bytes) => bytes.extend_from_slice(piece),
            Self::Inline { .. } => {
                let mut bytes = Vec::with_capacity(2 * INLINE_BYTES + piece.len());
                bytes.extend_from_slice(self.as_slice());
                bytes.extend_from_slice(piece);
                *self = Self::Heap(bytes);
            }
        }
    }
}

/// Passes a line of `kind` and a number to `write`.
#[inline]
fn with_number(kind: u8, number: usize, write: impl FnOnce(&[u8])) {
    if number < 10 {
        return write(&[kind, b'0' + number as u8, b'\r', b'\n']);
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    let mut line = [kind; HEADER_BYTES_MAX];
    let end = 1 + digits.len();
    line[1..end].copy_from_slice(digits);
    line[end..end + 2].copy_from_slice(b"\r\n");
    write(&line[..end + 2]);
}

/// Takes one argument off a body.
fn next_argument<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'\n', body)?;
    let length: usize = str::from_utf8(body.get(1..end - 1)?).ok()?.parse().ok()?;
    let argument = body.get(end + 1..end + 1 + length)?;
    *body = body.get(end + length + 3..)?;
    Some(argument)
}

impl fmt::Debug for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may be secret, and long.
        let name = next_argument(&mut self.body.as_slice()).unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        write!(
            formatter,
            "Command({name}, {} arguments)",
            self.arguments - 1
        )
    }
}
