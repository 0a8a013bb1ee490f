//! Connections that have not brought a whole request: when all places are taken, the oldest makes way for the next.
//!
//! Otherwise whoever opens connections and says nothing would lock everybody else out for
//! [`BoardOptions::patience`](crate::BoardOptions::patience), without a token.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// By age.
#[derive(Clone, Debug, Default)]
pub(super) struct Silent(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    calls: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One of them, until its first request or its end.
#[derive(Debug)]
pub(super) struct Silence {
    among: Silent,
    number: u64,
}

impl Silent {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest. It has to end when the receiver says so.
    pub(super) fn enter(&self) -> (Silence, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.calls.insert(number, sender);
        let among = self.clone();
        (Silence { among, number }, receiver)
    }

    /// Has the oldest end, if there is one.
    pub(super) fn close_oldest(&self) -> bool {
        let oldest = self.lock().calls.pop_first();
        // One that has just ended gives up its place as well.
        oldest.map(|(_, call)| call.send(())).is_some()
    }
}

impl Silence {
    /// A whole request has come. `false` if it came too late: the connection has to end.
    pub(super) fn end(&self) -> bool {
        self.among.lock().calls.remove(&self.number).is_some()
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.end();
    }
}
