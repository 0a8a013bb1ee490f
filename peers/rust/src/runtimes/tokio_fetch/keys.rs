//! Keys: in this process for a moment, then in Redis, then in the slow store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use freeboard::redis::RedisOptions;
use freeboard_fetcher::store::{MockStore, SlowStore};
use moka::future::Cache;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client, IntoConnectionInfo};
use tokio::sync::{Semaphore, oneshot};

use crate::fetch::{PREFIX, REDIS_CONNECTIONS, STORE_TIME};

/// How long this process holds a key: long enough that whoever wants it meanwhile asks nobody.
const HELD: Duration = Duration::from_secs(1);
/// Keys that this process holds at most.
const HELD_MAX: u64 = 100_000;
/// How long Redis holds a key, in seconds.
const FRESH_SECONDS: u64 = 60;
/// Fetches at the store at once.
const FETCHES_MAX: usize = 64;

pub struct Keys {
    held: Cache<String, Arc<str>>,
    connections: [MultiplexedConnection; REDIS_CONNECTIONS],
    next: AtomicUsize,
    store: MockStore,
    fetches: Semaphore,
}

impl Keys {
    pub async fn connect(options: &RedisOptions) -> Result<Self> {
        let address = (options.host.as_str(), options.port).into_connection_info()?;
        let mut settings = address.redis_settings().clone();
        if let Some(password) = &options.password {
            settings = settings.set_password(password);
        }
        let client = Client::open(address.set_redis_settings(settings))?;
        let mut connections = Vec::with_capacity(REDIS_CONNECTIONS);
        for _ in 0..REDIS_CONNECTIONS {
            connections.push(client.get_multiplexed_async_connection().await?);
        }
        Ok(Self {
            held: Cache::builder()
                .max_capacity(HELD_MAX)
                .time_to_live(HELD)
                .build(),
            connections: connections
                .try_into()
                .ok()
                .context("as many as were asked for")?,
            next: AtomicUsize::new(0),
            store: MockStore::new(STORE_TIME)?,
            fetches: Semaphore::new(FETCHES_MAX),
        })
    }

    /// The value of a key, which one caller at a time gets for all.
    pub async fn get(&self, key: &str) -> Result<Arc<str>> {
        let value = self.held.try_get_with_by_ref(key, self.load(key)).await;
        value.map_err(|error: Arc<anyhow::Error>| anyhow!("{key}: {error:#}"))
    }

    async fn load(&self, key: &str) -> Result<Arc<str>> {
        // Ordering: only that they take turns.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let mut redis = self.connections[turn % REDIS_CONNECTIONS].clone();
        let name = format!("{PREFIX}{key}");
        if let Some(value) = redis.get::<_, Option<String>>(&name).await? {
            return Ok(value.into());
        }
        let value = self.fetch(key).await?;
        redis
            .set_ex::<_, _, ()>(&name, &value, FRESH_SECONDS)
            .await?;
        Ok(value.into())
    }

    async fn fetch(&self, key: &str) -> Result<String> {
        let _place = self.fetches.acquire().await?;
        let (sender, fetched) = oneshot::channel();
        let on_outcome = move |outcome| {
            // Who asked may have gone.
            let _ = sender.send(outcome);
        };
        self.store.fetch(key.as_bytes(), Box::new(on_outcome));
        let value = fetched.await??.context("it has no value")?;
        Ok(String::from_utf8(value.to_vec())?)
    }
}
