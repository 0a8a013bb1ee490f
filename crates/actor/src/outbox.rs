//! The outbox: what an actor told to full lanes whose policy is to wait.
//!
//! A handler must not block its worker. What it tells to a full lane is kept here, in order and up
//! to a bound; after the handler the actor is *muted*: it handles nothing more until the outbox is
//! empty, and so it presses back on those who send to it. Pony mutes too, but lets the message into
//! the receiver's queue; here the receiver's bound stays hard.
//!
//! Actors that wait for each other in a circle would wait for ever. Muting therefore keeps the
//! wait-for graph of a system, in which every actor waits for at most one other, and refuses the
//! edge that would close a circle: that actor goes on handling, which makes room.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    task::Waker,
};

use freeboard_flow::ShedReason;

use crate::{
    cell::{self, Core, Unaccepted},
    cell_ref::CoreRef,
    current,
    envelope::Envelope,
    id::ActorId,
    quiet,
    waiters::Waiter,
};

/// Letters for one lane, in order.
struct Bundle {
    target: CoreRef,
    lane: usize,
    letters: VecDeque<Envelope>,
}

/// Letters that wait for room elsewhere.
#[derive(Default)]
pub(crate) struct Outbox {
    /// One bundle per lane that was full, none of them empty.
    bundles: Vec<Bundle>,
    /// Letters in all bundles.
    length: usize,
    /// Whom the actor waits for, and its key among that one's waiters.
    muted_on: Option<(CoreRef, u64)>,
    /// Of the actor's own futures that send behind these letters.
    wakers: Vec<Waker>,
}

/// What became of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Nothing waits any more.
    Empty,
    /// The actor waits, and [`cell::UNMUTE`] will come.
    Muted,
    /// It must not wait, for others wait for it: it goes on handling messages.
    Circular,
}

/// Keeps an envelope for a full lane in the outbox of the actor `sender`, which this thread runs;
/// gives it back if the outbox is full.
pub(crate) fn keep(
    sender: &Core,
    target: &Core,
    lane: usize,
    envelope: Envelope,
) -> Result<(), Envelope> {
    // SAFETY: this thread runs the sender; the borrow ends with this function, which calls nothing
    // that could come back here.
    let outbox = unsafe { (*sender.outbox()).get_or_insert_default() };
    current::set_has_outbox(true);
    if outbox.length >= sender.options().outbox_bound {
        return Err(envelope);
    }
    outbox.push(target, lane, envelope);
    Ok(())
}

/// Wakes a future of the actor `sender`, which this thread runs, once its outbox is empty.
pub(crate) fn wake_when_settled(sender: &Core, waker: &Waker) {
    // Before the outbox is borrowed: cloning a waker may run what it likes.
    let waker = waker.clone();
    // SAFETY: this thread runs the sender; the borrow ends here.
    if let Some(outbox) = unsafe { (*sender.outbox()).as_mut() }
        && !outbox.wakers.iter().any(|known| known.will_wake(&waker))
    {
        outbox.wakers.push(waker);
    }
}

/// Whether the actor has letters for this lane, which a further one must not overtake.
pub(crate) fn has_letters_for(sender: &Core, target: &Core, lane: usize) -> bool {
    // SAFETY: this thread runs the sender; the borrow ends here.
    let outbox = unsafe { &*sender.outbox() };
    outbox
        .as_ref()
        .is_some_and(|outbox| outbox.bundle(target.id(), lane).is_some())
}

/// Sends what there is room for; if something is left, mutes the actor.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn settle(core: &Core) -> Settled {
    loop {
        // SAFETY: the caller's promise; no handler runs while we hold the box.
        let Some(mut outbox) = (unsafe { (*core.outbox()).take() }) else {
            return Settled::Empty;
        };
        if outbox.muted_on.is_none() {
            outbox.flush();
        }
        let Some(first) = outbox.bundles.first() else {
            // SAFETY: as above. Unless something was told during the flush.
            if let Some(told_meanwhile) = unsafe { (*core.outbox()).as_mut() } {
                told_meanwhile.wakers.append(&mut outbox.wakers);
                continue;
            }
            current::set_has_outbox(false);
            outbox.wake();
            return Settled::Empty;
        };
        let settled = if outbox.muted_on.is_some() {
            Some(Settled::Muted)
        } else if !try_mute(core.id(), first.target.id()) {
            Some(Settled::Circular)
        } else {
            let target = first.target.clone();
            let waiter = Waiter::Actor(CoreRef::of(core));
            match target.waiters.register(&target, first.lane, waiter) {
                Some(key) => {
                    target.signal(cell::WAITERS);
                    outbox.muted_on = Some((target, key));
                    Some(Settled::Muted)
                }
                None => {
                    // It has ended: the next flush finds its lanes closed.
                    unmute(core.id());
                    None
                }
            }
        };
        // SAFETY: as above.
        let place = unsafe { &mut *core.outbox() };
        if let Some(told_meanwhile) = place.take() {
            // By an observer of dead letters, during the flush.
            outbox.wakers.extend(told_meanwhile.wakers);
            for mut bundle in told_meanwhile.bundles {
                for letter in bundle.letters.drain(..) {
                    outbox.push(&bundle.target, bundle.lane, letter);
                }
            }
        }
        *place = Some(outbox);
        if let Some(settled) = settled {
            return settled;
        }
    }
}

/// The actor was let go by the one it waited for.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn unmuted(core: &Core) {
    // SAFETY: the caller's promise.
    if let Some(outbox) = unsafe { (*core.outbox()).as_mut() } {
        outbox.muted_on = None;
    }
}

/// The actor ends: sends what there is room for and buries the rest.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn abandon(core: &Core) {
    // SAFETY: the caller's promise.
    let Some(mut outbox) = (unsafe { (*core.outbox()).take() }) else {
        return;
    };
    current::set_has_outbox(false);
    if let Some((target, key)) = outbox.muted_on.take() {
        unmute(core.id());
        if !target.waiters.unregister(key) {
            // We had been let go: another one may have our place.
            target.signal(cell::WAITERS);
        }
    }
    outbox.flush();
    outbox.wake();
    for bundle in outbox.bundles {
        for letter in bundle.letters {
            bundle
                .target
                .shed(bundle.lane, letter, ShedReason::OutboxFull);
        }
    }
}

impl Outbox {
    fn bundle(&self, target: ActorId, lane: usize) -> Option<usize> {
        self.bundles
            .iter()
            .position(|bundle| bundle.lane == lane && bundle.target.id() == target)
    }

    fn push(&mut self, target: &Core, lane: usize, letter: Envelope) {
        self.length += 1;
        match self.bundle(target.id(), lane) {
            Some(known) => self.bundles[known].letters.push_back(letter),
            None => self.bundles.push(Bundle {
                target: CoreRef::of(target),
                lane,
                letters: VecDeque::from([letter]),
            }),
        }
    }

    fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            quiet::call(|| waker.wake());
        }
    }

    /// Sends each bundle's letters in order, as far as its lane has room.
    fn flush(&mut self) {
        for bundle in &mut self.bundles {
            bundle.flush();
        }
        self.bundles.retain(|bundle| !bundle.letters.is_empty());
        self.length = self.bundles.iter().map(|it| it.letters.len()).sum();
    }
}

impl Bundle {
    fn flush(&mut self) {
        let core: &Core = &self.target;
        while let Some(letter) = self.letters.pop_front() {
            match core.offer(self.lane, letter) {
                Ok(()) => {}
                Err(Unaccepted::Wait(letter)) => {
                    self.letters.push_front(letter);
                    return;
                }
                Err(refused) => core.shed_refused(self.lane, refused),
            }
        }
    }
}

/// Who is muted on whom, in all systems of the process: an actor may send to another system's.
static WAITS_FOR: Mutex<BTreeMap<ActorId, ActorId>> = Mutex::new(BTreeMap::new());

/// Notes that `muted` waits for `target`, unless that closes a circle.
fn try_mute(muted: ActorId, target: ActorId) -> bool {
    let mut waits_for = WAITS_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    let mut at = target;
    while at != muted {
        match waits_for.get(&at) {
            Some(next) => at = *next,
            None => {
                waits_for.insert(muted, target);
                return true;
            }
        }
    }
    false
}

/// `muted` waits for nobody any more.
pub(crate) fn unmute(muted: ActorId) {
    WAITS_FOR
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&muted);
}
