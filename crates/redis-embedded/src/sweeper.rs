//! Removes keys that are over and that nobody looks at.

use std::{sync::Arc, time::Duration};

use freeboard_actor::{Actor, Context};

use crate::{clock, store::Common};

/// Between two turns, and while there are no keys.
const PERIOD: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(1);
/// Keys that are looked at under one lock, a few microseconds' work.
const KEYS_MAX: usize = 1_024;
/// Looks of one turn, as long as a quarter of what they see is over: as Redis' sweep of expired keys.
const LOOKS_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct Sweeper {
    common: Arc<Common>,
}

impl Sweeper {
    pub(crate) const fn new(common: Arc<Common>) -> Self {
        Self { common }
    }

    fn sweep(&mut self, cx: &mut Context<Self>) {
        let mut period = PERIOD;
        for _ in 0..LOOKS_MAX {
            let mut store = self.common.store.lock();
            let swept = store.keyspace.sweep(KEYS_MAX, clock::now_ms());
            drop(store);
            if swept.seen == 0 {
                period = REST;
            }
            if swept.expired * 4 <= swept.seen {
                break;
            }
        }
        // Without a timer what is over is removed when it is looked at, or has to make way.
        let _ = cx.wake_after(period, Self::sweep);
    }
}

impl Actor for Sweeper {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.sweep(cx);
    }
}
