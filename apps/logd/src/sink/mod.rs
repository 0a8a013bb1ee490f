//! Sinks: where lines go.
//!
//! ```text
//!              ┌─▶ lanes (short) ─▶ SinkActor ─▶ Sink: the stream
//!   writer ────┤
//!              └─▶ lanes (short) ─▶ SinkActor ─▶ Sink: another
//! ```
//!
//! Each sink has an actor of its own, whose mailbox has a short lane for each severity group. The actor gives its sink one
//! batch at a time. While the sink is busy, or has failed and waits for its next attempt, the lanes are paused; when they
//! are full, the writer waits, and what waits longer, waits in the dams. A sink that must not hold back the others has a
//! queue in front of it ([`SinkConfig::spill`]), which spills to the disk.
//!
//! A failure is retried with growing pauses, for ever, with the same batch. A panic counts as a failure; the sink is opened
//! again. A batch with which a sink has panicked [`PANICS_MAX`] times is shed.

mod consumer;
mod file;
mod relay;
mod spill;
mod stdout;
mod stream;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use freeboard::{
    Actor, ActorRef, Handler, SpawnError, System,
    flow::Backoff,
    meter::{Counter, now_ns},
};

use crate::{batch::Batch, priority::Group, server::StartError, source::Shed, writer};

pub use file::{FileSinkConfig, Keep, Period, Rotation};
pub use relay::{RelayConfig, RelayUrlError};
pub use spill::{SpillConfig, SpoolConfig, SpoolFull};
pub use stdout::{StdoutForm, StdoutSinkConfig};
pub use stream::StreamSinkConfig;

/// Attempts at one batch that may end in a panic.
pub const PANICS_MAX: u32 = 3;

/// Why a sink did not take a batch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// It may take the batch later: a full disk, a peer that is away.
    #[error("{0}")]
    Busy(String),
    /// It is to be opened again before the next attempt.
    #[error("{0}")]
    Broken(String),
    /// It will never take this batch, but others. Its lines that it has not taken are shed.
    #[error("{0}")]
    Refused(String),
    /// It takes nothing any more. All further lines are shed for it, and it counts as failing until the server is started
    /// again.
    #[error("{0}")]
    Closed(String),
}

/// A place where lines go. One thread at a time calls it. A call may block: the runtime replaces the worker, and only the
/// lines of this sink wait.
pub trait Sink: Send + 'static {
    /// Takes a batch.
    ///
    /// `Pending`: it is called again with the same batch after `task`'s waker was called. An error: it is called again
    /// with the same batch after a pause. It keeps its position in the batch meanwhile, so that no line is taken twice.
    ///
    /// If the batch [wants to be durable](Batch::wants_durable), the sink keeps a clone of it until it is, or has called
    /// [`Batch::note_lost`].
    ///
    /// # Errors
    /// [`SinkError`].
    fn poll_write(
        &mut self,
        batch: &Arc<Batch>,
        task: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError>>;

    /// Work besides batches: to flush, to wait until batches are durable, to drain a spool. It is called when there is no
    /// further batch, and after each wake-up. `Pending`: there is more to do, and `task`'s waker will be called.
    ///
    /// # Errors
    /// [`SinkError`]; it is called again after a pause.
    fn poll_idle(&mut self, task: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        let _ = task;
        Poll::Ready(Ok(()))
    }

    /// Begins a new file, if it writes files. It is called between two other calls.
    fn rotate(&mut self) {}

    /// Makes everything durable and closes it. It may block.
    ///
    /// # Errors
    /// [`SinkError`]: something that was taken may be lost.
    fn close(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Opens a sink, at the start and after it has broken.
pub type OpenSink = Arc<dyn Fn() -> Result<Box<dyn Sink>, SinkError> + Send + Sync>;

/// A sink and its name.
#[derive(Clone)]
pub struct SinkConfig {
    /// Its name in metrics and messages.
    pub name: String,
    /// Opens it.
    pub open: OpenSink,
    /// The pauses between attempts after a failure.
    pub backoff: Backoff,
    /// The queue in front of it; `None`: the writer waits for it, and so do the other sinks.
    pub spill: Option<SpillConfig>,
    /// States of its parts that work on threads of their own.
    pub gauges: Vec<Arc<SinkGauge>>,
}

impl SinkConfig {
    /// A sink with the default pauses, from 10 ms to 10 s.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn() -> Result<Box<dyn Sink>, SinkError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            open: Arc::new(open),
            backoff: Backoff::default(),
            spill: None,
            gauges: Vec::new(),
        }
    }

    /// Puts a queue in front of it, which spills to the disk: however slow it is, the other sinks do not wait.
    #[must_use]
    pub fn spill(mut self, spill: SpillConfig) -> Self {
        self.spill = Some(spill);
        self
    }
}

impl fmt::Debug for SinkConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SinkConfig({})", self.name)
    }
}

/// The state of a sink, as any thread may read it.
#[derive(Debug, Default)]
pub struct SinkGauge {
    name: String,
    batches: Counter,
    lines: Counter,
    bytes: Counter,
    errors: Counter,
    panics: Counter,
    /// When the attempts began to fail, on the process's clock; 0 if the last one succeeded.
    failing_since_ns: AtomicU64,
    /// When the call that runs began; 0 between calls.
    called_at_ns: AtomicU64,
    lost: Counter,
    refused: Counter,
    behind: AtomicU64,
    is_dead: AtomicBool,
    rotations: AtomicU64,
    waker: OnceLock<Waker>,
    is_closed: AtomicBool,
    last_error: Mutex<Option<String>>,
}

impl SinkGauge {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Batches that it has taken.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.batches.get()
    }

    /// Lines that it has taken.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// Bytes of these lines.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Failed attempts, with those that panicked.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.get()
    }

    /// Attempts that panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// For how long all attempts have failed; `None` if the last one succeeded.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        // Ordering: Relaxed: a gauge.
        let since_ns = self.failing_since_ns.load(Ordering::Relaxed);
        (since_ns > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(since_ns)))
    }

    /// How long the call that runs has taken so far: a sink that hangs does not return from it.
    #[must_use]
    pub fn in_call_for(&self) -> Option<Duration> {
        // Ordering: Relaxed: a gauge, as below.
        let since_ns = self.called_at_ns.load(Ordering::Relaxed);
        (since_ns > 0).then(|| Duration::from_nanos(now_ns().saturating_sub(since_ns)))
    }

    /// Lines of its queue on disk that it has not taken yet.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Lines of its queue that were lost: the disk bound removed them, they were damaged, or the sink refused them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// Whether it takes nothing any more ([`SinkError::Closed`]).
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Asks it to begin a new file.
    pub(crate) fn rotate(&self) {
        // Ordering: Relaxed: the wake-up orders it.
        self.rotations.fetch_add(1, Ordering::Relaxed);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Whether it was closed without an error.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Ordering: Relaxed: it is read after the actor has terminated.
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The last error.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        let error = self.last_error.lock();
        error.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, error: &SinkError) {
        self.errors.add(1);
        let text = Some(error.to_string());
        *self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = text;
        let now = now_ns();
        let since = &self.failing_since_ns;
        let _ = since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn take(&self, lines: u64, bytes: u64) {
        self.batches.add(1);
        self.lines.add(lines);
        self.bytes.add(bytes);
        self.recover();
    }

    fn named(name: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            ..Self::default()
        })
    }

    fn recover(&self) {
        if self.failing_since_ns.load(Ordering::Relaxed) != 0 && !self.is_dead() {
            self.failing_since_ns.store(0, Ordering::Relaxed);
        }
    }
}

/// Wakes an actor; wake-ups before it has run count as one.
struct WakeActor {
    is_woken: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Wake for WakeActor {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: AcqRel: whoever clears it sees what happened before each wake-up that it covers.
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }
}

/// Gives its sink one batch at a time.
pub(crate) struct SinkActor {
    config: SinkConfig,
    /// `None`: to be opened.
    sink: Option<Box<dyn Sink>>,
    current: Option<Arc<Batch>>,
    /// Failed attempts since the last that succeeded.
    attempt: u32,
    /// Panics with the current batch.
    panics: u32,
    is_backing_off: bool,
    /// Requests to rotate that it has seen.
    rotations: u64,
    wake: Option<Arc<WakeActor>>,
    gauge: Arc<SinkGauge>,
}

/// A sink that runs.
pub(crate) type RunningSink = (ActorRef<SinkActor>, Arc<SinkGauge>);

impl SinkActor {
    /// Spawns the actor of a sink, and that of the queue in front of it. The one that takes the writer's batches is the
    /// first, and is to be stopped first.
    pub(crate) fn start(
        system: &System,
        config: SinkConfig,
        sink: Box<dyn Sink>,
    ) -> Result<Vec<RunningSink>, StartError> {
        let Some(spill) = config.spill.clone() else {
            let gauge = SinkGauge::named(config.name.clone());
            return Ok(vec![Self::spawn(system, config, sink, gauge)?]);
        };
        let name = format!("{}.queue", config.name);
        let gauge = SinkGauge::named(config.name.clone());
        let inner = Self::spawn(system, config, sink, gauge)?;
        let gauge = SinkGauge::named(name.clone());
        let queue = spill::queue(&name, spill, inner.clone(), gauge.clone());
        let opened = (queue.open)().map_err(|error| StartError::Sink { name, error });
        Ok(vec![Self::spawn(system, queue, opened?, gauge)?, inner])
    }

    fn spawn(
        system: &System,
        config: SinkConfig,
        sink: Box<dyn Sink>,
        gauge: Arc<SinkGauge>,
    ) -> Result<RunningSink, SpawnError> {
        let options = writer::lanes().name(format!("logd.sink.{}", config.name));
        let actor = Self {
            config,
            sink: Some(sink),
            current: None,
            attempt: 0,
            panics: 0,
            is_backing_off: false,
            rotations: 0,
            wake: None,
            gauge: gauge.clone(),
        };
        Ok((system.spawn_once(options, actor)?, gauge))
    }

    fn woken(&mut self, cx: &mut freeboard::Context<Self>) {
        if let Some(wake) = &self.wake {
            // Ordering: AcqRel, see `wake_by_ref`.
            wake.is_woken.swap(false, Ordering::AcqRel);
        }
        self.run(cx);
    }

    fn retry(&mut self, cx: &mut freeboard::Context<Self>) {
        self.is_backing_off = false;
        self.run(cx);
    }

    /// One call of the sink: with the current batch, or for other work.
    fn attempt(&mut self) -> Poll<Result<(), SinkError>> {
        let Self {
            sink,
            current,
            config,
            rotations,
            gauge,
            ..
        } = self;
        let Some(wake) = &self.wake else {
            return Poll::Pending;
        };
        let (waker, gauge) = (Waker::from(wake.clone()), gauge.clone());
        let call = || {
            let sink = match sink {
                Some(sink) => sink,
                None => sink.insert((config.open)()?),
            };
            // Ordering: Relaxed, see `SinkGauge::rotate`.
            let wanted = gauge.rotations.load(Ordering::Relaxed);
            if wanted != *rotations {
                *rotations = wanted;
                sink.rotate();
            }
            let mut task = Context::from_waker(&waker);
            match current {
                Some(batch) => sink.poll_write(batch, &mut task),
                None => sink.poll_idle(&mut task),
            }
        };
        gauge.called_at_ns.store(now_ns(), Ordering::Relaxed);
        // Unwind safety: a sink that has panicked is dropped, and the batch has no state that a sink changes.
        let result = catch_unwind(AssertUnwindSafe(call));
        gauge.called_at_ns.store(0, Ordering::Relaxed);
        result.unwrap_or_else(|_| Poll::Ready(Err(self.panicked())))
    }

    fn panicked(&mut self) -> SinkError {
        self.gauge.panics.add(1);
        self.panics += 1;
        let sink = self.sink.take();
        // Its drop may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(sink)));
        if self.panics < PANICS_MAX || self.current.is_none() {
            SinkError::Broken("it panicked".to_owned())
        } else {
            SinkError::Refused("it panicked with this batch again".to_owned())
        }
    }

    fn run(&mut self, cx: &mut freeboard::Context<Self>) {
        let mut is_unfinished = true;
        while !self.is_backing_off {
            if self.gauge.is_dead() {
                self.refuse();
                is_unfinished = false;
                break;
            }
            match self.attempt() {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {
                    self.attempt = 0;
                    let Some(batch) = self.current.take() else {
                        self.gauge.recover();
                        is_unfinished = false;
                        break;
                    };
                    self.panics = 0;
                    batch.note_taken();
                    self.gauge.take(batch.len() as u64, batch.bytes());
                    cx.note_progress();
                    if cx.depth() > 0 {
                        break;
                    }
                }
                Poll::Ready(Err(error)) => self.fail(&error, cx),
            }
        }
        cx.set_unfinished(is_unfinished);
        for lane in 0..Group::ALL.len() {
            if self.current.is_some() {
                cx.pause_lane(lane);
            } else {
                cx.resume_lane(lane);
            }
        }
    }

    /// Sheds the current batch. Whether there was one.
    fn refuse(&mut self) -> bool {
        let Some(batch) = self.current.take() else {
            return false;
        };
        self.gauge.refused.add(1);
        batch.set_reason(Shed::SinkFailed);
        true
    }

    fn fail(&mut self, error: &SinkError, cx: &mut freeboard::Context<Self>) {
        self.gauge.fail(error);
        match error {
            SinkError::Refused(_) => {
                self.panics = 0;
                if self.refuse() {
                    return;
                }
            }
            SinkError::Closed(_) => {
                self.gauge.is_dead.store(true, Ordering::Relaxed);
                return;
            }
            SinkError::Broken(_) => self.sink = None,
            SinkError::Busy(_) => {}
        }
        let delay = Duration::from_nanos(self.config.backoff.delay_ns(self.attempt));
        self.attempt = self.attempt.saturating_add(1);
        self.is_backing_off = true;
        if let Err(error) = cx.wake_after(delay, Self::retry) {
            // The system is about to end, or out of threads; a retry at once would only spin.
            tracing::error!("the sink {} cannot wait: {error}", self.config.name);
        }
    }
}

impl Actor for SinkActor {
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut freeboard::Context<Self>) {
        let wake = Arc::new(WakeActor {
            is_woken: AtomicBool::new(false),
            wake: Box::new(cx.waker_fn(Self::woken)),
        });
        self.wake = Some(wake.clone());
        let _ = self.gauge.waker.set(Waker::from(wake));
        self.run(cx);
    }

    fn stopped(&mut self, cx: &mut freeboard::Context<Self>) {
        if let Some(batch) = self.current.take() {
            batch.set_reason(Shed::Stopped);
        }
        let Some(sink) = self.sink.take() else { return };
        match cx.blocking(|| sink.close()) {
            // Ordering: Relaxed, see `SinkGauge::is_closed`.
            Ok(()) => self.gauge.is_closed.store(true, Ordering::Relaxed),
            Err(error) => self.gauge.fail(&error),
        }
        if self.gauge.is_dead() {
            self.gauge.is_closed.store(false, Ordering::Relaxed);
        }
    }
}

impl Handler<Arc<Batch>> for SinkActor {
    type Reply = ();

    fn handle(&mut self, batch: Arc<Batch>, cx: &mut freeboard::Context<Self>) {
        assert!(self.current.is_none(), "the lanes are paused");
        self.current = Some(batch);
        self.run(cx);
    }
}
