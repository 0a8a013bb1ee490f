//! A Redis server in this process. It runs on a system of its own, so it neither slows the fetcher down nor shows
//! in its metrics.

use std::time::Duration;

use freeboard::{
    System,
    net::poller::{Policy, Poller},
    redis::RedisOptions,
    redis_embedded::{EmbeddedOptions, RedisEmbedded, StartError},
};

/// The time for its connections to close.
const END: Duration = Duration::from_secs(1);

/// An embedded Redis server, stopped when dropped.
pub struct EmbeddedRedis {
    system: System,
    server: RedisEmbedded,
}

impl EmbeddedRedis {
    /// Starts the server with one worker.
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

    /// The options of a client of this server, with its password.
    #[must_use]
    pub fn options(&self) -> RedisOptions {
        self.server.client_options()
    }
}

/// Starting the embedded Redis failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedRedisError {
    /// The poller cannot be created.
    #[error(transparent)]
    Poller(#[from] freeboard::net::poller::PollerError),
    /// The system cannot be built.
    #[error(transparent)]
    System(#[from] freeboard::BuildError),
    /// The server cannot listen.
    #[error(transparent)]
    Server(#[from] StartError),
}

impl Drop for EmbeddedRedis {
    fn drop(&mut self) {
        self.server.stop(END);
        self.system.shutdown(END);
    }
}
