//! The consumer: takes each item, and checks that none is missing and none out of turn.

use std::sync::mpsc;

use freeboard::{Actor, Context, Handler, meter::clock};

use super::{plan::Plan, run::Event};

/// What the producers send.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) producer: u32,
    pub(crate) lane: u32,
    /// Of the producer's items on this lane.
    pub(crate) sequence: u64,
}

/// What came, once the consumer has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) received: u64,
    /// Items that were not the next of their producer and lane.
    pub(crate) disordered: u64,
    /// Items that came, by producer and then by lane.
    pub(crate) counts: Vec<u64>,
    /// When the last one of the plan was handled, or else the consumer ended.
    pub(crate) done_ns: u64,
}

/// The one who takes from the ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    lanes: u32,
    total: u64,
    account: Account,
    events: mpsc::Sender<Event>,
}

impl Consumer {
    /// Expects what the plan's producers send.
    pub(crate) fn new(plan: &Plan, events: mpsc::Sender<Event>) -> Self {
        Self {
            lanes: plan.priorities,
            total: plan.messages,
            account: Account {
                received: 0,
                disordered: 0,
                counts: vec![0; (plan.producers * plan.priorities) as usize],
                done_ns: 0,
            },
            events,
        }
    }

    #[inline]
    fn take(&mut self, item: &Item) {
        let count = &mut self.account.counts[(item.producer * self.lanes + item.lane) as usize];
        self.account.disordered += u64::from(*count != item.sequence);
        *count += 1;
        self.account.received += 1;
        if self.account.received == self.total {
            self.account.done_ns = clock::now_ns();
        }
    }
}

impl Actor for Consumer {
    fn stopped(&mut self, _cx: &mut Context<Self>) {
        if self.account.done_ns == 0 {
            self.account.done_ns = clock::now_ns();
        }
        let account = Account {
            counts: std::mem::take(&mut self.account.counts),
            ..self.account
        };
        // Nobody listens any more if the run was given up.
        let _ = self.events.send(Event::ConsumerEnded(account));
    }
}

impl Handler<Item> for Consumer {
    type Reply = ();

    #[inline]
    fn handle(&mut self, item: Item, _cx: &mut Context<Self>) {
        self.take(&item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::plan::Wait;

    #[test]
    fn what_is_out_of_turn_is_counted() {
        let plan = Plan {
            messages: 4,
            ring: 8,
            producers: 2,
            priorities: 2,
            wait: Wait::Blocking,
            idle: 0,
        };
        let (events, _inbox) = mpsc::channel();
        let mut consumer = Consumer::new(&plan, events);
        for (producer, lane, sequence) in [(0, 0, 0), (1, 1, 0), (0, 0, 1), (0, 1, 1)] {
            consumer.take(&Item {
                producer,
                lane,
                sequence,
            });
        }
        let account = &consumer.account;
        assert_eq!((account.received, account.disordered), (4, 1));
        assert_eq!(account.counts, [2, 1, 0, 1]);
        assert_ne!(account.done_ns, 0, "the last of the plan has come");
    }
}
