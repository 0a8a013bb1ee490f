//! Several commands that the server carries out as one.

use crate::{
    command::Command,
    error::RedisError,
    protocol::Value,
    unit::{Several, Unit},
};

/// Commands between `MULTI` and `EXEC`, written together: the server carries out all of them with
/// nothing in between, or none.
///
/// None are carried out if one is malformed ([`RedisError::Aborted`]). One that fails when it is carried
/// out, say because its key holds another type, is a refusal among the replies, and the others stand.
///
/// A server that refuses `MULTI` itself, say to a user who may not call it, has carried the others out one by
/// one ([`RedisError::NotAtomic`]): they were on their way already.
#[derive(Clone, Debug)]
#[must_use]
pub struct Transaction {
    commands: Several,
}

impl Default for Transaction {
    fn default() -> Self {
        Self::new()
    }
}

impl Transaction {
    /// One without commands.
    pub fn new() -> Self {
        let mut commands = Several::atomic();
        commands.add_own(&Command::new("MULTI"));
        Self { commands }
    }

    /// Adds a command.
    pub fn cmd(mut self, command: Command) -> Self {
        self.commands.add(&command);
        self
    }

    pub(crate) fn into_unit(mut self) -> Result<Unit, RedisError> {
        if self.commands.commands() == 1 {
            return Err(RedisError::Empty);
        }
        self.commands.add_own(&Command::new("EXEC"));
        let unit = Unit::Several(self.commands);
        unit.check().map(|()| unit)
    }
}

/// What `EXEC` answered, out of all replies.
pub(crate) fn executed(replies: Value) -> Result<Value, RedisError> {
    let Value::Array(mut replies) = replies else {
        return Ok(replies);
    };
    if let Some(Value::Error(refusal)) = replies.first() {
        let is_refused = |reply: &Value| matches!(reply, Value::Error(_));
        return Err(match replies.iter().all(is_refused) {
            // As while the server loads its data: nothing was done.
            true => RedisError::Server(refusal.clone()),
            false => RedisError::NotAtomic(refusal.clone()),
        });
    }
    match replies.pop() {
        Some(Value::Error(error)) if error.code() == "EXECABORT" => {
            // The first refusal says more than that there was one.
            let first = replies.into_iter().find_map(|reply| match reply {
                Value::Error(error) => Some(error),
                _ => None,
            });
            Err(RedisError::Aborted(Some(first.unwrap_or(error))))
        }
        Some(Value::Null) | None => Err(RedisError::Aborted(None)),
        Some(reply) => Ok(reply),
    }
}
