//! The connections to one server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use freeboard_actor::{Recipient, SpawnOptions, System};
use freeboard_meter::now_ns;
use freeboard_net::poller::Poller;

use crate::{
    connection::Connection,
    error::RedisError,
    intake::{CreditMax, DOWN, Intake},
    options::RedisOptions,
    pubsub::{PubSub, Subscription},
    random,
    redis::ConnectError,
    reply::{Name, Reply},
    routing::{Routing, hash_slot},
    snapshot::RedisSnapshot,
    subscribers::Subscribers,
    sync::{AtomicU64, Ordering},
    unit::Unit,
};

/// n connections, which end once this is dropped and nothing is under way on them.
pub(crate) struct Pool {
    lines: Box<[LineTo]>,
    routing: Routing,
    /// Steps of the routing's chance.
    turn: AtomicU64,
}

/// One connection.
struct LineTo {
    intake: Arc<Intake>,
    subscribers: Arc<Subscribers>,
}

impl Pool {
    /// Begins to connect. The options are valid.
    pub(crate) fn connect(
        system: &System,
        poller: &Poller,
        options: RedisOptions,
    ) -> Result<Self, ConnectError> {
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
                line.intake.clone(),
                line.subscribers.clone(),
                random::number(seed.wrapping_add(index as u64)),
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
        self.lines.iter().any(|line| line.intake.load() != DOWN)
    }

    /// Waits until all connections are up.
    pub(crate) fn wait_up(&self, until: Instant) -> Result<(), RedisError> {
        let mut intakes = self.lines.iter().map(|line| &line.intake);
        intakes.try_for_each(|intake| intake.wait_up(until))
    }

    pub(crate) fn subscribe(
        self: &Arc<Self>,
        name: Name,
        to: Recipient<PubSub>,
    ) -> Result<Subscription, RedisError> {
        // Whatever the routing: the same name always takes the same connection.
        let slot = hash_slot(&name.bytes());
        let index = usize::from(slot) % self.lines.len();
        let line = &self.lines[index];
        let id = line.subscribers.add(&name, to)?;
        line.intake.nudge();
        Ok(Subscription {
            name,
            id,
            pool: self.clone(),
            index,
        })
    }

    /// Ends a subscription of the connection at `index`.
    pub(crate) fn unsubscribe(&self, index: usize, name: &Name, id: u64) {
        let line = &self.lines[index];
        line.subscribers.remove(name, id);
        line.intake.nudge();
    }

    pub(crate) fn snapshot(&self) -> RedisSnapshot {
        let lines = self.lines.iter();
        RedisSnapshot {
            connections: lines.map(|line| line.intake.snapshot()).collect(),
        }
    }

    /// Leaves a command with a connection.
    #[inline]
    pub(crate) fn submit(&self, unit: &Unit, deadline: Deadline, reply: Reply) {
        let told_ns = now_ns();
        let deadline_ns = deadline.on_clock(told_ns);
        // Ordering: Relaxed, each caller gets its own number.
        let number = || random::number(self.turn.fetch_add(1, Ordering::Relaxed));
        let load = |index: usize| self.lines[index].intake.load();
        let index = self
            .routing
            .choose(self.lines.len(), || unit.slot(), number, load);
        self.lines[index]
            .intake
            .push(unit, reply, told_ns, deadline_ns);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for line in &self.lines {
            line.intake.close_when_drained();
        }
    }
}

/// Until when a command waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    After(Duration),
    At(Instant),
    /// On the clock.
    Fixed(u64),
}

impl Deadline {
    /// As nanoseconds on the clock.
    pub(crate) fn on_clock(self, now_ns: u64) -> u64 {
        let time = match self {
            Self::After(time) => time,
            Self::At(instant) => instant.saturating_duration_since(Instant::now()),
            Self::Fixed(deadline_ns) => return deadline_ns,
        };
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        now_ns.saturating_add(time_ns)
    }
}
