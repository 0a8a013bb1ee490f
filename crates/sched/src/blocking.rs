//! Blocking sections: code that may block its thread. A scheduler can refuse them.
//!
//! A worker that enters a section first hands over its worker slot, so a thread in a section is never a worker. Each
//! worker slot that had a thread keeps one outside any section, which can run the task that the blocked ones wait for
//! (`worker_slots/README.md`, 7).

use std::marker::PhantomData;

use crate::worker::Worker;

/// No thread is available to run other tasks while this one blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no thread is left to run other tasks while this one blocks")]
pub struct NoThread;

/// While it exists, the calling thread may block. See [`enter_blocking`].
#[must_use = "the section lasts until it is dropped"]
#[derive(Debug)]
pub struct BlockingSection {
    /// A section belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Begins a section in which the calling thread may block. On a worker in a run, of any scheduler, it first hands over
/// the worker slot and the queue to another thread; on other threads nothing changes. Sections may be nested.
///
/// # Errors
/// [`NoThread`] if no other thread is available: all allowed threads are in use, or the system refuses to start one.
/// Then nothing has changed.
pub fn enter_blocking() -> Result<BlockingSection, NoThread> {
    if Worker::with_any(Worker::give_slot_away) == Some(false) {
        return Err(NoThread);
    }
    Worker::with_any(Worker::count_blocking_call);
    Ok(BlockingSection {
        thread: PhantomData,
    })
}
