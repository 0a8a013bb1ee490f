//! A queue in front of a sink: in memory, and on the disk when that is full.
//!
//! ```text
//!               ┌ Memory: ─▶ batches, up to a bound ─┐
//!   SpillSink ──┤                                    ├─▶ a thread ─▶ Driver ─▶ the sink
//!               └ Spool:  ─▶ a stream ─▶ Consumer ───┘
//!
//!        a batch does not fit, or is to be durable here
//!   Memory ───────────────────────────────────────────▶ Spool    what is in memory goes to the stream first
//!          ◀───────────────────────────────────────────
//!                the thread has handed out all
//! ```
//!
//! The queue has one of two states, and everything in it is in one place. So the order holds, and a stop that cannot wait for
//! the sink writes what is in memory to a stream that has nothing before it. A lock guards the state. The thread leaves the
//! state Spool only when nothing is being appended and the end of the stream is reached, which it checks under the lock. The
//! batch that the sink has when the queue goes to the spool is the first there; once the sink has taken it, it is skipped.
//!
//! *Why not always through the stream:* a line would be written and read once more, and a full disk would stop a sink that
//! needs no disk. *Why a thread:* a sink may block for as long as it likes. A thread that does not return at a stop is left
//! behind, and the server ends without it. The thread waits for a condition variable. Only for the stream's records to become
//! durable it polls, every [`POLL`].
//!
//! Batches in memory are copies without the source's bound: however slow the sink is, the sources and the other sinks do not
//! wait. They are lost with the process. The position in the stream moves, durably, when the sink has made a chunk durable,
//! or has taken it if it cannot say when it is. After kill -9 the chunk that was at work comes again.
//!
//! lines of the queue = lines and refused lines of the sink + lost lines of the queue + lines behind

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use freeboard::{
    meter::clock,
    platform::{
        sync::{Condvar, Mutex, MutexGuard},
        thread::{self, JoinHandle},
    },
};

use super::{
    Sink, SinkConfig, SinkError, SinkGauge,
    consumer::{Acks, Consumer},
    driver::{Called, Driver},
    lock,
    spool::{SpoolConfig, SpoolFull, split},
    stream::{StreamSink, warn_of_new_stream},
};
use crate::batch::Batch;

/// Bytes that are read from the spool at once.
const CHUNK_BYTES: usize = 256 << 10;

/// How often the thread checks which records have become durable.
const POLL: Duration = Duration::from_millis(5);

/// The pause after the spool could not be read.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// How long closing waits for the sink to take what is in memory, and as long again for the sink to close.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// The name of the spool's consumer.
const CONSUMER: &str = "sink";

/// The queue in front of a sink.
#[derive(Clone, Debug)]
pub struct SpillConfig {
    /// The bound of the batches in memory, in bytes; 8 MiB.
    pub memory_bytes: u64,
    /// Whether batches that [want to be durable](Batch::wants_durable) go to the spool at once and are durable there.
    /// Otherwise this sink does not count for that.
    pub is_durable: bool,
    /// Where batches go when memory is full.
    pub spool: SpoolConfig,
}

impl SpillConfig {
    /// 8 MiB in memory, then a spool of up to 1 GiB.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            memory_bytes: 8 << 20,
            is_durable: false,
            spool: SpoolConfig::new(path),
        }
    }
}

/// The sink that is the queue of `inner`. It opens `inner` too, which has the gauge `inner_gauge`.
pub(super) fn queue(
    inner: SinkConfig,
    config: SpillConfig,
    inner_gauge: Arc<SinkGauge>,
) -> SinkConfig {
    let name = format!("{}.queue", inner.name);
    let (backoff, gauges) = (inner.backoff, inner.gauges.clone());
    let open = move |gauge: &Arc<SinkGauge>| {
        let sink = (inner.open)(&inner_gauge)?;
        let driver = Driver::new(inner.clone(), sink, inner_gauge.clone());
        let sink = SpillSink::open(config.clone(), driver, gauge)?;
        Ok(Box::new(sink) as Box<dyn Sink>)
    };
    SinkConfig {
        backoff,
        gauges,
        ..SinkConfig::with_gauge(name, open)
    }
}

/// Where the queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Spool,
}

struct State {
    place: Place,
    /// Empty in the state Spool, but for what is at work.
    memory: VecDeque<Arc<Batch>>,
    /// The batch from memory that the sink has, unless it is in the spool too.
    at_work: Option<Arc<Batch>>,
    /// What both take of the memory's bound.
    memory_bytes: u64,
    memory_lines: u64,
    /// A batch is being appended to the spool; or some from memory are to be appended.
    is_appending: bool,
    /// Records of the spool before this one were given to the sink from memory; 0: none. They are in the spool in case that
    /// the sink does not take them.
    given_before: u64,
    /// The sink has asked to be called.
    is_woken: bool,
    /// From then on the thread ends once memory is empty, and at this time in any case.
    stops_at: Option<Instant>,
    /// The thread is left behind: nothing is its own any more.
    is_abandoned: bool,
    /// How the sink was closed, once the thread has ended.
    closed: Option<Result<(), SinkError>>,
}

/// What the thread reads of the spool.
struct Spool {
    consumer: Consumer,
    acks: Arc<Mutex<Acks>>,
}

struct Shared {
    gauge: Arc<SinkGauge>,
    state: Mutex<State>,
    changed: Condvar,
    /// Locked before the state.
    spool: Mutex<Option<Spool>>,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        lock(&self.state).is_woken = true;
        self.changed.notify_all();
    }
}

/// What the thread does next.
enum Work {
    FromMemory(Arc<Batch>),
    FromSpool(Arc<Batch>),
    /// The sink's other work.
    Idle,
    End,
}

impl Shared {
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match time {
            None => self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.changed.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// The thread.
    fn run(self: &Arc<Self>, mut driver: Driver) {
        let waker = Waker::from(self.clone());
        driver.gauge().set_waker(waker.clone());
        let mut chunk = VecDeque::new();
        // A sink that was just opened may have something to do.
        let mut is_idle_due = true;
        loop {
            let work = self.next(&mut chunk, &mut is_idle_due, driver.gauge());
            let is_done = match &work {
                Work::FromMemory(batch) | Work::FromSpool(batch) => {
                    self.call(&mut driver, Some(batch), &waker)
                }
                Work::Idle => self.call(&mut driver, None, &waker),
                Work::End => break,
            };
            match work {
                Work::FromMemory(batch) => {
                    let mut state = lock(&self.state);
                    if !is_done {
                        state.given_before = 0;
                    } else if state.at_work.take().is_some() {
                        // Otherwise it is in the spool too, and was released there.
                        self.release(&mut state, &batch);
                    }
                }
                // The position must not move behind it.
                Work::FromSpool(batch) if !is_done => chunk.push_front(batch),
                _ => {}
            }
            if !is_done {
                break;
            }
        }
        let closed = driver.close();
        if !chunk.is_empty()
            && let Some(spool) = lock(&self.spool).as_ref()
        {
            // What is left of the chunk comes again.
            lock(&spool.acks).close();
        }
        drop(chunk);
        lock(&self.state).closed = Some(closed);
        self.changed.notify_all();
    }

    /// A batch has left memory.
    fn release(&self, state: &mut State, batch: &Batch) {
        state.memory_bytes -= batch.weight();
        state.memory_lines -= batch.len() as u64;
        self.gauge.show_behind_in_memory(state.memory_lines);
    }

    /// Waits for the next work. `chunk` has batches from the spool, `is_idle_due` says whether the sink may have other work.
    /// The sink, which has `gauge`, fails while the spool cannot be read.
    fn next(
        &self,
        chunk: &mut VecDeque<Arc<Batch>>,
        is_idle_due: &mut bool,
        gauge: &SinkGauge,
    ) -> Work {
        loop {
            let mut state = lock(&self.state);
            let is_stopping = state.stops_at.is_some();
            let is_over = state.stops_at.is_some_and(|at| clock::now() >= at);
            if state.is_abandoned || is_over {
                return Work::End;
            }
            if let Some(batch) = chunk.pop_front() {
                *is_idle_due = true;
                return Work::FromSpool(batch);
            }
            if let Some(batch) = state.memory.pop_front() {
                *is_idle_due = true;
                state.at_work = Some(batch.clone());
                return Work::FromMemory(batch);
            }
            if is_stopping {
                return Work::End;
            }
            let mut pause = None;
            if state.place == Place::Spool {
                drop(state);
                pause = match self.read(chunk) {
                    Ok(()) if !chunk.is_empty() => continue,
                    Ok(()) => Some(POLL),
                    Err(error) => {
                        // Other work that succeeds would end the failure, so it comes first.
                        let is_woken = std::mem::take(&mut lock(&self.state).is_woken);
                        if is_woken | std::mem::take(is_idle_due) {
                            return Work::Idle;
                        }
                        gauge.fail(&error);
                        // The queue checks its spool, and opens it again if it was removed.
                        self.gauge.wake();
                        Some(READ_PAUSE)
                    }
                };
                state = lock(&self.state);
                if state.place == Place::Memory {
                    continue;
                }
            }
            if std::mem::take(&mut state.is_woken) | std::mem::take(is_idle_due) {
                return Work::Idle;
            }
            // It was locked anew: what came meanwhile is not waited for.
            if state.memory.is_empty() && !state.is_woken && state.stops_at.is_none() {
                drop(self.wait(state, pause));
            }
        }
    }

    /// Reads batches from the spool. At its end the queue is in memory again.
    fn read(&self, batches: &mut VecDeque<Arc<Batch>>) -> Result<(), SinkError> {
        let mut spool = lock(&self.spool);
        // `None`: it is being opened again.
        let Some(Spool { consumer, acks }) = spool.as_mut() else {
            return Ok(());
        };
        let busy = |error: &dyn std::error::Error| SinkError::Busy(error.to_string());
        match consumer.next(CHUNK_BYTES).map_err(|error| busy(&error))? {
            Some(chunk) => {
                let given_before = lock(&self.state).given_before;
                split(chunk, given_before, acks, batches);
            }
            None => {
                consumer.check().map_err(|error| busy(&error))?;
                let mut state = lock(&self.state);
                if !state.is_appending && consumer.is_at_end() && lock(acks).is_idle() {
                    state.place = Place::Memory;
                    state.given_before = 0;
                }
                lock(acks).show();
            }
        }
        Ok(())
    }

    /// Calls the sink until it is done; `false` if the thread is to end before.
    fn call(&self, driver: &mut Driver, batch: Option<&Arc<Batch>>, waker: &Waker) -> bool {
        loop {
            lock(&self.state).is_woken = false;
            let until = match driver.call(batch, waker) {
                Called::Done | Called::Refused => return true,
                // It is called again when it wakes the thread, or after the next batch.
                Called::Pending if batch.is_none() => return true,
                Called::Pending => None,
                Called::Retry(delay) => Some(clock::now() + delay),
            };
            let mut state = lock(&self.state);
            loop {
                let now = clock::now();
                let ends_at = state.stops_at.filter(|_| !state.is_abandoned);
                if state.is_abandoned || ends_at.is_some_and(|at| now >= at) {
                    return false;
                }
                let is_due = match until {
                    Some(until) => now >= until,
                    None => state.is_woken,
                };
                if is_due {
                    break;
                }
                let next = until.into_iter().chain(ends_at).min();
                let time = next.map(|next| next.saturating_duration_since(now));
                state = self.wait(state, time);
            }
            if batch.is_none() {
                // Batches come first: other work that fails must not hold them up.
                state.is_woken = true;
                return true;
            }
        }
    }
}

/// The queue's end for the writer.
struct SpillSink {
    config: SpillConfig,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The writer's end of the spool.
    spool: Option<StreamSink>,
    /// What was in memory when the queue went to the spool, as far as it was not appended yet.
    moving: VecDeque<Arc<Batch>>,
}

impl SpillSink {
    fn open(
        config: SpillConfig,
        driver: Driver,
        gauge: &Arc<SinkGauge>,
    ) -> Result<Self, SinkError> {
        let shared = Arc::new(Shared {
            gauge: gauge.clone(),
            state: Mutex::new(State {
                place: Place::Memory,
                memory: VecDeque::new(),
                at_work: None,
                memory_bytes: 0,
                memory_lines: 0,
                is_appending: false,
                given_before: 0,
                is_woken: false,
                stops_at: None,
                is_abandoned: false,
                closed: None,
            }),
            changed: Condvar::new(),
            spool: Mutex::new(None),
        });
        let mut sink = Self {
            config,
            shared: shared.clone(),
            thread: None,
            spool: None,
            moving: VecDeque::new(),
        };
        if sink.config.spool.path.exists() {
            // What is left of the last process.
            sink.open_spool()?;
            lock(&shared.state).place = Place::Spool;
        }
        let thread = thread::Builder::new().name("logd queue".to_owned());
        let spawned = thread.spawn(move || shared.run(driver));
        sink.thread =
            Some(spawned.map_err(|error| SinkError::Busy(format!("no thread: {error}")))?);
        Ok(sink)
    }

    /// Opens the spool, unless it is open. After a failure the thread goes on where it was.
    fn open_spool(&mut self) -> Result<(), SinkError> {
        if self.spool.is_some() {
            return Ok(());
        }
        let (config, bytes_wait) = self.config.spool.stream();
        let gauge = &self.shared.gauge;
        let mut sink = StreamSink::open(&config, gauge)?;
        sink.wait_at(bytes_wait);
        let mut spool = lock(&self.shared.spool);
        let opened = match spool.as_mut() {
            Some(Spool { consumer, acks }) => {
                if sink.began_empty() && consumer.readable() > 0 {
                    warn_of_new_stream(&config.path);
                }
                // Sequences may be used again.
                lock(&self.shared.state).given_before = 0;
                consumer.reopen(sink.stream(), &mut lock(acks))
            }
            None => Consumer::open(sink.stream(), CONSUMER, gauge).map(|(consumer, acks)| {
                let acks = Arc::new(Mutex::new(acks));
                *spool = Some(Spool { consumer, acks });
            }),
        };
        opened.map_err(|error| SinkError::Busy(error.to_string()))?;
        drop(spool);
        self.spool = Some(sink);
        Ok(())
    }

    /// Appends what was in memory, and then the batch.
    fn append(
        &mut self,
        batch: Option<&Arc<Batch>>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        self.open_spool()?;
        let spool = self.spool.as_mut().expect("it was opened");
        while let Some(front) = self.moving.front() {
            match spool.poll_write(front, task) {
                Poll::Ready(Ok(())) => {}
                // A line is longer than a record of the spool may be.
                Poll::Ready(Err(SinkError::Refused(error))) => {
                    tracing::error!("{}: {error}", self.shared.gauge.name());
                    self.shared.gauge.lose(front.len() as u64);
                }
                other => return other,
            }
            let mut state = lock(&self.shared.state);
            self.shared.release(&mut state, front);
            drop(state);
            self.moving.pop_front();
        }
        batch.map_or(Poll::Ready(Ok(())), |batch| spool.poll_write(batch, task))
    }

    /// Puts a batch into the spool.
    fn spill(&mut self, batch: &Arc<Batch>, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let result = self.append(Some(batch), task);
        if let Poll::Ready(Err(SinkError::Broken(_))) = &result {
            self.close_spool();
        }
        let result = match result {
            Poll::Ready(Err(SinkError::Busy(error) | SinkError::Broken(error))) => {
                Poll::Ready(Err(match self.config.spool.full {
                    SpoolFull::Wait => SinkError::Busy(error),
                    SpoolFull::DropOldest => {
                        if self.moving.is_empty()
                            && let Some(spool) = &mut self.spool
                        {
                            spool.give_up_batch();
                        }
                        SinkError::Refused(error)
                    }
                }))
            }
            result => result,
        };
        if let Some(spool) = &self.spool {
            let accepted = spool.stream().sequences().accepted;
            self.shared.gauge.show_spooled(accepted);
        }
        let is_over = matches!(result, Poll::Ready(Ok(()) | Err(SinkError::Refused(_))));
        let mut state = lock(&self.shared.state);
        state.is_appending = !is_over || !self.moving.is_empty();
        drop(state);
        self.shared.changed.notify_all();
        result
    }

    /// Releases the lock of a spool that has failed, so that it can be opened again.
    fn close_spool(&mut self) {
        if let Some(spool) = self.spool.take() {
            let _ = Box::new(spool).close();
        }
    }

    /// Takes what the sink has not taken of the memory.
    fn take_memory(&mut self) {
        let mut state = lock(&self.shared.state);
        self.moving.extend(state.at_work.take());
        self.moving.extend(state.memory.drain(..));
    }

    /// Ends the thread, and writes what is left in memory to the spool. How the sink was closed.
    fn stop(&mut self) -> Result<(), SinkError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let stops_at = clock::now() + CLOSE_TIME;
        let mut state = lock(&self.shared.state);
        state.stops_at = Some(stops_at);
        self.shared.changed.notify_all();
        let closed = loop {
            if let Some(closed) = state.closed.take() {
                break Some(closed);
            }
            let left = (stops_at + CLOSE_TIME).saturating_duration_since(clock::now());
            if left.is_zero() || thread.is_finished() {
                break None;
            }
            state = self
                .shared
                .wait(state, Some(left.min(Duration::from_millis(100))));
        };
        state.is_abandoned = true;
        let given_before = state.given_before;
        drop(state);
        let is_ended = closed.is_some();
        let closed = match closed {
            Some(closed) => {
                let _ = thread.join();
                closed
            }
            // It is left behind.
            None => Err(SinkError::Closed("it does not return".to_owned())),
        };
        self.take_memory();
        let appended = self.append_rest();
        if appended.is_err() {
            let lines = self.moving.iter().map(|batch| batch.len() as u64);
            self.shared.gauge.lose(lines.sum());
        }
        if let Some(spool) = lock(&self.shared.spool).take() {
            let mut acks = lock(&spool.acks);
            if is_ended
                && given_before > 0
                && let Some(sink) = &self.spool
                && sink.stream().flush().is_ok()
            {
                acks.skip(given_before - 1);
            }
            // Another process may open the stream then.
            acks.close();
        }
        let spooled = match self.spool.take() {
            Some(spool) => Box::new(spool).close(),
            None => Ok(()),
        };
        appended.and(spooled).and(closed)
    }

    fn append_rest(&mut self) -> Result<(), SinkError> {
        let mut task = Context::from_waker(Waker::noop());
        while !self.moving.is_empty() {
            match self.append(None, &mut task) {
                Poll::Ready(result) => result?,
                Poll::Pending => {
                    let flushed = self.spool.as_ref().map(|spool| spool.stream().flush());
                    if let Some(Err(error)) = flushed {
                        return Err(SinkError::Busy(error.to_string()));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Sink for SpillSink {
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        let is_durable = self.config.is_durable && batch.wants_durable();
        let mut state = lock(&self.shared.state);
        if state.place == Place::Memory {
            if !is_durable && state.memory_bytes + batch.weight() <= self.config.memory_bytes {
                let batch = batch.detached();
                state.memory_bytes += batch.weight();
                state.memory_lines += batch.len() as u64;
                self.shared.gauge.show_behind_in_memory(state.memory_lines);
                state.memory.push_back(batch);
                drop(state);
                self.shared.changed.notify_all();
                return Poll::Ready(Ok(()));
            }
            drop(state);
            // Only this thread leaves the state Memory. If the disk cannot take anything, the queue stays there.
            if let Err(error) = self.open_spool() {
                return Poll::Ready(Err(match self.config.spool.full {
                    SpoolFull::Wait => SinkError::Busy(error.to_string()),
                    SpoolFull::DropOldest => SinkError::Refused(error.to_string()),
                }));
            }
            let mut state = lock(&self.shared.state);
            state.place = Place::Spool;
            state.is_appending = true;
            if let Some(at_work) = state.at_work.take()
                && let Some(spool) = &self.spool
            {
                // The first in the spool, so that the order holds if the sink does not take it before a stop.
                let next = spool.stream().sequences().accepted + 1;
                state.given_before = next + at_work.len() as u64;
                self.moving.push_back(at_work);
            }
            self.moving.extend(state.memory.drain(..));
        } else {
            state.is_appending = true;
            drop(state);
        }
        if is_durable {
            self.spill(batch, task)
        } else {
            // Nobody waits until it is durable here.
            self.spill(&batch.detached(), task)
        }
    }

    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let result = match &mut self.spool {
            Some(spool) => spool.poll_idle(task),
            // Its reader waits for it.
            None if lock(&self.shared.state).place == Place::Spool => {
                Poll::Ready(self.open_spool())
            }
            None => Poll::Ready(Ok(())),
        };
        let Poll::Ready(Err(SinkError::Broken(error))) = result else {
            return result;
        };
        self.close_spool();
        Poll::Ready(Err(SinkError::Busy(error)))
    }

    fn close(mut self: Box<Self>) -> Result<(), SinkError> {
        self.stop()
    }
}

impl Drop for SpillSink {
    fn drop(&mut self) {
        // It has closed already, or is dropped without having been asked.
        let _ = self.stop();
    }
}
