//! What one client has said of itself.

use bytes::Bytes;

use crate::{
    arguments::{Arguments, KeptArguments},
    command::Command,
    member::Member,
};

/// The state of a conversation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) name: Bytes,
    pub(crate) is_logged_in: bool,
    /// Nothing more is read.
    pub(crate) is_closing: bool,
    /// The client speaks HTTP: replies that wait are not sent either.
    pub(crate) is_dropped: bool,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) member: Member,
}

impl Session {
    pub(crate) fn new(id: u64, member: Member) -> Self {
        Self {
            id,
            name: Bytes::new(),
            is_logged_in: member.common().password.is_none(),
            is_closing: false,
            is_dropped: false,
            transaction: None,
            member,
        }
    }

    /// A command of the transaction was refused, if there is one.
    pub(crate) fn spoil(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_spoiled = true;
        }
    }
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    commands: Vec<(&'static Command, KeptArguments)>,
    bytes: usize,
    /// One was refused, so none is carried out.
    pub(crate) is_spoiled: bool,
}

impl Transaction {
    /// `false` if that would be more than `bytes_max`.
    pub(crate) fn add(
        &mut self,
        command: &'static Command,
        arguments: Arguments<'_>,
        bytes_max: usize,
    ) -> bool {
        let arguments = arguments.to_kept();
        let bytes = self.bytes + arguments.bytes();
        let has_room = bytes <= bytes_max;
        if has_room {
            self.bytes = bytes;
            self.commands.push((command, arguments));
        }
        has_room
    }

    /// The memory that its commands take.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn into_commands(self) -> Vec<(&'static Command, KeptArguments)> {
        self.commands
    }
}
