//! The queue into which callers submit commands for a connection, and the connection's credit.
//!
//! ```text
//!   push:  lock { up? credit? append; was the actor asleep? }  ─yes─▶ wake it
//!   run:   lock { awake := true; swap out all } … lock { empty? awake := false : continue }
//! ```
//!
//! A push that finds the actor awake only appends. No wake-up is lost: the actor checks that the queue is
//! empty, and goes to sleep, under the lock that each push holds.

use std::{mem, sync::OnceLock, time::Instant};

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    command::Command,
    error::{DownReason, RedisError},
    in_flight::{Awaits, Freed, Slot},
    metrics::{ConnectionGauges, ConnectionSnapshot},
    pieces::Pieces,
    pipeline::Unit,
    reply::{Delivered, Reply},
    subscribers::SubscriptionChange,
    sync::{AtomicUsize, Ordering},
};

/// A larger command is encoded before the lock is taken, not under it.
const LARGE_BYTES: usize = 4 << 10;

/// The load of a connection that is down: routing prefers any other.
const DOWN: usize = usize::MAX;

/// The credit of a connection: limits of commands without an outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreditMax {
    pub(crate) commands: usize,
    pub(crate) bytes: usize,
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
    changed: Condvar,
    /// Wakes the connection's actor.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    credit: CreditMax,
    /// Copies of the state's figures, for readers without the lock.
    load: AtomicUsize,
    load_bytes: AtomicUsize,
    pub(crate) gauges: ConnectionGauges,
}

struct State {
    link: LinkState,
    slots: Vec<Slot<Reply>>,
    bytes: Pieces,
    /// Commands and bytes without an outcome, here and at the connection.
    commands: usize,
    command_bytes: usize,
    /// Whether the actor will check the queue again without a wake-up.
    is_awake: bool,
    /// Whether there is work besides commands.
    is_nudged: bool,
    /// Whether the last handle was dropped.
    is_closing: bool,
}

impl SubmitQueue {
    pub(crate) fn new(credit: CreditMax) -> Self {
        Self {
            state: Mutex::new(State {
                link: LinkState::Down(DownReason::Connecting),
                slots: Vec::new(),
                bytes: Pieces::default(),
                commands: 0,
                command_bytes: 0,
                is_awake: false,
                is_nudged: false,
                is_closing: false,
            }),
            changed: Condvar::new(),
            waker: OnceLock::new(),
            credit,
            load: AtomicUsize::new(DOWN),
            load_bytes: AtomicUsize::new(0),
            gauges: ConnectionGauges::default(),
        }
    }

    /// Submits a unit. A refusal is delivered before this returns.
    pub(crate) fn push(&self, unit: &Unit, reply: Reply, submitted_ns: u64, deadline_ns: u64) {
        let refused = if deadline_ns <= submitted_ns {
            Some((reply, RedisError::Expired))
        } else {
            self.offer(unit, reply, submitted_ns, deadline_ns)
        };
        if let Some((reply, error)) = refused {
            self.gauges.failed(&error);
            if let Delivered::Refused = reply.complete(Err(error)) {
                self.gauges.replies_refused.add(1);
            }
        }
    }

    fn offer(
        &self,
        unit: &Unit,
        reply: Reply,
        submitted_ns: u64,
        deadline_ns: u64,
    ) -> Option<(Reply, RedisError)> {
        let mut state = self.state.lock();
        let mut admitted = state.admit(unit, self.credit);
        let mut encoded = None;
        if admitted.is_ok() && unit.len_max() > LARGE_BYTES {
            encoded = Some(MutexGuard::unlocked(&mut state, || unit.encoded()));
            admitted = state.admit(unit, self.credit);
        }
        if let Err(error) = admitted {
            return Some((reply, error));
        }
        state.append(
            unit,
            encoded,
            reply,
            unit.awaits(),
            submitted_ns,
            deadline_ns,
        );
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
        let load = if is_up { state.commands } else { DOWN };
        // Ordering: Relaxed, statistics that publish nothing but themselves, stored under the lock.
        self.load.store(load, Ordering::Relaxed);
        self.load_bytes
            .store(state.command_bytes, Ordering::Relaxed);
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

    fn load_bytes(&self) -> usize {
        // Ordering: Relaxed, as in `publish`.
        self.load_bytes.load(Ordering::Relaxed)
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

    /// Waits until the connection is up, the server refuses it, or the time has passed.
    pub(crate) fn wait_up(&self, until: Instant) -> Result<(), RedisError> {
        let mut state = self.state.lock();
        loop {
            let is_late = match &state.link {
                LinkState::Up => return Ok(()),
                LinkState::Closed => return Err(RedisError::Closed),
                LinkState::Down(reason) if reason.is_refusal() => {
                    return Err(RedisError::Down(reason.clone()));
                }
                LinkState::Down(_) => self.changed.wait_until(&mut state, until).timed_out(),
            };
            if is_late && let LinkState::Down(reason) = &state.link {
                return Err(RedisError::Down(reason.clone()));
            }
        }
    }

    pub(crate) fn snapshot(&self) -> ConnectionSnapshot {
        let load = self.load();
        let under_way = (load != DOWN).then_some(load);
        self.gauges.snapshot_with(under_way, self.load_bytes())
    }
}

/// For the connection's actor.
impl SubmitQueue {
    /// Sets the actor's waker, once.
    pub(crate) fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second call would set an equal waker.
        let _ = self.waker.set(Box::new(wake));
    }

    /// Takes all submitted units and marks the actor awake. Returns whether it was nudged.
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

    /// Queues a subscription command, outside the credit. Their number is bounded by the names, because each
    /// name has at most one command in flight. The actor finds it with its next `take`.
    pub(crate) fn push_subscription(
        &self,
        command: Command,
        change: SubscriptionChange,
        submitted_ns: u64,
        deadline_ns: u64,
    ) {
        let reply = Reply::Subscribed(Box::new(change));
        self.push_own(
            command,
            reply,
            Awaits::Confirmation,
            submitted_ns,
            deadline_ns,
        );
    }

    /// Queues a `PING`, outside the credit and one at a time. The actor finds it with its next `take`.
    pub(crate) fn push_ping(&self, submitted_ns: u64, deadline_ns: u64) {
        let ping = Command::new("PING");
        self.push_own(
            ping,
            Reply::Nobody,
            Awaits::Reply,
            submitted_ns,
            deadline_ns,
        );
    }

    fn push_own(
        &self,
        command: Command,
        reply: Reply,
        awaits: Awaits,
        submitted_ns: u64,
        deadline_ns: u64,
    ) {
        let mut state = self.state.lock();
        let unit = Unit::One(command);
        state.append(&unit, None, reply, awaits, submitted_ns, deadline_ns);
        self.publish(&state);
    }

    /// Returns credit.
    pub(crate) fn give_back(&self, freed: Freed) {
        if freed == Freed::default() {
            return;
        }
        let mut state = self.state.lock();
        assert!(
            freed.commands <= state.commands && freed.bytes <= state.command_bytes,
            "more credit returned than was taken"
        );
        state.commands -= freed.commands;
        state.command_bytes -= freed.bytes;
        self.publish(&state);
    }

    /// Changes the link state. Unless it is up, commands are refused from now on, and the caller must then
    /// take what was queued before.
    pub(crate) fn set_link(&self, link: LinkState) {
        let mut state = self.state.lock();
        state.link = link;
        self.publish(&state);
        drop(state);
        self.changed.notify_all();
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
    /// `encoded` contains the unit's bytes if they were encoded outside the lock.
    fn append(
        &mut self,
        unit: &Unit,
        encoded: Option<BytesMut>,
        reply: Reply,
        awaits: Awaits,
        submitted_ns: u64,
        deadline_ns: u64,
    ) {
        let bytes = match encoded {
            Some(encoded) => {
                let bytes = encoded.len();
                self.bytes.push(encoded);
                bytes
            }
            None => {
                let buffer = self.bytes.buffer(unit.len_max());
                let before = buffer.len();
                unit.encode(buffer);
                buffer.len() - before
            }
        };
        self.slots.push(Slot {
            reply: Some(reply),
            awaits,
            bytes,
            deadline_ns,
            submitted_ns,
            sent_ns: 0,
        });
        self.commands += unit.commands();
        self.command_bytes += bytes;
    }

    fn admit(&self, unit: &Unit, credit: CreditMax) -> Result<(), RedisError> {
        match &self.link {
            LinkState::Up => {}
            LinkState::Down(reason) => return Err(RedisError::Down(reason.clone())),
            LinkState::Closed => return Err(RedisError::Closed),
        }
        let (commands, bytes) = (unit.commands(), unit.len_max());
        if commands > credit.commands || bytes > credit.bytes {
            return Err(RedisError::TooLarge);
        }
        let is_full =
            self.commands + commands > credit.commands || self.command_bytes + bytes > credit.bytes;
        if is_full {
            return Err(RedisError::QueueFull);
        }
        Ok(())
    }
}

impl std::fmt::Debug for SubmitQueue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SubmitQueue")
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
