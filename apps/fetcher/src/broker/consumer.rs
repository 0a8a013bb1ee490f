//! A consumer's end that its owner holds.

/// Takes from a queue until it is dropped. From then on nothing more is offered, but for what is being
/// offered at that moment, and what was not settled comes again to others.
#[must_use = "dropping it ends it"]
pub struct Consumer {
    stop: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Consumer {
    pub(super) fn new(stop: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self {
            stop: Some(Box::new(stop)),
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Consumer")
    }
}
