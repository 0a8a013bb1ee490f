//! The frames of the last second, for rates, and the queue lengths of the last minutes.
//!
//! Rates are computed over about a second, whatever the frame rate: over less they would flicker. The history
//! starts again with another board or system, and after a gap.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Frame;

/// The time over which rates are computed.
const SPAN_NS: u64 = 1_000_000_000;
/// No rates are computed across a longer gap.
const GAP_NS_MAX: u64 = 15_000_000_000;
/// The most frames that are kept.
const FRAMES_MAX: usize = 32;
/// The most lengths that are kept of each queue.
const LENGTHS_MAX: usize = 120;
/// The most queues whose lengths are kept.
const QUEUES_MAX: usize = 1_024;

/// The previous frames.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The oldest first.
    frames: VecDeque<Arc<Frame>>,
    /// By worker, the oldest length first.
    queues: Vec<VecDeque<u64>>,
}

impl History {
    /// Adds the next frame.
    pub(crate) fn take(&mut self, frame: &Arc<Frame>) {
        if let Some(last) = self.frames.back() {
            let follows = last.board == frame.board
                && name(last) == name(frame)
                && frame.at_ns >= last.at_ns
                && frame.at_ns - last.at_ns <= GAP_NS_MAX;
            if !follows {
                *self = Self::default();
            } else if frame.at_ns == last.at_ns {
                self.frames.pop_back();
                self.frames.push_back(frame.clone());
                return;
            }
        }
        self.frames.push_back(frame.clone());
        while self.frames.len() > FRAMES_MAX
            || (self.frames.len() > 2 && frame.at_ns - self.frames[1].at_ns >= SPAN_NS)
        {
            self.frames.pop_front();
        }
        let workers = frame.system.as_ref().map(|system| &system.workers[..]);
        let workers = workers.unwrap_or_default();
        self.queues
            .resize_with(workers.len().min(QUEUES_MAX), VecDeque::new);
        for (lengths, worker) in self.queues.iter_mut().zip(workers) {
            if lengths.len() == LENGTHS_MAX {
                lengths.pop_front();
            }
            lengths.push_back(worker.queue_depth);
        }
    }

    /// From the oldest frame to the latest.
    pub(crate) fn span(&self) -> Option<Span<'_>> {
        Span::new(self.frames.front()?, self.frames.back()?)
    }

    /// The latest `number` lengths of a worker's queue, the oldest first.
    pub(crate) fn queue(&self, worker: usize, number: usize) -> impl Iterator<Item = u64> {
        let lengths = self.queues.get(worker);
        let skipped = lengths.map_or(0, |lengths| lengths.len().saturating_sub(number));
        lengths.into_iter().flatten().skip(skipped).copied()
    }
}

/// The time between two frames of one board, for rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) earlier: &'a Frame,
    seconds: f64,
}

impl<'a> Span<'a> {
    /// `None` if the frames have the same time.
    pub(crate) fn new(earlier: &'a Frame, later: &Frame) -> Option<Self> {
        let ns = later.at_ns.checked_sub(earlier.at_ns)?;
        (ns > 0).then(|| Self {
            earlier,
            seconds: ns as f64 / 1e9,
        })
    }

    /// The rate of a counter; `None` if it was reset.
    pub(crate) fn rate(&self, earlier: u64, later: u64) -> Option<f64> {
        let growth = later.checked_sub(earlier)?;
        Some(growth as f64 / self.seconds)
    }

    /// The rate of a counter of a source.
    pub(crate) fn rate_of(&self, earlier: f64, later: f64) -> Option<f64> {
        (later >= earlier).then(|| (later - earlier) / self.seconds)
    }
}

fn name(frame: &Frame) -> Option<&str> {
    frame.system.as_ref().map(|system| system.name.as_str())
}
