//! What is sent and answered as one: a command, or several written together.

use std::fmt;

use bytes::BytesMut;

use crate::{command::Command, error::RedisError, outstanding::Awaits};

/// A command, or several that are written together and have one outcome.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    One(Command),
    Several(Several),
}

/// Several commands, encoded one behind the other.
#[derive(Clone, Default)]
pub(crate) struct Several {
    bytes: BytesMut,
    /// Where each command ends.
    ends: Vec<usize>,
    slot: Option<u16>,
    is_crossing: bool,
    /// Whether all are carried out or none.
    is_atomic: bool,
    objection: Option<&'static str>,
}

impl Several {
    /// None yet, of which all will be carried out or none.
    pub(crate) fn atomic() -> Self {
        Self {
            is_atomic: true,
            ..Self::default()
        }
    }

    /// Adds a command of a user's.
    pub(crate) fn add(&mut self, command: &Command) {
        self.objection = self.objection.or_else(|| command.objection());
        self.add_own(command);
    }

    /// Adds a command that is not asked whether it is allowed.
    pub(crate) fn add_own(&mut self, command: &Command) {
        command.encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
        let slot = command.slot();
        let is_other = self.slot.is_some() && slot.is_some() && self.slot != slot;
        self.is_crossing |= is_other || command.is_crossing();
        self.slot = self.slot.or(slot);
    }

    /// Adds the command at `index` of others.
    fn add_of(&mut self, others: &Self, index: usize) {
        let start = index.checked_sub(1).map_or(0, |before| others.ends[before]);
        self.bytes
            .extend_from_slice(&others.bytes[start..others.ends[index]]);
        self.ends.push(self.bytes.len());
        self.slot = others.slot;
    }

    /// Those at some indexes.
    pub(crate) fn part(&self, indexes: &[usize]) -> Self {
        let mut part = Self::default();
        indexes.iter().for_each(|&index| part.add_of(self, index));
        part
    }

    /// All of them, each behind an `ASKING`; a transaction is behind one.
    fn asking(&self) -> Self {
        let asking = Command::new("ASKING");
        let mut several = Self::default();
        for index in 0..self.ends.len() {
            if index == 0 || !self.is_atomic {
                several.add_own(&asking);
            }
            several.add_of(self, index);
        }
        several
    }

    pub(crate) fn commands(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.is_atomic
    }
}

impl Unit {
    /// How many replies it has.
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

    /// Its bytes on the wire, or a few more.
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

    /// In a buffer of its own.
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

    /// Whether its keys are of more than one hash slot.
    pub(crate) fn is_crossing(&self) -> bool {
        match self {
            Self::One(command) => command.is_crossing(),
            Self::Several(several) => several.is_crossing,
        }
    }

    /// As it is sent to a node that does not have its slot yet.
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

    /// Whether it may go over a connection that others use too.
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
