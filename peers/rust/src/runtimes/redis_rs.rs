//! redis-rs: its multiplexed connections.

use std::net::SocketAddr;

use anyhow::Result;
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client as Server, RedisError, aio::MultiplexedConnection,
};

use super::redis_on_tokio::{self, Client};
use crate::outcome::Outcome;
use crate::redis_load::{Bed, Key};

/// The most commands without a reply on each connection, where it has a limit: as many as ours has.
const LIMIT: usize = 10_000;

impl Client for MultiplexedConnection {
    type Error = RedisError;

    async fn get(&mut self, key: &Key) -> Result<Option<usize>, RedisError> {
        let value: Option<Vec<u8>> = AsyncCommands::get(self, key.as_str()).await?;
        Ok(value.map(|bytes| bytes.len()))
    }

    async fn set(&mut self, key: &Key, value: &'static str) -> Result<(), RedisError> {
        AsyncCommands::set(self, key.as_str(), value).await
    }

    /// At its limit it lets callers wait.
    fn is_refusal(_error: &RedisError) -> bool {
        false
    }
}

pub fn run(bed: &Bed) -> Result<Outcome> {
    redis_on_tokio::run(bed, connect)
}

pub fn stall(count: u64) -> Result<Outcome> {
    redis_on_tokio::stall(count, connect)
}

pub fn stall_limited(count: u64) -> Result<Outcome> {
    redis_on_tokio::stall(count, async |address| {
        let config = AsyncConnectionConfig::new().set_concurrency_limit(LIMIT);
        connect_with(address, &config).await
    })
}

async fn connect(address: SocketAddr) -> Result<MultiplexedConnection> {
    connect_with(address, &AsyncConnectionConfig::new()).await
}

async fn connect_with(
    address: SocketAddr,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection> {
    let server = Server::open(format!("redis://{address}/?protocol=resp3"))?;
    Ok(server
        .get_multiplexed_async_connection_with_config(config)
        .await?)
}
