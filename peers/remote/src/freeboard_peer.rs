//! Freeboard: a published actor and a remote reference, over a NATS server.

use std::time::Duration;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use freeboard::{
    prelude::*,
    remote::{Node, NodeOptions, PublishOptions, RemoteMessage, RemoteOptions, RemoteRef},
};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    peer::Running,
    receiver::Inbox,
    sender::{Asks, Client, Ledger, Messages},
};

const NAME: &str = "counter";

/// The most messages that wait at the receiver, and at the sender.
const WINDOW_MESSAGES: usize = 8_192;
const WINDOW_BYTES: u64 = 8 * 1_024 * 1_024;

#[derive(Serialize, Deserialize, RemoteMessage)]
#[remote(name = "peers.message", version = 1, reply = u64)]
struct Message(Bytes);

struct Counter(Inbox);

impl Actor for Counter {}

impl Handler<Message> for Counter {
    type Reply = u64;

    fn handle(&mut self, message: Message, _: &mut Context<Self>) -> u64 {
        self.0.handle(&message.0)
    }
}

/// Sender, receiver and server share the machine's cores, so a worker that spins would keep another process from its core.
fn system() -> Result<System> {
    Ok(System::builder().spin(Duration::ZERO).build()?)
}

pub fn receive(server: &str, inbox: Inbox) -> Result<Running> {
    let system = system()?;
    let node = Node::join(&system, NodeOptions::new(server).name("receiver"))?;
    let options = SpawnOptions::new().lane(LaneConfig::bounded(WINDOW_MESSAGES));
    let counter = system.spawn_with(options, move || Counter(inbox.clone()))?;
    let window = PublishOptions::new().window(WINDOW_MESSAGES as u64, WINDOW_BYTES);
    node.publish_with::<Message, _>(NAME, &counter, window)?;
    Ok(Running::new(server, (system, node, counter)))
}

/// Asks from its handler, as actors of the BEAM do.
struct Asker;

struct Run(Asks);

impl Actor for Asker {}

impl AsyncHandler<Run> for Asker {
    type Reply = Result<Histogram<u64>>;

    async fn handle(&mut self, run: Run, _: &mut Context<Self>) -> Self::Reply {
        run.0.await
    }
}

#[derive(Clone)]
pub struct Remote {
    to: RemoteRef<Message>,
    _node: Node,
    system: System,
}

pub fn connect(server: &str) -> Result<Remote> {
    let system = system()?;
    let node = Node::join(&system, NodeOptions::new(server).name("sender"))?;
    let options = RemoteOptions::new().lane(LaneConfig::bounded(WINDOW_MESSAGES));
    let to = node.remote_with(NAME, options)?;
    Ok(Remote {
        to,
        _node: node,
        system,
    })
}

impl Client for Remote {
    async fn run(&self, asks: Asks) -> Result<Histogram<u64>> {
        let done = self.system.spawn(Asker).ask(Run(asks)).await;
        done.map_err(|error| anyhow!("{error}"))?
    }

    async fn ask(&self, message: Vec<u8>) -> Result<u64> {
        let ask = self.to.ask(Message(message.into()));
        Ok(ask.timeout(Duration::from_secs(30)).await?)
    }

    async fn tell_all(&self, messages: Messages) -> Result<()> {
        let to = self.to.clone();
        // A full lane blocks the thread.
        let tell = move || {
            for message in messages {
                to.tell(Message(message.into()))?;
            }
            anyhow::Ok(())
        };
        tokio::task::spawn_blocking(tell).await?
    }

    fn offer(&self, message: Vec<u8>, ledger: &Ledger) {
        let result = self.to.try_tell(Message(message.into()));
        ledger.note(result.is_ok());
    }
}
