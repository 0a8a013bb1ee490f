//! The wait-for graph of muted actors, for all systems of the process, because an actor may send to an actor of
//! another system.
//!
//! Each muted actor waits for one other, so the graph is a function, stored in shards by the waiting actor's id.
//! An edge that would close a circle is removed again.
//!
//! **No circle is missed.** An actor inserts its own edge first, then follows the edges from its target, reading
//! each under its shard's lock. Among actors that close a circle at the same time, consider the one whose insertion
//! comes last: all other edges of the circle exist when it walks, so it finds itself. (An edge that is about to be
//! removed may make two actors give up. Both keep handling messages and try again.)
//!
//! A walk is as long as the chain of muted actors behind the target: one read if the target is not muted.
//!
//! A second relation stores for which actors each actor holds messages in its outbox. It covers more: an actor may
//! hold messages for several others, also while it runs. A shutdown keeps those receivers open. An entry is added
//! before `tell` returns and removed after the last message was accepted, so a reader misses no message.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::id::ActorId;

const SHARDS: u64 = 64;

type Shards<T> = [Mutex<Option<HashMap<ActorId, T>>>; SHARDS as usize];
type Shard<T> = MutexGuard<'static, Option<HashMap<ActorId, T>>>;

static WAITS_FOR: Shards<ActorId> = [const { Mutex::new(None) }; SHARDS as usize];
static HOLDS_FOR: Shards<Vec<ActorId>> = [const { Mutex::new(None) }; SHARDS as usize];

fn lock_in<T>(shards: &'static Shards<T>, actor: ActorId) -> Shard<T> {
    shards[(actor.get() % SHARDS) as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

fn lock(waiting: ActorId) -> Shard<ActorId> {
    lock_in(&WAITS_FOR, waiting)
}

/// Adds the edge from `waiting` to `target`, unless that closes a circle.
pub(crate) fn insert(waiting: ActorId, target: ActorId) -> bool {
    if target == waiting {
        return false;
    }
    lock(waiting)
        .get_or_insert_default()
        .insert(waiting, target);
    // Brent's method: a circle that does not lead back here is about to be removed by one of its actors.
    let (mut at, mut anchor) = (target, target);
    let (mut steps, mut steps_max) = (0_u64, 1_u64);
    loop {
        let next = lock(at).as_ref().and_then(|edges| edges.get(&at).copied());
        match next {
            None => return true,
            Some(next) if next == waiting => {
                remove(waiting);
                return false;
            }
            Some(next) if next == anchor => return true,
            Some(next) => at = next,
        }
        steps += 1;
        if steps == steps_max {
            anchor = at;
            steps_max *= 2;
            steps = 0;
        }
    }
}

/// The chain of actors that `waiting` is muted for, directly and indirectly.
pub(crate) fn chain(waiting: ActorId) -> impl Iterator<Item = ActorId> {
    let next = |at: &ActorId| lock(*at).as_ref().and_then(|edges| edges.get(at).copied());
    // Bounded, because the chain may change meanwhile.
    std::iter::successors(next(&waiting), next).take(10_000)
}

/// Removes the edge of `waiting`.
pub(crate) fn remove(waiting: ActorId) {
    if let Some(edges) = lock(waiting).as_mut() {
        edges.remove(&waiting);
    }
}

/// The entry that the outbox of `sender` holds messages for `target`; its drop removes it.
pub(crate) struct Holding {
    sender: ActorId,
    target: ActorId,
}

impl Holding {
    pub(crate) fn new(sender: ActorId, target: ActorId) -> Self {
        let mut shard = lock_in(&HOLDS_FOR, sender);
        let held = shard.get_or_insert_default().entry(sender).or_default();
        held.push(target);
        Self { sender, target }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut shard = lock_in(&HOLDS_FOR, self.sender);
        let Some(senders) = shard.as_mut() else {
            return;
        };
        if let Some(held) = senders.get_mut(&self.sender) {
            if let Some(index) = held.iter().position(|target| *target == self.target) {
                held.swap_remove(index);
            }
            if held.is_empty() {
                senders.remove(&self.sender);
            }
        }
    }
}

/// The receivers of all messages in these actors' outboxes, directly and indirectly.
pub(crate) fn held_for(senders: impl Iterator<Item = ActorId>) -> HashSet<ActorId> {
    let mut to_visit: Vec<ActorId> = senders.collect();
    let mut found = HashSet::new();
    while let Some(sender) = to_visit.pop() {
        let shard = lock_in(&HOLDS_FOR, sender);
        let held = shard.as_ref().and_then(|senders| senders.get(&sender));
        let targets = held.into_iter().flatten();
        to_visit.extend(targets.filter(|target| found.insert(**target)));
    }
    found
}

/// Whether any outbox holds messages for this actor.
pub(crate) fn is_held_for(target: ActorId) -> bool {
    HOLDS_FOR.iter().any(|shard| {
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = shard.iter().flat_map(HashMap::values);
        held.any(|targets| targets.contains(&target))
    })
}
