//! The connections to one server, and deadlines.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard_actor::{Recipient, SpawnOptions, System};
use freeboard_meter::now_ns;
use freeboard_net::poller::Poller;

use crate::{
    command::Command,
    connection::Connection,
    error::{ConnectError, RedisError},
    in_flight::{Amount, Awaits},
    metrics::RedisSnapshot,
    options::{RedisOptions, nanos},
    reply::Reply,
    routing::{Routing, hash_slot, random_number, random_seed},
    submit_queue::{Submission, SubmitQueue},
    subscribers::{PubSub, Subscribers},
    sync::{AtomicU64, Ordering},
};

/// The connections of a client. After this is dropped, each closes once nothing is in flight on it.
pub(crate) struct Pool {
    lines: Box<[Link]>,
    routing: Routing,
    /// Random numbers drawn so far, from the seed.
    turn: AtomicU64,
}

/// One connection.
struct Link {
    queue: Arc<SubmitQueue>,
    subscribers: Arc<Subscribers>,
}

impl Pool {
    /// Begins to connect. The options must be valid.
    pub(crate) fn connect(
        system: &System,
        poller: &Poller,
        options: RedisOptions,
    ) -> Result<Self, ConnectError> {
        let seed = options.seed.unwrap_or_else(random_seed);
        let credit = Amount {
            commands: options.credit_commands,
            bytes: options.credit_bytes,
        };
        let new_line = |_| Link {
            queue: Arc::new(SubmitQueue::new(credit)),
            subscribers: Arc::new(Subscribers::new(options.subscriptions)),
        };
        // On an error this is dropped, which closes the connections spawned so far.
        let pool = Self {
            lines: (0..options.connections).map(new_line).collect(),
            routing: options.routing,
            turn: AtomicU64::new(seed),
        };
        let options = Arc::new(options);
        for (index, line) in pool.lines.iter().enumerate() {
            let connection = Connection::new(
                options.clone(),
                poller.clone(),
                line.queue.clone(),
                line.subscribers.clone(),
                random_number(seed.wrapping_add(index as u64)),
            );
            system.spawn_once(SpawnOptions::new(), connection)?;
        }
        Ok(pool)
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether any connection takes commands.
    pub(crate) fn is_up(&self) -> bool {
        self.lines.iter().any(|line| line.queue.is_up())
    }

    /// Waits until all connections are up.
    pub(crate) fn check_up(&self) -> Result<(), RedisError> {
        let mut queues = self.lines.iter().map(|line| &line.queue);
        queues.try_for_each(|queue| queue.check_up())
    }

    pub(crate) fn subscribe(
        self: &Arc<Self>,
        name: Bytes,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        // A name always uses the same connection, whatever the routing.
        let slot = hash_slot(&name);
        let index = usize::from(slot) % self.lines.len();
        let line = &self.lines[index];
        let id = line.subscribers.add(&name, to)?;
        line.queue.nudge();
        Ok(Subscription {
            name,
            id,
            pool: self.clone(),
            index,
        })
    }

    pub(crate) fn snapshot(&self) -> RedisSnapshot {
        let lines = self.lines.iter();
        RedisSnapshot {
            connections: lines.map(|line| line.queue.snapshot()).collect(),
        }
    }

    /// Submits a command to a connection.
    #[inline]
    pub(crate) fn submit(
        &self,
        command: &Command,
        awaits: Awaits,
        deadline: Deadline,
        reply: Reply,
    ) {
        let submitted_ns = now_ns();
        let submission = Submission {
            command,
            awaits,
            submitted_ns,
            deadline_ns: deadline.on_clock(submitted_ns),
        };
        // Ordering: Relaxed, each caller gets its own number.
        let number = || random_number(self.turn.fetch_add(1, Ordering::Relaxed));
        let load = |index: usize| self.lines[index].queue.load();
        let index = self
            .routing
            .choose(self.lines.len(), || command.slot(), number, load);
        self.lines[index].queue.push(submission, reply);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for line in &self.lines {
            line.queue.close_when_drained();
        }
    }
}

/// A subscription at one server. It ends when this is dropped.
pub(crate) struct Subscription {
    name: Bytes,
    id: u64,
    pool: Arc<Pool>,
    /// Of the connection in the pool.
    index: usize,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let line = &self.pool.lines[self.index];
        line.subscribers.remove(&self.name, self.id);
        line.queue.nudge();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Subscription({:?})", self.name)
    }
}

/// The deadline of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    After(Duration),
    /// Nanoseconds of the process clock.
    Fixed(u64),
}

impl Deadline {
    /// In nanoseconds of the process clock.
    pub(crate) fn on_clock(self, now_ns: u64) -> u64 {
        match self {
            Self::After(time) => now_ns.saturating_add(nanos(time)),
            Self::Fixed(deadline_ns) => deadline_ns,
        }
    }
}
