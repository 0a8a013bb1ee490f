//! The client: a handle on n connections to one server.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use freeboard_actor::{Recipient, SpawnError, SpawnOptions, System};
use freeboard_io::Poller;
use freeboard_meter::now_ns;

use crate::{
    command::Command,
    connection::Connection,
    error::RedisError,
    from_value::FromValue,
    intake::{CreditMax, Intake},
    options::{RedisOptions, RedisOptionsError},
    pipeline::Pipeline,
    protocol::Value,
    pubsub::{PubSub, Subscription},
    random,
    reply::{Name, Reply},
    request::Request,
    routing::{Routing, hash_slot},
    snapshot::RedisSnapshot,
    subscribers::Subscribers,
    sync::{AtomicU64, Ordering},
    transaction::{self, Transaction},
    unit::Unit,
};

/// A client of one Redis server. Cheap to clone; usable from any thread, any runtime, and from actors.
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
    inner: Arc<Inner>,
}

struct Inner {
    lines: Box<[LineTo]>,
    routing: Routing,
    timeout: Duration,
    /// Steps of the routing's chance.
    turn: AtomicU64,
}

/// One connection.
struct LineTo {
    intake: Arc<Intake>,
    subscribers: Arc<Subscribers>,
}

/// Until when a command waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    /// The client's timeout from when it is sent.
    Default,
    After(Duration),
    At(Instant),
    /// On the clock.
    Fixed(u64),
}

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
        let seed = options.seed.unwrap_or_else(random::seed);
        let credit = CreditMax {
            commands: options.credit_commands,
            bytes: options.credit_bytes,
        };
        let new_line = |_| LineTo {
            intake: Arc::new(Intake::new(credit)),
            subscribers: Arc::new(Subscribers::new(options.subscriptions)),
        };
        // Dropped on an error: what was spawned ends.
        let redis = Self {
            inner: Arc::new(Inner {
                lines: (0..options.connections).map(new_line).collect(),
                routing: options.routing,
                timeout: options.timeout,
                turn: AtomicU64::new(seed),
            }),
        };
        let options = Arc::new(options);
        for (index, line) in redis.inner.lines.iter().enumerate() {
            let connection = Connection::new(
                options.clone(),
                poller.clone(),
                line.intake.clone(),
                line.subscribers.clone(),
                random::mix(seed.wrapping_add(index as u64)),
            );
            system.spawn_once(SpawnOptions::new(), connection)?;
        }
        Ok(redis)
    }

    /// Blocks this thread until all connections are up.
    ///
    /// # Errors
    /// [`RedisError::Down`] once the server refuses one of them, or when the time is over: why it is not
    /// up. Attempts go on all the same.
    pub fn wait_up(&self, timeout: Duration) -> Result<(), RedisError> {
        const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        let until = Instant::now() + timeout.min(FAR);
        let mut intakes = self.inner.lines.iter().map(|line| &line.intake);
        intakes.try_for_each(|intake| intake.wait_up(until))
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
    /// [`RedisError::TooManySubscriptions`].
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
    /// [`RedisError::TooManySubscriptions`].
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
        // Whatever the routing: the same name always takes the same connection.
        let slot = hash_slot(&name.bytes());
        let line = &self.inner.lines[usize::from(slot) % self.inner.lines.len()];
        let id = line.subscribers.add(&name, to)?;
        line.intake.nudge();
        Ok(Subscription {
            name,
            id,
            subscribers: line.subscribers.clone(),
            intake: line.intake.clone(),
        })
    }

    /// What was counted so far, connection by connection.
    #[must_use]
    pub fn snapshot(&self) -> RedisSnapshot {
        let lines = self.inner.lines.iter();
        RedisSnapshot {
            connections: lines.map(|line| line.intake.snapshot()).collect(),
        }
    }

    /// A deadline that does not move any more.
    pub(crate) fn fixed(&self, deadline: Deadline) -> Deadline {
        Deadline::Fixed(self.deadline_ns(deadline, now_ns()))
    }

    fn deadline_ns(&self, deadline: Deadline, now_ns: u64) -> u64 {
        let time = match deadline {
            Deadline::Default => self.inner.timeout,
            Deadline::After(time) => time,
            Deadline::At(instant) => instant.saturating_duration_since(Instant::now()),
            Deadline::Fixed(deadline_ns) => return deadline_ns,
        };
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        now_ns.saturating_add(time_ns)
    }

    /// Leaves a command with a connection.
    #[inline]
    pub(crate) fn submit(&self, unit: &Unit, deadline: Deadline, reply: Reply) {
        let inner = &*self.inner;
        let told_ns = now_ns();
        let deadline_ns = self.deadline_ns(deadline, told_ns);
        // Ordering: Relaxed, each caller gets its own number.
        let number = || random::mix(inner.turn.fetch_add(1, Ordering::Relaxed));
        let load = |index: usize| inner.lines[index].intake.load();
        let index = inner
            .routing
            .choose(inner.lines.len(), || unit.slot(), number, load);
        inner.lines[index]
            .intake
            .push(unit, reply, told_ns, deadline_ns);
    }
}

/// The replies of a pipeline, refusals among them.
fn all_replies(value: Value) -> Result<Vec<Value>, RedisError> {
    match value {
        Value::Array(values) => Ok(values),
        value => Vec::from_value(value),
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for line in &self.lines {
            line.intake.close_when_drained();
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Redis")
            .field("connections", &self.inner.lines.len())
            .finish_non_exhaustive()
    }
}
