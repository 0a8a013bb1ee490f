//! redis-rs: its multiplexed connections, and those to a cluster.

use std::net::SocketAddr;

use anyhow::Result;
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client as Server, ProtocolVersion, RedisError,
    aio::MultiplexedConnection, cluster::ClusterClientBuilder, cluster_async::ClusterConnection,
};

use super::redis_on_tokio::{self, Client};
use crate::outcome::Outcome;
use crate::redis_load::{Bed, Key};

/// The most commands without a reply on each connection, where it has a limit: as many as ours has.
const LIMIT: usize = 10_000;

#[derive(Clone)]
struct Pipelined<C>(C);

impl<C: AsyncCommands + Clone + Send + Sync + 'static> Client for Pipelined<C> {
    type Error = RedisError;

    async fn get(&mut self, key: &Key) -> Result<Option<usize>, RedisError> {
        let value: Option<Vec<u8>> = self.0.get(key.as_str()).await?;
        Ok(value.map(|bytes| bytes.len()))
    }

    async fn set(&mut self, key: &Key, value: &'static str) -> Result<(), RedisError> {
        self.0.set(key.as_str(), value).await
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
    redis_on_tokio::stall(count, async |addresses| {
        let config = AsyncConnectionConfig::new().set_concurrency_limit(LIMIT);
        connect_with(addresses, &config).await
    })
}

pub fn run_cluster(bed: &Bed) -> Result<Outcome> {
    redis_on_tokio::run(bed, connect_cluster)
}

async fn connect(addresses: &[SocketAddr]) -> Result<Pipelined<MultiplexedConnection>> {
    connect_with(addresses, &AsyncConnectionConfig::new()).await
}

async fn connect_with(
    addresses: &[SocketAddr],
    config: &AsyncConnectionConfig,
) -> Result<Pipelined<MultiplexedConnection>> {
    let server = Server::open(format!("redis://{}/?protocol=resp3", addresses[0]))?;
    let connection = server.get_multiplexed_async_connection_with_config(config);
    Ok(Pipelined(connection.await?))
}

async fn connect_cluster(addresses: &[SocketAddr]) -> Result<Pipelined<ClusterConnection>> {
    let nodes = addresses.iter().map(|address| format!("redis://{address}"));
    let client = ClusterClientBuilder::new(nodes).use_protocol(ProtocolVersion::RESP3);
    Ok(Pipelined(client.build()?.get_async_connection().await?))
}
