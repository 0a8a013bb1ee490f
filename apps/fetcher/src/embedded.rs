//! A Redis in this process, on a system of its own, so that it is not in the fetcher's way, nor on its gauges.

use std::time::Duration;

use freeboard::{
    System,
    net::poller::{Policy, Poller},
    redis::RedisOptions,
    redis_embedded::{EmbeddedOptions, RedisEmbedded, StartError},
};

/// How long its connections may take to end.
const END: Duration = Duration::from_secs(1);

/// A Redis that ends when it is dropped.
pub struct EmbeddedRedis {
    system: System,
    server: RedisEmbedded,
}

impl EmbeddedRedis {
    /// Starts it, with one worker.
    ///
    /// # Errors
    /// [`EmbeddedRedisError`].
    pub fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedRedisError> {
        let poller = Poller::new(1, Policy::default())?;
        let system = System::builder().name("redis").workers(1);
        let system = system.driver(poller.driver()).build()?;
        let server = RedisEmbedded::start(&system, &poller, options)?;
        Ok(Self { system, server })
    }

    /// Where it is, with its password.
    #[must_use]
    pub fn options(&self) -> RedisOptions {
        self.server.client_options()
    }
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedRedisError {
    /// There is no poller to be had.
    #[error(transparent)]
    Poller(#[from] freeboard::net::poller::PollerError),
    /// There is no system to be had.
    #[error(transparent)]
    System(#[from] freeboard::BuildError),
    /// It cannot listen.
    #[error(transparent)]
    Server(#[from] StartError),
}

impl Drop for EmbeddedRedis {
    fn drop(&mut self) {
        self.server.stop(END);
        self.system.shutdown(END);
    }
}

impl std::fmt::Debug for EmbeddedRedis {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EmbeddedRedis")
            .field("address", &self.server.address())
            .finish_non_exhaustive()
    }
}
