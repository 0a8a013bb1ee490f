//! A command, in the form in which it goes to the server.

use std::{fmt, time::Duration};

use bytes::BytesMut;

use crate::{body::Body, routing::hash_slot};

/// `*` or `$`, the most digits of a number and the line end.
const HEADER_BYTES_MAX: usize = 24;

/// Commands after which replies would not come one for one, or that change the connection under
/// everybody who uses it. Subscriptions and transactions have calls of their own.
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

/// As above, by the first two words.
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
    /// Where the first key stands in the body, and its length.
    key: Option<(u32, u32)>,
    /// Whether another key is of another hash slot than the first.
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

    /// Adds an argument that is a key: the first one says which node of a cluster is taken, and which
    /// connection under [`crate::Routing::Hash`].
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

    /// Adds a number with a fraction, or an infinity.
    pub fn double(self, number: f64) -> Self {
        self.arg(number.to_string())
    }

    /// Adds several arguments.
    pub fn args<A: AsRef<[u8]>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Adds several keys.
    pub fn keys<A: AsRef<[u8]>>(self, keys: impl IntoIterator<Item = A>) -> Self {
        keys.into_iter().fold(self, Self::key)
    }

    /// Adds pairs of arguments.
    pub fn pairs<A: AsRef<[u8]>, B: AsRef<[u8]>>(
        self,
        pairs: impl IntoIterator<Item = (A, B)>,
    ) -> Self {
        let add = |command: Self, (first, second): (A, B)| command.arg(first).arg(second);
        pairs.into_iter().fold(self, add)
    }

    /// Adds a time in milliseconds, rounded up: a short one is not none.
    pub fn millis(self, time: Duration) -> Self {
        let millis = time.as_nanos().div_ceil(1_000_000);
        self.integer(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    /// Adds `argument` if it is there.
    pub fn maybe<A: AsRef<[u8]>>(self, argument: Option<A>) -> Self {
        self.args(argument)
    }

    /// Appends the command as it goes over the wire.
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

    /// Whether its keys are of more than one hash slot.
    pub(crate) fn is_crossing(&self) -> bool {
        self.is_crossing
    }

    /// Why the command must not go over a connection that others use too: its name.
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

/// Shows `write` a line of `kind` and a number.
#[inline]
fn with_number(kind: u8, number: usize, write: impl FnOnce(&[u8])) {
    // Most are short.
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

/// Takes an argument off what [`Command::arg`] wrote.
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
