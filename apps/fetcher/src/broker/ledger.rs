//! What became of everything.

use super::Unconfirmed;

/// Counts, by one process and of one queue, of what was published and what was delivered.
///
/// [`Ledger::is_balanced`] holds at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Messages that were accepted for publishing.
    pub published: u64,
    /// Of these: the broker has taken charge of them.
    pub confirmed: u64,
    /// Of these: the broker did not take them.
    pub refused: u64,
    /// Of these: the connection was lost first.
    pub unknown: u64,
    /// Of these: still waited for.
    pub unconfirmed: u64,
    /// Deliveries to consumers, each time counted.
    pub delivered: u64,
    /// Of these: acknowledged.
    pub acked: u64,
    /// Of these: put off, to come again.
    pub retried: u64,
    /// Of these: dead-lettered.
    pub dead_lettered: u64,
    /// Of these: gone back unsettled, with their consumer or its connection, to come again.
    pub returned: u64,
    /// Of these: given to a consumer and not settled yet.
    pub unacked: u64,
    /// Times that a retry or a dead letter was not taken, or not confirmed. It is tried again, with back-off.
    pub moves_failed: u64,
}

impl Ledger {
    /// Whether everything that came in is somewhere.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.published == self.confirmed + self.refused + self.unknown + self.unconfirmed
            && self.delivered
                == self.acked + self.retried + self.dead_lettered + self.returned + self.unacked
    }

    pub(super) fn publish(&mut self) {
        self.published += 1;
        self.unconfirmed += 1;
    }

    pub(super) fn conclude(&mut self, outcome: Result<(), Unconfirmed>) {
        self.unconfirmed -= 1;
        match outcome {
            Ok(()) => self.confirmed += 1,
            Err(Unconfirmed::Refused) => self.refused += 1,
            Err(Unconfirmed::Unknown) => self.unknown += 1,
        }
    }

    pub(super) fn deliver(&mut self, deliveries: u64) {
        self.delivered += deliveries;
        self.unacked += deliveries;
    }

    pub(super) fn ack(&mut self) {
        self.unacked -= 1;
        self.acked += 1;
    }

    pub(super) fn retry(&mut self) {
        self.unacked -= 1;
        self.retried += 1;
    }

    pub(super) fn dead_letter(&mut self) {
        self.unacked -= 1;
        self.dead_lettered += 1;
    }

    pub(super) fn give_back(&mut self, deliveries: u64) {
        self.unacked -= deliveries;
        self.returned += deliveries;
    }
}
