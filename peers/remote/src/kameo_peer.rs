//! kameo's remote actors, over libp2p: TCP, noise, yamux. A tell is a request, too, whose answer nobody awaits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt;
use kameo::{
    Actor, RemoteActor,
    actor::{RemoteActorRef, Spawn},
    message::{Context as KameoContext, Message as KameoMessage},
    remote::{self, messaging},
    remote_message,
};
use libp2p::{Multiaddr, SwarmBuilder, multiaddr::Protocol, noise, swarm::SwarmEvent, tcp, yamux};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, sync::oneshot};

use crate::{
    peer::{self, Running},
    receiver::Inbox,
    sender::{Client, Ledger, Messages},
};

const NAME: &str = "counter";
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Below the limit of streams of one connection.
const TELLS_MAX: usize = 64;

#[derive(Actor, RemoteActor)]
struct Counter(Inbox);

#[derive(Serialize, Deserialize)]
struct Message(#[serde(with = "serde_bytes")] Vec<u8>);

#[remote_message]
impl KameoMessage<Message> for Counter {
    type Reply = u64;

    async fn handle(&mut self, message: Message, _: &mut KameoContext<Self, u64>) -> u64 {
        self.0.handle(&message.0)
    }
}

/// Starts a swarm without discovery by multicast: loopback has none. Returns its address.
async fn start_swarm(to: Option<&str>) -> Result<String> {
    let swarm = SwarmBuilder::with_new_identity().with_tokio().with_tcp(
        tcp::Config::default().nodelay(true),
        noise::Config::new,
        yamux::Config::default,
    )?;
    let behaviour = |key: &libp2p::identity::Keypair| {
        remote::Behaviour::new(key.public().to_peer_id(), messaging::Config::default())
    };
    let mut swarm = swarm.with_behaviour(behaviour)?.build();
    swarm.behaviour().try_init_global()?;
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    if let Some(to) = to {
        let mut address: Multiaddr = to.parse()?;
        let Some(Protocol::P2p(receiver)) = address.pop() else {
            bail!("an address without a peer: {to}");
        };
        swarm.add_peer_address(receiver, address.clone());
        swarm.dial(address)?;
    }
    let peer = *swarm.local_peer_id();
    let (listening, address) = oneshot::channel();
    tokio::spawn(async move {
        let mut listening = Some(listening);
        loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await
                && let Some(listening) = listening.take()
            {
                // Nobody waits any more if the start has failed.
                let _ = listening.send(format!("{address}/p2p/{peer}"));
            }
        }
    });
    Ok(address.await?)
}

pub fn receive(inbox: Inbox) -> Result<Running> {
    let runtime = peer::runtime()?;
    let (address, counter) = runtime.block_on(async {
        let address = start_swarm(None).await?;
        let counter = Counter::spawn(Counter(inbox));
        counter.register(NAME).await?;
        anyhow::Ok((address, counter))
    })?;
    Ok(Running::new(address, (runtime, counter)))
}

#[derive(Clone)]
pub struct Remote(RemoteActorRef<Counter>);

pub async fn connect(to: &str) -> Result<Remote> {
    start_swarm(Some(to)).await?;
    let begun = Instant::now();
    loop {
        if let Ok(Some(counter)) = RemoteActorRef::lookup(NAME).await {
            return Ok(Remote(counter));
        }
        ensure!(begun.elapsed() < CONNECT_TIME_MAX, "no actor is found");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Client for Remote {
    async fn ask(&self, message: Vec<u8>) -> Result<u64> {
        Ok(self.0.ask(&Message(message)).await?)
    }

    async fn tell_all(&self, messages: Messages) -> Result<()> {
        let permits = Arc::new(Semaphore::new(TELLS_MAX));
        for message in messages {
            let permit = permits.clone().acquire_owned().await?;
            let to = self.0.clone();
            tokio::spawn(async move {
                // One that fails is not handled, so it counts as lost.
                let _ = to.tell(&Message(message)).send_ack().await;
                drop(permit);
            });
        }
        let all = permits.acquire_many(TELLS_MAX as u32).await;
        drop(all.context("it is not closed")?);
        Ok(())
    }

    fn offer(&self, message: Vec<u8>, ledger: &Ledger) {
        let result = self.0.tell(&Message(message)).send();
        ledger.note(result.is_ok());
    }
}
