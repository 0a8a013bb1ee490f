//! Records as messages to an actor, with credit.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{ReadError, ReaderStop, RecordRef, StreamReader};
use freeboard_actor::{ActorRef, Receives};

use super::recorded::{Recorded, Window};

/// How long it waits for a record before it looks whether it is to end.
const WAIT: Duration = Duration::from_millis(100);

/// Reads a stream and tells an actor its records, in order, at most `window` of which are under way at
/// once: sent, and not yet dropped by the actor. Reading files blocks, so it has a thread.
///
/// It follows the stream until it is stopped or dropped, the actor ends, or a record cannot be read.
#[derive(Debug)]
pub struct ReaderFeed {
    shared: Arc<Shared>,
    stop: ReaderStop,
    thread: Option<JoinHandle<FeedEnd>>,
}

/// Why a feed has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum FeedEnd {
    /// It was stopped.
    Stopped,
    /// The actor takes no messages any more.
    ActorEnded,
    /// A record could not be read.
    Failed(ReadError),
    /// Its thread panicked.
    Panicked,
}

#[derive(Debug)]
struct Shared {
    window: Arc<Window>,
    is_stopped: AtomicBool,
    sent: AtomicU64,
}

impl ReaderFeed {
    /// Begins to feed `actor` from where `reader` is.
    ///
    /// # Errors
    ///
    /// The thread could not be started.
    ///
    /// # Panics
    ///
    /// If the window is 0, which would let nothing through.
    pub fn start<A>(reader: StreamReader, actor: ActorRef<A>, window: u64) -> io::Result<Self>
    where
        A: Receives<Recorded>,
    {
        assert!(window > 0, "a window of 0 lets nothing through");
        let stop = reader.stop_handle();
        let shared = Arc::new(Shared {
            window: Window::new(window),
            is_stopped: AtomicBool::new(false),
            sent: AtomicU64::new(0),
        });
        let feeding = shared.clone();
        let thread = thread::Builder::new()
            .name("stream-feed".to_owned())
            .spawn(move || feeding.feed(reader, &actor))?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// How many records were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        // Ordering: Relaxed, a figure.
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// How many of them are under way.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.shared.window.outstanding()
    }

    /// Whether it has ended by itself; [`stop`](Self::stop) says why.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, waits for that, and says why it ended. Not for the actor that it feeds: it may be waiting
    /// for room in that one's mailbox.
    #[must_use]
    pub fn stop(mut self) -> FeedEnd {
        self.end()
    }

    fn call_off(&self) {
        // Ordering: Relaxed, the window's lock and the reader's come after it.
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        self.stop.stop();
        self.shared.window.notify();
    }

    fn end(&mut self) -> FeedEnd {
        self.call_off();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(end)) => end,
            Some(Err(_)) => FeedEnd::Panicked,
            None => FeedEnd::Stopped,
        }
    }
}

impl Drop for ReaderFeed {
    /// Has it end, and does not wait for that: it may be telling a record to the very actor that drops
    /// it, whose mailbox is full.
    fn drop(&mut self) {
        self.call_off();
    }
}

impl Shared {
    fn is_stopped(&self) -> bool {
        // Ordering: Relaxed, as above.
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn feed<A>(&self, mut reader: StreamReader, actor: &ActorRef<A>) -> FeedEnd
    where
        A: Receives<Recorded>,
    {
        loop {
            // Before the record: a record in hand whose credit never comes would be lost with it.
            let Some(credit) = self.window.take(|| self.is_stopped()) else {
                return FeedEnd::Stopped;
            };
            let record = loop {
                match reader
                    .wait_next(WAIT)
                    .map(|record| record.map(RecordRef::to_record))
                {
                    Ok(Some(record)) => break record,
                    Ok(None) if self.is_stopped() => return FeedEnd::Stopped,
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
