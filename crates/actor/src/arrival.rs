//! When a message arrived, as the mark that travels with it in its lane.

use freeboard_meter::clock;
use freeboard_queue::PLAIN_MARK;

/// One message in so many carries its time of arrival and has its handling timed.
const SAMPLE_EVERY: u64 = 128;

/// The time of arrival as a mark; the inverse of [`arrived_ns`].
pub(crate) fn arrival_mark(index: u64) -> u64 {
    // The last of each run, so that an actor with few messages never pays for histograms.
    if index % SAMPLE_EVERY == SAMPLE_EVERY - 1 {
        clock::now_ns() << 1 | PLAIN_MARK
    } else {
        PLAIN_MARK
    }
}

/// When a sampled message arrived.
pub(crate) fn arrived_ns(mark: u64) -> Option<u64> {
    (mark != PLAIN_MARK).then_some(mark >> 1)
}
