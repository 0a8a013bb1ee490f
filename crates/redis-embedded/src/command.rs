//! What a command is, and what it works with.

use bytes::Bytes;

use crate::{
    arguments::Arguments,
    inbox::Message,
    integer::integer,
    keyspace::NEVER_MS,
    output::{Output, Protocol},
    refusal::Refusal,
    session::Session,
    store::Store,
};

/// What a command comes to: it has replied, or it is refused.
pub(crate) type Outcome = Result<(), Refusal>;

/// An entry of the commands' table.
#[derive(Debug)]
pub(crate) struct Command {
    /// In capitals; of a subcommand with the command before it, as in `CLIENT|ID`.
    pub(crate) name: &'static str,
    /// With the name: so many arguments, or if negative at least so many.
    pub(crate) arity: i32,
    pub(crate) action: Action,
}

#[derive(Debug)]
pub(crate) enum Action {
    Run(fn(&mut Call<'_>) -> Outcome),
    /// The second argument says which of these, by what stands behind the bar.
    Container(&'static [Command]),
}

impl Command {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        run: fn(&mut Call<'_>) -> Outcome,
    ) -> Self {
        let action = Action::Run(run);
        Self {
            name,
            arity,
            action,
        }
    }

    pub(crate) const fn container(name: &'static str, commands: &'static [Self]) -> Self {
        let action = Action::Container(commands);
        let arity = -2;
        Self {
            name,
            arity,
            action,
        }
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

/// A command that is carried out.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) store: &'a mut Store,
    pub(crate) session: &'a mut Session,
    pub(crate) output: &'a mut Output,
    pub(crate) now_ms: u64,
}

impl<'a> Call<'a> {
    /// The argument with this number; the name is 0.
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

    /// Puts a value under a key, until then or for ever.
    pub(crate) fn set(&mut self, key: &[u8], value: Bytes, expire_at_ms: Option<u64>) -> Outcome {
        let expire_at_ms = expire_at_ms.unwrap_or(NEVER_MS);
        let stored = self.store.keyspace.set(key, value, expire_at_ms);
        Ok(stored?)
    }

    /// Writes the messages that have come: they were published before what is replied next.
    pub(crate) fn deliver(&mut self) {
        deliver(self.session, self.output);
    }
}

/// Writes the messages that have come, as long as there is room.
pub(crate) fn deliver(session: &Session, output: &mut Output) {
    let Some(inbox) = session.member.inbox() else {
        return;
    };
    while output.has_room()
        && let Some(Message { channel, text }) = inbox.take()
    {
        output.push(3);
        output.bulk(b"message");
        output.value(&channel);
        output.value(&text);
    }
}

/// Whether the client may use few commands, because replies and messages look alike to it.
pub(crate) fn is_only_listening(session: &Session, output: &Output) -> bool {
    output.protocol == Protocol::Resp2 && session.member.channel_count() > 0
}
