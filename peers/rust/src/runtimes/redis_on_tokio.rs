//! Clients of Redis on tokio: a task for each chain, and one for each offer to a stalled server.
//!
//! The runtime is the one for a single thread. On a worker of the other, the task that was woken last runs
//! next, so that a connection writes each command by itself: these clients reach a third of the rate there.

use std::error::Error;
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::outcome::Outcome;
use crate::redis_load::{self, Bed, CONNECTIONS_COUNT, Chain, Key, Verb};
use crate::redis_stall::{Callers, End, Ledger, Offer, Stall};

/// A connection that pipelines what its clones send.
pub trait Client: Clone + Send + Sync + 'static {
    type Error: Error + Send + Sync + 'static;

    /// The length of the key's value, if there is one.
    fn get(&mut self, key: &Key)
    -> impl Future<Output = Result<Option<usize>, Self::Error>> + Send;

    fn set(
        &mut self,
        key: &Key,
        value: &'static str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether a command was not taken because too much is under way.
    fn is_refusal(error: &Self::Error) -> bool;
}

pub fn run<C: Client>(
    bed: &Bed,
    connect: impl AsyncFn(&[SocketAddr]) -> Result<C>,
) -> Result<Outcome> {
    let runtime = start()?;
    let clients = connect_all(&runtime, bed.addresses(), connect)?;
    bed.measure(|chains| {
        let tasks: Vec<_> = chains
            .into_iter()
            .map(|chain| runtime.spawn(follow(clients[chain.connection()].clone(), chain)))
            .collect();
        runtime.block_on(async {
            let mut chains = Vec::with_capacity(tasks.len());
            for task in tasks {
                chains.push(task.await.context("a task panicked")??);
            }
            Ok(chains)
        })
    })
}

pub fn stall<C: Client>(
    count: u64,
    connect: impl AsyncFn(&[SocketAddr]) -> Result<C>,
) -> Result<Outcome> {
    let stall = Stall::start()?;
    let runtime = start()?;
    let clients = connect_all(&runtime, &[stall.address()], connect)?;
    let ledger = Ledger::default();
    let mut callers = Tasks {
        runtime,
        clients,
        ledger: ledger.clone(),
    };
    let outcome = stall.measure(count, &ledger, &mut callers);
    // Tasks that still wait would be taken down one by one; the process ends soon.
    mem::forget(callers);
    outcome
}

/// Callers of a client: a task each.
struct Tasks<C> {
    runtime: Runtime,
    clients: Vec<C>,
    ledger: Ledger,
}

impl<C: Client> Callers for Tasks<C> {
    fn offer(&mut self, offer: Offer) {
        let mut client = self.clients[offer.connection].clone();
        let ledger = self.ledger.clone();
        self.runtime.spawn(async move {
            let outcome = client.set(&offer.key, offer.value).await;
            ledger.note(match outcome {
                Ok(()) => End::Answered,
                Err(error) if C::is_refusal(&error) => End::Refused,
                Err(_) => End::Failed,
            });
        });
    }

    fn take_turn(&mut self) {
        // The queue is in order: the last one's turn is behind all others'.
        let last = self.runtime.spawn(async {});
        self.runtime.block_on(last).expect("it cannot fail");
    }

    fn pass(&mut self, time: Duration) {
        // Within the runtime, whose timer it needs.
        self.runtime.block_on(async { sleep(time).await });
    }
}

fn start() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio cannot be started")
}

fn connect_all<C>(
    runtime: &Runtime,
    addresses: &[SocketAddr],
    connect: impl AsyncFn(&[SocketAddr]) -> Result<C>,
) -> Result<Vec<C>> {
    runtime.block_on(async {
        let mut clients = Vec::with_capacity(CONNECTIONS_COUNT);
        for _ in 0..CONNECTIONS_COUNT {
            clients.push(connect(addresses).await?);
        }
        Ok(clients)
    })
}

async fn follow<C: Client>(mut client: C, mut chain: Chain) -> Result<Chain> {
    let flood = chain.flood();
    let value = redis_load::value(flood.value_bytes);
    while let Some(key) = chain.begin() {
        let value_bytes = match flood.verb {
            Verb::Get => client.get(&key).await?,
            Verb::Set => {
                client.set(&key, value).await?;
                None
            }
        };
        chain.end(value_bytes)?;
    }
    Ok(chain)
}
