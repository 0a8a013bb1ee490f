//! Commands, their context, and their refusals.

use std::borrow::Cow;

use bytes::Bytes;

use crate::{
    arguments::{Arguments, integer},
    keyspace::{NEVER_MS, OutOfMemory},
    output::{Output, Protocol},
    session::Session,
    store::Store,
    subscribers::Message,
};

/// Bytes of an unknown name in the error. Redis' limit.
const REPEATED_BYTES_MAX: usize = 128;

/// `Ok` if the command has replied; otherwise its refusal.
pub(crate) type CommandResult = Result<(), Refusal>;

/// An entry of the command table.
#[derive(Debug)]
pub(crate) struct Command {
    /// In capitals.
    pub(crate) name: &'static str,
    /// Number of arguments including the name; a negative number is a minimum.
    pub(crate) arity: i32,
    pub(crate) run: fn(&mut Call<'_>) -> CommandResult,
}

impl Command {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        run: fn(&mut Call<'_>) -> CommandResult,
    ) -> Self {
        Self { name, arity, run }
    }

    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let count = i32::try_from(arguments).unwrap_or(i32::MAX);
        if self.arity < 0 {
            count >= -self.arity
        } else {
            count == self.arity
        }
    }
}

/// A command under execution.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) store: &'a mut Store,
    pub(crate) session: &'a mut Session,
    pub(crate) output: &'a mut Output,
    pub(crate) now_ms: u64,
}

impl<'a> Call<'a> {
    /// The argument at an index; the name is 0.
    pub(crate) fn argument(&self, number: usize) -> &'a [u8] {
        self.arguments.get(number)
    }

    pub(crate) fn is_word(&self, number: usize, word: &str) -> bool {
        self.argument(number).eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn integer(&self, number: usize) -> Result<i64, Refusal> {
        integer(self.argument(number)).ok_or(Refusal::INTEGER)
    }

    pub(crate) fn bytes(&self, number: usize) -> Bytes {
        Bytes::copy_from_slice(self.argument(number))
    }

    /// Sets a key, with an expiry or without.
    pub(crate) fn set(
        &mut self,
        key: &[u8],
        value: Bytes,
        expire_at_ms: Option<u64>,
    ) -> CommandResult {
        let expire_at_ms = expire_at_ms.unwrap_or(NEVER_MS);
        let stored = self.store.keyspace.set(key, value, expire_at_ms);
        Ok(stored?)
    }

    /// Writes pending messages, which were published before the next reply.
    pub(crate) fn deliver(&mut self) {
        deliver(self.session, self.output);
    }
}

/// Writes pending messages, as far as the output has capacity.
pub(crate) fn deliver(session: &Session, output: &mut Output) {
    let Some(inbox) = session.inbox() else {
        return;
    };
    while output.has_capacity()
        && let Some(Message { channel, text }) = inbox.take()
    {
        output.push(3);
        output.bulk(b"message");
        output.value(&channel);
        output.value(&text);
    }
}

/// Whether the client may use only the commands for subscribers, because RESP2 does not distinguish messages from
/// replies.
pub(crate) fn is_only_listening(session: &Session, output: &Output) -> bool {
    output.protocol == Protocol::Resp2 && session.channel_count() > 0
}

/// An error reply with its code, in Redis' words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

impl Refusal {
    pub(crate) const SYNTAX: Self = Self::of("ERR syntax error");
    pub(crate) const INTEGER: Self = Self::of("ERR value is not an integer or out of range");
    pub(crate) const EXPIRE_TIME: Self = Self::of("ERR invalid expire time in 'set' command");
    pub(crate) const LOGIN: Self = Self::of("NOAUTH Authentication required.");
    pub(crate) const SCRIPT: Self = Self::of("NOSCRIPT No matching script. Please use EVAL.");

    pub(crate) const fn of(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// `name` is a name of the command table.
    pub(crate) fn arity(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        Self(format!("ERR wrong number of arguments for '{name}' command").into())
    }

    /// `kind` is "command" or "subcommand".
    pub(crate) fn unknown(kind: &str, name: &[u8]) -> Self {
        let name = &name[..name.len().min(REPEATED_BYTES_MAX)];
        Self(format!("ERR unknown {kind} '{}'", String::from_utf8_lossy(name)).into())
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<OutOfMemory> for Refusal {
    fn from(_: OutOfMemory) -> Self {
        Self::of("OOM command not allowed when used memory > 'maxmemory'.")
    }
}
