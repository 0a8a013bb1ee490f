//! A system with a poller, a server whose every move is scripted, and a real one.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::print_stderr, reason = "tests that are left out say so")]

pub(crate) mod fake;
pub(crate) mod server;

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use freeboard_actor::{Actor, Context, Handler, System};
use freeboard_flow::Backoff;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis::{ConnectionSnapshot, Redis, RedisError, RedisOptions};

/// Far beyond what any of it takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < until, "in vain: {what}");
        thread::yield_now();
    }
}

/// Two workers, and the poller that they share.
pub(crate) fn system() -> (System, Poller) {
    let poller = Poller::new(2, Policy::default()).unwrap();
    let system = System::builder().workers(2).driver(poller.driver());
    (system.build().unwrap(), poller)
}

/// Options that try again soon, and give up late.
pub(crate) fn options(port: u16) -> RedisOptions {
    let millis = 1_000_000;
    RedisOptions {
        port,
        timeout: LONG,
        backoff: Backoff {
            min_ns: millis,
            max_ns: 20 * millis,
            factor: 2,
        },
        ..RedisOptions::default()
    }
}

/// A client that is up, and the system that it lives in.
pub(crate) fn client(options: RedisOptions) -> (System, Redis) {
    let (system, poller) = system();
    let redis = Redis::connect(&system, &poller, options).unwrap();
    redis.wait_up(LONG).unwrap();
    (system, redis)
}

/// The first connection's figures.
pub(crate) fn figures(redis: &Redis) -> ConnectionSnapshot {
    redis.snapshot().connections.swap_remove(0)
}

/// Outcomes in the order in which they came.
pub(crate) struct Outcomes<T> {
    sender: mpsc::Sender<(usize, Result<T, RedisError>)>,
    receiver: mpsc::Receiver<(usize, Result<T, RedisError>)>,
}

impl<T: Send + 'static> Outcomes<T> {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    /// What is to be called with the outcome of command `number`.
    pub(crate) fn of(&self, number: usize) -> impl FnOnce(Result<T, RedisError>) + Send + use<T> {
        let sender = self.sender.clone();
        move |outcome| sender.send((number, outcome)).unwrap()
    }

    pub(crate) fn next(&self) -> (usize, Result<T, RedisError>) {
        self.receiver.recv_timeout(LONG).unwrap()
    }

    pub(crate) fn take(&self, count: usize) -> Vec<(usize, Result<T, RedisError>)> {
        (0..count).map(|_| self.next()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.try_recv().is_err()
    }
}

/// An actor that keeps what it is told.
pub(crate) struct Keeper<M>(pub(crate) Arc<Mutex<Vec<M>>>);

impl<M: Send + 'static> Actor for Keeper<M> {}

impl<M: Send + 'static> Handler<M> for Keeper<M> {
    type Reply = ();

    fn handle(&mut self, message: M, _: &mut Context<Self>) {
        self.0.lock().unwrap().push(message);
    }
}
