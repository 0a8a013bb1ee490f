//! Who waits for room in a full lane: blocked threads, async senders, muted actors.
//!
//! A sender that finds a lane full registers here and signals the receiver
//! ([`crate::cell::WAITERS`]). The receiver, after each batch, lets as many go as
//! there is room for once the lane is at or below its low watermark. Because the signal is part of
//! the receiver's state word, a receiver that goes to rest cannot miss it; and a receiver at rest
//! runs once, sees that there is room, and lets them go.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};

use freeboard_flow::MailboxConfig;

use crate::{
    cell::{self, Core},
    cell_ref::CoreRef,
    mailbox::{Mailbox, MailboxLane},
    outbox, quiet,
};

pub(crate) enum Waiter {
    Thread(Arc<ThreadGate>),
    Task(Waker),
    /// A muted actor.
    Actor(CoreRef),
}

impl Waiter {
    fn release(self) {
        match self {
            Self::Thread(gate) => gate.open(),
            Self::Task(waker) => {
                quiet::call(|| waker.wake());
            }
            Self::Actor(core) => {
                // Before the signal: from here on it waits for nobody.
                outbox::unmute(core.id());
                core.signal(cell::UNMUTE);
            }
        }
    }
}

/// What a blocked thread waits at.
#[derive(Default)]
pub(crate) struct ThreadGate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl ThreadGate {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_one();
    }

    /// Waits until it is opened; `false` if the deadline came first.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = match deadline {
                None => self
                    .opened
                    .wait(is_open)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    self.opened
                        .wait_timeout(is_open, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        true
    }
}

struct Entry {
    key: u64,
    lane: usize,
    waiter: Waiter,
}

#[derive(Default)]
struct WaitList {
    entries: VecDeque<Entry>,
    next_key: u64,
}

/// The waiters of one mailbox. Empty, and without an allocation, until somebody waits.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Option<Box<WaitList>>>);

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Option<Box<WaitList>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers; the key takes it out again. `None` if the actor, whose waiters these are, has ended.
    /// The caller signals the actor afterwards.
    pub(crate) fn register(&self, core: &Core, lane: usize, waiter: Waiter) -> Option<u64> {
        let mut list = self.lock();
        // Under the lock: whoever ends the actor says so first, then lets everybody go.
        if core.end_reason().is_some() {
            return None;
        }
        let list = list.get_or_insert_default();
        let key = list.next_key;
        list.next_key += 1;
        list.entries.push_back(Entry { key, lane, waiter });
        Some(key)
    }

    /// Takes a waiter out. `false` if it has been let go already, so that its place in the lane must
    /// be offered to the next one.
    pub(crate) fn unregister(&self, key: u64) -> bool {
        // Dropped without the lock: a waker's drop may run what it likes.
        let removed = {
            let mut list = self.lock();
            list.as_mut().and_then(|list| {
                let place = list.entries.iter().position(|entry| entry.key == key)?;
                list.entries.remove(place)
            })
        };
        removed.is_some()
    }

    /// Puts a new waker in the place of an async sender's old one. `false` if it has been let go.
    pub(crate) fn renew(&self, key: u64, waker: &Waker) -> bool {
        let renewed = Waiter::Task(waker.clone());
        // Dropped without the lock, as above.
        let replaced = {
            let mut list = self.lock();
            list.as_mut().and_then(|list| {
                let entry = list.entries.iter_mut().find(|entry| entry.key == key)?;
                Some(std::mem::replace(&mut entry.waiter, renewed))
            })
        };
        replaced.is_some()
    }

    /// Lets go as many as there is room for in lanes at or below their low watermark. Returns
    /// whether any are left.
    pub(crate) fn release(&self, mailbox: &Mailbox, config: &MailboxConfig) -> bool {
        let (released, is_waited_for) = {
            let mut list = self.lock();
            let Some(list) = list.as_mut() else {
                return false;
            };
            let mut room = room_in(mailbox, config);
            let (mut released, mut kept) = (Vec::new(), VecDeque::new());
            for entry in list.entries.drain(..) {
                match room[entry.lane].checked_sub(1) {
                    Some(left) => {
                        room[entry.lane] = left;
                        released.push(entry.waiter);
                    }
                    None => kept.push_back(entry),
                }
            }
            list.entries = kept;
            (released, !list.entries.is_empty())
        };
        // Without the lock: a waker may run what it likes.
        for waiter in released {
            waiter.release();
        }
        is_waited_for
    }

    /// The actor has ended: lets everybody go.
    pub(crate) fn close(&self) {
        let list = self.lock().take();
        for entry in list.into_iter().flat_map(|list| list.entries) {
            entry.waiter.release();
        }
    }
}

/// Per lane, how many may come in now: none before it has fallen to its low watermark.
fn room_in(mailbox: &Mailbox, config: &MailboxConfig) -> Vec<u64> {
    let lanes = config.as_slice().iter().enumerate();
    lanes
        .map(|(index, lane)| {
            let depth = mailbox.used_lane(index).map_or(0, MailboxLane::depth);
            if lane.releases_at(depth) {
                lane.bound() - depth
            } else {
                0
            }
        })
        .collect()
}
