//! Directories: actors by key, spawned on first use, passivated when idle.
//!
//! ```text
//!   tell(key, msg) ──▶ shard of the key ──▶ the present activation ──▶ its mailbox
//!                                      └──▶ none, or it takes no more messages: a new one
//! ```
//!
//! As Orleans' grains and the entities of Akka's cluster sharding, within one process. A look-up runs on the sender's
//! thread under the lock of one of 64 shards; there is no directory actor. `activations` has the protocol. The epoch of
//! an activation is where a cluster would put its fence.

mod activations;
mod ask;
mod options;
mod store;

use std::{fmt, hash::Hash, sync::Arc};

use freeboard_flow::ConfigError;
use freeboard_meter::DirectorySnapshot;

use crate::{
    actor::{Actor, Message},
    actor_ref::ActorRef,
    error::TellError,
    receives::Receives,
    system::System,
};
use activations::Activations;

pub use ask::{DirectoryAsk, DirectoryAskFuture};
pub use options::{AtBound, DIRECTORY_ACTIVATIONS_DEFAULT, DirectoryOptions};
pub use store::{Activation, Store};

/// Why a key has no activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// There are as many activations as the options permit, and none that is idle may make room.
    #[error("the directory has {0} activations, its maximum")]
    Full(usize),
    /// The directory was closed or abandoned, or the system is shutting down, or was dropped.
    #[error("the directory is closed")]
    Closed,
}

/// A directory of any types, for snapshots.
pub(crate) trait AnyDirectory: Send + Sync {
    fn snapshot(&self) -> DirectorySnapshot;
}

/// Actors by key: at most one activation of each key at any time. Made by [`System::directory`]. Cheap to clone, usable
/// from any thread and any async runtime.
///
/// A message for a key without an activation spawns one, which is loaded from the [`Store`]; messages that come
/// meanwhile wait in its mailbox. After [`DirectoryOptions::idle_after`] an activation is *passivated*: it handles what
/// its mailbox has accepted, is saved and terminates. A message that comes meanwhile waits for that, and then gets a new
/// activation. So nothing accepted is lost. A shutdown of the system saves all activations.
///
/// The actors are top-level actors of the system, and the handles of the directory do not keep them alive: when the last
/// one is dropped, all activations are passivated, each once no outbox holds messages for it. An actor that has a handle
/// of its own directory keeps it until the system ends.
///
/// ```
/// use freeboard_actor::{Activation, Actor, Context, DirectoryOptions, Handler, System};
///
/// struct Account { balance: u64 }
/// struct Deposit(u64);
///
/// impl Actor for Account {}
/// impl Handler<Deposit> for Account {
///     type Reply = u64;
///     fn handle(&mut self, deposit: Deposit, _cx: &mut Context<Self>) -> u64 {
///         self.balance += deposit.0;
///         self.balance
///     }
/// }
///
/// // Nothing is loaded or saved here; see `Store`.
/// let store = |_: &Activation<String>| Account { balance: 0 };
/// let system = System::builder().workers(1).build()?;
/// let accounts = system.directory(DirectoryOptions::new(), store)?;
/// let key = "NL42".to_owned();
/// accounts.tell(&key, Deposit(2))?;
/// assert_eq!(accounts.ask(&key, Deposit(3)).wait()?, 5);
/// accounts.passivate(&key);
/// // The next message waits until that activation has terminated, and goes to a new one.
/// assert_eq!(accounts.ask(&key, Deposit(3)).wait()?, 3);
/// assert!(system.shutdown(std::time::Duration::from_secs(5)).is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Directory<K, A: Actor> {
    inner: Arc<Activations<K, A>>,
}

impl<K, A: Actor> Clone for Directory<K, A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<K, A: Actor> fmt::Debug for Directory<K, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.inner.options.name.as_deref();
        let name = name.unwrap_or(std::any::type_name::<A>());
        write!(formatter, "Directory({name})")
    }
}

impl System {
    /// Makes a directory. [`System::snapshot`] contains it while a handle of it exists.
    ///
    /// # Errors
    /// If the options of the members are out of range.
    pub fn directory<K, A, S>(
        &self,
        options: DirectoryOptions,
        store: S,
    ) -> Result<Directory<K, A>, ConfigError>
    where
        K: Hash + Eq + Clone + Send + Sync + 'static,
        A: Actor,
        S: Store<K, A>,
    {
        options.validate()?;
        let inner = Activations::new(self.inner().clone(), options, store);
        let listed: Arc<dyn AnyDirectory> = inner.clone();
        self.inner().directories.enter(Arc::downgrade(&listed));
        Ok(Directory { inner })
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, A: Actor> Directory<K, A> {
    /// The present activation of the key, or a new one, which may not be loaded yet: [`ActorRef::wait_started`] tells.
    /// When it is passivated, the reference takes no more messages; [`Directory::tell`] and [`Directory::ask`] go on
    /// with the next one.
    ///
    /// # Errors
    /// [`DirectoryError`] at the bound, if the directory is closed, or during a shutdown.
    pub fn get(&self, key: &K) -> Result<ActorRef<A>, DirectoryError> {
        self.inner.activate(key)
    }

    /// The present activation of the key, if there is one that takes messages.
    pub fn find(&self, key: &K) -> Option<ActorRef<A>> {
        self.inner.find(key)
    }

    /// [`ActorRef::tell`] to the activation of the key.
    ///
    /// # Errors
    /// As there; [`TellError::Full`] also at the bound of the directory, [`TellError::Closed`] if the directory is closed,
    /// and during a shutdown.
    pub fn tell<M: Message>(&self, key: &K, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.deliver(key, msg, ActorRef::tell)
    }

    /// [`ActorRef::try_tell`] to the activation of the key: never waits.
    ///
    /// # Errors
    /// As [`Directory::tell`].
    pub fn try_tell<M: Message>(&self, key: &K, msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        self.deliver(key, msg, ActorRef::try_tell)
    }

    /// [`ActorRef::send`] to the activation of the key: waits for capacity without blocking the executor.
    ///
    /// # Errors
    /// As [`Directory::tell`].
    pub async fn send<M: Message>(&self, key: &K, mut msg: M) -> Result<(), TellError<M>>
    where
        A: Receives<M>,
    {
        loop {
            let actor = match self.get(key) {
                Ok(actor) => actor,
                Err(error) => return Err(refused(error, msg)),
            };
            match actor.send(msg).await {
                Err(TellError::Closed(refused)) => msg = refused,
                outcome => return outcome,
            }
        }
    }

    /// [`ActorRef::ask`] to the activation of the key. `.await` it, or [`DirectoryAsk::wait`] for it.
    pub fn ask<M: Message>(&self, key: &K, msg: M) -> DirectoryAsk<K, A, M>
    where
        A: Receives<M>,
    {
        DirectoryAsk::new(self.clone(), key.clone(), msg)
    }

    fn deliver<M: Message>(
        &self,
        key: &K,
        mut msg: M,
        tell: impl Fn(&ActorRef<A>, M) -> Result<(), TellError<M>>,
    ) -> Result<(), TellError<M>> {
        loop {
            let actor = match self.get(key) {
                Ok(actor) => actor,
                Err(error) => return Err(refused(error, msg)),
            };
            match tell(&actor, msg) {
                // It has been closed since: the next activation gets the message.
                Err(TellError::Closed(refused)) => msg = refused,
                outcome => return outcome,
            }
        }
    }

    /// Passivates the activation of the key now. `false` if there is none, or if an outbox holds messages for it.
    pub fn passivate(&self, key: &K) -> bool {
        self.inner.passivate(key)
    }

    /// [`Directory::passivate`] for all keys. Later messages begin new activations.
    pub fn passivate_all(&self) {
        self.inner.passivate_all();
    }

    /// [`Directory::passivate_all`], and a key without an activation gets none any more: its messages come back as
    /// `Closed`. An activation that stays because an outbox holds messages for it, or because its save has failed, takes
    /// messages: call this again until [`Directory::activations`] is 0. For a process that gives its keys to another.
    pub fn close(&self) {
        self.inner.close_all();
    }

    /// Stops all activations between two messages, without saving them. Messages that are queued or come later are not
    /// handled. For a process that has lost the right to its keys.
    pub fn abandon(&self) {
        self.inner.abandon();
    }

    /// Keys with an activation, including those that are being loaded or saved.
    pub fn activations(&self) -> usize {
        self.inner.len()
    }

    /// The current counters.
    pub fn snapshot(&self) -> DirectorySnapshot {
        self.inner.snapshot()
    }
}

fn refused<M>(error: DirectoryError, msg: M) -> TellError<M> {
    match error {
        DirectoryError::Full(_) => TellError::Full(msg),
        DirectoryError::Closed => TellError::Closed(msg),
    }
}
