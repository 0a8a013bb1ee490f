//! Sections of code that block their thread, and that a scheduler can refuse.
//!
//! A worker that enters one gives its place to another thread first, so a thread in a section never
//! has a place. Each place that had a thread has one still, which is in no section: it is left to run
//! the task that the blocked ones wait for (`places/README.md`, 7).

use std::marker::PhantomData;

use crate::worker::Worker;

/// No thread can be had that would run other tasks while this one blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no thread is left to run other tasks while this one blocks")]
pub struct NoThread;

/// The calling thread may block. See [`enter_blocking`].
#[must_use = "the section lasts until it is dropped"]
#[derive(Debug)]
pub struct BlockingSection {
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Begins a section in which the calling thread may block. On a worker in a run, of any scheduler, the
/// worker's place and its queue go to another thread first; on other threads nothing changes. Sections
/// may be nested.
///
/// # Errors
/// [`NoThread`] if the worker would be the last thread for its place: all threads allowed are in use,
/// or the system refuses to start one. Nothing has changed then.
pub fn enter_blocking() -> Result<BlockingSection, NoThread> {
    if Worker::with_any(Worker::give_place_away) == Some(false) {
        return Err(NoThread);
    }
    Worker::with_any(Worker::count_blocking_call);
    Ok(BlockingSection {
        thread: PhantomData,
    })
}
