//! rustis, which pipelines by itself. It stands here rather than fred, which does so too, because it bounds
//! what is under way unless told otherwise.

use std::net::SocketAddr;

use ::rustis::{
    ClientError, Error, ErrorKind, client::Client as Connection, commands::StringCommands,
    resp::BulkString,
};
use anyhow::Result;

use super::redis_on_tokio::{self, Client};
use crate::outcome::Outcome;
use crate::redis_load::{Bed, Key};

impl Client for Connection {
    type Error = Error;

    async fn get(&mut self, key: &Key) -> Result<Option<usize>, Error> {
        let value: Option<BulkString> = StringCommands::get(&*self, key.as_str()).await?;
        Ok(value.map(|bytes| bytes.len()))
    }

    async fn set(&mut self, key: &Key, value: &'static str) -> Result<(), Error> {
        StringCommands::set(&*self, key.as_str(), value).await
    }

    fn is_refusal(error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::Client(ClientError::SendQueueFull))
    }
}

pub fn run(bed: &Bed) -> Result<Outcome> {
    redis_on_tokio::run(bed, connect)
}

pub fn stall(count: u64) -> Result<Outcome> {
    redis_on_tokio::stall(count, connect)
}

async fn connect(addresses: &[SocketAddr]) -> Result<Connection> {
    let url = match addresses {
        [address] => address.to_string(),
        nodes => {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("redis+cluster://{}", nodes.join(","))
        }
    };
    Ok(Connection::connect(url).await?)
}
