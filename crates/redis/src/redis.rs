//! The client: a handle on the connections to one server, or to the nodes of a cluster.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard_actor::{Recipient, System};
use freeboard_meter::Exposition;
use freeboard_net::poller::Poller;

use crate::{
    command::Command,
    error::{ConnectError, RedisError},
    from_value::FromValue,
    metrics::RedisSnapshot,
    options::RedisOptions,
    pool::Pool,
    request::Request,
    subscribers::PubSub,
    target::{Servers, Subscription, Target},
};

/// A client of one Redis server, or of a cluster ([`crate::Cluster`]). It is cheap to clone, and usable from
/// any thread, any runtime, and from actors.
///
/// Its connections are actors of the system given to [`Redis::connect`]. A connection accepts commands while
/// it is up and within its credit, and refuses them at once otherwise. After the last handle is dropped, each
/// connection closes once nothing is in flight on it.
///
/// A command that blocks on the server (`BLPOP`, `XREAD BLOCK`) delays all commands after it, so create a
/// separate client with one connection for it.
#[derive(Clone)]
pub struct Redis {
    pub(crate) target: Target,
}

impl Redis {
    /// Begins to connect, and retries until the last handle is dropped. `poller` must be the driver of
    /// `system`. Commands fail with [`RedisError::Down`] until a connection is up; see [`Redis::wait_up`].
    ///
    /// # Errors
    /// [`ConnectError`]. An unreachable server is not an error here.
    pub fn connect(
        system: &System,
        poller: &Poller,
        options: RedisOptions,
    ) -> Result<Self, ConnectError> {
        options.validate()?;
        let timeout = options.timeout;
        let pool = Pool::connect(system, poller, options)?;
        Ok(Self::new(Servers::One(Arc::new(pool)), timeout))
    }

    pub(crate) const fn new(servers: Servers, timeout: Duration) -> Self {
        Self {
            target: Target { servers, timeout },
        }
    }

    /// The deadline of commands that have none of their own, from the call.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.target.timeout
    }

    /// Blocks the calling thread until all connections are up.
    ///
    /// # Errors
    /// [`RedisError::Down`] with the reason, when the server refuses a connection or the time has passed. The
    /// client continues to connect.
    pub fn wait_up(&self, timeout: Duration) -> Result<(), RedisError> {
        self.target.wait_up(timeout)
    }

    /// `GET`: the value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Request<'_, Option<Bytes>> {
        self.request(Command::new("GET").key(key))
    }

    /// `SET`: sets a key, without expiry.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Request<'_, ()> {
        self.request(Command::new("SET").key(key).arg(value))
    }

    /// `PUBLISH`: the number of clients that received the message.
    pub fn publish(
        &self,
        channel: impl AsRef<[u8]>,
        message: impl AsRef<[u8]>,
    ) -> Request<'_, u64> {
        self.request(Command::new("PUBLISH").arg(channel).arg(message))
    }

    /// `TIME`: the server's time since 1970, to the microsecond.
    pub fn time(&self) -> Request<'_, Duration> {
        let request: Request<'_, (u64, u64)> = self.request(Command::new("TIME"));
        request.decoded(|value| {
            let (seconds, micros) = FromValue::from_value(value)?;
            Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
        })
    }

    /// Any command, with a reply of any [`FromValue`] type.
    ///
    /// Commands that change a shared connection, or whose replies do not come one for one, fail with
    /// [`RedisError::NotAllowed`]: `SUBSCRIBE`, `MONITOR`, `CLIENT REPLY`, `MULTI` and others. Use a
    /// [`crate::Script`] where several commands must be atomic.
    pub fn cmd<T: FromValue>(&self, command: Command) -> Request<'_, T> {
        let command = match command.objection() {
            Some(name) => Err(RedisError::NotAllowed(name)),
            None => Ok(command),
        };
        Request::new(&self.target, command, T::from_value)
    }

    #[inline]
    pub(crate) fn request<T: FromValue>(&self, command: Command) -> Request<'_, T> {
        Request::new(&self.target, Ok(command), T::from_value)
    }

    /// Sends the messages of a channel to an actor, beginning with [`PubSub::Subscribed`].
    ///
    /// # Errors
    /// [`RedisError::TooManySubscriptions`].
    pub fn subscribe(
        &self,
        channel: impl Into<Bytes>,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        self.target.subscribe(channel.into(), to)
    }

    /// The counters of all connections.
    #[must_use]
    pub fn snapshot(&self) -> RedisSnapshot {
        self.target.snapshot()
    }

    /// Adds the metrics of the connections, and of the cluster if it is one, to `text` with the label `client`.
    pub fn render(&self, client: &str, text: &mut Exposition) {
        match &self.target.servers {
            Servers::One(pool) => pool.snapshot().render(client, text),
            Servers::Cluster(core) => core.snapshot().render(client, text),
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target.servers {
            Servers::One(pool) => write!(formatter, "Redis({} connections)", pool.len()),
            Servers::Cluster(_) => formatter.write_str("Redis(a cluster)"),
        }
    }
}
