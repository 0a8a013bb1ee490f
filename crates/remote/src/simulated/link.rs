//! One direction of a connection: frames in order, each with the time of its arrival.

use std::collections::VecDeque;

/// The seeded numbers of a simulation.
#[derive(Debug)]
pub(super) struct Random {
    seed: u64,
    turn: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, turn: 0 }
    }

    /// A number below `limit`; 0 for a limit of 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.turn += 1;
        let number = freeboard_flow::random::number(self.seed, self.turn);
        freeboard_flow::random::below(number, limit as usize) as u64
    }

    pub(super) fn is_heads(&mut self) -> bool {
        self.below(2) == 0
    }
}

struct Frame<F> {
    due_ns: u64,
    bytes: usize,
    content: F,
}

/// Frames under way. A step of the executor takes one; the next step is set when its callback has returned, so that a
/// callback that waits holds the later frames back.
pub(super) struct Link<F> {
    frames: VecDeque<Frame<F>>,
    bytes: usize,
    last_due_ns: u64,
    /// A step that takes a frame is set, or runs.
    pub(super) is_scheduled: bool,
}

impl<F> Default for Link<F> {
    fn default() -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            last_due_ns: 0,
            is_scheduled: false,
        }
    }
}

impl<F> Link<F> {
    pub(super) fn push(&mut self, due_ns: u64, bytes: usize, content: F) {
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.bytes += bytes;
        self.frames.push_back(Frame {
            due_ns: self.last_due_ns,
            bytes,
            content,
        });
    }

    pub(super) fn pop(&mut self) -> Option<F> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes;
        Some(frame.content)
    }

    /// The arrival of the next frame.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.frames.front().map(|frame| frame.due_ns)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The connection breaks: by the seed all frames are lost, or only the last ones.
    pub(super) fn lose(&mut self, random: &mut Random) {
        let kept = match random.is_heads() {
            true => 0,
            false => random.below(self.frames.len() as u64 + 1) as usize,
        };
        self.frames.truncate(kept);
        self.bytes = self.frames.iter().map(|frame| frame.bytes).sum();
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }
}
