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

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::id::ActorId;

const SHARDS: u64 = 64;

type Edges = HashMap<ActorId, ActorId>;

static WAITS_FOR: [Mutex<Option<Edges>>; SHARDS as usize] =
    [const { Mutex::new(None) }; SHARDS as usize];

fn lock(waiting: ActorId) -> MutexGuard<'static, Option<Edges>> {
    WAITS_FOR[(waiting.get() % SHARDS) as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
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
