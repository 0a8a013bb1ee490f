//! A queue in front of a sink: in memory, and on the disk when that is full.
//!
//! ```text
//!   writer ─▶ SpillSink ─▶ memory ───────────────────┬─▶ SinkActor ─▶ Sink
//!                 └──────▶ spool (a stream) ─ Consumer ┘  (up to 8 batches)
//! ```
//!
//! While the spool is empty, batches go through memory. Once memory is full they go to the spool, until all of it was
//! drained: so the order holds. The batches are copies without the source's bound: however slow the sink is, the sources
//! and the other sinks do not wait.
//!
//! The position in the spool moves durably when the sink has taken a batch: after kill -9 the rest is drained again, and at
//! most the batches at work come twice. What is in memory is lost with the process; [`SpillConfig::memory_bytes`] bounds
//! it. At a stop, what the sink has not taken after two seconds goes from memory to the spool: behind what is there.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard::stream::{Retention, SEGMENT_BYTES_MIN, StreamOptions};

use super::{
    RunningSink, Sink, SinkConfig, SinkError, SinkGauge, StreamSinkConfig,
    consumer::{Acks, Chunk, Consumer},
    stream::StreamSink,
};
use crate::{
    batch::{Batch, BatchBuilder, Line},
    priority::Group,
    record::{LogRecord, decode_batch},
    source::{Source, SourceBound},
    writer::LANE_BATCHES,
};

/// Bytes that are read from the spool at once.
const CHUNK_BYTES: usize = 256 << 10;

/// How long closing waits for the sink before what is in memory goes to the spool.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// The name of the spool's consumer.
const CONSUMER: &str = "sink";

/// The largest segment of a spool, in bytes.
const SEGMENT_BYTES_MAX: u64 = 32 << 20;

/// What happens when a spool has reached its bound, or its disk is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpoolFull {
    /// The oldest lines are removed, and counted as lost. On a full disk, new lines are shed.
    #[default]
    DropOldest,
    /// It takes no more. The writer waits, and with it all sinks.
    Wait,
}

/// A stream on disk that holds what its reader has not taken.
#[derive(Clone, Debug)]
pub struct SpoolConfig {
    /// Its directory. It is created when it is needed.
    pub path: PathBuf,
    /// The bound of its finished segments, in bytes, at least 512 KiB. One that is being written and one that is prepared
    /// take at most a quarter of that in addition.
    pub bytes_max: u64,
    /// What happens then.
    pub full: SpoolFull,
    /// How it is sealed and synced, its memory. Retention and the size of segments are the spool's.
    pub options: StreamOptions,
}

impl SpoolConfig {
    /// A spool of up to 1 GiB that drops the oldest lines.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            bytes_max: 1 << 30,
            full: SpoolFull::default(),
            options: StreamOptions::new(),
        }
    }

    /// The settings of its stream, and the bytes at which it waits.
    pub(super) fn stream(&self) -> (StreamSinkConfig, Option<u64>) {
        let segment_bytes = (self.bytes_max / 8).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let bytes_max = self.bytes_max.max(SEGMENT_BYTES_MIN * 8);
        let (bytes, bytes_wait) = match self.full {
            SpoolFull::DropOldest => (Some(bytes_max), None),
            SpoolFull::Wait => (None, Some(bytes_max)),
        };
        let retention = Retention {
            bytes,
            acknowledged: true,
            ..Retention::default()
        };
        let options = self.options.clone().retention(retention);
        let config = StreamSinkConfig {
            path: self.path.clone(),
            options: options.segment_bytes(segment_bytes),
        };
        (config, bytes_wait)
    }
}

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

/// The sink that puts batches into the queue of `inner`.
pub(super) fn queue(
    name: &str,
    config: SpillConfig,
    inner: RunningSink,
    gauge: Arc<SinkGauge>,
) -> SinkConfig {
    SinkConfig::new(name, move || {
        let mut sink = SpillSink {
            spool: None,
            returned: Arc::default(),
            queue: VecDeque::new(),
            at_work: VecDeque::new(),
            memory_bytes: 0,
            next_number: 0,
            refused: inner.1.refused.get(),
            is_inner_stopped: false,
            config: config.clone(),
            inner: inner.clone(),
            gauge: gauge.clone(),
        };
        if config.spool.path.exists() {
            sink.open_spool()?;
        }
        Ok(Box::new(sink) as Box<dyn Sink>)
    })
}

/// Batches that the sink has given back.
#[derive(Default)]
struct Returned {
    state: Mutex<ReturnedState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReturnedState {
    /// Their numbers, and whether they were taken.
    batches: Vec<(u64, bool)>,
    waker: Option<Waker>,
}

impl Returned {
    fn give_back(&self, number: u64, is_taken: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.batches.push((number, is_taken));
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A batch that was not sent yet.
struct Queued {
    number: u64,
    batch: Arc<Batch>,
    /// Its last sequence in the spool; `None`: it was in memory only.
    spooled: Option<u64>,
}

/// A batch that the sink has.
struct AtWork {
    number: u64,
    batch: Weak<Batch>,
    lines: u64,
    /// What it takes of the memory's bound.
    weight: u64,
    spooled: Option<u64>,
}

struct Spool {
    consumer: Consumer,
    acks: Acks,
    sink: StreamSink,
}

impl Spool {
    /// Whether the sink has taken all of it.
    fn is_drained(&self) -> bool {
        self.acks.is_idle() && self.consumer.is_at_end()
    }
}

struct SpillSink {
    config: SpillConfig,
    inner: RunningSink,
    gauge: Arc<SinkGauge>,
    returned: Arc<Returned>,
    /// All in memory only, or all from the spool.
    queue: VecDeque<Queued>,
    at_work: VecDeque<AtWork>,
    /// What is in memory only: queued, or at work.
    memory_bytes: u64,
    next_number: u64,
    spool: Option<Spool>,
    /// Batches that the sink has refused, as far as they were counted.
    refused: u64,
    /// It gives batches back without having refused them.
    is_inner_stopped: bool,
}

impl SpillSink {
    fn open_spool(&mut self) -> Result<&mut Spool, SinkError> {
        if self.spool.is_none() {
            let (config, bytes_wait) = self.config.spool.stream();
            let mut sink = StreamSink::open(&config)?;
            sink.wait_at(bytes_wait);
            let opened = Consumer::open(sink.stream(), CONSUMER, &self.gauge);
            let (consumer, acks) = opened.map_err(|error| SinkError::Broken(error.to_string()))?;
            self.spool = Some(Spool {
                consumer,
                acks,
                sink,
            });
        }
        Ok(self.spool.as_mut().expect("it was opened"))
    }

    fn number(&mut self) -> (u64, crate::batch::Done) {
        self.next_number += 1;
        let (number, returned) = (self.next_number, self.returned.clone());
        let done = move |is_taken| returned.give_back(number, is_taken);
        (number, Box::new(done))
    }

    /// Settles what the sink has given back. The waker is called at the next time.
    fn settle(&mut self, task: Option<&Context<'_>>) {
        let mut state = self
            .returned
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let batches = std::mem::take(&mut state.batches);
        if let Some(task) = task {
            state.waker = Some(task.waker().clone());
        }
        drop(state);
        for (number, is_taken) in batches {
            let index = self.at_work.iter().position(|it| it.number == number);
            let Some(part) = index.and_then(|index| self.at_work.remove(index)) else {
                continue;
            };
            if part.spooled.is_none() {
                self.memory_bytes -= part.weight;
            }
            if !is_taken {
                if self.inner.1.refused.get() == self.refused {
                    // It has stopped with the system. What is in the spool stays there.
                    self.is_inner_stopped = true;
                    if part.spooled.is_some() {
                        continue;
                    }
                }
                self.refused = self
                    .refused
                    .max(self.inner.1.refused.get().min(self.refused + 1));
                self.gauge.lost.add(part.lines);
            }
            if let (Some(last), Some(spool)) = (part.spooled, &mut self.spool) {
                spool.acks.finish(last);
            }
        }
    }

    /// Gives the sink as many batches as its lane takes. Whether it may read the spool.
    fn feed(&mut self, reads_spool: bool) -> Result<(), SinkError> {
        while self.at_work.len() < LANE_BATCHES && !self.is_inner_stopped {
            if let Some(next) = self.queue.pop_front() {
                let Queued {
                    number,
                    batch,
                    spooled,
                } = next;
                self.at_work.push_back(AtWork {
                    number,
                    batch: Arc::downgrade(&batch),
                    lines: batch.len() as u64,
                    weight: batch.weight(),
                    spooled,
                });
                // One lane, so that they stay in order. It has a slot for each batch at work.
                let _ = self.inner.0.tell_lane(0, batch);
                continue;
            }
            let Some(spool) = self.spool.as_mut().filter(|_| reads_spool) else {
                break;
            };
            let chunk = spool.consumer.next(CHUNK_BYTES);
            match chunk.map_err(|error| SinkError::Busy(error.to_string()))? {
                Some(chunk) => self.split(chunk),
                None => break,
            }
        }
        Ok(())
    }

    /// Makes batches of records: one for each run of one source, group and time.
    fn split(&mut self, chunk: Chunk) {
        let body = Bytes::from(chunk.body);
        let mut run: Option<(Arc<Source>, Group, u64, BatchBuilder)> = None;
        let mut sequence = chunk.first;
        for record in decode_batch(&body) {
            let (at, record) = match record {
                Ok(record) => record,
                Err(error) => {
                    // Another program has written it. What follows in this chunk is not told apart from it.
                    tracing::error!("{}: record {sequence}: {error}", self.gauge.name());
                    self.gauge.lost.add(chunk.last + 1 - sequence);
                    break;
                }
            };
            let group = Group::of(record.priority.severity());
            let is_same = |run: &(Arc<Source>, Group, u64, _)| {
                run.0.name() == record.source && run.1 == group && run.2 == record.received_ns
            };
            if !run.as_ref().is_some_and(is_same) {
                self.finish_run(run.take(), &body, sequence - 1);
                let source = Source::new(record.source, SourceBound::NONE);
                run = Some((source, group, record.received_ns, BatchBuilder::new(group)));
            }
            if let Some((.., builder)) = &mut run {
                builder.push(line_of(at, &record));
            }
            sequence += 1;
        }
        self.finish_run(run.take(), &body, chunk.last);
        if sequence == chunk.first
            && let Some(spool) = &mut self.spool
        {
            // Nothing of it could be read.
            spool.acks.begin(chunk.last);
            spool.acks.finish(chunk.last);
        }
    }

    fn finish_run(
        &mut self,
        run: Option<(Arc<Source>, Group, u64, BatchBuilder)>,
        body: &Bytes,
        last: u64,
    ) {
        let Some((source, _, received_ns, mut builder)) = run else {
            return;
        };
        let (number, done) = self.number();
        if let (Some(batch), Some(spool)) = (
            builder.build(&source, received_ns, body, Some(done)),
            &mut self.spool,
        ) {
            let _ = batch.claim(1);
            spool.acks.begin(last);
            self.queue.push_back(Queued {
                number,
                batch,
                spooled: Some(last),
            });
        }
    }

    /// Whether the next batch goes through memory.
    fn fits(&self, batch: &Batch) -> bool {
        self.spool.as_ref().is_none_or(Spool::is_drained)
            && !(self.config.is_durable && batch.wants_durable())
            && self.memory_bytes + batch.weight() <= self.config.memory_bytes
    }

    fn spill(&mut self, batch: &Arc<Batch>, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let drops = self.config.spool.full == SpoolFull::DropOldest;
        let result = match self.open_spool() {
            Ok(spool) => {
                spool.acks.show();
                spool.sink.poll_write(batch, task)
            }
            Err(error) => Poll::Ready(Err(error)),
        };
        if let Poll::Ready(Err(SinkError::Broken(_))) = &result {
            // It is opened again with the next batch. What is at work from it comes again.
            self.spool = None;
            self.queue.retain(|queued| queued.spooled.is_none());
        }
        match result {
            Poll::Ready(Err(error)) if drops => {
                self.gauge.lost.add(batch.len() as u64);
                if let Some(spool) = &mut self.spool {
                    spool.sink.give_up_batch();
                }
                Poll::Ready(Err(SinkError::Refused(error.to_string())))
            }
            result => result,
        }
    }

    /// Takes back what the sink has not taken, from memory.
    fn take_back(&mut self) -> Vec<Arc<Batch>> {
        let at_work = std::mem::take(&mut self.at_work);
        let at_work = at_work.into_iter().filter(|part| part.spooled.is_none());
        let mut batches: Vec<_> = at_work.filter_map(|part| part.batch.upgrade()).collect();
        let queue = std::mem::take(&mut self.queue).into_iter();
        let queue = queue.filter(|queued| queued.spooled.is_none());
        batches.extend(queue.map(|queued| queued.batch));
        batches
    }

    fn append(&mut self, batches: &[Arc<Batch>]) -> Result<(), SinkError> {
        let spool = self.open_spool()?;
        let mut task = Context::from_waker(Waker::noop());
        for batch in batches {
            loop {
                match spool.sink.poll_write(batch, &mut task) {
                    Poll::Ready(result) => break result?,
                    Poll::Pending => {
                        let flushed = spool.sink.stream().flush();
                        flushed.map_err(|error| SinkError::Busy(error.to_string()))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn line_of(at: usize, record: &LogRecord<'_>) -> Line {
    let narrow = |value: usize| u32::try_from(value).expect("a chunk is small");
    Line {
        at: narrow(at),
        bytes: narrow(record.text.len()),
        host_at: record.host_at,
        host_bytes: record.host_bytes,
        priority: record.priority,
        format: record.format,
        marks: record.marks,
    }
}

impl Sink for SpillSink {
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>> {
        self.settle(Some(task));
        if self.fits(batch) {
            let (number, done) = self.number();
            let batch = batch.detached(done);
            self.memory_bytes += batch.weight();
            self.queue.push_back(Queued {
                number,
                batch,
                spooled: None,
            });
            // An error is of the spool, and comes again in `poll_idle`.
            let _ = self.feed(true);
            return Poll::Ready(Ok(()));
        }
        self.spill(batch, task)
    }

    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.settle(Some(task));
        self.feed(true)?;
        let Some(spool) = &mut self.spool else {
            return Poll::Ready(Ok(()));
        };
        // What becomes durable can be read.
        match spool.sink.poll_durable(task) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(self.feed(true)),
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), SinkError> {
        let deadline = Instant::now() + CLOSE_TIME;
        loop {
            self.settle(None);
            self.feed(false)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.memory_bytes == 0 || self.is_inner_stopped || left.is_zero() {
                break;
            }
            let returned = self.returned.clone();
            let state = returned.state.lock();
            let state = state.unwrap_or_else(PoisonError::into_inner);
            if state.batches.is_empty() {
                let waited = returned.changed.wait_timeout(state, left);
                drop(waited);
            }
        }
        let left = self.take_back();
        let appended = if left.is_empty() {
            Ok(())
        } else {
            self.append(&left)
        };
        if appended.is_err() {
            let lines = left.iter().map(|batch| batch.len() as u64);
            self.gauge.lost.add(lines.sum());
        }
        let closed = match self.spool.take() {
            Some(mut spool) => {
                spool.acks.close();
                drop((spool.consumer, spool.acks));
                Box::new(spool.sink).close()
            }
            None => Ok(()),
        };
        appended.and(closed)
    }
}
