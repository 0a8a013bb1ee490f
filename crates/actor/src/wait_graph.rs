//! Which muted actor waits for which other one, for all systems of the process: an actor may send to another
//! system's.
//!
//! Each muted actor waits for one other, so the graph is a function, kept in shards by the waiting actor's id.
//! An edge that would close a circle is taken back.
//!
//! **No circle is missed.** An actor inserts its own edge first, and then follows the edges from its target, each
//! look under that shard's lock. Of the actors that close a circle at the same time, take the one whose
//! insertion comes last: every other edge of the circle is there when it walks, so it finds itself. (An edge that was
//! inserted and is about to be taken back may make two of them give up. Both then go on handling messages, and try
//! again.)
//!
//! A walk is as long as the chain of muted actors behind the target: one look for a target that is not muted.
//!
//! A second relation says for whom each actor holds messages in its outbox. It says more: an actor holds messages for
//! several others, and while it runs. A shutdown keeps those open. An entry comes before `tell` returns and goes after
//! the last message was accepted, so a look at it misses no message.

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

/// Notes that `waiting` waits for `target`, unless that closes a circle.
pub(crate) fn insert(waiting: ActorId, target: ActorId) -> bool {
    if target == waiting {
        return false;
    }
    lock(waiting)
        .get_or_insert_default()
        .insert(waiting, target);
    // Brent's method: a circle that does not lead back here is about to be taken back by one of its actors.
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

/// The actors that `waiting` waits for: the one that it is muted for, the one that this is muted for, and so on.
pub(crate) fn chain(waiting: ActorId) -> impl Iterator<Item = ActorId> {
    let next = |at: &ActorId| lock(*at).as_ref().and_then(|edges| edges.get(at).copied());
    // Bounded, for the chain may change meanwhile.
    std::iter::successors(next(&waiting), next).take(10_000)
}

/// `waiting` waits for nobody any more.
pub(crate) fn remove(waiting: ActorId) {
    if let Some(edges) = lock(waiting).as_mut() {
        edges.remove(&waiting);
    }
}

/// Says that the outbox of `sender` holds messages for `target`, until it is dropped.
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

/// All actors that messages in these actors' outboxes are for, that messages in their outboxes are for, and so on.
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
