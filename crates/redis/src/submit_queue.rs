//! The queue into which callers submit commands for a connection, and the connection's credit.
//!
//! ```text
//!   push:  lock { up? credit? append; was the actor asleep? }  ─yes─▶ wake it
//!   run:   lock { awake := true; swap out all } … lock { empty? awake := false : continue }
//! ```
//!
//! A push that finds the actor awake only appends. No wake-up is lost: the actor checks that the queue is
//! empty, and goes to sleep, under the lock that each push holds.

use std::{mem, sync::OnceLock};

use bytes::BytesMut;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    command::Command,
    error::{DownReason, RedisError},
    in_flight::{Amount, Awaits, Slot},
    metrics::{ConnectionGauges, ConnectionSnapshot},
    pieces::Pieces,
    reply::{Delivered, Reply},
    sync::{AtomicUsize, Ordering},
};

/// A larger command is encoded before the lock is taken, not under it.
const LARGE_BYTES: usize = 4 << 10;

/// The load of a connection that is down: routing prefers any other.
const DOWN: usize = usize::MAX;

/// Sent before a command that a node has redirected with `ASK`.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// A command to submit, and its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) command: &'a Command,
    pub(crate) awaits: Awaits,
    pub(crate) submitted_ns: u64,
    pub(crate) deadline_ns: u64,
}

impl Submission<'_> {
    /// Upper bound of its bytes on the wire.
    fn len_max(&self) -> usize {
        self.command.encoded_len_max() + self.prefix().len()
    }

    fn prefix(&self) -> &'static [u8] {
        match self.awaits {
            Awaits::ReplyAfterAsking => ASKING,
            Awaits::Reply | Awaits::Confirmation => b"",
        }
    }

    fn encode(&self, to: &mut BytesMut) {
        to.extend_from_slice(self.prefix());
        self.command.encode(to);
    }
}

/// Whether the connection accepts commands.
#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    Up,
    Down(DownReason),
    /// The connection's actor has terminated.
    Closed,
}

pub(crate) struct SubmitQueue {
    state: Mutex<State>,
    /// Notified when the link state changes.
    /// Wakes the connection's actor.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Limits of the commands without an outcome.
    credit: Amount,
    /// Copies of the state's figures, for readers without the lock.
    load: AtomicUsize,
    load_bytes: AtomicUsize,
    pub(crate) gauges: ConnectionGauges,
}

struct State {
    link: LinkState,
    slots: Vec<Slot<Reply>>,
    bytes: Pieces,
    /// Commands without an outcome, here and at the connection.
    taken: Amount,
    /// Whether the actor will check the queue again without a wake-up.
    is_awake: bool,
    /// Whether there is work besides commands.
    is_nudged: bool,
    /// Whether the last handle was dropped.
    is_closing: bool,
}

impl SubmitQueue {
    pub(crate) fn new(credit: Amount) -> Self {
        Self {
            state: Mutex::new(State {
                link: LinkState::Down(DownReason::Connecting),
                slots: Vec::new(),
                bytes: Pieces::default(),
                taken: Amount::default(),
                is_awake: false,
                is_nudged: false,
                is_closing: false,
            }),
            waker: OnceLock::new(),
            credit,
            load: AtomicUsize::new(DOWN),
            load_bytes: AtomicUsize::new(0),
            gauges: ConnectionGauges::default(),
        }
    }

    /// Submits a command. A refusal is delivered before this returns.
    pub(crate) fn push(&self, submission: Submission<'_>, reply: Reply) {
        let refused = if submission.deadline_ns <= submission.submitted_ns {
            Some((reply, RedisError::Expired))
        } else {
            self.offer(submission, reply)
        };
        if let Some((reply, error)) = refused {
            self.gauges.failed(&error);
            if let Delivered::Refused = reply.complete(Err(error)) {
                self.gauges.replies_refused.add(1);
            }
        }
    }

    fn offer(&self, submission: Submission<'_>, reply: Reply) -> Option<(Reply, RedisError)> {
        let bytes = submission.len_max();
        let mut state = self.state.lock();
        let mut admitted = state.admit(bytes, self.credit);
        let mut encoded = None;
        if admitted.is_ok() && bytes > LARGE_BYTES {
            encoded = Some(MutexGuard::unlocked(&mut state, || {
                let mut encoded = BytesMut::with_capacity(bytes);
                submission.encode(&mut encoded);
                encoded
            }));
            admitted = state.admit(bytes, self.credit);
        }
        if let Err(error) = admitted {
            return Some((reply, error));
        }
        state.append(submission, encoded, reply);
        self.publish(&state);
        let was_awake = mem::replace(&mut state.is_awake, true);
        drop(state);
        if !was_awake {
            self.wake();
        }
        None
    }

    fn publish(&self, state: &State) {
        let is_up = matches!(state.link, LinkState::Up);
        let load = if is_up { state.taken.commands } else { DOWN };
        // Ordering: Relaxed, statistics that publish nothing but themselves, stored under the lock.
        self.load.store(load, Ordering::Relaxed);
        self.load_bytes.store(state.taken.bytes, Ordering::Relaxed);
    }

    fn wake(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    /// Commands without an outcome; the maximum while the connection is down.
    pub(crate) fn load(&self) -> usize {
        // Ordering: Relaxed, as in `publish`.
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.load() != DOWN
    }

    /// Wakes the actor for work besides commands.
    pub(crate) fn nudge(&self) {
        let mut state = self.state.lock();
        state.is_nudged = true;
        let was_awake = mem::replace(&mut state.is_awake, true);
        drop(state);
        if !was_awake {
            self.wake();
        }
    }

    /// The last handle was dropped: the connection closes once nothing is in flight.
    pub(crate) fn close_when_drained(&self) {
        self.state.lock().is_closing = true;
        self.nudge();
    }

    /// Whether the connection is up, or why not.
    pub(crate) fn check_up(&self) -> Result<(), RedisError> {
        match &self.state.lock().link {
            LinkState::Up => Ok(()),
            LinkState::Closed => Err(RedisError::Closed),
            LinkState::Down(reason) => Err(RedisError::Down(reason.clone())),
        }
    }

    pub(crate) fn snapshot(&self) -> ConnectionSnapshot {
        let load = self.load();
        let under_way = (load != DOWN).then_some(load);
        // Ordering: Relaxed, as in `publish`.
        let bytes = self.load_bytes.load(Ordering::Relaxed);
        self.gauges.snapshot_with(under_way, bytes)
    }
}

/// For the connection's actor.
impl SubmitQueue {
    /// Sets the actor's waker, once.
    pub(crate) fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second call would set an equal waker.
        let _ = self.waker.set(Box::new(wake));
    }

    /// Takes all submitted commands and marks the actor awake. Returns whether it was nudged.
    pub(crate) fn take(&self, slots: &mut Vec<Slot<Reply>>, bytes: &mut Pieces) -> bool {
        let mut state = self.state.lock();
        state.is_awake = true;
        mem::swap(&mut state.slots, slots);
        mem::swap(&mut state.bytes, bytes);
        mem::take(&mut state.is_nudged)
    }

    /// Whether the queue is still empty. If so, the actor sleeps until it is woken.
    pub(crate) fn rest(&self) -> bool {
        let mut state = self.state.lock();
        let is_empty = state.slots.is_empty() && !state.is_nudged;
        state.is_awake = !is_empty;
        is_empty
    }

    /// Queues a command of the connection itself, outside the credit. The actor finds it with its next `take`.
    /// There is one `PING` at a time, and one subscription command per name.
    pub(crate) fn push_own(&self, submission: Submission<'_>, reply: Reply) {
        let mut state = self.state.lock();
        state.append(submission, None, reply);
        self.publish(&state);
    }

    /// Returns credit.
    pub(crate) fn give_back(&self, freed: Amount) {
        if freed == Amount::default() {
            return;
        }
        let mut state = self.state.lock();
        let taken = &mut state.taken;
        assert!(
            freed.commands <= taken.commands && freed.bytes <= taken.bytes,
            "more credit returned than was taken"
        );
        taken.commands -= freed.commands;
        taken.bytes -= freed.bytes;
        self.publish(&state);
    }

    /// Changes the link state. Unless it is up, commands are refused from now on, and the caller must then
    /// take what was queued before.
    pub(crate) fn set_link(&self, link: LinkState) {
        let mut state = self.state.lock();
        state.link = link;
        self.publish(&state);
    }

    /// Takes the nudge and lets the actor sleep until it is woken. While the connection is down, nothing else
    /// can have arrived. Returns whether the last handle was dropped.
    pub(crate) fn rest_down(&self) -> bool {
        let mut state = self.state.lock();
        (state.is_nudged, state.is_awake) = (false, false);
        state.is_closing
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }
}

impl State {
    /// `encoded` contains the command's bytes if they were encoded outside the lock.
    fn append(&mut self, submission: Submission<'_>, encoded: Option<BytesMut>, reply: Reply) {
        let bytes = match encoded {
            Some(encoded) => {
                let bytes = encoded.len();
                self.bytes.push(encoded);
                bytes
            }
            None => {
                let buffer = self.bytes.buffer(submission.len_max());
                let before = buffer.len();
                submission.encode(buffer);
                buffer.len() - before
            }
        };
        self.slots.push(Slot {
            reply: Some(reply),
            awaits: submission.awaits,
            bytes,
            deadline_ns: submission.deadline_ns,
            submitted_ns: submission.submitted_ns,
            sent_ns: 0,
        });
        self.taken.add(bytes);
    }

    /// Whether the connection accepts a command of at most so many bytes.
    fn admit(&self, bytes: usize, credit: Amount) -> Result<(), RedisError> {
        match &self.link {
            LinkState::Up => {}
            LinkState::Down(reason) => return Err(RedisError::Down(reason.clone())),
            LinkState::Closed => return Err(RedisError::Closed),
        }
        if bytes > credit.bytes {
            Err(RedisError::TooLarge)
        } else if self.taken.would_exceed(bytes, credit) {
            Err(RedisError::QueueFull)
        } else {
            Ok(())
        }
    }
}
