//! A producer: a thread that tells its share, one item at a time, and waits while a lane is full.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use freeboard::ActorRef;

use super::{
    consumer::{Consumer, Item},
    plan::Plan,
};

/// The messages of one producer: number k goes to lane k modulo the number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) producer: u32,
    pub(crate) messages: u64,
    pub(crate) lanes: u32,
}

impl Share {
    /// An even part of the plan's messages; the first producers send what does not divide.
    pub(crate) fn of(plan: &Plan, producer: u32) -> Self {
        let (each, left) = (
            plan.messages / u64::from(plan.producers),
            plan.messages % u64::from(plan.producers),
        );
        Self {
            producer,
            messages: each + u64::from(u64::from(producer) < left),
            lanes: plan.priorities,
        }
    }

    /// Of the first `sent` messages, those that went to `lane`.
    pub(crate) fn on_lane(&self, sent: u64, lane: u32) -> u64 {
        let before = sent.saturating_sub(u64::from(lane));
        before.div_ceil(u64::from(self.lanes))
    }
}

/// Items between two checks of the state that the producers share.
const SLICE: u64 = 1_024;

/// What the producers and the run share. All orderings are Relaxed: a progress and a request, of
/// which neither orders anything.
#[derive(Debug)]
pub(crate) struct Signals {
    sent: AtomicU64,
    must_stop: AtomicBool,
    /// Passed by all at once when they are ready, and again when the clock has been read.
    pub(crate) gate: Barrier,
}

impl Signals {
    /// For so many producers.
    pub(crate) fn new(producers: u32) -> Self {
        Self {
            sent: AtomicU64::new(0),
            must_stop: AtomicBool::new(false),
            gate: Barrier::new(producers as usize + 1),
        }
    }

    /// Items sent so far, a slice at a time.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Asks the producers to send no more.
    pub(crate) fn stop(&self) {
        self.must_stop.store(true, Ordering::Relaxed);
    }
}

/// Sends a share; how much of it was accepted.
pub(crate) fn produce(share: Share, consumer: &ActorRef<Consumer>, signals: &Signals) -> u64 {
    signals.gate.wait();
    signals.gate.wait();
    let mut sent = 0;
    let (mut lane, mut sequence) = (0, 0);
    while sent < share.messages && !signals.must_stop.load(Ordering::Relaxed) {
        let end = share.messages.min(sent + SLICE);
        let first = sent;
        while sent < end {
            let item = Item {
                producer: share.producer,
                lane,
                sequence,
            };
            if consumer.tell_blocking_lane(lane as usize, item).is_err() {
                // It has ended before its time, and its account will not fit.
                return sent;
            }
            sent += 1;
            lane += 1;
            if lane == share.lanes {
                (lane, sequence) = (0, sequence + 1);
            }
        }
        signals.sent.fetch_add(sent - first, Ordering::Relaxed);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::plan::Wait;

    #[test]
    fn all_messages_are_shared_out_evenly() {
        for (messages, producers, priorities) in [(1, 1, 1), (1, 3, 2), (100, 3, 8), (7, 2, 3)] {
            let plan = Plan {
                messages,
                ring: 8,
                producers,
                priorities,
                wait: Wait::Blocking,
                idle: 0,
            };
            let shares = plan.shares();
            let sizes: Vec<u64> = shares.iter().map(|share| share.messages).collect();
            assert_eq!(sizes.iter().sum::<u64>(), messages);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            for share in shares {
                for lane in 0..priorities {
                    let sent = (0..share.messages)
                        .filter(|it| it % u64::from(priorities) == u64::from(lane));
                    assert_eq!(share.on_lane(share.messages, lane), sent.count() as u64);
                }
            }
        }
    }
}
