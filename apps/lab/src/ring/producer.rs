//! A producer: a thread that tells its share, one item at a time, and waits while a lane is full.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use freeboard::ActorRef;

use super::{
    consumer::{Consumer, Item},
    share::Share,
};

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
