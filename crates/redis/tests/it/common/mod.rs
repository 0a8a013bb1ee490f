//! A system with a poller, a scripted server, and a real one.
#![allow(dead_code, reason = "`stalled.rs` uses only a part")]

pub(crate) mod fake;
pub(crate) mod replies;

use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use freeboard_actor::{Actor, Context, Handler, Recipient, System};
use freeboard_flow::Backoff;
use freeboard_net::poller::{Policy, Poller};
use freeboard_redis::{Command, ConnectionSnapshot, Redis, RedisError, RedisOptions, Request};
use freeboard_test_servers::if_installed;
pub(crate) use freeboard_test_servers::{LONG, eventually};

/// Two workers, and the poller that they share.
pub(crate) fn system() -> (System, Poller) {
    let poller = Poller::new(2, Policy::default()).unwrap();
    let system = System::builder().workers(2).driver(poller.driver());
    (system.build().unwrap(), poller)
}

/// Options with a short back-off and a long timeout.
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

/// A client that is up, and its system.
pub(crate) fn client(options: RedisOptions) -> (System, Redis) {
    let (system, poller) = system();
    let redis = Redis::connect(&system, &poller, options).unwrap();
    redis.wait_up(LONG).unwrap();
    (system, redis)
}

/// The counters of the first connection.
pub(crate) fn figures(redis: &Redis) -> ConnectionSnapshot {
    redis.snapshot().connections.swap_remove(0)
}

/// Outcomes in the order of arrival.
pub(crate) struct Outcomes<T> {
    sender: mpsc::Sender<(usize, Result<T, RedisError>)>,
    receiver: mpsc::Receiver<(usize, Result<T, RedisError>)>,
}

impl<T: Send + 'static> Outcomes<T> {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    /// A receiver for the outcome of command `number`.
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

/// An actor that stores its messages.
pub(crate) struct Collector<M>(pub(crate) Arc<Mutex<Vec<M>>>);

impl<M: Send + 'static> Actor for Collector<M> {}

impl<M: Send + 'static> Handler<M> for Collector<M> {
    type Reply = ();

    fn handle(&mut self, message: M, _: &mut Context<Self>) {
        self.0.lock().unwrap().push(message);
    }
}

impl<M: Send + 'static> Collector<M> {
    /// A new collector: its messages, and its address.
    pub(crate) fn spawn(system: &System) -> (Arc<Mutex<Vec<M>>>, Recipient<M>) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let collector = system.spawn(Self(kept.clone())).recipient();
        (kept, collector)
    }
}

/// A command that the scripted server answers with `text`, as a real one does.
pub(crate) fn echo(redis: &Redis, text: impl AsRef<[u8]>) -> Request<'_, Bytes> {
    redis.cmd(Command::new("ECHO").arg(text))
}

pub(crate) fn echo_number(redis: &Redis, number: usize) -> Request<'_, Bytes> {
    echo(redis, number.to_string())
}

/// Whether the outcome is the reply to `echo_number`.
pub(crate) fn is_reply(number: usize, outcome: &Result<Bytes, RedisError>) -> bool {
    let reply = outcome.as_ref();
    reply.is_ok_and(|reply| *reply == number.to_string())
}

pub(crate) fn ping(redis: &Redis) -> Request<'_, ()> {
    redis.cmd(Command::new("PING"))
}

/// A real server, started for a test and stopped with it.
pub(crate) struct Server {
    server: freeboard_test_servers::Server,
    pub(crate) port: u16,
}

impl Server {
    /// Starts one on a free port of localhost, without persistence. `None`, with a note on standard error, if
    /// `redis-server` is not installed.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        let server = if_installed(freeboard_test_servers::redis(arguments))?;
        let port = server.address().port();
        Some(Self { server, port })
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again, empty.
    pub(crate) fn restart(&mut self) {
        self.server.restart().unwrap();
    }
}
