//! The registration of a socket with the poller.

use std::{io, sync::Arc};

use freeboard_meter::now_ns;
use mio::{Interest, event};

use super::{
    shared::Shared,
    source::{Ready, Source},
};

/// The registration of a socket with the poller; its drop ends it. Keep it beside the socket: closing the socket ends the
/// registration with the kernel.
pub struct Registration {
    shared: Arc<Shared>,
    source: Arc<Source>,
    key: usize,
}

impl Registration {
    pub(crate) fn new(shared: Arc<Shared>, source: Arc<Source>, key: usize) -> Self {
        Self {
            shared,
            source,
            key,
        }
    }

    /// The readiness since the last call. The owner is called again for later events.
    pub fn take(&self) -> Ready {
        if let Some(called_ns) = self.source.settle() {
            self.shared
                .counters
                .count_run(now_ns().saturating_sub(called_ns));
        }
        self.source.take()
    }

    /// Changes the interest. Readiness that exists already is reported again.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_interest(
        &self,
        socket: &mut impl event::Source,
        interest: Interest,
    ) -> io::Result<()> {
        let token = self.source.token(self.key);
        self.shared.reregister(socket, token, interest)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.source.settle().is_some() {
            self.shared.counters.count_dropped();
        }
        self.shared.remove(self.key);
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Registration")
            .field(&self.key)
            .finish()
    }
}
