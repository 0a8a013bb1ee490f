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

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use freeboard_flow::{RestartHistory, RestartLimit};
use freeboard_meter::clock;
use freeboard_queue::oneshot;
use freeboard_sched::TimerKey;

use crate::{
    actor::{Actor, AsyncHandler, Handler},
    actor_ref::ActorRef,
    any_ref::AnyActorRef,
    ask::Ask,
    child_spec::{AnyChild, ChildSpec, Restart, Shutdown, Terms},
    context::Context,
    core_ref::CoreRef,
    relations::{self, Watcher},
    reply::deadline_after,
    start::StartError,
    supervision::saturating_ns,
    termination::{ExitReason, Terminated},
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
/// not start, the supervisor fails. [`ActorRef::wait_started`] of the supervisor waits for all of its children.
///
/// Stop a supervisor with [`ActorRef::stop_gracefully`], or by [`crate::System::shutdown`]: then its children are
/// terminated in reverse order, as their specifications say. [`ActorRef::stop`] stops them all at once.
#[must_use = "spawn it"]
pub struct Supervisor {
    strategy: Strategy,
    limit: RestartLimit,
    history: RestartHistory,
    children: Vec<AnyChild>,
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
            children: Vec::new(),
            children_max: CHILDREN_MAX_DEFAULT,
            auto_shutdown: AutoShutdown::Never,
            is_stopping: false,
        }
    }

    /// A child that terminates is restarted alone. With [`Supervisor::start_child`] also OTP's simple_one_for_one.
    ///
    /// [`Supervisor::start_child`]: ActorRef::start_child
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
        self.children.push(spec.erase());
        self
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.children.iter().position(|child| child.terms.id == id)
    }

    /// Starts a child; an error if it does not start.
    async fn start(&mut self, index: usize, cx: &Context<Self>) -> Result<AnyActorRef, String> {
        let child = &mut self.children[index];
        let actor = (child.spawn)(cx).map_err(|error| error.to_string())?;
        match actor.wait_started().await {
            // One that has terminated since is an exit, not an error of the start: the watch tells it.
            Ok(()) | Err(StartError::Exited) => cx.watch_any(&actor),
            Err(error) => {
                actor.stop();
                exited(&actor).await;
                return Err(error.to_string());
            }
        }
        child.actor = Some(actor.clone());
        Ok(actor)
    }

    /// Terminates a child and waits for its end.
    async fn terminate(&mut self, index: usize) {
        let child = &mut self.children[index];
        let Some(actor) = child.actor.take() else {
            return;
        };
        match child.terms.shutdown {
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
    async fn terminate_from(&mut self, first: usize) {
        for index in (first..self.children.len()).rev() {
            self.terminate(index).await;
            if self.children[index].terms.restart == Restart::Temporary {
                self.children.remove(index);
            }
        }
    }

    /// Starts the children from `first` on, in order. The error names the one that did not start.
    async fn start_from(
        &mut self,
        first: usize,
        cx: &Context<Self>,
    ) -> Result<(), (usize, String)> {
        for index in first..self.children.len() {
            self.start(index, cx)
                .await
                .map_err(|error| (index, error))?;
        }
        Ok(())
    }

    /// Restarts a child that has terminated, and its siblings by the strategy, until it succeeds or was tried too
    /// often. During a shutdown of the system nothing can be spawned: then the child does not run any more, and its
    /// siblings go on until the shutdown stops the supervisor.
    async fn restart(&mut self, mut index: usize, cx: &mut Context<Self>) {
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
                    let started = self.start(index, cx).await;
                    started.map(drop).map_err(|error| (index, error))
                }
                Strategy::OneForAll => {
                    self.terminate_from(0).await;
                    self.start_from(0, cx).await
                }
                Strategy::RestForOne => {
                    self.terminate_from(index + 1).await;
                    self.start_from(index, cx).await
                }
            };
            match started {
                Ok(()) => return,
                Err(failed) => (index, last_error) = failed,
            }
        }
        let id = self.children[index].terms.id.clone();
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
                AutoShutdown::AllSignificant => {
                    let mut others = self.children.iter().filter(|it| it.actor.is_some());
                    !others.any(|it| it.terms.is_significant)
                }
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
        let ids = self.children.iter().map(|child| &child.terms.id);
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = ids.clone().find(|id| !seen.insert(*id)) {
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
        if let Err((index, error)) = self.start_from(0, cx).await {
            let id = self.children[index].terms.id.clone();
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
        let is_it = |child: &AnyChild| {
            child
                .actor
                .as_ref()
                .is_some_and(|it| it.id() == ended.actor)
        };
        // One that this supervisor has terminated is not found.
        let Some(index) = self.children.iter().position(is_it) else {
            return;
        };
        self.children[index].actor = None;
        let terms = self.children[index].terms.clone();
        let is_restarted = match terms.restart {
            Restart::Permanent => true,
            // Children do not restart themselves, so the limit is that of a supervisor: OTP's reason `shutdown`.
            Restart::Transient => {
                ended.reason.is_abnormal() && ended.reason != ExitReason::RestartLimit
            }
            Restart::Temporary => false,
        };
        if is_restarted {
            self.restart(index, cx).await;
            return;
        }
        if terms.restart == Restart::Temporary {
            self.children.remove(index);
        }
        if self.shuts_down_after(&terms) {
            self.terminate_from(0).await;
            cx.stop();
        }
    }
}

/// A request to a supervisor was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// It has a child of this id, which runs.
    #[error("the child runs already")]
    Running(AnyActorRef),
    /// It has a child of this id, which does not run: restart or delete it.
    #[error("there is a child of this id that does not run")]
    AlreadyPresent,
    /// It has no child of this id.
    #[error("there is no child of this id")]
    NotFound,
    /// It has as many children as its bound permits.
    #[error("a supervisor has at most {0} children")]
    Full(usize),
    /// The child did not start.
    #[error("the child did not start: {0}")]
    Start(String),
    /// It stops gracefully, and starts no child any more.
    #[error("the supervisor is stopping")]
    Stopping,
}

/// A child, as [`ActorRef::which_children`] describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildInfo {
    /// Its id.
    pub id: String,
    /// `None` if it does not run.
    pub actor: Option<AnyActorRef>,
    /// Which exits restart it.
    pub restart: Restart,
    /// Whether it is a [`Supervisor`].
    pub is_supervisor: bool,
}

/// The numbers of a supervisor's children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildCounts {
    /// All.
    pub specs: usize,
    /// Those that run.
    pub active: usize,
    /// Supervisors, whether they run or not.
    pub supervisors: usize,
    /// All others.
    pub workers: usize,
}

/// Request of [`ActorRef::start_child`].
pub struct StartChild(AnyChild);
/// Request of [`ActorRef::terminate_child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminateChild(String);
/// Request of [`ActorRef::restart_child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartChild(String);
/// Request of [`ActorRef::delete_child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteChild(String);
/// Request of [`ActorRef::which_children`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhichChildren(());
/// Request of [`ActorRef::count_children`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountChildren(());

impl fmt::Debug for StartChild {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("StartChild")
            .field(&self.0.terms)
            .finish()
    }
}

/// Requests to a supervisor, whose errors are [`SupervisorError`]s. Each waits until the supervisor has done it.
impl ActorRef<Supervisor> {
    /// Adds a child, after the others, and starts it. If it does not start, it is forgotten.
    pub fn start_child<A: Actor>(
        &self,
        spec: ChildSpec<A>,
    ) -> Ask<Supervisor, StartChild, Result<AnyActorRef, SupervisorError>> {
        self.ask(StartChild(spec.erase()))
    }

    /// Terminates a child, and keeps its specification unless it is temporary. It is not an error if it does not run.
    pub fn terminate_child(
        &self,
        id: impl Into<String>,
    ) -> Ask<Supervisor, TerminateChild, Result<(), SupervisorError>> {
        self.ask(TerminateChild(id.into()))
    }

    /// Starts a child that does not run.
    pub fn restart_child(
        &self,
        id: impl Into<String>,
    ) -> Ask<Supervisor, RestartChild, Result<AnyActorRef, SupervisorError>> {
        self.ask(RestartChild(id.into()))
    }

    /// Forgets a child that does not run.
    pub fn delete_child(
        &self,
        id: impl Into<String>,
    ) -> Ask<Supervisor, DeleteChild, Result<(), SupervisorError>> {
        self.ask(DeleteChild(id.into()))
    }

    /// All children, in the order of their start.
    pub fn which_children(&self) -> Ask<Supervisor, WhichChildren, Vec<ChildInfo>> {
        self.ask(WhichChildren(()))
    }

    /// The numbers of children.
    pub fn count_children(&self) -> Ask<Supervisor, CountChildren, ChildCounts> {
        self.ask(CountChildren(()))
    }
}

impl Supervisor {
    /// A request that was queued when a graceful stop began is handled after the children's end.
    fn check_running(&self) -> Result<(), SupervisorError> {
        if self.is_stopping {
            return Err(SupervisorError::Stopping);
        }
        Ok(())
    }
}

impl AsyncHandler<StartChild> for Supervisor {
    type Reply = Result<AnyActorRef, SupervisorError>;
    async fn handle(&mut self, request: StartChild, cx: &mut Context<Self>) -> Self::Reply {
        self.check_running()?;
        if let Some(index) = self.position(&request.0.terms.id) {
            let running = self.children[index].actor.clone();
            return Err(running.map_or(SupervisorError::AlreadyPresent, SupervisorError::Running));
        }
        if self.children.len() >= self.children_max {
            return Err(SupervisorError::Full(self.children_max));
        }
        self.children.push(request.0);
        let started = self.start(self.children.len() - 1, cx).await;
        started.map_err(|error| {
            self.children.pop();
            SupervisorError::Start(error)
        })
    }
}

impl AsyncHandler<TerminateChild> for Supervisor {
    type Reply = Result<(), SupervisorError>;
    async fn handle(&mut self, request: TerminateChild, _cx: &mut Context<Self>) -> Self::Reply {
        let index = self.position(&request.0).ok_or(SupervisorError::NotFound)?;
        self.terminate(index).await;
        if self.children[index].terms.restart == Restart::Temporary {
            self.children.remove(index);
        }
        Ok(())
    }
}

impl AsyncHandler<RestartChild> for Supervisor {
    type Reply = Result<AnyActorRef, SupervisorError>;
    async fn handle(&mut self, request: RestartChild, cx: &mut Context<Self>) -> Self::Reply {
        self.check_running()?;
        let index = self.position(&request.0).ok_or(SupervisorError::NotFound)?;
        if let Some(running) = &self.children[index].actor {
            return Err(SupervisorError::Running(running.clone()));
        }
        let started = self.start(index, cx).await;
        started.map_err(SupervisorError::Start)
    }
}

impl Handler<DeleteChild> for Supervisor {
    type Reply = Result<(), SupervisorError>;
    fn handle(&mut self, request: DeleteChild, _cx: &mut Context<Self>) -> Self::Reply {
        let index = self.position(&request.0).ok_or(SupervisorError::NotFound)?;
        if let Some(running) = &self.children[index].actor {
            return Err(SupervisorError::Running(running.clone()));
        }
        self.children.remove(index);
        Ok(())
    }
}

impl Handler<WhichChildren> for Supervisor {
    type Reply = Vec<ChildInfo>;
    fn handle(&mut self, _request: WhichChildren, _cx: &mut Context<Self>) -> Self::Reply {
        let describe = |child: &AnyChild| ChildInfo {
            id: child.terms.id.clone(),
            actor: child.actor.clone(),
            restart: child.terms.restart,
            is_supervisor: child.terms.is_supervisor,
        };
        self.children.iter().map(describe).collect()
    }
}

impl Handler<CountChildren> for Supervisor {
    type Reply = ChildCounts;
    fn handle(&mut self, _request: CountChildren, _cx: &mut Context<Self>) -> ChildCounts {
        let count = |is: fn(&&AnyChild) -> bool| self.children.iter().filter(is).count();
        let supervisors = count(|child| child.terms.is_supervisor);
        ChildCounts {
            specs: self.children.len(),
            active: count(|child| child.actor.is_some()),
            supervisors,
            workers: self.children.len() - supervisors,
        }
    }
}

/// Whether the system spawns no further actors.
fn is_shutting_down(cx: &Context<Supervisor>) -> bool {
    cx.core().system.is_shutting_down()
}

/// Waits until the actor has terminated.
async fn exited(actor: &AnyActorRef) {
    exit_or_deadline(actor, None).await;
}

/// Waits until the actor has terminated, or the time is over.
async fn exited_within(actor: &AnyActorRef, time: Duration) {
    exit_or_deadline(actor, Some(time)).await;
}

async fn exit_or_deadline(actor: &AnyActorRef, time: Option<Duration>) {
    let (sender, ended) = oneshot::channel();
    let watcher = Watcher::Thread(relations::next_watcher());
    let core = actor.core();
    core.on_end(watcher, Box::new(move |_| _ = sender.send(())));
    let wait = ExitOrDeadline {
        actor: CoreRef::of(core),
        watcher,
        ended,
        deadline_ns: deadline_after(time),
        alarm: None,
        has_alarm: time.is_some(),
    };
    wait.await;
}

/// Ready when the actor has terminated or the deadline has passed.
struct ExitOrDeadline {
    actor: CoreRef,
    watcher: Watcher,
    ended: oneshot::Receiver<()>,
    deadline_ns: u64,
    alarm: Option<TimerKey>,
    has_alarm: bool,
}

impl Future for ExitOrDeadline {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<()> {
        if self.ended.poll_recv(context).is_ready() {
            return Poll::Ready(());
        }
        if !self.has_alarm {
            return Poll::Pending;
        }
        if clock::now_ns() >= self.deadline_ns {
            return Poll::Ready(());
        }
        // The waker is the supervisor's own, each time.
        if self.alarm.is_none() {
            let timers = &self.actor.system.timers;
            match timers.wake_at(self.deadline_ns, context.waker().clone()) {
                Ok(key) => self.alarm = Some(key),
                // Without a timer nothing would wake the supervisor at the deadline.
                Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}

impl Drop for ExitOrDeadline {
    fn drop(&mut self) {
        self.actor.forget_watcher(self.watcher);
        if let Some(alarm) = self.alarm.take() {
            self.actor.system.timers.cancel(alarm);
        }
    }
}
