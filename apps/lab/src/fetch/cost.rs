//! The processor time of the service, of the broker and of Redis.
//!
//! The embedded broker and the embedded Redis are threads of this process, known by their names. The load is a process
//! of its own.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::args::BackendChoice;
use crate::processor::{self, ThreadTime};

/// The processes of the real servers.
const RABBITMQ: &str = "beam.smp";
const REDIS: [&str; 2] = ["redis-server", "valkey-server"];

/// Readings at one time.
pub(super) struct Readings {
    at: Instant,
    process: Option<Duration>,
    threads: Option<Vec<ThreadTime>>,
    broker: Option<Duration>,
    redis: Option<Duration>,
}

/// Processor time in percent of a core.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Cost {
    /// Of this process, without an embedded broker and an embedded Redis.
    pub(super) cpu_percent: Option<f64>,
    /// How many of its threads could run, on average: those that did, and those that waited for a processor.
    pub(super) load: Option<f64>,
    pub(super) broker_cpu_percent: Option<f64>,
    /// `RabbitMQ`, or `embedded`.
    pub(super) broker: &'static str,
    pub(super) redis_cpu_percent: Option<f64>,
}

fn is_of_broker(thread: &ThreadTime) -> bool {
    thread.name.starts_with("broker")
}

fn is_of_redis(thread: &ThreadTime) -> bool {
    thread.name.starts_with("redis-")
}

impl Readings {
    pub(super) fn take(backend: BackendChoice) -> Self {
        let threads = processor::threads();
        let of_threads = |is: fn(&ThreadTime) -> bool| {
            let of = threads.as_ref()?.iter().filter(|it| is(it));
            Some(of.map(|it| it.used).sum())
        };
        let (broker, redis) = match backend {
            BackendChoice::Embedded => (of_threads(is_of_broker), of_threads(is_of_redis)),
            BackendChoice::Real => (
                processor::used_by_children(RABBITMQ),
                REDIS.iter().find_map(|it| processor::used_by_children(it)),
            ),
        };
        Self {
            at: Instant::now(),
            process: processor::used(),
            broker,
            redis,
            threads,
        }
    }

    /// What was used between two readings, and the processor seconds of the service.
    pub(super) fn since(&self, before: &Self, backend: BackendChoice) -> (Cost, Option<f64>) {
        let seconds = (self.at - before.at).as_secs_f64().max(1e-9);
        let used = |of: fn(&Self) -> Option<Duration>| {
            Some(of(self)?.saturating_sub(of(before)?).as_secs_f64())
        };
        let (broker, redis) = (used(|it| it.broker), used(|it| it.redis));
        let is_embedded = backend == BackendChoice::Embedded;
        let service = used(|it| it.process).map(|all| match is_embedded {
            true => (all - broker.unwrap_or(0.0) - redis.unwrap_or(0.0)).max(0.0),
            false => all,
        });
        let percent = |it: f64| it / seconds * 100.0;
        let cost = Cost {
            cpu_percent: service.map(percent),
            load: used(Self::runnable).map(|it| it / seconds),
            broker_cpu_percent: broker.map(percent),
            broker: if is_embedded { "embedded" } else { "RabbitMQ" },
            redis_cpu_percent: redis.map(percent),
        };
        (cost, service)
    }

    /// The time that threads of the service ran or could have run.
    fn runnable(&self) -> Option<Duration> {
        let of = self.threads.as_ref()?.iter();
        let of = of.filter(|it| !is_of_broker(it) && !is_of_redis(it));
        Some(of.map(|it| it.used + it.waited).sum())
    }
}
