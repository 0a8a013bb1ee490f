//! The actor of a range of keys.
//!
//! It appends a change to the stream, applies it at once, and replies when the change is durable. Replies leave in the
//! order of requests, so a read that has seen a change waits until the change is durable. While no change waits, reads
//! are answered at once.

use std::{
    collections::VecDeque,
    future::Future,
    ops::Bound,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, Wake, Waker},
};

use bytes::Bytes;
use freeboard::{
    platform::planted,
    prelude::*,
    stream::{StreamWriter, Ticket},
};
use tokio::sync::oneshot;

use crate::record::{self, ENTRY_BYTES_MAX, Map};

/// After so many bytes a range of entries ends early.
pub const RANGE_BYTES_MAX: usize = 16 << 20;

/// The condition of a change.
#[derive(Clone, Debug)]
pub enum Condition {
    /// It is always met.
    Always,
    /// The key has no value.
    Missing,
    /// The key has this value.
    Equals(Bytes),
}

/// A command for the keys of one range.
#[derive(Debug)]
pub enum Command {
    /// The value of a key: [`Reply::Value`] or [`Reply::Null`].
    Get(Bytes),
    /// Sets the value of a key: [`Reply::Ok`], or [`Reply::Null`] if the condition does not hold.
    Put(Bytes, Bytes, Condition),
    /// Removes a key: [`Reply::Integer`] with 1, or with 0 if it had no value.
    Delete(Bytes),
    /// [`Reply::Values`] of the keys from one on, up to another, at most so many.
    Range(Bound<Bytes>, Bound<Bytes>, usize),
    /// [`Reply::Integer`] with the number of keys.
    Count,
}

/// A reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done.
    Ok,
    /// There is no value, or the condition does not hold.
    Null,
    /// A number.
    Integer(u64),
    /// A value.
    Value(Bytes),
    /// Keys and values, in turn.
    Values(Vec<Bytes>),
    /// Why it was not done; after an error of the disk it may have been done.
    Error(String),
}

/// A request, and who waits for the reply.
pub(crate) struct Request(pub(crate) Command, pub(crate) oneshot::Sender<Reply>);

/// A reply that waits for the one before it, and for its record.
struct Waiting {
    ticket: Option<Ticket>,
    value: Reply,
    reply: oneshot::Sender<Reply>,
}

/// The actor of a range of keys.
pub(crate) struct Partition {
    map: Map,
    log: StreamWriter,
    /// Bounded by the requests of all connections.
    waiting: VecDeque<Waiting>,
    waker: Waker,
    /// Why nothing is served: the map has changes that may not be in the stream.
    failure: Option<String>,
}

impl Partition {
    pub(crate) fn new(map: Map, log: StreamWriter) -> Self {
        Self {
            map,
            log,
            waiting: VecDeque::new(),
            waker: Waker::noop().clone(),
            failure: None,
        }
    }

    /// What the request is answered, and the record that must be durable before.
    fn execute(&mut self, command: Command, cx: &mut Context<Self>) -> (Reply, Option<Ticket>) {
        match command {
            Command::Get(key) => match self.map.get(&key) {
                Some(value) => (Reply::Value(value.clone()), None),
                None => (Reply::Null, None),
            },
            Command::Put(key, value, condition) => {
                let is_met = match condition {
                    Condition::Always => true,
                    Condition::Missing => !self.map.contains_key(&key),
                    Condition::Equals(old) => self.map.get(&key) == Some(&old),
                };
                if is_met {
                    self.change(key, Some(value), Reply::Ok, cx)
                } else {
                    (Reply::Null, None)
                }
            }
            Command::Delete(key) if self.map.contains_key(&key) => {
                self.change(key, None, Reply::Integer(1), cx)
            }
            Command::Delete(_) => (Reply::Integer(0), None),
            Command::Range(from, to, limit) => {
                let (mut values, mut bytes) = (Vec::new(), 0);
                for (key, value) in self.map.range((from, to)).take(limit) {
                    values.extend([key.clone(), value.clone()]);
                    bytes += key.len() + value.len();
                    if bytes >= RANGE_BYTES_MAX {
                        break;
                    }
                }
                (Reply::Values(values), None)
            }
            Command::Count => (Reply::Integer(self.map.len() as u64), None),
        }
    }

    fn change(
        &mut self,
        key: Bytes,
        value: Option<Bytes>,
        done: Reply,
        cx: &mut Context<Self>,
    ) -> (Reply, Option<Ticket>) {
        if key.len() + value.as_ref().map_or(0, Bytes::len) > ENTRY_BYTES_MAX {
            let reason = format!("ERR a key and its value take at most {ENTRY_BYTES_MAX} bytes");
            return (Reply::Error(reason), None);
        }
        let record = record::encode(&key, value.as_deref());
        // It waits while the stream's memory is full.
        match cx.blocking(|| self.log.append(&record)) {
            Err(error) => (Reply::Error(format!("ERR {error}")), None),
            Ok(ticket) => {
                match value {
                    Some(value) => self.map.insert(key, value),
                    None => self.map.remove(&key),
                };
                let is_awaited = !planted!("replied-before-durable");
                (done, is_awaited.then_some(ticket))
            }
        }
    }

    /// Sends the replies whose records are durable.
    fn reply(&mut self) {
        while let Some(first) = self.waiting.front_mut() {
            let durable = first.ticket.as_mut().map_or(Poll::Ready(Ok(0)), |ticket| {
                Pin::new(ticket).poll(&mut TaskContext::from_waker(&self.waker))
            });
            match durable {
                Poll::Pending => return,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => {
                    let reason = format!("ERR {error}; the store must be started again");
                    self.failure.get_or_insert(reason);
                }
            }
            let first = self.waiting.pop_front().expect("the first one");
            let failed = self.failure.clone().map(Reply::Error);
            // The client may have gone.
            let _ = first.reply.send(failed.unwrap_or(first.value));
        }
    }
}

impl Actor for Partition {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.waker = Waker::from(Arc::new(OnReady(cx.waker_fn(|this, _| this.reply()))));
    }
}

impl Handler<Request> for Partition {
    type Reply = ();

    fn handle(&mut self, Request(command, reply): Request, cx: &mut Context<Self>) {
        let (value, ticket) = match &self.failure {
            Some(reason) => (Reply::Error(reason.clone()), None),
            None => self.execute(command, cx),
        };
        let is_first = self.waiting.is_empty();
        self.waiting.push_back(Waiting {
            ticket,
            value,
            reply,
        });
        // The waker of an earlier ticket serves the later ones too.
        if is_first {
            self.reply();
        }
    }
}

/// Wakes the partition.
struct OnReady<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for OnReady<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}
