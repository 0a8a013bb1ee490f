//! Supervisors like OTP's: an actor that starts, restarts and stops its children by a declared strategy.
//!
//! ```text
//!   started ──> Boot: starts the children in order, each after the one before has started ──> started for its waiters
//!                 │ a start fails: terminates the started ones in reverse order, and fails
//!   Terminated of a child ──> by restart kind and strategy: terminates siblings in reverse order, starts in order
//!                 │ more restarts than the intensity: terminates all in reverse order, and gives up
//!   graceful stop ──> StopChildren: terminates all in reverse order, and stops
//! ```
//!
//! It is built of spawning, watching and waiting for starts. Each step is an async handler, so the next exit or request
//! is handled when the step is complete, as in OTP. A restart is a new spawn: a child's own supervision is to stop.
//!
//! Source: OTP's `supervisor`. The test `supervisors` has a row for each rule of its documentation.

mod children;
mod exit;
mod requests;

use std::{fmt, time::Duration};

use freeboard_flow::{RestartHistory, RestartLimit};
use freeboard_meter::clock;

use crate::{
    actor::{Actor, AsyncHandler},
    any_ref::AnyActorRef,
    child_spec::{ChildSpec, Restart, Shutdown, Terms},
    context::Context,
    start::StartError,
    supervision::saturating_ns,
    termination::{ExitReason, Terminated},
};

use children::{Children, Place};
use exit::{exited, exited_within};
pub use requests::{
    ChildCounts, ChildInfo, CountChildren, DeleteChild, RestartChild, StartChild, SupervisorError,
    TerminateChild, WhichChildren,
};

/// Which siblings a restart concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    OneForOne,
    OneForAll,
    RestForOne,
}

/// Whether the exit of significant children terminates the supervisor. Such an exit is one that does not restart the
/// child, and that the supervisor did not cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoShutdown {
    /// It does not. The default.
    #[default]
    Never,
    /// The exit of any one of them.
    AnySignificant,
    /// The exit of the last one of them.
    AllSignificant,
}

/// An actor that supervises others. Declare it, then spawn it:
///
/// ```
/// use freeboard_actor::{Actor, ChildRef, ChildSpec, Restart, Supervisor, System};
///
/// #[derive(Default)]
/// struct Store;
/// #[derive(Default)]
/// struct Worker;
/// impl Actor for Store {}
/// impl Actor for Worker {}
///
/// let system = System::builder().workers(1).build()?;
/// let store = ChildRef::new();
/// let tree = system.spawn(
///     Supervisor::rest_for_one()
///         .child(ChildSpec::new("store", Store::default).reference(&store))
///         .child(ChildSpec::new("workers", || {
///             Supervisor::one_for_one()
///                 .child(ChildSpec::new("first", Worker::default).restart(Restart::Transient))
///                 .child(ChildSpec::new("second", Worker::default))
///         })),
/// );
/// tree.wait_started().wait()?;
/// assert!(store.get().is_some());
/// assert_eq!(tree.count_children().wait()?.active, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Children start in order, each after the one before has started, and are terminated in reverse order. If a child does
/// not start, the supervisor fails. [`crate::ActorRef::wait_started`] of the supervisor waits for all of its children.
///
/// Stop a supervisor with [`crate::ActorRef::stop_gracefully`], or by [`crate::System::shutdown`]: then its children
/// are terminated in reverse order, as their specifications say. [`crate::ActorRef::stop`] stops them all at once.
#[must_use = "spawn it"]
pub struct Supervisor {
    strategy: Strategy,
    limit: RestartLimit,
    history: RestartHistory,
    children: Children,
    /// The id of two declared children.
    twice: Option<String>,
    children_max: usize,
    auto_shutdown: AutoShutdown,
    /// A graceful stop has begun: no child is started any more.
    is_stopping: bool,
}

/// The default bound on the children of a supervisor.
pub const CHILDREN_MAX_DEFAULT: usize = 65_536;

impl fmt::Debug for Supervisor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children: Vec<_> = self.children.iter().map(|child| &child.terms.id).collect();
        formatter
            .debug_struct("Supervisor")
            .field("strategy", &self.strategy)
            .field("children", &children)
            .finish_non_exhaustive()
    }
}

impl Supervisor {
    fn new(strategy: Strategy) -> Self {
        // As in OTP.
        let limit = RestartLimit {
            max: 1,
            within_ns: 5_000_000_000,
        };
        Self {
            strategy,
            limit,
            history: RestartHistory::new(limit),
            children: Children::default(),
            twice: None,
            children_max: CHILDREN_MAX_DEFAULT,
            auto_shutdown: AutoShutdown::Never,
            is_stopping: false,
        }
    }

    /// A child that terminates is restarted alone. With [`Supervisor::start_child`] also OTP's simple_one_for_one.
    ///
    /// [`Supervisor::start_child`]: crate::ActorRef::start_child
    pub fn one_for_one() -> Self {
        Self::new(Strategy::OneForOne)
    }

    /// If a child is to be restarted, all others are terminated, and all are started.
    pub fn one_for_all() -> Self {
        Self::new(Strategy::OneForAll)
    }

    /// If a child is to be restarted, those after it are terminated, and it and they are started.
    pub fn rest_for_one() -> Self {
        Self::new(Strategy::RestForOne)
    }

    /// At most so many restarts within `period`. The next one terminates all children, and the supervisor fails with
    /// [`ExitReason::RestartLimit`]: a permanent supervisor is restarted by its own, a transient one is not.
    /// Default: 1 within 5 s. A restart of several siblings counts once, and each attempt at a start counts.
    ///
    /// More than [`freeboard_flow::RESTARTS_MAX`] restarts, or a period of 0, fail its start.
    pub fn intensity(mut self, restarts: u32, period: Duration) -> Self {
        self.limit = RestartLimit {
            max: restarts,
            within_ns: saturating_ns(period),
        };
        self.history = RestartHistory::new(self.limit);
        self
    }

    /// Whether the exit of significant children terminates it.
    pub fn auto_shutdown(mut self, auto_shutdown: AutoShutdown) -> Self {
        self.auto_shutdown = auto_shutdown;
        self
    }

    /// The bound on its children, [`CHILDREN_MAX_DEFAULT`] by default.
    pub fn children_max(mut self, children: usize) -> Self {
        self.children_max = children;
        self
    }

    /// Adds a child, after the others.
    pub fn child<A: Actor>(mut self, spec: ChildSpec<A>) -> Self {
        if let Err(child) = self.children.push(spec.erase()) {
            self.twice.get_or_insert(child.terms.id);
        }
        self
    }

    /// Starts a child; an error if it does not start.
    async fn start(&mut self, place: Place, cx: &Context<Self>) -> Result<AnyActorRef, String> {
        let spawned = (self.children[place].spawn)(cx);
        let actor = spawned.map_err(|error| error.to_string())?;
        match actor.wait_started().await {
            // One that has terminated since is an exit, not an error of the start: the watch tells it.
            Ok(()) | Err(StartError::Exited) => cx.watch_any(&actor),
            Err(error) => {
                actor.stop();
                exited(&actor).await;
                return Err(error.to_string());
            }
        }
        self.children.set_actor(place, actor.clone());
        Ok(actor)
    }

    /// Terminates a child and waits for its end.
    async fn terminate(&mut self, place: Place) {
        let Some(actor) = self.children.take_actor(place) else {
            return;
        };
        match self.children[place].terms.shutdown {
            Shutdown::Brutal => actor.stop(),
            Shutdown::Infinity => actor.stop_gracefully(),
            Shutdown::Within(time) => {
                actor.stop_gracefully();
                exited_within(&actor, time).await;
                actor.stop();
            }
        }
        exited(&actor).await;
    }

    /// Terminates the children from `first` on, the last one first. Temporary ones are forgotten.
    async fn terminate_from(&mut self, first: Place) {
        for place in self.children.places_from(first).into_iter().rev() {
            self.terminate(place).await;
            if self.children[place].terms.restart == Restart::Temporary {
                self.children.remove(place);
            }
        }
    }

    /// Starts the children from `first` on, in order. The error names the one that did not start.
    async fn start_from(
        &mut self,
        first: Place,
        cx: &Context<Self>,
    ) -> Result<(), (Place, String)> {
        for place in self.children.places_from(first) {
            let started = self.start(place, cx).await;
            started.map_err(|error| (place, error))?;
        }
        Ok(())
    }

    /// Restarts a child that has terminated, and its siblings by the strategy, until it succeeds or was tried too
    /// often. During a shutdown of the system nothing can be spawned: then the child does not run any more, and its
    /// siblings go on until the shutdown stops the supervisor.
    async fn restart(&mut self, mut place: Place, cx: &mut Context<Self>) {
        let mut last_error = "it terminated".to_owned();
        loop {
            if is_shutting_down(cx) {
                return;
            }
            if !self.history.record(clock::now_ns()) {
                break;
            }
            let started = match self.strategy {
                Strategy::OneForOne => {
                    let started = self.start(place, cx).await;
                    started.map(drop).map_err(|error| (place, error))
                }
                Strategy::OneForAll => {
                    self.terminate_from(0).await;
                    self.start_from(0, cx).await
                }
                Strategy::RestForOne => {
                    self.terminate_from(place + 1).await;
                    self.start_from(place, cx).await
                }
            };
            match started {
                Ok(()) => return,
                Err(failed) => (place, last_error) = failed,
            }
        }
        let id = self.children[place].terms.id.clone();
        self.terminate_from(0).await;
        cx.give_up(format!(
            "more than {} restarts within {:?}: child \"{id}\": {last_error}",
            self.limit.max,
            Duration::from_nanos(self.limit.within_ns),
        ));
    }

    /// Whether the exit of this child, which is not restarted, terminates the supervisor.
    fn shuts_down_after(&self, terms: &Terms) -> bool {
        terms.is_significant
            && match self.auto_shutdown {
                AutoShutdown::Never => false,
                AutoShutdown::AnySignificant => true,
                AutoShutdown::AllSignificant => !self.children.runs_significant(),
            }
    }
}

/// Starts the children.
pub struct Boot(());

/// Terminates the children: a graceful stop has begun.
pub struct StopChildren(());

impl Actor for Supervisor {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.defer_start();
        // A graceful stop waits until the children are terminated.
        cx.set_unfinished(true);
        cx.notify_self(Boot(()));
        cx.on_drain(StopChildren(()));
    }
}

impl AsyncHandler<Boot> for Supervisor {
    type Reply = ();
    async fn handle(&mut self, _boot: Boot, cx: &mut Context<Self>) {
        if let Some(twice) = &self.twice {
            cx.fail(format!("two children have the id \"{twice}\""));
            return;
        }
        if let Err(error) = self.limit.validate() {
            cx.fail(error);
            return;
        }
        if self.children.len() > self.children_max {
            cx.fail(SupervisorError::Full(self.children_max));
            return;
        }
        if let Err((place, error)) = self.start_from(0, cx).await {
            let id = self.children[place].terms.id.clone();
            self.terminate_from(0).await;
            if is_shutting_down(cx) {
                cx.stop();
            } else {
                cx.fail(format!("child \"{id}\": {error}"));
            }
            return;
        }
        cx.complete_start();
    }
}

impl AsyncHandler<StopChildren> for Supervisor {
    type Reply = ();
    async fn handle(&mut self, _stop: StopChildren, cx: &mut Context<Self>) {
        self.is_stopping = true;
        self.terminate_from(0).await;
        cx.set_unfinished(false);
    }
}

impl AsyncHandler<Terminated> for Supervisor {
    type Reply = ();
    async fn handle(&mut self, ended: Terminated, cx: &mut Context<Self>) {
        // One that this supervisor has terminated is not found.
        let Some(place) = self.children.by_actor(ended.actor) else {
            return;
        };
        self.children.take_actor(place);
        let terms = self.children[place].terms.clone();
        let is_restarted = match terms.restart {
            Restart::Permanent => true,
            // Children do not restart themselves, so the limit is that of a supervisor: OTP's reason `shutdown`.
            Restart::Transient => {
                ended.reason.is_abnormal() && ended.reason != ExitReason::RestartLimit
            }
            Restart::Temporary => false,
        };
        if is_restarted {
            self.restart(place, cx).await;
            return;
        }
        if terms.restart == Restart::Temporary {
            self.children.remove(place);
        }
        if self.shuts_down_after(&terms) {
            self.terminate_from(0).await;
            cx.stop();
        }
    }
}

/// Whether the system spawns no further actors.
fn is_shutting_down(cx: &Context<Supervisor>) -> bool {
    cx.core().system.is_shutting_down()
}
