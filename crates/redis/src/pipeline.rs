//! Several commands as one.

use crate::{command::Command, unit::Several};

/// Several commands that are written together and have one outcome: all their replies, refusals among
/// them. They are not a transaction: others' commands may come in between.
///
/// ```no_run
/// # fn run(redis: &freeboard_redis::Redis) -> Result<(), freeboard_redis::RedisError> {
/// use freeboard_redis::{Command, Pipeline};
///
/// let pipeline = Pipeline::new()
///     .cmd(Command::new("INCR").key("visits"))
///     .cmd(Command::new("EXPIRE").key("visits").integer(60));
/// let (visits, _): (i64, i64) = redis.pipeline(pipeline).as_type().wait()?;
/// # let _ = visits; Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Pipeline {
    pub(crate) commands: Several,
}

impl Pipeline {
    /// One without commands.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a command.
    pub fn cmd(mut self, command: Command) -> Self {
        self.commands.add(&command);
        self
    }

    /// How many commands it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.commands()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
