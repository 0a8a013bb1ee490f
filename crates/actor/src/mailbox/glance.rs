//! What a lane looks like from afar.

use super::{MailboxLane, Special};

impl MailboxLane {
    /// Messages queued and accepted a moment ago: waits for nobody, not even for a lock.
    pub(crate) fn glance(&self) -> (u64, u64) {
        match self.special.as_deref() {
            Some(Special::Locked(lane)) => lane.glance(),
            _ => (self.depth(), self.accepted()),
        }
    }

    /// The most it has held. `is_running`: `depth` may count what the present batch has handled already.
    pub(crate) fn high_water(&self, depth: u64, is_running: bool) -> u64 {
        let seen = if is_running { 0 } else { depth };
        self.gauges.high_water.get().max(seen)
    }
}
