//! The wait-for graph: for which actor each actor waits. For all systems of the process, because an actor may send to an
//! actor of another system.
//!
//! An actor has up to two edges, both in its core ([`Edge`]). Its *ask edge* leads to the actor whose reply its handler
//! awaits; its *mute edge* leads to the actor for whose lane it is muted. Only the thread that runs the actor adds
//! edges.
//!
//! - An ask that closes a circle of ask edges fails at once: [`Circle`].
//! - Muting that would close a circle of any edges does not happen: the actor keeps handling messages.
//! - An ask that closes a circle with mute edges makes the muted actors of the circle try again to mute, which they
//!   then do not. So the circle resolves, and no ask fails.
//!
//! **No circle is missed.** An actor adds its own edge first, then follows the edges from its target; [`Edge`] has the
//! proof. (Two actors that close a circle at the same time may both give up.)
//!
//! **No ask fails without a circle.** An ask edge counts only while its ask is awaited: its slot says when the reply was
//! sent or deferred, and both happen before the actor that replied adds its next edge. The walk finds a path of ask
//! edges from the target back to the asker, and then reads its edges again, the last one first. The last one leads to the
//! asker, which runs nothing but this walk, so it cannot reply: once that edge was seen to be awaited, it stays so, unless
//! its asker gives up. So its asker stays suspended, and the edge before it stays, too, and so on: after the last read of
//! the path, all its edges exist at the same time. The asker's own ask is read after them, because the target may have
//! replied before it added its edge: if the ask is still awaited then, it was awaited all the time, and the circle was
//! closed. Otherwise there was no circle, and the reply, if any, has woken the asker.
//!
//! **An actor that awaits several asks at once** has no ask edge, because it may continue after one of them. While it has
//! polled only the first one, it has that edge.
//!
//! A walk is as long as the chain of waiting actors behind the target: two reads if the target does not wait.
//!
//! A second relation stores for which actors each actor holds messages in its outbox. It covers more: an actor may
//! hold messages for several others, also while it runs. A shutdown keeps those receivers open. An entry is added
//! before `tell` returns and removed after the last message was accepted, so a reader misses no message.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
};

use freeboard_platform::planted;
use freeboard_queue::oneshot::SlotHead;

use crate::{
    circle::{Circle, CircleActor},
    core::{self, Core},
    core_ref::{CoreRef, Head},
    id::ActorId,
};

/// The longest circle of asks that is found.
const CIRCLE_ACTORS_MAX: usize = 1_000;

/// Adds the edge of an ask from `asker`, which this thread runs, to `target`. Returns the circle that it closes; the
/// caller then gives the ask up. The slot's note is the target's pointer.
///
/// # Safety
/// `asker` awaits the slot's ask. Slot and target are valid until the edge is removed.
#[inline]
pub(crate) unsafe fn add_ask(
    asker: &Core,
    target: &Core,
    slot: NonNull<SlotHead>,
) -> Option<Box<Circle>> {
    // SAFETY: the caller's promise.
    let is_only = unsafe { asker.asking.add(slot) };
    let ends_here = target.asking.is_clear() && target.muted_for.is_clear();
    if !is_only || ends_here && target.id() != asker.id() {
        return None;
    }
    // SAFETY: the caller's promise.
    closed_circle(asker, target, unsafe { slot.as_ref() })
}

#[cold]
fn closed_circle(asker: &Core, target: &Core, slot: &SlotHead) -> Option<Box<Circle>> {
    if planted!("circle-not-found") {
        return None;
    }
    let mut path = vec![CoreRef::of(target)];
    let mut meets_muted = false;
    while let Some(last) = path.last().filter(|it| it.id() != asker.id()) {
        meets_muted |= !last.muted_for.is_clear();
        match asked_by(last) {
            Some(next) if path.len() < CIRCLE_ACTORS_MAX => path.push(next),
            _ => {
                if meets_muted {
                    unmute_circles(asker, target);
                }
                return None;
            }
        }
    }
    let is_edge = |pair: &[CoreRef]| asked_by(&pair[0]).is_some_and(|it| it.id() == pair[1].id());
    // The asker's own ask comes last.
    if !path.windows(2).rev().all(is_edge) || !slot.is_awaited() {
        return None;
    }
    path.rotate_right(1);
    let describe = |core: &CoreRef| CircleActor {
        id: core.id(),
        name: core.options().name.as_deref().map(str::to_owned),
        actor_type: core.type_name(),
    };
    let actors = path.iter().map(describe).collect();
    Some(Box::new(Circle { actors }))
}

/// The actor whose reply this one awaits.
pub(crate) fn asked_by(core: &Core) -> Option<CoreRef> {
    let read = |slot: NonNull<SlotHead>| {
        // SAFETY: `add_ask`: the slot is valid until the edge is removed, which waits for this read.
        let slot = unsafe { slot.as_ref() };
        let target = NonNull::new(slot.note().cast::<Head>())?;
        // SAFETY: as above, the target is referenced until then, and the note is its own pointer.
        slot.is_awaited()
            .then(|| unsafe { CoreRef::of_head(target) })
    };
    core.asking.follow(read).flatten()
}

/// Whether it awaits a reply in a circle of asks, which [`add_ask`] must not let happen.
#[cfg(feature = "testing")]
pub(crate) fn is_in_circle(core: &Core) -> bool {
    let behind = std::iter::successors(asked_by(core), |at| asked_by(at));
    behind
        .take(CIRCLE_ACTORS_MAX)
        .any(|it| it.id() == core.id())
}

/// The actor for which this one is muted.
pub(crate) fn muted_for(core: &Core) -> Option<CoreRef> {
    // SAFETY: the edge owns a reference, which it gives up only after this read.
    core.muted_for
        .follow(|head| unsafe { CoreRef::of_head(head) })
}

/// Whether any edges lead from one actor to another; adds the muted actors on the way to `muted`.
fn leads_to(from: &Core, to: &Core, muted: &mut Vec<CoreRef>) -> bool {
    let mut visited = HashSet::new();
    let mut to_visit = vec![CoreRef::of(from)];
    let mut is_reached = false;
    while let Some(at) = to_visit.pop() {
        if at.id() == to.id() {
            is_reached = true;
        } else if visited.insert(at.id()) {
            to_visit.extend(asked_by(&at));
            if let Some(next) = muted_for(&at) {
                to_visit.push(next);
                muted.push(at);
            }
        }
    }
    is_reached
}

/// Makes the actors that are muted in circles with this ask try again to mute: they find the circle, and do not.
fn unmute_circles(asker: &Core, target: &Core) {
    let mut muted = Vec::new();
    if leads_to(target, asker, &mut muted) {
        muted.iter().for_each(|core| core.signal(core::UNMUTE));
    }
}

/// Adds the mute edge from `waiting`, which this thread runs and which has none, to `target`, unless that closes a
/// circle.
pub(crate) fn mute(waiting: &Core, target: &Core) -> bool {
    if target.id() == waiting.id() {
        return false;
    }
    // SAFETY: the edge owns the reference; `unmute` drops it after the edge is removed.
    unsafe { waiting.muted_for.add(CoreRef::of(target).into_head()) };
    if target.asking.is_clear() && target.muted_for.is_clear() {
        return true;
    }
    let closes_circle = leads_to(target, waiting, &mut Vec::new());
    if closes_circle {
        unmute(waiting);
    }
    !closes_circle
}

/// Removes the mute edge of an actor that this thread runs, if it has one.
pub(crate) fn unmute(waiting: &Core) {
    if let Some(head) = waiting.muted_for.take() {
        // SAFETY: `mute` made it of a reference, which the edge owned.
        drop(unsafe { CoreRef::first(head) });
    }
}

/// The last actor of the chain of actors that `waiting` is muted for, directly and indirectly.
pub(crate) fn last_muted_for(waiting: &Core) -> Option<CoreRef> {
    let next = |at: &CoreRef| muted_for(at);
    // Bounded, because the chain may change meanwhile.
    std::iter::successors(muted_for(waiting), next)
        .take(10_000)
        .last()
}

const SHARDS: u64 = 64;

/// The number of entries for a sender and a target: one for each of the target's lanes.
type Shard = BTreeMap<(ActorId, ActorId), usize>;

static HOLDS_FOR: [Mutex<Shard>; SHARDS as usize] =
    [const { Mutex::new(BTreeMap::new()) }; SHARDS as usize];

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(sender: ActorId) -> MutexGuard<'static, Shard> {
    lock(&HOLDS_FOR[(sender.get() % SHARDS) as usize])
}

/// The entry that the outbox of `sender` holds messages for `target`; its drop removes it.
pub(crate) struct Holding {
    sender: ActorId,
    target: ActorId,
}

impl Holding {
    pub(crate) fn new(sender: ActorId, target: ActorId) -> Self {
        *shard_of(sender).entry((sender, target)).or_default() += 1;
        Self { sender, target }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut shard = shard_of(self.sender);
        if let Entry::Occupied(mut entry) = shard.entry((self.sender, self.target)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// The receivers of all messages in these actors' outboxes, directly and indirectly.
pub(crate) fn held_for(senders: impl Iterator<Item = ActorId>) -> HashSet<ActorId> {
    let mut to_visit: Vec<ActorId> = senders.collect();
    let mut found = HashSet::new();
    while let Some(sender) = to_visit.pop() {
        let shard = shard_of(sender);
        let of_sender = shard.range((sender, ActorId(0))..=(sender, ActorId(u64::MAX)));
        let targets = of_sender.map(|((_, target), _)| *target);
        to_visit.extend(targets.filter(|target| found.insert(*target)));
    }
    found
}

/// All actors for which any outbox holds messages.
pub(crate) fn all_held_for() -> HashSet<ActorId> {
    let mut found = HashSet::new();
    for shard in &HOLDS_FOR {
        found.extend(lock(shard).keys().map(|(_, target)| target));
    }
    found
}

/// Whether any outbox holds messages for this actor.
pub(crate) fn is_held_for(target: ActorId) -> bool {
    HOLDS_FOR
        .iter()
        .any(|shard| lock(shard).keys().any(|(_, held)| *held == target))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use freeboard_queue::oneshot;

    use super::*;
    use crate::{Actor, ActorRef, Context, Handler, System, current};

    struct Asker;
    struct Target(ActorRef<Asker>);

    impl Actor for Asker {}
    impl Actor for Target {}

    impl Handler<()> for Target {
        type Reply = ();
        fn handle(&mut self, (): (), _cx: &mut Context<Self>) {
            self.0.ask(()).wait().expect("the asker ends its walk");
        }
    }

    impl Handler<()> for Asker {
        type Reply = ();
        fn handle(&mut self, (): (), _cx: &mut Context<Self>) {}
    }

    /// Whether an ask of the target, whose reply has been sent or not, closes a circle.
    impl Handler<(ActorRef<Target>, bool)> for Asker {
        type Reply = bool;
        fn handle(
            &mut self,
            (target, is_sent): (ActorRef<Target>, bool),
            _cx: &mut Context<Self>,
        ) -> bool {
            // Only now, so that the target's ask stays in the mailbox until this handler returns.
            target.tell(()).expect("accepted");
            let (sender, receiver) = oneshot::channel();
            let target = target.cell().core();
            receiver.set_note(target.own().as_ptr().cast());
            let slot = receiver.head().expect("it is open");
            while asked_by(target).is_none() {
                thread::yield_now();
            }
            let _unsent = if is_sent {
                sender.send(()).expect("it is open");
                None
            } else {
                Some(sender)
            };
            current::with(|asker| {
                let asker = asker.expect("a handler");
                // SAFETY: slot and target are valid until the edge is removed.
                let circle = unsafe { add_ask(asker, target, slot) };
                asker.asking.remove(slot);
                circle.is_some()
            })
        }
    }

    #[test]
    fn a_target_that_has_replied_closes_no_circle() {
        let system = System::builder().workers(2).build().expect("it starts");
        let asker = system.spawn_once(crate::SpawnOptions::new(), Asker);
        let asker = asker.expect("valid options");
        for is_sent in [false, true] {
            let target = Target(asker.clone());
            let target = system.spawn_once(crate::SpawnOptions::new(), target);
            let target = target.expect("valid options");
            let is_circle = asker.ask((target, is_sent)).wait();
            assert_eq!(is_circle.ok(), Some(!is_sent));
        }
    }
}
