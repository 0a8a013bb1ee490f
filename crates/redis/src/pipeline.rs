//! Several commands sent as one: pipelines, and the unit of sending.

use std::fmt;

use bytes::BytesMut;

use crate::{command::Command, error::RedisError, in_flight::Awaits};

/// Several commands that are written together and have one outcome: all replies, errors included. Other
/// callers' commands may run in between; a [`crate::Script`] is atomic.
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
    /// An empty pipeline.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a command.
    pub fn cmd(mut self, command: Command) -> Self {
        self.commands.add(&command);
        self
    }

    /// The number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.commands()
    }

    /// Whether it has no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One command, or several that are written together and have one outcome.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    One(Command),
    Several(Several),
}

/// Several commands, encoded one after the other.
#[derive(Clone, Default)]
pub(crate) struct Several {
    bytes: BytesMut,
    /// End offset of each command.
    ends: Vec<usize>,
    slot: Option<u16>,
    is_crossing: bool,
    objection: Option<&'static str>,
}

impl Several {
    /// Adds a command of the caller, which is checked.
    pub(crate) fn add(&mut self, command: &Command) {
        self.objection = self.objection.or_else(|| command.objection());
        self.add_own(command);
    }

    /// Adds a command without the check.
    pub(crate) fn add_own(&mut self, command: &Command) {
        command.encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
        let slot = command.slot();
        let is_other = self.slot.is_some() && slot.is_some() && self.slot != slot;
        self.is_crossing |= is_other || command.is_crossing();
        self.slot = self.slot.or(slot);
    }

    /// Copies the command at `index` of `others`.
    fn add_of(&mut self, others: &Self, index: usize) {
        let start = index.checked_sub(1).map_or(0, |before| others.ends[before]);
        self.bytes
            .extend_from_slice(&others.bytes[start..others.ends[index]]);
        self.ends.push(self.bytes.len());
        self.slot = others.slot;
    }

    /// The commands at `indexes`.
    pub(crate) fn part(&self, indexes: &[usize]) -> Self {
        let mut part = Self::default();
        indexes.iter().for_each(|&index| part.add_of(self, index));
        part
    }

    /// The commands, each after an `ASKING`.
    fn asking(&self) -> Self {
        let asking = Command::new("ASKING");
        let mut several = Self::default();
        for index in 0..self.ends.len() {
            several.add_own(&asking);
            several.add_of(self, index);
        }
        several
    }

    pub(crate) fn commands(&self) -> usize {
        self.ends.len()
    }
}

impl Unit {
    /// The number of replies.
    pub(crate) fn commands(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(several) => several.commands(),
        }
    }

    pub(crate) fn awaits(&self) -> Awaits {
        match self {
            Self::One(_) => Awaits::Reply,
            Self::Several(several) => Awaits::Replies(several.commands()),
        }
    }

    /// Upper bound of its bytes on the wire.
    pub(crate) fn len_max(&self) -> usize {
        match self {
            Self::One(command) => command.encoded_len_max(),
            Self::Several(several) => several.bytes.len(),
        }
    }

    pub(crate) fn encode(&self, to: &mut BytesMut) {
        match self {
            Self::One(command) => command.encode(to),
            Self::Several(several) => to.extend_from_slice(&several.bytes),
        }
    }

    /// Encodes into a new buffer.
    pub(crate) fn encoded(&self) -> BytesMut {
        let mut bytes = BytesMut::with_capacity(self.len_max());
        self.encode(&mut bytes);
        bytes
    }

    pub(crate) fn slot(&self) -> Option<u16> {
        match self {
            Self::One(command) => command.slot(),
            Self::Several(several) => several.slot,
        }
    }

    /// Whether the keys belong to more than one hash slot.
    pub(crate) fn is_crossing(&self) -> bool {
        match self {
            Self::One(command) => command.is_crossing(),
            Self::Several(several) => several.is_crossing,
        }
    }

    /// The form for a node that is importing the slot.
    pub(crate) fn asking(&self) -> Self {
        Self::Several(match self {
            Self::One(command) => {
                let mut several = Several::default();
                several.add_own(&Command::new("ASKING"));
                several.add_own(command);
                several
            }
            Self::Several(several) => several.asking(),
        })
    }

    /// Whether it may be sent over a shared connection.
    pub(crate) fn check(&self) -> Result<(), RedisError> {
        let Self::Several(several) = self else {
            return Ok(());
        };
        match several.objection {
            Some(name) => Err(RedisError::NotAllowed(name)),
            None if several.ends.is_empty() => Err(RedisError::Empty),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Several {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments may be secret, and long.
        write!(formatter, "{} commands", self.commands())
    }
}
