//! The thread of [`Policy::Dedicated`](super::Policy::Dedicated).

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use freeboard_sched::Look;

use super::{counters::By, shared::Shared, turn::Patience};

/// After so long it sees whether anybody still has the poller.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts it. It ends when another one takes its part or none is wanted, and within [`PATIENCE`] when
/// nobody else has the poller any more.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    // Ordering: Relaxed, only that no two are the same.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let watched = Arc::downgrade(shared);
    // Before the thread looks at it for the first time.
    shared.set_dedicated(number);
    let started = thread::Builder::new()
        .name("freeboard-poller".to_owned())
        .spawn(move || {
            while let Some(shared) = watched.upgrade() {
                if shared.dedicated() != number {
                    return;
                }
                let is_ended = || shared.dedicated() != number;
                let patience = Patience::For(PATIENCE);
                let look = shared.turn(By::Dedicated, patience, &is_ended, &mut || ());
                if look == Look::Taken {
                    // By a worker that is being woken.
                    thread::yield_now();
                }
            }
        });
    if started.is_err() {
        shared.set_dedicated(0);
    }
    started.map(drop)
}
