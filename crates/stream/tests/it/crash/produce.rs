//! A producer: appends numbered records, and waits for some of them.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use freeboard_platform::{
    clock,
    thread::{self, Thread},
};
use freeboard_stream::{AppendError, StreamWriter, Ticket, TicketError};

use super::{
    case::Case,
    dice::Dice,
    ledger::{Entry, Promise, payload},
};

/// How long a producer waits for a ticket before it goes on without: a full disk may keep it.
const PATIENCE: Duration = Duration::from_millis(5);

/// How often an append is tried again while the stream reopens.
const ATTEMPTS: usize = 2_000;

/// A record that was appended, and its ticket.
#[derive(Debug)]
pub(crate) struct Sent {
    bytes: usize,
    ticket: Option<Ticket>,
}

impl Sent {
    /// What the record is promised. The writer has ended: all tickets are resolved.
    pub(crate) fn entry(&self, life: u32, is_synced: bool) -> Result<Entry, String> {
        let promise = match &self.ticket {
            None => Promise::Gone,
            Some(ticket) => match ticket.try_get() {
                None => return Err("a ticket was left open when the writer ended".to_owned()),
                Some(Ok(sequence)) if is_synced => Promise::Durable(sequence),
                Some(Ok(sequence)) => Promise::Handed(sequence),
                Some(Err(TicketError::Unknown)) => Promise::Open(None),
                Some(Err(_)) => Promise::Gone,
            },
        };
        Ok(Entry {
            bytes: self.bytes,
            promise,
            life,
        })
    }
}

/// Appends records until there were enough or the stream takes no more.
pub(crate) fn produce(
    writer: &StreamWriter,
    producer: usize,
    first_index: usize,
    case: &Case,
    dice: &mut Dice,
) -> Vec<Sent> {
    let count = dice.within(1..case.records_max + 1) as usize;
    let wait_one_in = dice.choose(&[1, 4, 1_000]);
    let mut sent = Vec::with_capacity(count);
    for index in first_index..first_index + count {
        let bytes = dice.by_magnitude(case.record_bytes_max) as usize;
        let mut ticket = append(writer, &payload(producer, index, bytes));
        let is_refused = ticket.is_none();
        let is_awaited = dice.one_in(wait_one_in);
        if let Some(ticket) = ticket.as_mut().filter(|_| is_awaited) {
            // By thread, which may write itself, or by task.
            if dice.one_in(2) {
                let _ = ticket.wait_timeout(PATIENCE);
            } else {
                poll_a_little(ticket);
            }
        }
        sent.push(Sent { bytes, ticket });
        if is_refused {
            break;
        }
    }
    sent
}

fn append(writer: &StreamWriter, payload: &[u8]) -> Option<Ticket> {
    for _ in 0..ATTEMPTS {
        match writer.append(payload) {
            Ok(ticket) => return Some(ticket),
            Err(AppendError::Reopening) => thread::yield_now(),
            Err(_) => return None,
        }
    }
    None
}

/// Waits until the ticket is resolved or patience has ended. Unlike looking, it makes the writer
/// hurry.
fn poll_a_little(ticket: &mut Ticket) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut ticket = pin!(ticket);
    let deadline = clock::now() + PATIENCE;
    while ticket.as_mut().poll(&mut context) == Poll::Pending {
        let rest = deadline.saturating_duration_since(clock::now());
        if rest.is_zero() {
            return;
        }
        thread::park_timeout(rest);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
