//! ractor_cluster: an actor in a group that both nodes see. Casts and calls pass mailboxes without a bound.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use freeboard_test_servers::Port;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, pg, rpc::CallResult};
use ractor_cluster::{NodeServer, NodeServerMessage, RactorClusterMessage, client_connect};

use crate::{
    peer::{self, Running},
    receiver::Inbox,
    sender::{Client, Ledger, Messages},
};

const GROUP: &str = "counter";
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(RactorClusterMessage)]
enum Message {
    Tell(Vec<u8>),
    #[rpc]
    Ask(Vec<u8>, RpcReplyPort<u64>),
}

struct Counter;

impl Actor for Counter {
    type Msg = Message;
    type State = Inbox;
    type Arguments = Inbox;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        inbox: Inbox,
    ) -> Result<Inbox, ActorProcessingErr> {
        Ok(inbox)
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        inbox: &mut Inbox,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Tell(message) => {
                inbox.handle(&message);
            }
            Message::Ask(message, reply) => reply.send(inbox.handle(&message))?,
        }
        Ok(())
    }
}

async fn start_node(name: &str, port: &Port) -> Result<ActorRef<NodeServerMessage>> {
    let server = NodeServer::new(
        port.number(),
        "peers".to_owned(),
        name.to_owned(),
        "127.0.0.1".to_owned(),
        None,
        None,
    );
    let server = server.with_listen_addr(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let (node, _) = Actor::spawn(None, server, ()).await?;
    Ok(node)
}

pub fn receive(inbox: Inbox) -> Result<Running> {
    let runtime = peer::runtime()?;
    let port = Port::reserve()?;
    runtime.block_on(async {
        start_node("receiver", &port).await?;
        let (counter, _) = Actor::spawn(None, Counter, inbox).await?;
        pg::join(GROUP.to_owned(), vec![counter.get_cell()]);
        anyhow::Ok(())
    })?;
    Ok(Running::new(port.address().to_string(), (runtime, port)))
}

#[derive(Clone)]
pub struct Remote(ActorRef<Message>);

pub async fn connect(to: &str) -> Result<Remote> {
    // It listens, too.
    let port = Port::reserve()?;
    let node = start_node("sender", &port).await?;
    client_connect(&node, to).await?;
    let begun = Instant::now();
    loop {
        if let Some(counter) = pg::get_members(&GROUP.to_owned()).pop() {
            return Ok(Remote(counter.into()));
        }
        ensure!(begun.elapsed() < CONNECT_TIME_MAX, "no actor is found");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Client for Remote {
    async fn ask(&self, message: Vec<u8>) -> Result<u64> {
        let ask = |reply| Message::Ask(message, reply);
        match self.0.call(ask, Some(Duration::from_secs(30))).await? {
            CallResult::Success(number) => Ok(number),
            other => Err(anyhow!("no reply: {other:?}")),
        }
    }

    async fn tell_all(&self, messages: Messages) -> Result<()> {
        for (index, message) in messages.enumerate() {
            self.0.cast(Message::Tell(message)).context("a cast")?;
            if index % 64 == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    fn offer(&self, message: Vec<u8>, ledger: &Ledger) {
        ledger.note(self.0.cast(Message::Tell(message)).is_ok());
    }
}
