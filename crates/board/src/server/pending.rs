//! Connections that have not sent a complete request. When no permit is free, the oldest is closed for the next.
//!
//! Otherwise a client without a token could open connections, send nothing and lock out all others for
//! [`BoardOptions::patience`](crate::BoardOptions::patience).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// By age.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingConnections(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    calls: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One of them, until its first request or its end.
#[derive(Debug)]
pub(super) struct PendingConnection {
    among: PendingConnections,
    number: u64,
}

impl PendingConnections {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. It must close when the receiver fires.
    pub(super) fn enter(&self) -> (PendingConnection, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.calls.insert(number, sender);
        let among = self.clone();
        (PendingConnection { among, number }, receiver)
    }

    /// Signals the oldest to close; `false` if there is none.
    pub(super) fn close_oldest(&self) -> bool {
        let oldest = self.lock().calls.pop_first();
        // A connection that has just ended releases its permit as well.
        oldest.map(|(_, call)| call.send(())).is_some()
    }
}

impl PendingConnection {
    /// Called with its first complete request. `false` if it was signalled before: it must close.
    pub(super) fn end(&self) -> bool {
        self.among.lock().calls.remove(&self.number).is_some()
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.end();
    }
}
