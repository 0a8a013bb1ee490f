//! Records for tasks.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread::{self, JoinHandle},
};

use futures_core::Stream;

use super::{
    error::ReadError,
    record::Record,
    stream_reader::{ReaderStop, StreamReader},
};

/// How much is read ahead of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCapacity {
    /// The most records that wait.
    pub records: usize,
    /// The most bytes of payload that wait, but for one record that is larger.
    pub bytes: usize,
}

impl Default for StreamCapacity {
    /// 1,024 records, 1 MiB.
    fn default() -> Self {
        Self {
            records: 1_024,
            bytes: 1 << 20,
        }
    }
}

/// The records of a stream, for tasks of any runtime: a thread reads the files, since reading them
/// blocks, and waits while as much as was allowed is waiting.
///
/// Ends where the reader's iteration would; an error ends it too. Dropping it ends the thread.
#[derive(Debug)]
pub struct RecordStream {
    queue: Arc<Queue>,
    stop: ReaderStop,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    room: Condvar,
    capacity: StreamCapacity,
}

#[derive(Debug, Default)]
struct State {
    records: VecDeque<Result<Record, ReadError>>,
    bytes: usize,
    waker: Option<Waker>,
    is_ended: bool,
    is_dropped: bool,
}

impl RecordStream {
    pub(super) fn start(reader: StreamReader, capacity: StreamCapacity) -> Self {
        let queue = Arc::new(Queue {
            state: Mutex::new(State::default()),
            room: Condvar::new(),
            capacity,
        });
        let stop = reader.stop_handle();
        let reading = queue.clone();
        let thread = thread::Builder::new()
            .name("stream-read".to_owned())
            .spawn(move || reading.fill(reader));
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                let error = ReadError::io("start the reading thread")(error);
                let mut state = queue.lock();
                state.records.push_back(Err(error));
                state.is_ended = true;
                drop(state);
                None
            }
        };
        Self {
            queue,
            stop,
            thread,
        }
    }

    /// How many records wait to be taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.lock().records.len()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, reader: StreamReader) {
        for record in reader {
            let bytes = record.as_ref().map_or(0, |record| record.payload.len());
            let is_error = record.is_err();
            let mut state = self.lock();
            while !state.is_dropped && self.is_full(&state, bytes) {
                state = self
                    .room
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_dropped {
                return;
            }
            state.bytes += bytes;
            state.records.push_back(record);
            wake(state);
            if is_error {
                break;
            }
        }
        let mut state = self.lock();
        state.is_ended = true;
        wake(state);
    }

    fn is_full(&self, state: &State, bytes: usize) -> bool {
        let is_many = state.records.len() >= self.capacity.records.max(1);
        let is_large = state.bytes + bytes > self.capacity.bytes && !state.records.is_empty();
        is_many || is_large
    }
}

/// Wakes the task, without the lock.
fn wake(mut state: MutexGuard<'_, State>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Stream for RecordStream {
    type Item = Result<Record, ReadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.queue.lock();
        if let Some(record) = state.records.pop_front() {
            state.bytes -= record.as_ref().map_or(0, |record| record.payload.len());
            drop(state);
            self.queue.room.notify_one();
            return Poll::Ready(Some(record));
        }
        if state.is_ended {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for RecordStream {
    fn drop(&mut self) {
        self.stop.stop();
        self.queue.lock().is_dropped = true;
        self.queue.room.notify_one();
        if let Some(thread) = self.thread.take() {
            // It holds nothing but the reader; a panic in it has ended the stream already.
            let _ = thread.join();
        }
    }
}
