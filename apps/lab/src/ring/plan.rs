//! One run of the scene, fully decided.

use super::{knobs::Wait, share::Share};

/// What the run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) messages: u64,
    /// Messages that each lane holds.
    pub(crate) ring: usize,
    pub(crate) producers: u32,
    pub(crate) priorities: u32,
    pub(crate) wait: Wait,
    /// Further consumers that get nothing, each on a thread of its own.
    pub(crate) idle: u32,
}

impl Plan {
    /// The run in a few words, unique among those that are compared.
    pub(crate) fn title(&self) -> String {
        format!("{} {}{}", self.wait.name(), self.priorities, self.beside())
    }

    /// Those that get nothing, in words.
    pub(crate) fn beside(&self) -> String {
        match self.idle {
            0 => String::new(),
            idle => format!(", beside {idle} idle"),
        }
    }

    /// What each producer sends.
    pub(crate) fn shares(&self) -> Vec<Share> {
        (0..self.producers)
            .map(|producer| Share::of(self, producer))
            .collect()
    }
}
