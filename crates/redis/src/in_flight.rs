//! The commands of one connection that have no outcome or no reply yet. Uses no socket and no clock.
//!
//! ```text
//!   accept ─▶ waiting ──next_batch──▶ sent ──reply──▶ outcome: the reply
//!                │                     │
//!                │ deadline            │ deadline: TimedOut; a tombstone stays until the reply
//!                ▼                     │ lose: Lost
//!             Expired                  ▼
//!          (lose: Down)              outcome
//! ```
//!
//! Each command has exactly one outcome. Its credit is freed when its slot is removed: for a sent command
//! that is when its reply arrives, even if its deadline has passed. Replies arrive in the order of sending, so
//! a reply always belongs to the oldest sent command.

use std::{collections::VecDeque, mem};

use bytes::BytesMut;
use freeboard_platform::planted;

use crate::{
    error::RedisError,
    pieces::Pieces,
    protocol::{Malformed, Value},
    reply::ReplyResult,
};

/// The reply that completes a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// The next reply.
    Reply,
    /// The reply after that to the `ASKING` before the command.
    ReplyAfterAsking,
    /// A push message that confirms a subscription, or an error reply.
    Confirmation,
}

/// A command, and the receiver of its outcome.
#[derive(Debug)]
pub(crate) struct Slot<R> {
    /// `None` once the outcome was produced.
    pub(crate) reply: Option<R>,
    pub(crate) awaits: Awaits,
    /// Bytes on the wire, with the `ASKING`.
    pub(crate) bytes: usize,
    pub(crate) deadline_ns: u64,
    pub(crate) submitted_ns: u64,
    /// 0 until it is sent.
    pub(crate) sent_ns: u64,
}

impl<R> Slot<R> {
    /// When the outcome is due. A subscription never expires while the connection is up: its deadline only
    /// decides when the connection counts as stuck.
    fn expires_ns(&self) -> u64 {
        match self.awaits {
            Awaits::Confirmation => u64::MAX,
            Awaits::Reply | Awaits::ReplyAfterAsking => self.deadline_ns,
        }
    }
}

/// An outcome and its receiver.
pub(crate) type CommandOutcome<R> = (R, ReplyResult);

/// When a completed command was submitted and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) submitted_ns: u64,
    pub(crate) sent_ns: u64,
}

/// A number of commands and their bytes: a credit, a batch, or its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) commands: usize,
    pub(crate) bytes: usize,
}

impl Amount {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.commands += 1;
        self.bytes += bytes;
    }

    /// Whether one more command exceeds the limit.
    pub(crate) fn would_exceed(&self, bytes: usize, max: Self) -> bool {
        self.commands >= max.commands || self.bytes + bytes > max.bytes
    }
}

#[derive(Debug)]
pub(crate) struct InFlight<R> {
    waiting: VecDeque<Slot<R>>,
    /// The bytes of `waiting`, in order.
    waiting_bytes: Pieces,
    sent: VecDeque<Slot<R>>,
    /// Lower bound of the deadlines of slots without an outcome.
    earliest_ns: u64,
    freed: Amount,
    tombstones: usize,
    /// A reply later than this after its deadline means that the connection is stuck.
    overdue_ns: u64,
}

impl<R> InFlight<R> {
    pub(crate) fn new(overdue_ns: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_bytes: Pieces::default(),
            sent: VecDeque::new(),
            earliest_ns: u64::MAX,
            freed: Amount::default(),
            tombstones: 0,
            overdue_ns,
        }
    }

    /// Takes commands and their bytes; leaves both empty.
    pub(crate) fn accept(&mut self, slots: &mut Vec<Slot<R>>, bytes: &mut Pieces) {
        self.waiting_bytes.append(bytes);
        for slot in slots.drain(..) {
            self.earliest_ns = self.earliest_ns.min(slot.expires_ns());
            self.waiting.push_back(slot);
        }
    }

    /// Whether nothing is waiting or sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Passes the next commands to `write` and marks them as sent. Expired commands are skipped. A command larger
    /// than `max` is a batch of its own.
    pub(crate) fn next_batch(
        &mut self,
        now_ns: u64,
        max: Amount,
        outcomes: &mut Vec<CommandOutcome<R>>,
        mut write: impl FnMut(BytesMut),
    ) -> Amount {
        let mut batch = Amount::default();
        // Bytes at the front of the first piece to send together.
        let mut run = 0;
        while let Some(slot) = self.waiting.front() {
            let is_wanted = slot.reply.is_some() && slot.expires_ns() > now_ns;
            if is_wanted && batch.commands > 0 && batch.would_exceed(slot.bytes, max) {
                break;
            }
            let Some(mut slot) = self.waiting.pop_front() else {
                break;
            };
            if run > 0 && (!is_wanted || run == self.waiting_bytes.first_bytes()) {
                write(self.waiting_bytes.take(mem::take(&mut run)));
            }
            if is_wanted {
                slot.sent_ns = now_ns;
                run += slot.bytes;
                batch.add(slot.bytes);
                self.sent.push_back(slot);
                continue;
            }
            self.skip(slot, outcomes);
        }
        if run > 0 {
            write(self.waiting_bytes.take(run));
        }
        batch
    }

    /// Removes the first waiting command without sending it.
    fn skip(&mut self, slot: Slot<R>, outcomes: &mut Vec<CommandOutcome<R>>) {
        drop(self.waiting_bytes.take(slot.bytes));
        self.freed.add(slot.bytes);
        if let Some(reply) = slot.reply {
            outcomes.push((reply, Err(RedisError::Expired)));
        }
    }

    /// Takes a reply. Returns the times of its command if that is complete now.
    pub(crate) fn reply(
        &mut self,
        value: Value,
        outcomes: &mut Vec<CommandOutcome<R>>,
    ) -> Result<Option<Times>, Malformed> {
        let Some(oldest) = self.sent.front_mut() else {
            return Err(Malformed::Unasked);
        };
        let outcome = match oldest.awaits {
            Awaits::Reply => Ok(value),
            Awaits::ReplyAfterAsking => {
                oldest.awaits = Awaits::Reply;
                return Ok(None);
            }
            Awaits::Confirmation => match value {
                Value::Error(error) => Err(RedisError::Server(error)),
                _ => return Err(Malformed::Unasked),
            },
        };
        Ok(self.complete(outcome, outcomes))
    }

    /// Takes the confirmation of a subscription.
    pub(crate) fn confirm(&mut self, outcomes: &mut Vec<CommandOutcome<R>>) {
        let oldest = self.sent.front().map(|slot| slot.awaits);
        if oldest == Some(Awaits::Confirmation) {
            self.complete(Ok(Value::Null), outcomes);
        }
    }

    fn complete(
        &mut self,
        outcome: ReplyResult,
        outcomes: &mut Vec<CommandOutcome<R>>,
    ) -> Option<Times> {
        let slot = self.sent.pop_front()?;
        self.freed.add(slot.bytes);
        match slot.reply {
            Some(reply) => outcomes.push((reply, outcome)),
            None => self.tombstones -= 1,
        }
        Some(Times {
            submitted_ns: slot.submitted_ns,
            sent_ns: slot.sent_ns,
        })
    }

    /// Produces the outcome of each slot whose deadline has passed.
    pub(crate) fn expire(&mut self, now_ns: u64, outcomes: &mut Vec<CommandOutcome<R>>) {
        if now_ns < self.earliest_ns {
            return;
        }
        let mut earliest_ns = u64::MAX;
        let mut take = |slot: &mut Slot<R>, error: RedisError| {
            if slot.expires_ns() > now_ns {
                if slot.reply.is_some() {
                    earliest_ns = earliest_ns.min(slot.expires_ns());
                }
                return false;
            }
            let reply = slot.reply.take();
            let is_taken = reply.is_some();
            outcomes.extend(reply.map(|reply| (reply, Err(error))));
            is_taken
        };
        for slot in &mut self.sent {
            self.tombstones += usize::from(take(slot, RedisError::TimedOut));
        }
        for slot in &mut self.waiting {
            take(slot, RedisError::Expired);
        }
        if planted!("timed-out-slot-removed") {
            self.sent.retain(|slot| slot.reply.is_some());
            self.tombstones = 0;
        }
        self.earliest_ns = earliest_ns;
        // Expired slots behind a live one are removed when that is sent.
        while self
            .waiting
            .front()
            .is_some_and(|slot| slot.reply.is_none())
        {
            if let Some(slot) = self.waiting.pop_front() {
                self.skip(slot, outcomes);
            }
        }
    }

    /// Whether the oldest reply is so overdue that the connection must be replaced.
    pub(crate) fn is_stuck(&self, now_ns: u64) -> bool {
        self.stuck_ns().is_some_and(|stuck_ns| stuck_ns <= now_ns)
    }

    fn stuck_ns(&self) -> Option<u64> {
        let oldest = self.sent.front()?;
        Some(oldest.deadline_ns.saturating_add(self.overdue_ns))
    }

    /// When to check again if nothing arrives.
    pub(crate) fn due_ns(&self) -> u64 {
        self.earliest_ns.min(self.stuck_ns().unwrap_or(u64::MAX))
    }

    /// The connection is lost: produces all outcomes. The oldest sent command gets `first`, if given.
    pub(crate) fn lose(
        &mut self,
        first: Option<RedisError>,
        sent: &RedisError,
        unsent: &RedisError,
        outcomes: &mut Vec<CommandOutcome<R>>,
    ) {
        let mut first = first;
        while !planted!("sent-kept-on-loss")
            && let Some(slot) = self.sent.pop_front()
        {
            if !planted!("credit-lost-with-connection") {
                self.freed.add(slot.bytes);
            }
            let error = first.take().unwrap_or_else(|| sent.clone());
            outcomes.extend(slot.reply.map(|reply| (reply, Err(error))));
        }
        while let Some(slot) = self.waiting.pop_front() {
            self.freed.add(slot.bytes);
            outcomes.extend(slot.reply.map(|reply| (reply, Err(unsent.clone()))));
        }
        if !planted!("unsent-bytes-sent-later") {
            self.waiting_bytes = Pieces::default();
        }
        (self.earliest_ns, self.tombstones) = (u64::MAX, 0);
    }

    /// Credit freed since the last call.
    pub(crate) fn take_freed(&mut self) -> Amount {
        mem::take(&mut self.freed)
    }

    /// Sent commands without a reply.
    pub(crate) fn sent_commands(&self) -> usize {
        self.sent.len()
    }

    /// Sent commands whose deadline has passed.
    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones
    }
}
