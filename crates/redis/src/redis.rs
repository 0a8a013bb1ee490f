//! The client: a handle on n connections to one server, or on those to the nodes of a cluster.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{Recipient, SpawnError, System};
use freeboard_net::poller::Poller;

use crate::{
    cluster::Core,
    command::Command,
    error::RedisError,
    from_value::FromValue,
    options::{RedisOptions, RedisOptionsError},
    pipeline::Pipeline,
    pool::{Deadline, Pool},
    protocol::Value,
    pubsub::{PubSub, Subscription},
    reply::{Name, Reply},
    request::Request,
    snapshot::RedisSnapshot,
    transaction::{self, Transaction},
    unit::Unit,
};

/// A client of one Redis server, or of a cluster ([`crate::Cluster`]). Cheap to clone; usable from any
/// thread, any runtime, and from actors.
///
/// Its connections are actors of the system it was made in. Commands are taken while a connection is up
/// and within its credit, else refused at once. When the last handle is dropped the connections end, each
/// once nothing is under way on it.
///
/// A command that blocks the server's side of a connection (`BLPOP`, `XREAD BLOCK`) holds up all behind
/// it, and `WATCH` means something only on a connection that nobody else uses: each takes a client of its
/// own, with one connection.
#[derive(Clone)]
pub struct Redis {
    target: Target,
    /// The deadline of commands that say none, from the call.
    timeout: Duration,
}

/// Where commands go.
#[derive(Clone)]
enum Target {
    Server(Arc<Pool>),
    Cluster(Arc<Core>),
}

/// No wait lasts longer.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The options make no sense.
    #[error(transparent)]
    Options(#[from] RedisOptionsError),
    /// A connection's actor could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

impl Redis {
    /// Begins to connect, and goes on trying until the last handle is dropped. `poller` is the one that
    /// drives `system`. Commands are refused with [`RedisError::Down`] until a connection is up; see
    /// [`Redis::wait_up`].
    ///
    /// # Errors
    /// [`ConnectError`]: not that the server cannot be reached.
    pub fn connect(
        system: &System,
        poller: &Poller,
        options: RedisOptions,
    ) -> Result<Self, ConnectError> {
        options.validate()?;
        let timeout = options.timeout;
        let pool = Pool::connect(system, poller, options)?;
        Ok(Self::server(Arc::new(pool), timeout))
    }

    pub(crate) fn server(pool: Arc<Pool>, timeout: Duration) -> Self {
        Self {
            target: Target::Server(pool),
            timeout,
        }
    }

    pub(crate) fn cluster(core: Arc<Core>, timeout: Duration) -> Self {
        Self {
            target: Target::Cluster(core),
            timeout,
        }
    }

    /// How long a command may take that has no deadline of its own.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Blocks this thread until all connections are up.
    ///
    /// # Errors
    /// [`RedisError::Down`] once the server refuses one of them, or when the time is over: why it is not
    /// up. Attempts go on all the same.
    pub fn wait_up(&self, timeout: Duration) -> Result<(), RedisError> {
        let until = Instant::now() + timeout.min(FAR);
        match &self.target {
            Target::Server(pool) => pool.wait_up(until),
            Target::Cluster(core) => core.wait_up(until),
        }
    }

    /// A command of one's own, with a reply of any type.
    ///
    /// What would change the connection for others, or has replies that do not come one for one, is
    /// [`RedisError::NotAllowed`]: subscriptions, `MONITOR`, `CLIENT REPLY`, `MULTI` and so on.
    pub fn cmd<T: FromValue>(&self, command: Command) -> Request<'_, T> {
        match command.objection() {
            Some(name) => Request::new(self, Err(RedisError::NotAllowed(name)), T::from_value),
            None => self.request(command),
        }
    }

    #[inline]
    pub(crate) fn request<T: FromValue>(&self, command: Command) -> Request<'_, T> {
        Request::new(self, Ok(Unit::One(command)), T::from_value)
    }

    /// Several commands, written together; all replies are one outcome, refusals among them.
    pub fn pipeline(&self, pipeline: Pipeline) -> Request<'_, Vec<Value>> {
        let unit = Unit::Several(pipeline.commands);
        Request::new(self, unit.check().map(|()| unit), all_replies)
    }

    /// Several commands that the server carries out as one. Replies are as of a pipeline.
    pub fn transaction(&self, transaction: Transaction) -> Request<'_, Vec<Value>> {
        let unit = transaction.into_unit();
        Request::new(self, unit, all_replies).extracting(transaction::executed)
    }

    /// Has messages on a channel told to an actor, from [`PubSub::Subscribed`] on.
    ///
    /// # Errors
    /// [`RedisError::TooManySubscriptions`], [`RedisError::NotOnCluster`].
    pub fn subscribe(
        &self,
        channel: impl Into<Bytes>,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        self.add_subscriber(Name::Channel(channel.into()), to)
    }

    /// Has messages on all channels that match a pattern told to an actor.
    ///
    /// # Errors
    /// [`RedisError::TooManySubscriptions`], [`RedisError::NotOnCluster`].
    pub fn psubscribe(
        &self,
        pattern: impl Into<Bytes>,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        self.add_subscriber(Name::Pattern(pattern.into()), to)
    }

    fn add_subscriber(
        &self,
        name: Name,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        match &self.target {
            Target::Server(pool) => pool.subscribe(name, to),
            Target::Cluster(_) => Err(RedisError::NotOnCluster("a subscription")),
        }
    }

    /// What was counted so far, connection by connection.
    #[must_use]
    pub fn snapshot(&self) -> RedisSnapshot {
        match &self.target {
            Target::Server(pool) => pool.snapshot(),
            Target::Cluster(core) => core.connections(),
        }
    }

    /// A deadline of the call, or the client's.
    pub(crate) fn deadline(&self, deadline: Option<Deadline>) -> Deadline {
        deadline.unwrap_or(Deadline::After(self.timeout))
    }

    /// Leaves a command with a connection.
    #[inline]
    pub(crate) fn submit(&self, unit: Unit, deadline: Deadline, reply: Reply) {
        match &self.target {
            Target::Server(pool) => pool.submit(&unit, deadline, reply),
            Target::Cluster(core) => core.submit(unit, deadline, reply),
        }
    }
}

/// The replies of a pipeline, refusals among them.
fn all_replies(value: Value) -> Result<Vec<Value>, RedisError> {
    match value {
        Value::Array(values) => Ok(values),
        value => Vec::from_value(value),
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Server(pool) => write!(formatter, "Redis({} connections)", pool.len()),
            Target::Cluster(_) => formatter.write_str("Redis(a cluster)"),
        }
    }
}
