//! The handle that producers hold.

use std::{
    any::Any,
    future::poll_fn,
    io,
    path::Path,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use freeboard_platform::{
    planted,
    sync::Mutex,
    thread::{self, JoinHandle},
};

use crate::{
    head::Head,
    snapshot::{SnapshotError, SnapshotWriter, write_snapshot},
    storage::Storage,
};

use super::{
    batch::Hurry,
    consumers::ConsumerError,
    error::{AppendError, AppendManyError, CloseError, TicketError},
    metrics::StreamSnapshot,
    segment_pool::time_ns,
    shard::Shard,
    shared::{Attempt, Sequences, Shared},
    sync_mode::SyncMode,
    ticket::{Ticket, Unpark},
    writer_state::Phase,
};

/// Records that `append_many` appends under one lock.
const RECORDS_A_LOCK: usize = 256;

/// A stream that is open for writing. Each handle is a producer: records of one handle keep their order, and
/// each clone fills another of the stream's pages, so give each thread or actor its own.
///
/// The stream is closed by [`close`](StreamWriter::close), or when the last handle is dropped.
#[derive(Debug)]
pub struct StreamWriter {
    open: Arc<OpenStream>,
    shard: usize,
}

/// Closed with the last handle.
#[derive(Debug)]
struct OpenStream {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
    handles: AtomicUsize,
}

impl StreamWriter {
    pub(super) fn new(
        shared: Arc<Shared>,
        threads: Vec<JoinHandle<()>>,
        lock: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            open: Arc::new(OpenStream {
                shared,
                threads: Mutex::new(threads),
                lock: Mutex::new(Some(lock)),
                handles: AtomicUsize::new(1),
            }),
            shard: 0,
        }
    }

    fn shared(&self) -> &Shared {
        &self.open.shared
    }

    fn shard(&self) -> &Shard {
        &self.shared().shards[self.shard]
    }

    /// Appends a record. Under [`Overload::Wait`](freeboard_flow::Overload::Wait) it blocks while
    /// memory is full.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; the record was not accepted then.
    pub fn append(&self, payload: &[u8]) -> Result<Ticket, AppendError> {
        loop {
            match self.attempt(payload, unpark_this_thread)? {
                Attempt::Done(ticket) => return Ok(ticket),
                Attempt::Wait => thread::park(),
            }
        }
    }

    /// Appends a record, and waits without blocking while memory is full.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; the record was not accepted then.
    pub async fn append_async(&self, payload: &[u8]) -> Result<Ticket, AppendError> {
        poll_fn(|context| {
            Poll::Ready(match self.attempt(payload, || context.waker().clone()) {
                Ok(Attempt::Wait) => return Poll::Pending,
                Ok(Attempt::Done(ticket)) => Ok(ticket),
                Err(error) => Err(error),
            })
        })
        .await
    }

    /// Appends records, one lock for up to 256; blocks while memory is full. The ticket is the last
    /// one's: when it is durable, all are. Of no records, it is resolved already. Other producers of the
    /// same buffer may come in between, and `records` is asked for the next ones without a lock.
    ///
    /// # Errors
    ///
    /// The first record that was not accepted ends it; those before it were.
    pub fn append_many<R: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Result<Ticket, AppendManyError> {
        let (shared, shard) = (self.shared(), self.shard());
        let mut records = records.into_iter();
        let mut some = Vec::new();
        let mut last = None;
        let mut appended = 0;
        loop {
            some.extend(records.by_ref().take(RECORDS_A_LOCK));
            if some.is_empty() {
                break;
            }
            let mut filling = shard.lock();
            for record in &some {
                loop {
                    let attempt =
                        shared.append(shard, &mut filling, record.as_ref(), unpark_this_thread);
                    match attempt {
                        Ok(Attempt::Done(ticket)) => {
                            last = Some(ticket);
                            appended += 1;
                            break;
                        }
                        Ok(Attempt::Wait) => {
                            drop(filling);
                            thread::park();
                            filling = shard.lock();
                        }
                        Err(error) => {
                            return Err(AppendManyError {
                                appended,
                                ticket: last,
                                error,
                            });
                        }
                    }
                }
            }
            drop(filling);
            some.clear();
        }
        let durable = self.sequences().durable;
        Ok(last.unwrap_or_else(|| Ticket::settled(Ok(durable))))
    }

    /// Appends records as one batch: after any crash, and for any reader, all of them are there or none. Their sequences
    /// follow each other. The ticket resolves to the last one's. Blocks while memory is full; of no records, the ticket
    /// is resolved already.
    ///
    /// A batch is a part of one chunk, which recovery keeps or cuts off as a whole.
    /// [`salvage`](crate::salvage) hands over whole records of a damaged chunk, and so parts of a batch.
    ///
    /// # Errors
    ///
    /// See [`AppendError`]; no record was accepted then. [`AppendError::BatchTooLarge`] if they take more than half of
    /// the stream's memory or [`BATCH_BYTES_LIMIT`](crate::BATCH_BYTES_LIMIT).
    pub fn append_batch<R: AsRef<[u8]>>(&self, records: &[R]) -> Result<Ticket, AppendError> {
        let records: Vec<&[u8]> = records.iter().map(AsRef::as_ref).collect();
        if planted!("batch-in-parts") && !records.is_empty() {
            let tickets = records.iter().map(|record| {
                thread::yield_now();
                self.append(record)
            });
            return tickets
                .reduce(|_, last| last)
                .expect("a batch has a record");
        }
        loop {
            match self.attempt_batch(&records, unpark_this_thread)? {
                Attempt::Done(ticket) => return Ok(ticket),
                Attempt::Wait => thread::park(),
            }
        }
    }

    /// As [`append_batch`](Self::append_batch), and waits without blocking while memory is full.
    ///
    /// # Errors
    ///
    /// As [`append_batch`](Self::append_batch).
    pub async fn append_batch_async<R: AsRef<[u8]>>(
        &self,
        records: &[R],
    ) -> Result<Ticket, AppendError> {
        let records: Vec<&[u8]> = records.iter().map(AsRef::as_ref).collect();
        poll_fn(|context| {
            Poll::Ready(
                match self.attempt_batch(&records, || context.waker().clone()) {
                    Ok(Attempt::Wait) => return Poll::Pending,
                    Ok(Attempt::Done(ticket)) => Ok(ticket),
                    Err(error) => Err(error),
                },
            )
        })
        .await
    }

    fn attempt_batch(
        &self,
        records: &[&[u8]],
        waker: impl FnOnce() -> Waker,
    ) -> Result<Attempt, AppendError> {
        if records.is_empty() {
            let ticket = Ticket::settled(Ok(self.sequences().durable));
            return Ok(Attempt::Done(ticket));
        }
        let shard = self.shard();
        self.shared()
            .append_batch(shard, &mut shard.lock(), records, waker)
    }

    #[inline]
    fn attempt(
        &self,
        payload: &[u8],
        waker: impl FnOnce() -> Waker,
    ) -> Result<Attempt, AppendError> {
        let shard = self.shard();
        self.shared()
            .append(shard, &mut shard.lock(), payload, waker)
    }

    /// Asks for a write of what was accepted, and waits for nothing. While a write is in flight, the next one takes
    /// everything that has gathered. Without it, records that no caller waits for stay for up to twice
    /// [`StreamOptions::flush_after`](crate::StreamOptions::flush_after).
    pub fn request_write(&self) {
        self.shared().demand();
    }

    /// Waits until everything that was accepted so far, from every producer, is durable in the
    /// stream's mode; returns the last sequence that is.
    ///
    /// # Errors
    ///
    /// The first failure among it.
    pub fn flush(&self) -> Result<u64, TicketError> {
        for ticket in self.last_tickets() {
            ticket.wait()?;
        }
        Ok(self.flushed())
    }

    /// As [`flush`](Self::flush), without blocking.
    ///
    /// # Errors
    ///
    /// The first failure among it.
    pub async fn flush_async(&self) -> Result<u64, TicketError> {
        for ticket in self.last_tickets() {
            ticket.await?;
        }
        Ok(self.flushed())
    }

    /// A ticket of each shard's last batch; when they are resolved, all before them is.
    fn last_tickets(&self) -> Vec<Ticket> {
        let shared = self.shared();
        let shards = shared.shards.iter();
        let last = shards
            .filter_map(|shard| shard.lock().last.clone())
            .map(|batch| Ticket::new(batch, 0))
            .collect();
        shared.want_sync();
        last
    }

    fn flushed(&self) -> u64 {
        let sequences = self.sequences();
        match self.shared().options.sync {
            SyncMode::None => sequences.written,
            _ => sequences.durable,
        }
    }

    /// How far the stream has come.
    #[must_use]
    pub fn sequences(&self) -> Sequences {
        self.shared().sequences()
    }

    /// Tells retention that a reader has acknowledged all records up to this one.
    pub fn acknowledge(&self, sequence: u64) {
        self.shared().segment_pool.acknowledge(sequence);
    }

    /// Notes durably that the consumer `name` has acknowledged all records up to `sequence`; 0 makes it known before its
    /// first record. A position never falls, but to the stream's end: when a truncation or a power failure has removed
    /// records. Retention keeps the records after it, except for its limit of bytes. Returns the consumer's position.
    ///
    /// It waits for a synchronous write of 4 KiB. A stream without records, when opened again, is a new one without
    /// consumers.
    ///
    /// # Errors
    ///
    /// See [`ConsumerError`]: there are [`CONSUMERS_MAX`](crate::CONSUMERS_MAX) others, the record is not durable, or the
    /// write failed.
    pub fn acknowledge_as(&self, name: &str, sequence: u64) -> Result<u64, ConsumerError> {
        let shared = self.shared();
        let durable = self.flushed();
        if sequence > durable {
            return Err(ConsumerError::NotDurable { sequence, durable });
        }
        let (storage, pool) = (shared.storage.as_ref(), &shared.segment_pool);
        let position = shared
            .consumers
            .acknowledge(storage, pool, name, sequence)?;
        shared.check_epoch()?;
        Ok(position)
    }

    /// Writes the state of a store after the record `sequence` to a file beside the stream, atomically: after a crash it is
    /// whole or not there. It is durable when this returns. `write` writes the state; this thread runs it and holds no
    /// lock. The newest [`SNAPSHOTS_KEPT`](crate::SNAPSHOTS_KEPT) snapshots are kept. A truncation before `sequence`
    /// removes the snapshot.
    ///
    /// Returns the last record that no kept snapshot needs, 0 if they need all. Pass it to
    /// [`acknowledge`](Self::acknowledge) or [`acknowledge_as`](Self::acknowledge_as), and retention can remove the
    /// segments before.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]. The earlier snapshots are still there then. In mode none no record is durable before the
    /// stream is closed, so that no snapshot is possible.
    pub fn write_snapshot(
        &self,
        sequence: u64,
        write: impl FnOnce(&mut SnapshotWriter) -> io::Result<()>,
    ) -> Result<u64, SnapshotError> {
        /// Ends also by a panic of the caller's code.
        struct Busy<'a>(&'a AtomicBool);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                // Ordering: Release pairs with the Acquire of the next one: the files are this one's no longer.
                self.0.store(false, Ordering::Release);
            }
        }
        let durable = self.sequences().durable;
        if sequence > durable {
            return Err(SnapshotError::NotDurable { sequence, durable });
        }
        let shared = self.shared();
        // Ordering: Acquire, as above.
        if shared.is_snapshotting.swap(true, Ordering::Acquire) {
            return Err(SnapshotError::Busy);
        }
        let _busy = Busy(&shared.is_snapshotting);
        let sealer = shared.segment_pool.sealer();
        let needed = write_snapshot(
            shared.storage.as_ref(),
            &sealer,
            (sequence, time_ns()),
            write,
        )?;
        let checked = shared.check_epoch();
        checked.map_err(SnapshotError::io("write a snapshot"))?;
        Ok(needed)
    }

    /// The named consumers, and the last record that each has acknowledged.
    #[must_use]
    pub fn consumers(&self) -> Vec<(String, u64)> {
        self.shared().consumers.list()
    }

    /// Forgets a consumer, durably. Returns whether there was one of this name.
    ///
    /// # Errors
    ///
    /// [`ConsumerError::Io`]: it may be there after a crash.
    pub fn remove_consumer(&self, name: &str) -> Result<bool, ConsumerError> {
        let shared = self.shared();
        let (storage, pool) = (shared.storage.as_ref(), &shared.segment_pool);
        let is_removed = shared.consumers.remove(storage, pool, name)?;
        shared.check_epoch()?;
        Ok(is_removed)
    }

    /// The state and the counters of the stream.
    #[must_use]
    pub fn snapshot(&self) -> StreamSnapshot {
        self.shared().snapshot()
    }

    /// The error of the last failed write or sync, if there was one.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.shared().fault()
    }

    /// Checks that the stream is not down, and that its directory is in its place. It is also `Ok` if the stream is closed,
    /// if it is being read again after a failed write, or if the disk is full.
    ///
    /// # Errors
    ///
    /// The [fault](Self::fault), [`Removed`](crate::storage::Removed), or an error of the file system.
    pub fn check(&self) -> io::Result<()> {
        let shared = self.shared();
        if matches!(shared.state().phase, Phase::Down) {
            return Err(io::Error::other(shared.fault().unwrap_or_default()));
        }
        shared.storage.check_lock()
    }

    /// Whether the writer waits for space on the disk. Records that were accepted before wait with it; it goes on by itself
    /// when there is space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        self.shared().is_disk_full()
    }

    /// When a record counts as durable.
    #[must_use]
    pub fn sync_mode(&self) -> SyncMode {
        self.shared().options.sync
    }

    /// The stream's directory, if it was opened by path.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.shared().path.as_deref()
    }

    /// The storage of the stream, for readers.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.shared().storage
    }

    /// Closes the stream, for all handles: writes the accepted records, makes them durable whatever the
    /// mode, and cuts the last file to its chunks. Returns the stream's head, `None` if it has no
    /// records.
    pub fn close(self) -> Result<Option<Head>, CloseError> {
        self.open.close();
        let result = self.shared().closed.lock();
        match result.unwrap_or_else(PoisonError::into_inner).take() {
            Some(Err(error)) => Err(error),
            // Closed before through another handle, which has got the error if there was one.
            None if !self.shared().is_closed() => Err(CloseError::Down {
                reason: self.fault().unwrap_or_default(),
            }),
            Some(Ok(())) | None => Ok(self.shared().log().head()),
        }
    }
}

impl Clone for StreamWriter {
    /// Another producer.
    fn clone(&self) -> Self {
        // Ordering: Relaxed, it only spreads handles over shards.
        let handle = self.open.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            open: self.open.clone(),
            shard: handle % self.shared().shards.len(),
        }
    }
}

impl OpenStream {
    fn close(&self) {
        self.shared.close();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // The last handle may be dropped by a waker that one of them runs.
            if thread.thread().id() == thread::current().id() {
                continue;
            }
            // A thread that panicked has taken the stream down, which the result says.
            let _ = thread.join();
        }
        self.lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.close();
    }
}

fn unpark_this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}
