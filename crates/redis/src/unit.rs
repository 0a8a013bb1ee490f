//! What is sent and answered as one: a command, or several written together.

use bytes::BytesMut;

use crate::{command::Command, error::RedisError, outstanding::Awaits};

/// A command, or several that are written together and have one outcome.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    One(Command),
    Several(Several),
}

/// Several commands, encoded one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Several {
    bytes: BytesMut,
    commands: usize,
    slot: Option<u16>,
    objection: Option<&'static str>,
}

impl Several {
    /// Adds a command of a user's.
    pub(crate) fn add(&mut self, command: &Command) {
        self.objection = self.objection.or_else(|| command.objection());
        self.add_own(command);
    }

    /// Adds a command that is not asked whether it is allowed.
    pub(crate) fn add_own(&mut self, command: &Command) {
        command.encode(&mut self.bytes);
        self.commands += 1;
        self.slot = self.slot.or(command.slot());
    }

    pub(crate) fn commands(&self) -> usize {
        self.commands
    }
}

impl Unit {
    /// How many replies it has.
    pub(crate) fn commands(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(several) => several.commands,
        }
    }

    pub(crate) fn awaits(&self) -> Awaits {
        match self {
            Self::One(_) => Awaits::Reply,
            Self::Several(several) => Awaits::Replies(several.commands),
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

    pub(crate) fn slot(&self) -> Option<u16> {
        match self {
            Self::One(command) => command.slot(),
            Self::Several(several) => several.slot,
        }
    }

    /// Whether it may go over a connection that others use too.
    pub(crate) fn check(&self) -> Result<(), RedisError> {
        match self {
            Self::Several(Several {
                objection: Some(name),
                ..
            }) => Err(RedisError::NotAllowed(name)),
            Self::Several(Several { commands: 0, .. }) => Err(RedisError::Empty),
            _ => Ok(()),
        }
    }
}
