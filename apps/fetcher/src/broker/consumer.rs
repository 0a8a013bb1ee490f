//! A consumer's end that its owner holds.

/// Takes from a queue until it is dropped. From then on nothing more is offered, but for what is being
/// offered at that moment, and what was not settled comes again to others.
#[must_use = "dropping it ends it"]
pub struct Consumer {
    ends: Box<dyn Ends>,
}

/// The two ways in which a consumer ends. Neither blocks.
pub(super) trait Ends: Send + Sync {
    /// Takes nothing more; what is in its hands can still be settled.
    fn pause(&self);
    /// Ends.
    fn stop(&self);
}

impl Consumer {
    pub(super) fn new(ends: impl Ends + 'static) -> Self {
        Self {
            ends: Box::new(ends),
        }
    }

    /// Takes nothing more from now on, but what was taken can still be settled: the first half of an orderly
    /// end. What is being offered at this moment may still come. What the inbox has no room for goes back to
    /// the queue, and so does what cannot be put off or dead-lettered at the moment.
    pub fn pause(&self) {
        self.ends.pause();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.ends.stop();
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Consumer")
    }
}
