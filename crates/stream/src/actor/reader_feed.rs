//! Sends the records of a stream to an actor, with credit.

use std::{
    io,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{ReadError, ReaderStop, Record, RecordRef, StreamReader};
use freeboard_actor::{ActorRef, Receives};
use freeboard_flow::Credit;
use freeboard_platform::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
};

/// How long the feed waits for a record before it checks whether it was stopped.
const WAIT: Duration = Duration::from_millis(100);

/// A record of a stream, for an actor. When it is dropped, handled or not, the feed may send another one: keep it while
/// you work on the record.
#[derive(Debug)]
pub struct Recorded {
    /// The record.
    pub record: Record,
    _credit: Taken,
}

/// Reads a stream and tells an actor its records, in order. At most `window` records are sent and not yet dropped by the
/// actor. Reading files blocks, so the feed has a thread.
///
/// It follows the stream until it is stopped or dropped, the actor terminates, or a record cannot be read.
#[derive(Debug)]
pub struct ReaderFeed {
    window: Arc<Window>,
    thread: Option<JoinHandle<FeedEnd>>,
}

/// Why a feed has terminated.
#[derive(Debug)]
#[non_exhaustive]
pub enum FeedEnd {
    /// It was stopped.
    Stopped,
    /// The actor takes no more messages.
    ActorEnded,
    /// A record could not be read.
    Failed(ReadError),
    /// Its thread panicked.
    Panicked,
}

impl ReaderFeed {
    /// Begins to feed `actor` from the position of `reader`.
    ///
    /// # Errors
    ///
    /// The thread could not be started.
    ///
    /// # Panics
    ///
    /// If the window is 0.
    pub fn start<A>(reader: StreamReader, actor: ActorRef<A>, window: u64) -> io::Result<Self>
    where
        A: Receives<Recorded>,
    {
        assert!(window > 0, "a window of 0 lets nothing through");
        let window = Arc::new(Window {
            credit: Mutex::new(Credit::new(window)),
            changed: Condvar::new(),
            stop: reader.stop_handle(),
            sent: AtomicU64::new(0),
        });
        let feeding = window.clone();
        let thread = thread::Builder::new()
            .name("stream-feed".to_owned())
            .spawn(move || feeding.feed(reader, &actor))?;
        Ok(Self {
            window,
            thread: Some(thread),
        })
    }

    /// How many records were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        // Ordering: Relaxed, a figure.
        self.window.sent.load(Ordering::Relaxed)
    }

    /// How many records were sent and are not yet dropped.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.window.lock().outstanding()
    }

    /// Whether it has terminated by itself; [`stop`](Self::stop) says why.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it, waits until it has terminated, and says why it did. Do not call this from the actor that it feeds: it
    /// may be waiting for capacity in that actor's mailbox.
    #[must_use]
    pub fn stop(mut self) -> FeedEnd {
        self.window.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(end)) => end,
            Some(Err(_)) => FeedEnd::Panicked,
            None => FeedEnd::Stopped,
        }
    }
}

impl Drop for ReaderFeed {
    /// Stops it without waiting: it may be telling a record to the very actor that drops it, whose mailbox is full.
    fn drop(&mut self) {
        self.window.stop();
    }
}

/// The window of a feed, shared with its thread and with the records that were sent.
#[derive(Debug)]
struct Window {
    credit: Mutex<Credit>,
    changed: Condvar,
    stop: ReaderStop,
    sent: AtomicU64,
}

impl Window {
    fn lock(&self) -> MutexGuard<'_, Credit> {
        self.credit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for credit, and takes it; `None` once the feed is stopped.
    fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut credit = self.lock();
        while !self.stop.is_stopped() {
            if credit.try_take(1) {
                return Some(Taken(self.clone()));
            }
            let changed = self.changed.wait(credit);
            credit = changed.unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn stop(&self) {
        self.stop.stop();
        // With the lock, so that it does not come between the check and the wait.
        let _credit = self.lock();
        self.changed.notify_all();
    }

    fn feed<A>(self: &Arc<Self>, mut reader: StreamReader, actor: &ActorRef<A>) -> FeedEnd
    where
        A: Receives<Recorded>,
    {
        loop {
            // Before the record: a record in hand whose credit never comes would be lost with it.
            let Some(credit) = self.take() else {
                return FeedEnd::Stopped;
            };
            let record = loop {
                let record = reader.wait_next(WAIT);
                match record.map(|record| record.map(RecordRef::to_record)) {
                    Ok(Some(record)) => break record,
                    Ok(None) if self.stop.is_stopped() => return FeedEnd::Stopped,
                    Ok(None) => {}
                    Err(error) => return FeedEnd::Failed(error),
                }
            };
            let recorded = Recorded {
                record,
                _credit: credit,
            };
            if actor.tell(recorded).is_err() {
                return FeedEnd::ActorEnded;
            }
            // Ordering: Relaxed, a figure with one writer.
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Credit that is given back when it is dropped.
#[derive(Debug)]
struct Taken(Arc<Window>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.lock().give_back(1);
        self.0.changed.notify_one();
    }
}
