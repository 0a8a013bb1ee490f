//! The pause before a delivery is offered again to an inbox without room.

use std::time::Duration;

use freeboard::flow::Backoff;

/// From half a millisecond to 20 ms: a mailbox without room is looked at often enough to stay busy.
const PAUSES: Backoff = Backoff {
    min_ns: 500_000,
    max_ns: 20_000_000,
    factor: 2,
};

/// After so many refusals in a row.
pub(super) const fn pause(refusals: u32) -> Duration {
    Duration::from_nanos(PAUSES.delay_ns(refusals))
}
