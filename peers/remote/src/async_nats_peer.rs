//! async-nats alone: requests and replies, or messages to a subject, with the client's own limits.

use anyhow::{Context, Result};
use async_nats::Client as Connection;
use futures_util::StreamExt;

use crate::{
    peer::{self, Running},
    receiver::Inbox,
    sender::{Client, Ledger, Messages},
};

const SUBJECT: &str = "counter";

pub fn receive(server: &str, inbox: Inbox) -> Result<Running> {
    let runtime = peer::runtime()?;
    let server = server.to_owned();
    let address = server.clone();
    runtime.block_on(async move {
        let connection = async_nats::connect(server).await?;
        let mut messages = connection.subscribe(SUBJECT).await?;
        // The server has the subscription before the sender starts.
        connection.flush().await?;
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let number = inbox.handle(&message.payload);
                if let Some(reply) = message.reply {
                    let payload = number.to_le_bytes().to_vec();
                    // Fails only when the connection is closed.
                    let _ = connection.publish(reply, payload.into()).await;
                }
            }
        });
        anyhow::Ok(())
    })?;
    Ok(Running::new(address, runtime))
}

pub async fn connect(server: &str) -> Result<Connection> {
    Ok(async_nats::connect(server).await?)
}

impl Client for Connection {
    async fn ask(&self, message: Vec<u8>) -> Result<u64> {
        let reply = self.request(SUBJECT, message.into()).await?;
        let number = reply.payload.first_chunk().context("a short reply")?;
        Ok(u64::from_le_bytes(*number))
    }

    async fn tell_all(&self, messages: Messages) -> Result<()> {
        for message in messages {
            self.publish(SUBJECT, message.into()).await?;
        }
        Ok(self.flush().await?)
    }

    fn offer(&self, message: Vec<u8>, ledger: &Ledger) {
        let (connection, ledger) = (self.clone(), ledger.clone());
        tokio::spawn(async move {
            let result = connection.publish(SUBJECT, message.into()).await;
            ledger.note(result.is_ok());
        });
    }
}
