//! Requests to a supervisor: children that come and go, and what it tells about them.

use std::fmt;

use crate::{
    actor::{Actor, AsyncHandler, Handler},
    actor_ref::ActorRef,
    any_ref::AnyActorRef,
    ask::Ask,
    child_spec::{AnyChild, ChildSpec, Restart},
    context::Context,
    supervisor::Supervisor,
};

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
        if let Some(place) = self.children.by_id(&request.0.terms.id) {
            let running = self.children[place].actor.clone();
            return Err(running.map_or(SupervisorError::AlreadyPresent, SupervisorError::Running));
        }
        if self.children.len() >= self.children_max {
            return Err(SupervisorError::Full(self.children_max));
        }
        let pushed = self.children.push(request.0);
        let place = pushed.map_err(|_| SupervisorError::AlreadyPresent)?;
        let started = self.start(place, cx).await;
        started.map_err(|error| {
            self.children.remove(place);
            SupervisorError::Start(error)
        })
    }
}

impl AsyncHandler<TerminateChild> for Supervisor {
    type Reply = Result<(), SupervisorError>;
    async fn handle(&mut self, request: TerminateChild, _cx: &mut Context<Self>) -> Self::Reply {
        let place = self
            .children
            .by_id(&request.0)
            .ok_or(SupervisorError::NotFound)?;
        self.terminate(place).await;
        if self.children[place].terms.restart == Restart::Temporary {
            self.children.remove(place);
        }
        Ok(())
    }
}

impl AsyncHandler<RestartChild> for Supervisor {
    type Reply = Result<AnyActorRef, SupervisorError>;
    async fn handle(&mut self, request: RestartChild, cx: &mut Context<Self>) -> Self::Reply {
        self.check_running()?;
        let place = self
            .children
            .by_id(&request.0)
            .ok_or(SupervisorError::NotFound)?;
        if let Some(running) = &self.children[place].actor {
            return Err(SupervisorError::Running(running.clone()));
        }
        let started = self.start(place, cx).await;
        started.map_err(SupervisorError::Start)
    }
}

// No help in an error about another actor.
#[diagnostic::do_not_recommend]
impl Handler<DeleteChild> for Supervisor {
    type Reply = Result<(), SupervisorError>;
    fn handle(&mut self, request: DeleteChild, _cx: &mut Context<Self>) -> Self::Reply {
        let place = self
            .children
            .by_id(&request.0)
            .ok_or(SupervisorError::NotFound)?;
        if let Some(running) = &self.children[place].actor {
            return Err(SupervisorError::Running(running.clone()));
        }
        self.children.remove(place);
        Ok(())
    }
}

// No help in an error about another actor.
#[diagnostic::do_not_recommend]
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

// No help in an error about another actor.
#[diagnostic::do_not_recommend]
impl Handler<CountChildren> for Supervisor {
    type Reply = ChildCounts;
    fn handle(&mut self, _request: CountChildren, _cx: &mut Context<Self>) -> ChildCounts {
        let count = |is: fn(&&AnyChild) -> bool| self.children.iter().filter(is).count();
        let supervisors = count(|child| child.terms.is_supervisor);
        ChildCounts {
            specs: self.children.len(),
            active: self.children.active(),
            supervisors,
            workers: self.children.len() - supervisors,
        }
    }
}
