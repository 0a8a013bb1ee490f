//! A socket's place at the poller.

use std::{io, sync::Arc};

use freeboard_meter::now_ns;
use mio::{Interest, event};

use super::{ready::Ready, shared::Shared, source::Source};

/// A socket's place at the poller, given up when it is dropped. Keep it beside the socket: closing the
/// socket ends the watching.
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

    /// What was found since the last time; the owner is called again for what is found from now on.
    pub fn take(&self) -> Ready {
        if let Some(found_ns) = self.source.settle() {
            self.shared.counters.ran(now_ns().saturating_sub(found_ns));
        }
        self.source.take()
    }

    /// Watches its socket for what `interest` says from now on. What is ready already counts as news.
    ///
    /// # Errors
    /// What the system says.
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
            self.shared.counters.dropped();
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
