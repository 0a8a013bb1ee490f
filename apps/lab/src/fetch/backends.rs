//! What fetchers stand on: embedded in this process, or real servers started for the scene.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use freeboard::{redis::RedisOptions, redis_embedded::EmbeddedOptions};
use freeboard_fetcher::{
    broker::{Broker, MemoryBroker},
    embedded::EmbeddedRedis,
    store::{
        Bulkhead, BulkheadOptions, Directory, DistantDirectory, MemoryDirectory, MockStore,
        SlowStore,
    },
};

use super::{args::BackendChoice, fill, load::Amqp, plan::Plan};
use crate::{console::Console, figures::count, real_backends, usage::Usage};

/// The time of a fetch from the slow store.
const STORE_TIME: Duration = Duration::from_millis(100);
/// What an entry takes in the embedded Redis, generously: none is to make way.
const ENTRY_BYTES: u64 = 512;

/// Everything but the broker's queues, which each run has anew.
pub(super) struct Backends {
    redis: RedisOptions,
    directory: Arc<dyn Directory>,
    /// RabbitMQ, if it is real.
    amqp: Option<String>,
    /// Runs so far, so that the names of their queues differ.
    runs: AtomicU64,
    _servers: Servers,
}

/// The broker of one run.
pub(super) struct RunBroker {
    pub(super) any: Arc<dyn Broker>,
    /// The same, if it is embedded.
    pub(super) memory: Option<Arc<MemoryBroker>>,
    /// Where it is, if it is RabbitMQ.
    pub(super) amqp: Option<Amqp>,
}

/// They end with this.
enum Servers {
    Embedded {
        _redis: EmbeddedRedis,
    },
    #[cfg(unix)]
    Real {
        _servers: Box<[freeboard_test_servers::Server; 3]>,
    },
}

impl Backends {
    /// Of the entries that the cache is filled with.
    pub(super) const PREFIX: &'static str = "fetch:";

    /// Starts what is needed, and fills cache and directory.
    ///
    /// # Errors
    /// [`Usage`] if a server is not installed.
    pub(super) fn start(backend: BackendChoice, users: u64, console: &Console) -> Result<Self> {
        let backends = match backend {
            BackendChoice::Embedded => Self::embedded(users)?,
            BackendChoice::Real => Self::real(console)?,
        };
        console.line(&format!(
            "filling cache and directory with {} users",
            count(users)
        ));
        backends
            .directory
            .provision(users)
            .context("the directory")?;
        fill::fill(&backends.redis, users).context("the cache")?;
        Ok(backends)
    }

    fn embedded(users: u64) -> Result<Self> {
        let bytes_max = usize::try_from(users.saturating_mul(ENTRY_BYTES)).unwrap_or(usize::MAX);
        let options = EmbeddedOptions::default();
        let redis = EmbeddedRedis::start(EmbeddedOptions {
            bytes_max: bytes_max.max(options.bytes_max),
            ..options
        })?;
        Ok(Self {
            redis: redis.options(),
            directory: Arc::new(MemoryDirectory::default()),
            amqp: None,
            runs: AtomicU64::new(0),
            _servers: Servers::Embedded { _redis: redis },
        })
    }

    #[cfg(unix)]
    fn real(console: &Console) -> Result<Self> {
        use freeboard_test_servers::{ServerError, mariadb, rabbitmq, redis};
        let missing = |error: ServerError| {
            Usage::new(format!(
                "{error}; --backend embedded needs nothing installed"
            ))
        };
        console.line("starting RabbitMQ, Redis and MariaDB");
        let servers = [
            rabbitmq().map_err(missing)?,
            redis(&[]).map_err(missing)?,
            mariadb().map_err(missing)?,
        ];
        let [amqp, redis, mysql] = servers.each_ref().map(|server| server.address());
        let directory = real_backends::directory(&format!("mysql://root@{mysql}"))?;
        Ok(Self {
            redis: RedisOptions {
                port: redis.port(),
                ..RedisOptions::default()
            },
            directory,
            amqp: Some(format!("amqp://guest:guest@{amqp}")),
            runs: AtomicU64::new(0),
            _servers: Servers::Real {
                _servers: Box::new(servers),
            },
        })
    }

    #[cfg(not(unix))]
    fn real(_: &Console) -> Result<Self> {
        let text = "no servers can be started here; --backend embedded needs none";
        Err(Usage::new(text).into())
    }

    pub(super) fn redis(&self) -> RedisOptions {
        self.redis.clone()
    }

    /// A broker whose queues are empty.
    pub(super) fn broker(&self, plan: &Plan) -> Result<RunBroker> {
        let Some(url) = &self.amqp else {
            let memory = Arc::new(MemoryBroker::default());
            return Ok(RunBroker {
                any: memory.clone(),
                memory: Some(memory),
                amqp: None,
            });
        };
        // Ordering: Relaxed: only the number matters.
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let name = format!("fetch-{}-{}-{run}", plan.step, plan.mode.name());
        let (any, _) = real_backends::broker(url, name.clone())?;
        Ok(RunBroker {
            any,
            memory: None,
            amqp: Some((url.clone(), name)),
        })
    }

    pub(super) fn store(&self) -> Result<Arc<dyn SlowStore>> {
        let mock = MockStore::new(STORE_TIME).context("the slow store")?;
        Ok(Arc::new(Bulkhead::new(
            Arc::new(mock),
            BulkheadOptions::default(),
        )))
    }

    /// The directory, as far away as that.
    pub(super) fn directory(&self, time: Duration) -> Result<Arc<dyn Directory>> {
        if time.is_zero() {
            return Ok(self.directory.clone());
        }
        let distant = DistantDirectory::new(self.directory.clone(), time);
        Ok(Arc::new(distant.context("the directory")?))
    }
}
