//! The actor of a sink: takes batches from the writer, and gives its sink one at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use freeboard::{Actor, ActorRef, Handler, System};

use super::{
    Sink, SinkConfig, SinkGauge,
    driver::{Called, Driver},
    spill,
};
use crate::{batch::Batch, priority::Group, server::StartError, source::Shed, writer};

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

/// A sink that waits is called again after this time. What it waits for may have failed meanwhile, such as a disk that is
/// full now, and then it says so.
const POLL_AGAIN: Duration = Duration::from_secs(1);

/// Gives its sink one batch at a time.
pub(crate) struct SinkActor {
    driver: Driver,
    current: Option<Arc<Batch>>,
    is_backing_off: bool,
    /// Whether a timer runs that calls a sink again that waits.
    is_poll_due: bool,
    wake: Option<(Arc<WakeActor>, Waker)>,
}

/// A sink that runs.
pub(crate) struct RunningSink {
    pub(crate) actor: ActorRef<SinkActor>,
    pub(crate) gauge: Arc<SinkGauge>,
    /// The gauge of the sink behind the queue, if there is a queue.
    pub(crate) behind_queue: Option<Arc<SinkGauge>>,
}

/// A sink that is open, with what its actor needs.
pub(crate) struct OpenedSink {
    driver: Driver,
    behind_queue: Option<Arc<SinkGauge>>,
}

impl OpenedSink {
    /// Opens a sink, and the queue in front of it.
    pub(crate) fn open(config: &SinkConfig) -> Result<Self, StartError> {
        let mut config = config.clone();
        let mut behind_queue = None;
        if let Some(spill) = config.spill.take() {
            let gauge = SinkGauge::named(config.name.clone());
            config = spill::queue(config, spill, gauge.clone());
            behind_queue = Some(gauge);
        }
        let gauge = SinkGauge::named(config.name.clone());
        let opened: Result<Box<dyn Sink>, _> = (config.open)(&gauge);
        let name = config.name.clone();
        let sink = opened.map_err(|error| StartError::Sink { name, error })?;
        Ok(Self {
            driver: Driver::new(config, sink, gauge),
            behind_queue,
        })
    }
}

impl SinkActor {
    /// Spawns the actor of a sink.
    pub(crate) fn start(system: &System, opened: OpenedSink) -> Result<RunningSink, StartError> {
        let OpenedSink {
            driver,
            behind_queue,
        } = opened;
        let gauge = driver.gauge().clone();
        let options = writer::lanes().name(format!("logd.sink.{}", gauge.name()));
        let actor = Self {
            driver,
            current: None,
            is_backing_off: false,
            is_poll_due: false,
            wake: None,
        };
        Ok(RunningSink {
            actor: system.spawn_once(options, actor)?,
            gauge,
            behind_queue,
        })
    }

    fn woken(&mut self, cx: &mut freeboard::Context<Self>) {
        if let Some((wake, _)) = &self.wake {
            // Ordering: AcqRel, see `wake_by_ref`.
            wake.is_woken.swap(false, Ordering::AcqRel);
        }
        self.run(cx);
    }

    fn retry(&mut self, cx: &mut freeboard::Context<Self>) {
        self.is_backing_off = false;
        self.run(cx);
    }

    fn poll_again(&mut self, cx: &mut freeboard::Context<Self>) {
        self.is_poll_due = false;
        self.run(cx);
    }

    /// Calls the sink with the current batch and then, if no further one waits, for its other work.
    fn run(&mut self, cx: &mut freeboard::Context<Self>) {
        let mut is_unfinished = true;
        let Some((_, waker)) = &self.wake else { return };
        while !self.is_backing_off {
            let called = self.driver.call(self.current.as_ref(), waker);
            match called {
                Called::Pending => {
                    if !self.is_poll_due {
                        self.is_poll_due = cx.wake_after(POLL_AGAIN, Self::poll_again).is_ok();
                    }
                    break;
                }
                Called::Retry(delay) => {
                    self.is_backing_off = true;
                    if let Err(error) = cx.wake_after(delay, Self::retry) {
                        // The system is about to end, or out of threads; a retry at once would only spin.
                        let name = self.driver.gauge().name();
                        tracing::error!("the sink {name} cannot wait: {error}");
                    }
                }
                Called::Done | Called::Refused => {
                    if self.current.take().is_none() {
                        is_unfinished = false;
                        break;
                    }
                    cx.note_progress();
                    if cx.depth() > 0 {
                        break;
                    }
                }
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
}

impl Actor for SinkActor {
    const TELLS_EXPIRE: bool = false;

    fn started(&mut self, cx: &mut freeboard::Context<Self>) {
        let wake = Arc::new(WakeActor {
            is_woken: AtomicBool::new(false),
            wake: Box::new(cx.waker_fn(Self::woken)),
        });
        let waker = Waker::from(wake.clone());
        self.driver.gauge().set_waker(waker.clone());
        self.wake = Some((wake, waker));
        self.run(cx);
    }

    fn stopped(&mut self, cx: &mut freeboard::Context<Self>) {
        if let Some(batch) = self.current.take() {
            batch.set_reason(Shed::Stopped);
        }
        // The gauge has the error.
        let _ = cx.blocking(|| self.driver.close());
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
