//! The process that sends, and its measurements.

use std::{
    future::Future,
    io::BufRead,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    peer::{self, Peer},
    work::{OFFERED_PER_SECOND, Scale, TICK, Work},
};

/// Asks one after another; their latencies in nanoseconds.
pub type Asks = Pin<Box<dyn Future<Output = Result<Histogram<u64>>> + Send>>;

/// A connection to the receiver.
pub trait Client: Clone + Send + Sync + 'static {
    /// Runs asks where the library's users would ask: by default in this task of tokio.
    fn run(&self, asks: Asks) -> impl Future<Output = Result<Histogram<u64>>> + Send {
        asks
    }

    /// Sends a message and returns the number in the reply.
    fn ask(&self, message: Vec<u8>) -> impl Future<Output = Result<u64>> + Send;

    /// Sends messages until `messages` ends, without answers, as fast as they are taken. Returns when all are accepted.
    fn tell_all(&self, messages: Messages) -> impl Future<Output = Result<()>> + Send;

    /// Sends one message that is not worth waiting for, and notes its outcome now or later.
    fn offer(&self, message: Vec<u8>, ledger: &Ledger);
}

/// Counts of the messages by their outcome. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Outcomes>);

#[derive(Debug, Default)]
struct Outcomes {
    offered_count: AtomicU64,
    accepted_count: AtomicU64,
    refused_count: AtomicU64,
}

impl Ledger {
    /// Notes whether the library has taken a message.
    pub fn note(&self, is_accepted: bool) {
        let count = match is_accepted {
            true => &self.0.accepted_count,
            false => &self.0.refused_count,
        };
        // Ordering: Relaxed, here and below: nothing but the numbers is read.
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn accept_all(&self) {
        let offered_count = self.0.offered_count.load(Ordering::Relaxed);
        self.0
            .accepted_count
            .store(offered_count, Ordering::Relaxed);
    }

    fn line(&self) -> Value {
        let counts = [
            &self.0.offered_count,
            &self.0.accepted_count,
            &self.0.refused_count,
        ];
        let [offered, accepted, refused] = counts.map(|it| it.load(Ordering::Relaxed));
        json!({ "offered": offered, "accepted": accepted, "refused": refused })
    }
}

/// Numbered messages, until a time.
pub struct Messages {
    bytes: usize,
    until: Instant,
    ledger: Ledger,
    number: u64,
}

/// Messages between two readings of the clock.
const MESSAGES_PER_TURN: u64 = 64;

impl Iterator for Messages {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.number.is_multiple_of(MESSAGES_PER_TURN) && Instant::now() >= self.until {
            self.ledger
                .0
                .offered_count
                .store(self.number, Ordering::Relaxed);
            return None;
        }
        self.number += 1;
        Some(message(self.number, self.bytes))
    }
}

fn message(number: u64, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes];
    message[..8].copy_from_slice(&number.to_le_bytes());
    message
}

/// Connects, waits for the command to begin, and sends.
pub fn run(peer: Peer, work: Work, scale: Scale, receiver: &str) -> Result<()> {
    let runtime = peer::runtime()?;
    peer::send(peer, &runtime, work, scale, receiver)
}

/// The measurement, on any client.
pub async fn measure<C: Client>(client: C, work: Work, scale: Scale) -> Result<()> {
    warm_up(&client, work).await?;
    println!("{}", json!({ "ready": true }));
    let mut commands = std::io::stdin().lock().lines();
    let begin = commands.next().context("nobody says go")??;
    ensure!(begin == "go", "an unknown command: {begin}");
    let ledger = Ledger::default();
    let line = match (work, work.outstanding()) {
        (_, Some(outstanding)) => ask(client, work, outstanding, work.time(scale)).await?,
        (Work::Overload, _) => {
            offer(&client, work, work.time(scale), &ledger).await;
            ledger.line()
        }
        _ => {
            let messages = Messages {
                bytes: work.bytes(),
                until: Instant::now() + work.time(scale),
                ledger: ledger.clone(),
                number: 0,
            };
            client.tell_all(messages).await?;
            ledger.accept_all();
            ledger.line()
        }
    };
    println!("{line}");
    // Blocks one of the runtime's threads, after the measurement.
    for command in commands {
        match command?.as_str() {
            "report" => println!("{}", ledger.line()),
            other => bail!("an unknown command: {other}"),
        }
    }
    Ok(())
}

const WARM_UP_ASKS: u64 = 200;

/// Connections, sessions and buffers are there.
async fn warm_up<C: Client>(client: &C, work: Work) -> Result<()> {
    for number in 0..WARM_UP_ASKS {
        client.ask(message(number, work.bytes())).await?;
    }
    Ok(())
}

async fn ask<C: Client>(
    client: C,
    work: Work,
    outstanding: usize,
    time: Duration,
) -> Result<Value> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..outstanding {
        let client = client.clone();
        let asker = client.clone();
        let asks: Asks = Box::pin(async move {
            let mut latencies_ns = Histogram::<u64>::new(3)?;
            let mut number = task as u64;
            let mut sent = Instant::now();
            while sent.duration_since(begun) < time {
                let reply = client.ask(message(number, work.bytes())).await?;
                ensure!(reply == number, "the reply to {number} is {reply}");
                number += outstanding as u64;
                let answered = Instant::now();
                latencies_ns.record(answered.duration_since(sent).as_nanos() as u64)?;
                sent = answered;
            }
            Ok(latencies_ns)
        });
        tasks.spawn(async move { asker.run(asks).await });
    }
    let mut latencies_ns = Histogram::<u64>::new(3)?;
    while let Some(task) = tasks.join_next().await {
        latencies_ns.add(task??)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let us = |quantile: f64| latencies_ns.value_at_quantile(quantile) as f64 / 1e3;
    Ok(json!({
        "asked": latencies_ns.len(),
        "seconds": seconds,
        "p50_us": us(0.5),
        "p99_us": us(0.99),
    }))
}

/// An open loop: a late batch does not change the times of the next ones.
async fn offer<C: Client>(client: &C, work: Work, time: Duration, ledger: &Ledger) {
    let per_tick = (OFFERED_PER_SECOND as f64 * TICK.as_secs_f64()) as u64;
    let begun = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    let mut offered_count = 0;
    while begun.elapsed() < time {
        ticks.tick().await;
        for _ in 0..per_tick {
            offered_count += 1;
            client.offer(message(offered_count, work.bytes()), ledger);
        }
        ledger
            .0
            .offered_count
            .store(offered_count, Ordering::Relaxed);
    }
}
