//! An actor that only computes, in pieces, for ever.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use freeboard::{Actor, Context, Handler};

use crate::{processor, spin::spin_us};

/// How long a piece takes: what a handler of some weight does.
const PIECE_US: u64 = 200;

/// Processor time of all that only compute.
#[derive(Debug, Default)]
pub(super) struct BusyTime {
    nanoseconds: AtomicU64,
}

impl BusyTime {
    pub(super) fn seconds(&self) -> f64 {
        // Ordering: Relaxed, a count.
        self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
    }
}

/// The next piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusyWork;

/// Computes.
#[derive(Debug)]
pub(super) struct BusyActor(Arc<BusyTime>);

impl BusyActor {
    pub(super) fn new(busy_time: Arc<BusyTime>) -> Self {
        Self(busy_time)
    }
}

impl Actor for BusyActor {}

impl Handler<BusyWork> for BusyActor {
    type Reply = ();

    fn handle(&mut self, _: BusyWork, cx: &mut Context<Self>) {
        let before = processor::used_by_thread();
        spin_us(PIECE_US);
        if let (Some(before), Some(after)) = (before, processor::used_by_thread()) {
            let used = u64::try_from(after.saturating_sub(before).as_nanos()).unwrap_or(u64::MAX);
            // Ordering: Relaxed, a count.
            self.0.nanoseconds.fetch_add(used, Ordering::Relaxed);
        }
        // It ends with the system.
        let _ = cx.actor_ref().tell(BusyWork);
    }
}
