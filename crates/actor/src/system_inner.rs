//! The state that all actors of a system share.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use freeboard_meter::{Counter, Striped, SystemSnapshot, clock};
use freeboard_sched::{Scheduler, Timers};

use crate::{
    block::BlockedHandlers,
    catch_panic,
    dead_letter::DeadLetters,
    directory::AnyDirectory,
    group::gauges::Gauged,
    listed::Listed,
    names::Names,
    options::SpawnOptions,
    registry::Registry,
    supervision::Failure,
    sync::{AtomicBool, Ordering},
    topic::AnyTopic,
};

pub(crate) type FailureObserver = Box<dyn Fn(&Failure) + Send + Sync>;

/// Failures that the shutdown report contains in full.
const FAILURES_MAX: usize = 16;

/// Panics of actors since the shutdown began.
#[derive(Default)]
pub(crate) struct Failures {
    pub(crate) count: u64,
    /// Actors that a panic terminated.
    pub(crate) actors_ended: u64,
    /// The first of them.
    pub(crate) first: Vec<Failure>,
}

pub(crate) struct SystemInner {
    pub(crate) name: String,
    pub(crate) scheduler: Scheduler,
    pub(crate) timers: Timers,
    pub(crate) registry: Arc<Registry>,
    pub(crate) names: Arc<Names>,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) groups: Listed<dyn Gauged>,
    pub(crate) topics: Listed<dyn AnyTopic>,
    pub(crate) directories: Listed<dyn AnyDirectory>,
    pub(crate) blocked_handlers: Arc<BlockedHandlers>,
    pub(crate) default_options: SpawnOptions,
    /// Of asks that set no deadline.
    pub(crate) ask_timeout: Option<Duration>,
    pub(crate) on_failure: Option<FailureObserver>,
    #[cfg(feature = "tokio")]
    pub(crate) runtime: Option<tokio::runtime::Handle>,
    pub(crate) ended: Striped<Counter>,
    pub(crate) restarted: Counter,
    pub(crate) is_shutting_down: AtomicBool,
    pub(crate) is_past_deadline: AtomicBool,
    pub(crate) shutdown_failures: Mutex<Failures>,
    /// Messages in outboxes that were given up, or whose receiver was terminated by the shutdown.
    pub(crate) undelivered: Counter,
    pub(crate) started_ns: u64,
}

impl SystemInner {
    pub(crate) fn is_shutting_down(&self) -> bool {
        // Ordering: SeqCst, rare.
        self.is_shutting_down.load(Ordering::SeqCst)
    }

    /// `true` for the first caller.
    pub(crate) fn begin_shutdown(&self) -> bool {
        // Ordering: SeqCst, rare.
        !self.is_shutting_down.swap(true, Ordering::SeqCst)
    }

    /// Whether a shutdown stops the actors that are left.
    pub(crate) fn is_past_deadline(&self) -> bool {
        // Ordering: SeqCst, rare.
        self.is_past_deadline.load(Ordering::SeqCst)
    }

    pub(crate) fn pass_deadline(&self) {
        // Ordering: SeqCst, rare; before any receiver is closed, so that senders which are refused then see it.
        self.is_past_deadline.store(true, Ordering::SeqCst);
    }

    /// Updates the failures of the shutdown report, if a shutdown is under way.
    fn note_for_shutdown(&self, note: impl FnOnce(&mut Failures)) {
        if self.is_shutting_down() {
            let failures = self.shutdown_failures.lock();
            note(&mut failures.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Counts an actor that a panic has terminated.
    pub(crate) fn count_failed_actor(&self) {
        self.note_for_shutdown(|failures| failures.actors_ended += 1);
    }

    /// Passes a failure to the observer and the log.
    pub(crate) fn report(&self, failure: &Failure) {
        self.note_for_shutdown(|failures| {
            failures.count += 1;
            if failures.first.len() < FAILURES_MAX {
                failures.first.push(failure.clone());
            }
        });
        catch_panic::call(|| {
            tracing::error!(
                actor = failure.actor.get(),
                actor_type = failure.actor_type,
                message_type = failure.message_type,
                "{failure}"
            );
        });
        if let Some(observer) = &self.on_failure
            && catch_panic::call(|| observer(failure)).is_none()
        {
            catch_panic::call(|| tracing::error!("the observer of failures panicked"));
        }
    }

    /// Enters the runtime, unless this thread, as one of the scheduler's, is in it already.
    #[cfg(feature = "tokio")]
    pub(crate) fn enter_runtime(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        let runtime = self.runtime.as_ref()?;
        (!IS_IN_RUNTIME.get()).then(|| runtime.enter())
    }

    #[cfg(not(feature = "tokio"))]
    pub(crate) fn enter_runtime(&self) -> Option<()> {
        None
    }

    pub(crate) fn snapshot(&self) -> SystemSnapshot {
        let (cells, ended_by_type) = self.registry.census();
        let mut actors: Vec<_> = cells.iter().map(|cell| cell.snapshot()).collect();
        actors.sort_unstable_by_key(|actor| actor.id);
        SystemSnapshot {
            actors,
            ended_by_type,
            ..self.overview(cells.len())
        }
    }

    /// Everything except the actors, of which `alive` exist.
    pub(crate) fn overview(&self, alive: usize) -> SystemSnapshot {
        let ended = self.ended.sum(Counter::get);
        SystemSnapshot {
            name: self.name.clone(),
            uptime_ns: clock::now_ns() - self.started_ns,
            workers: self.scheduler.workers_snapshot(),
            scheduler: self.scheduler.snapshot(),
            poller: self.scheduler.poller_snapshot(),
            long_runs: self.scheduler.long_runs(),
            actors_alive: alive as u64,
            actors_spawned: alive as u64 + ended,
            actors_ended: ended,
            actors_restarted: self.restarted.get(),
            dead_letters: self.dead_letters.counts(),
            actors: Vec::new(),
            ended_by_type: Vec::new(),
            groups: self.groups.map(Gauged::snapshot),
            topics: self.topics.map(AnyTopic::snapshot),
            directories: self.directories.map(AnyDirectory::snapshot),
        }
    }
}

#[cfg(feature = "tokio")]
thread_local! {
    /// Whether this is a thread of a system with a runtime.
    static IS_IN_RUNTIME: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Each thread enters the runtime once. Otherwise all of them would write its one reference count at each poll.
#[cfg(feature = "tokio")]
pub(crate) fn in_runtime(runtime: tokio::runtime::Handle) -> Arc<freeboard_sched::ThreadScope> {
    Arc::new(move |work| {
        let _entered = runtime.enter();
        IS_IN_RUNTIME.set(true);
        work();
    })
}
