//! Counts of all messages of a queue.

use super::Unconfirmed;

/// Counts what this process published to a queue and consumed from it.
///
/// [`Ledger::is_balanced`] holds at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Messages accepted for publishing.
    pub published: u64,
    /// Of these: confirmed by the broker.
    pub confirmed: u64,
    /// Of these: refused by the broker.
    pub refused: u64,
    /// Of these: unconfirmed when the connection was lost.
    pub unknown: u64,
    /// Of these: not confirmed yet.
    pub unconfirmed: u64,
    /// Deliveries to consumers, each one counted.
    pub delivered: u64,
    /// Of these: acknowledged.
    pub acked: u64,
    /// Of these: retried or deferred.
    pub retried: u64,
    /// Of these: dead-lettered.
    pub dead_lettered: u64,
    /// Of these: returned unsettled, because the consumer or its connection was gone.
    pub returned: u64,
    /// Of these: not settled yet.
    pub unacked: u64,
    /// Retries and dead letters that were refused or not confirmed. Each is tried again with back-off.
    pub moves_failed: u64,
}

impl Ledger {
    /// Whether every message is accounted for.
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
