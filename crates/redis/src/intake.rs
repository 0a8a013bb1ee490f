//! Where callers leave commands for a connection, and its credit.
//!
//! ```text
//!   push:  lock { up? credit? append; was the actor asleep? }  ─yes─▶ call it
//!   run:   lock { awake := true; swap out all } … lock { empty? awake := false : go on }
//! ```
//!
//! A push that finds the actor awake only appends. No wake-up is lost: the actor looks whether the
//! intake is empty, and falls asleep, under the lock that each push holds.

use std::{mem, sync::OnceLock, time::Instant};

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    command::Command,
    error::{DownReason, RedisError},
    gauges::Gauges,
    outstanding::{Awaits, Freed, Slot},
    pieces::Pieces,
    reply::{Asked, Handed, Reply},
    snapshot::ConnectionSnapshot,
    sync::{AtomicUsize, Ordering},
    unit::Unit,
};

/// Beyond so many bytes a command is copied before it is left, not under the lock that all callers share.
const LARGE_BYTES: usize = 4 << 10;

/// The load of a connection that takes no commands: any other one is to be preferred.
pub(crate) const DOWN: usize = usize::MAX;

/// What a connection lets be under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreditMax {
    pub(crate) commands: usize,
    pub(crate) bytes: usize,
}

/// Whether commands are taken.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Up,
    Down(DownReason),
    /// No actor is behind it any more.
    Closed,
}

/// One connection, as callers see it.
pub(crate) struct Intake {
    state: Mutex<State>,
    /// Told when the line changes.
    changed: Condvar,
    /// Has the connection's actor run.
    call: OnceLock<Box<dyn Fn() + Send + Sync>>,
    credit: CreditMax,
    /// Commands under way, for readers.
    load: AtomicUsize,
    load_bytes: AtomicUsize,
    pub(crate) gauges: Gauges,
}

struct State {
    line: Line,
    slots: Vec<Slot<Reply>>,
    bytes: Pieces,
    /// Commands and bytes that are under way, here and at the connection.
    commands: usize,
    command_bytes: usize,
    /// Whether the actor will look again without being called.
    is_awake: bool,
    /// Whether there is something for it besides commands.
    is_nudged: bool,
    /// Whether the last handle is gone.
    is_closing: bool,
}

impl Intake {
    pub(crate) fn new(credit: CreditMax) -> Self {
        Self {
            state: Mutex::new(State {
                line: Line::Down(DownReason::Connecting),
                slots: Vec::new(),
                bytes: Pieces::default(),
                commands: 0,
                command_bytes: 0,
                is_awake: false,
                is_nudged: false,
                is_closing: false,
            }),
            changed: Condvar::new(),
            call: OnceLock::new(),
            credit,
            load: AtomicUsize::new(DOWN),
            load_bytes: AtomicUsize::new(0),
            gauges: Gauges::default(),
        }
    }

    /// Leaves a command; one that is refused is told so before this returns.
    pub(crate) fn push(&self, unit: &Unit, reply: Reply, told_ns: u64, deadline_ns: u64) {
        let refused = if deadline_ns <= told_ns {
            Some((reply, RedisError::Expired))
        } else {
            self.offer(unit, reply, told_ns, deadline_ns)
        };
        if let Some((reply, error)) = refused {
            self.gauges.failed(&error);
            if let Handed::Refused = reply.complete(Err(error)) {
                self.gauges.replies_refused.add(1);
            }
        }
    }

    fn offer(
        &self,
        unit: &Unit,
        reply: Reply,
        told_ns: u64,
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
        state.append(unit, encoded, reply, unit.awaits(), told_ns, deadline_ns);
        self.publish(&state);
        let was_awake = mem::replace(&mut state.is_awake, true);
        drop(state);
        if !was_awake {
            self.call();
        }
        None
    }

    fn publish(&self, state: &State) {
        let is_up = matches!(state.line, Line::Up);
        let load = if is_up { state.commands } else { DOWN };
        // Ordering: Relaxed, figures that publish nothing but themselves, stored under the lock.
        self.load.store(load, Ordering::Relaxed);
        self.load_bytes
            .store(state.command_bytes, Ordering::Relaxed);
    }

    fn call(&self) {
        if let Some(call) = self.call.get() {
            call();
        }
    }

    /// Commands that are under way; [`DOWN`] for a connection that takes none.
    pub(crate) fn load(&self) -> usize {
        // Ordering: Relaxed, as in `publish`.
        self.load.load(Ordering::Relaxed)
    }

    fn load_bytes(&self) -> usize {
        // Ordering: Relaxed, as in `publish`.
        self.load_bytes.load(Ordering::Relaxed)
    }

    /// Has the actor look at something besides commands.
    pub(crate) fn nudge(&self) {
        let mut state = self.state.lock();
        state.is_nudged = true;
        let was_awake = mem::replace(&mut state.is_awake, true);
        drop(state);
        if !was_awake {
            self.call();
        }
    }

    /// The last handle is gone: the connection ends once nothing is under way.
    pub(crate) fn close_when_drained(&self) {
        self.state.lock().is_closing = true;
        self.nudge();
    }

    /// Waits until the line is up, the server has refused it, or the time has come.
    pub(crate) fn wait_up(&self, until: Instant) -> Result<(), RedisError> {
        let mut state = self.state.lock();
        loop {
            let is_late = match &state.line {
                Line::Up => return Ok(()),
                Line::Closed => return Err(RedisError::Closed),
                Line::Down(reason) if reason.is_refusal() => {
                    return Err(RedisError::Down(reason.clone()));
                }
                Line::Down(_) => self.changed.wait_until(&mut state, until).timed_out(),
            };
            if is_late && let Line::Down(reason) = &state.line {
                return Err(RedisError::Down(reason.clone()));
            }
        }
    }

    pub(crate) fn snapshot(&self) -> ConnectionSnapshot {
        self.gauges.snapshot(self.load(), self.load_bytes())
    }
}

/// The actor's side.
impl Intake {
    /// How the actor is called; once.
    pub(crate) fn on_call(&self, call: impl Fn() + Send + Sync + 'static) {
        // A second one would be of the same actor.
        let _ = self.call.set(Box::new(call));
    }

    /// Takes all that was left; the actor is awake from here on. Whether it was nudged.
    pub(crate) fn take(&self, slots: &mut Vec<Slot<Reply>>, bytes: &mut Pieces) -> bool {
        let mut state = self.state.lock();
        state.is_awake = true;
        mem::swap(&mut state.slots, slots);
        mem::swap(&mut state.bytes, bytes);
        mem::take(&mut state.is_nudged)
    }

    /// Whether nothing was left meanwhile: then the actor sleeps until it is called.
    pub(crate) fn rest(&self) -> bool {
        let mut state = self.state.lock();
        let is_empty = state.slots.is_empty() && !state.is_nudged;
        state.is_awake = !is_empty;
        is_empty
    }

    /// Leaves a command for a subscription, beyond all credit: its bound is that of the names that are
    /// subscribed to, of which each has one under way at most. It is seen when the intake is taken the next
    /// time.
    pub(crate) fn push_asked(
        &self,
        command: Command,
        asked: Asked,
        told_ns: u64,
        deadline_ns: u64,
    ) {
        let reply = Reply::Subscribed(Box::new(asked));
        self.push_own(command, reply, Awaits::Confirmation, told_ns, deadline_ns);
    }

    /// Asks the server whether it is there, beyond all credit: once at a time. It is seen as above.
    pub(crate) fn push_ping(&self, told_ns: u64, deadline_ns: u64) {
        let ping = Command::new("PING");
        self.push_own(ping, Reply::Nobody, Awaits::Reply, told_ns, deadline_ns);
    }

    fn push_own(
        &self,
        command: Command,
        reply: Reply,
        awaits: Awaits,
        told_ns: u64,
        deadline_ns: u64,
    ) {
        let mut state = self.state.lock();
        let unit = Unit::One(command);
        state.append(&unit, None, reply, awaits, told_ns, deadline_ns);
        self.publish(&state);
    }

    /// Gives credit back.
    pub(crate) fn give_back(&self, freed: Freed) {
        if freed == Freed::default() {
            return;
        }
        let mut state = self.state.lock();
        assert!(
            freed.commands <= state.commands && freed.bytes <= state.command_bytes,
            "more credit given back than was taken"
        );
        state.commands -= freed.commands;
        state.command_bytes -= freed.bytes;
        self.publish(&state);
    }

    /// Changes the line; commands are refused from here on unless it is up. What was left before is to
    /// be taken after this.
    pub(crate) fn set_line(&self, line: Line) {
        let mut state = self.state.lock();
        state.line = line;
        self.publish(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// While the line is not up nothing but a nudge can have come: it is taken, and the actor sleeps until
    /// it is called. Whether the last handle is gone.
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
    /// `encoded` is the unit's bytes, if they are there already.
    fn append(
        &mut self,
        unit: &Unit,
        encoded: Option<BytesMut>,
        reply: Reply,
        awaits: Awaits,
        told_ns: u64,
        deadline_ns: u64,
    ) {
        let bytes = match encoded {
            Some(encoded) => {
                let bytes = encoded.len();
                self.bytes.push(encoded);
                bytes
            }
            None => {
                let room = self.bytes.room(unit.len_max());
                let before = room.len();
                unit.encode(room);
                room.len() - before
            }
        };
        self.slots.push(Slot {
            reply: Some(reply),
            awaits,
            bytes,
            deadline_ns,
            told_ns,
            sent_ns: 0,
        });
        self.commands += unit.commands();
        self.command_bytes += bytes;
    }

    fn admit(&self, unit: &Unit, credit: CreditMax) -> Result<(), RedisError> {
        match &self.line {
            Line::Up => {}
            Line::Down(reason) => return Err(RedisError::Down(reason.clone())),
            Line::Closed => return Err(RedisError::Closed),
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

impl std::fmt::Debug for Intake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Intake")
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
