//! Counts of all messages of a queue.

use freeboard::meter::{Exposition, metrics};

use super::{Queue, Unconfirmed};

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

metrics! {
    const LEDGER: Ledger;
    counter "fetcher_broker_delivered_total" = |it| it.delivered, "Deliveries of the broker.";
    counter "fetcher_broker_acked_total" = |it| it.acked, "Deliveries that were acknowledged.";
    counter "fetcher_broker_retried_total" = |it| it.retried,
        "Deliveries that were delayed, to be delivered again.";
    counter "fetcher_broker_dead_lettered_total" = |it| it.dead_lettered,
        "Deliveries that were dead-lettered.";
    counter "fetcher_broker_returned_total" = |it| it.returned,
        "Deliveries that were returned unsettled with a connection.";
    counter "fetcher_broker_moves_failed_total" = |it| it.moves_failed,
        "Retries and dead letters that the broker refused; they are tried again.";
    gauge "fetcher_broker_unacked" = |it| it.unacked, "Deliveries that are not settled yet.";
    counter "fetcher_broker_published_total" = |it| it.published, "Messages published.";
    counter "fetcher_broker_confirmed_total" = |it| it.confirmed,
        "Published messages that are confirmed.";
}

impl Ledger {
    /// Adds the metrics of a queue to `text`.
    pub fn render(&self, queue: Queue, text: &mut Exposition) {
        text.metrics(LEDGER, &[("queue", queue.name())], self);
    }

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
