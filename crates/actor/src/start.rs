//! Starts that may fail, and waiting for a start.
//!
//! A spawn is immediate: the factory and the start hook run later, on a worker. A caller who needs their outcome adds
//! itself to the actor's start waiters.
//!
//! **No waiter is forgotten.** A waiter is added under the lock of the relations, and only while the actor has not
//! terminated; then [`START_WAITERS`] is signalled. The run that takes the signal tells the waiters if the actor has
//! started. Otherwise it sets a flag, and the run tells them after the next start, or fails them with the error. The
//! termination takes the relations under the same lock, and tells or drops the waiters that are left. A signal that comes
//! after the run has taken the signals is still pending when the run ends, so another run follows.
//!
//! **The error of a start does not depend on when a caller asks.** If it terminates the actor, it is kept in the relations
//! before the termination, and stays there until the last reference is dropped. Nothing else is stored for a start.

use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use freeboard_queue::oneshot;

use crate::{
    actor::Actor,
    actor_ref::ActorRef,
    block,
    core::{Core, START_WAITERS},
    reply::NO_DEADLINE_NS,
    run::TryFactory,
};

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why an actor did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its factory or its start hook returned an error or panicked; the text says which. Its supervision decides
    /// whether it starts again.
    #[error("the actor did not start: {0}")]
    Failed(String),
    /// It has terminated, not because of its start.
    #[error("the actor has terminated")]
    Exited,
    /// [`Start::wait`] in a handler would have blocked the last thread that could run other actors: see
    /// [`crate::SystemBuilder::threads_max`]. Also returned when the system ends meanwhile.
    #[error("no thread would be left to run other actors")]
    NoThread,
}

/// Tells a caller whether the actor has started.
pub(crate) type StartWaiter = oneshot::Sender<Result<(), String>>;

/// A factory that does not fail.
pub(crate) fn infallible<A: Actor>(
    mut factory: impl FnMut() -> A + Send + 'static,
) -> TryFactory<A> {
    Box::new(move || Ok(factory()))
}

/// A factory whose errors are texts.
pub(crate) fn fallible<A: Actor, E: fmt::Display>(
    mut factory: impl FnMut() -> Result<A, E> + Send + 'static,
) -> TryFactory<A> {
    Box::new(move || factory().map_err(|error| format!("{error:#}")))
}

impl Core {
    /// Adds a caller who waits for the start. If the actor has terminated, tells it the error of the start, or drops it.
    fn add_start_waiter(&self, waiter: StartWaiter) {
        // Declared before the lock, so that it is dropped after it: its drop may run user code.
        let mut waiter = Some(waiter);
        let error = {
            let mut relations = self.lock_relations();
            if self.end_reason().is_none() {
                let waiters = &mut relations.get_or_insert_default().start_waiters;
                if waiters.len() == waiters.capacity() {
                    // Those that gave up; so their number is bounded by that of the others.
                    waiters.retain(|waiter| !waiter.is_closed());
                }
                waiters.extend(waiter.take());
            }
            relations.as_ref().and_then(|it| it.start_error.clone())
        };
        match (waiter, error) {
            (None, _) => self.signal(START_WAITERS),
            (Some(waiter), Some(error)) => drop(waiter.send(Err(error.into()))),
            (Some(_), None) => {}
        }
    }

    pub(crate) fn wait_started(&self) -> Start {
        let (sender, receiver) = oneshot::channel();
        self.add_start_waiter(sender);
        Start(receiver)
    }

    /// Tells the outcome of a start to all who wait for it.
    pub(crate) fn tell_start_waiters(&self, outcome: &Result<(), String>) {
        let mut relations = self.lock_relations();
        let waiters = relations
            .as_mut()
            .map(|it| std::mem::take(&mut it.start_waiters));
        drop(relations);
        for waiter in waiters.into_iter().flatten() {
            // A waiter's waker may panic.
            crate::catch_panic::call(|| drop(waiter.send(outcome.clone())));
        }
    }
}

impl<A: Actor> ActorRef<A> {
    /// Waits until the actor has started, or has failed to start: `.await` it, or call [`Start::wait`]. Ready at once
    /// if it has started before.
    ///
    /// A failed start is reported to the callers who wait for it, and then to the actor's supervision. If that restarts
    /// the actor, a later call waits for the next attempt. If the failed start terminates it, a later call returns the
    /// same error. An actor that waits here for itself waits for ever.
    ///
    /// ```
    /// use freeboard_actor::{Actor, SpawnOptions, StartError, System};
    ///
    /// struct Config(u16);
    /// impl Actor for Config {}
    ///
    /// let system = System::builder().workers(1).build()?;
    /// let parse = |text: &'static str| move || text.parse().map(Config);
    /// let config = system.try_spawn_with(SpawnOptions::new(), parse("8080"))?;
    /// assert_eq!(config.wait_started().wait(), Ok(()));
    /// let config = system.try_spawn_with(SpawnOptions::new(), parse("none"))?;
    /// let error = config.wait_started().wait();
    /// assert!(matches!(error, Err(StartError::Failed(text)) if text.contains("invalid digit")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_started(&self) -> Start {
        self.cell().core().wait_started()
    }
}

/// The outcome of a start: `.await` it, or call [`Start::wait`]. Made by [`ActorRef::wait_started`].
#[derive(Debug)]
#[must_use = "nothing waits before `.await` or `.wait()`"]
pub struct Start(oneshot::Receiver<Result<(), String>>);

impl Start {
    /// Blocks this thread until the actor has started. While a handler blocks, another thread runs the worker's other
    /// actors. Prefer an async handler.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn wait(mut self) -> Result<(), StartError> {
        let Ok(_section) = freeboard_sched::enter_blocking() else {
            return Err(StartError::NoThread);
        };
        block::until(NO_DEADLINE_NS, |context| self.poll_started(context))
            .unwrap_or(Err(StartError::NoThread))
    }

    fn poll_started(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StartError>> {
        self.0.poll_recv(context).map(|outcome| match outcome {
            Ok(outcome) => outcome.map_err(StartError::Failed),
            Err(_) => Err(StartError::Exited),
        })
    }
}

impl Future for Start {
    type Output = Result<(), StartError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_started(context)
    }
}
