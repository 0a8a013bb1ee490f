//! Asking through a directory: an ask that begins a new activation if the present one has just ended.

use std::{
    fmt,
    future::{Future, IntoFuture},
    hash::Hash,
    pin::Pin,
    time::{Duration, Instant},
};

use freeboard_meter::clock;

use super::{Directory, DirectoryError};
use crate::{
    actor::{Actor, Message},
    ask::{Ask, TimeLimit},
    error::AskError,
    receives::Receives,
};

/// An ask to the activation of a key that is not sent yet: `.await` it, or call [`DirectoryAsk::wait`]. Otherwise as
/// [`Ask`].
#[must_use = "nothing is asked before `.await` or `.wait()`"]
pub struct DirectoryAsk<K, A: Actor, M> {
    terms: Terms<K, A>,
    msg: M,
}

/// The settings of the ask, for any activation.
struct Terms<K, A: Actor> {
    directory: Directory<K, A>,
    key: K,
    lane: usize,
    limit: TimeLimit,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, A: Actor> Terms<K, A> {
    /// The ask to the present activation.
    fn ask<M: Message>(&self, msg: M) -> Result<Ask<A, M, A::Reply>, AskError<M>>
    where
        A: Receives<M>,
    {
        match self.directory.get(&self.key) {
            Ok(actor) => Ok(actor.ask(msg).lane(self.lane).limited(self.limit)),
            Err(DirectoryError::Full(_)) => Err(AskError::Full(msg)),
            Err(DirectoryError::Closed) => Err(AskError::Closed(msg)),
        }
    }
}

impl<K, A: Actor, M> fmt::Debug for DirectoryAsk<K, A, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DirectoryAsk({})", std::any::type_name::<A>())
    }
}

impl<K, A, M> DirectoryAsk<K, A, M>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    A: Receives<M>,
    M: Message,
{
    pub(super) fn new(directory: Directory<K, A>, key: K, msg: M) -> Self {
        let terms = Terms {
            directory,
            key,
            lane: 0,
            limit: TimeLimit::Unset,
        };
        Self { terms, msg }
    }

    /// The deadline, counted from now. It includes the load of the state.
    pub fn timeout(self, timeout: Duration) -> Self {
        match clock::now().checked_add(timeout) {
            Some(deadline) => self.deadline(deadline),
            None => self,
        }
    }

    /// The deadline as a point in time.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.terms.limit = TimeLimit::at(deadline);
        self
    }

    /// Asks on another lane; 0 is the most urgent.
    pub fn lane(mut self, lane: usize) -> Self {
        self.terms.lane = lane;
        self
    }

    /// Blocks this thread until the reply arrives, as [`Ask::wait`].
    ///
    /// # Errors
    /// [`AskError`]; a message that was not accepted comes back in it.
    pub fn wait(self) -> Result<A::Reply, AskError<M>> {
        let mut msg = self.msg;
        loop {
            match self.terms.ask(msg)?.wait() {
                // The activation has been closed since.
                Err(AskError::Closed(refused)) => msg = refused,
                outcome => return outcome,
            }
        }
    }
}

impl<K, A, M> IntoFuture for DirectoryAsk<K, A, M>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    A: Receives<M>,
    M: Message,
{
    type Output = Result<A::Reply, AskError<M>>;
    type IntoFuture = DirectoryAskFuture<A::Reply, M>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut msg = self.msg;
            loop {
                match self.terms.ask(msg)?.await {
                    Err(AskError::Closed(refused)) => msg = refused,
                    outcome => return outcome,
                }
            }
        })
    }
}

/// The future of a [`DirectoryAsk`].
pub type DirectoryAskFuture<R, M> = Pin<Box<dyn Future<Output = Result<R, AskError<M>>> + Send>>;
