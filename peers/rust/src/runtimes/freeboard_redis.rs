//! Freeboard's client: a function for each outcome, which sends the next command.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Sender};

use anyhow::{Context, Result};
use freeboard::{
    System,
    net::poller::{Policy, Poller},
    redis::{Cluster, ClusterOptions, Redis, RedisError, RedisOptions},
};

use crate::outcome::Outcome;
use crate::redis_load::{self, Bed, CONNECTIONS_COUNT, Chain, PATIENCE, THREADS_COUNT, Verb};
use crate::redis_stall::{Callers, End, Ledger, Offer, Stall};

/// A chain that passes through the outcomes.
struct Link {
    chain: Chain,
    redis: &'static Redis,
    done: Sender<Result<Chain>>,
}

impl Link {
    fn go_on(mut self: Box<Self>) {
        let Some(key) = self.chain.begin() else {
            return self.finish_with(Ok(()));
        };
        let (redis, flood) = (self.redis, self.chain.flood());
        match flood.verb {
            Verb::Get => redis.get(key.as_str()).then(move |outcome| {
                self.end(outcome.map(|value| value.map(|bytes| bytes.len())));
            }),
            Verb::Set => {
                let value = redis_load::value(flood.value_bytes);
                let request = redis.set(key.as_str(), value);
                request.then(move |outcome| self.end(outcome.map(|()| None)));
            }
        }
    }

    fn end(mut self: Box<Self>, outcome: Result<Option<usize>, RedisError>) {
        let ended = outcome.map_err(Into::into);
        match ended.and_then(|value_bytes| self.chain.end(value_bytes)) {
            Ok(()) => self.go_on(),
            Err(error) => self.finish_with(Err(error)),
        }
    }

    fn finish_with(self, outcome: Result<()>) {
        let Self { chain, done, .. } = self;
        // Nobody waits any more where another chain has failed.
        let _ = done.send(outcome.map(|()| chain));
    }
}

pub fn run(bed: &Bed) -> Result<Outcome> {
    let (_system, clients) = connect(bed.addresses())?;
    bed.measure(|chains| {
        let (done, ended) = mpsc::channel();
        let chains_count = chains.len();
        for chain in chains {
            let link = Link {
                redis: &clients[chain.connection()],
                chain,
                done: done.clone(),
            };
            Box::new(link).go_on();
        }
        drop(done);
        (0..chains_count)
            .map(|_| ended.recv().context("a chain was lost")?)
            .collect()
    })
}

pub fn stall(count: u64) -> Result<Outcome> {
    let stall = Stall::start()?;
    let (_system, clients) = connect(&[stall.address()])?;
    let ledger = Ledger::default();
    let mut callers = Functions {
        clients,
        ledger: ledger.clone(),
    };
    stall.measure(count, &ledger, &mut callers)
}

/// Callers of the clients: a function for each outcome.
struct Functions {
    clients: &'static [Redis],
    ledger: Ledger,
}

impl Callers for Functions {
    fn offer(&mut self, offer: Offer) {
        let ledger = self.ledger.clone();
        let request = self.clients[offer.connection].set(offer.key.as_str(), offer.value);
        request.then(move |outcome| {
            ledger.note(match outcome {
                Ok(()) => End::Answered,
                Err(RedisError::QueueFull) => End::Refused,
                Err(_) => End::Failed,
            });
        });
    }
}

/// A client for each connection, so that each has its own depth. They live to the end of the process,
/// which spares each outcome the counting of references.
fn connect(addresses: &[SocketAddr]) -> Result<(System, &'static [Redis])> {
    let poller = Poller::new(THREADS_COUNT, Policy::default())?;
    let system = System::builder()
        .workers(THREADS_COUNT)
        .driver(poller.driver())
        .build()?;
    let new_client = |_| match addresses {
        [address] => {
            let options = RedisOptions {
                port: address.port(),
                ..RedisOptions::default()
            };
            Redis::connect(&system, &poller, options)
        }
        nodes => {
            let seeds = nodes.iter().map(|it| (it.ip().to_string(), it.port()));
            let cluster = Cluster::connect(&system, &poller, ClusterOptions::new(seeds));
            cluster.map(|cluster| Redis::clone(&cluster))
        }
    };
    let clients: Vec<Redis> = (0..CONNECTIONS_COUNT)
        .map(new_client)
        .collect::<Result<_, _>>()?;
    for redis in &clients {
        redis.wait_up(PATIENCE)?;
    }
    Ok((system, clients.leak()))
}
