//! The outbox: an actor's messages to full lanes whose policy is to wait.
//!
//! A handler must not block its worker. Its messages to full lanes are kept here, in order and up to a bound.
//! After the handler the actor is *muted*: it handles no message until the outbox is empty, which puts
//! back-pressure on its own senders. Pony mutes too, but lets the message into the receiver's queue; here the
//! receiver's bound stays hard.
//!
//! Actors that wait for each other in a circle would wait for ever. `wait_graph` refuses the edge that would close
//! a circle: that actor keeps handling messages, which makes capacity, and sends its outbox when the receiver
//! grants capacity.
//!
//! An outbox outlives its actor: accepted messages are delivered after the actor has terminated, as in Erlang.
//! Items that [`crate::Context::send_all`] has not pulled by then are not sent.

mod bundle;

use std::{mem, task::Waker};

use freeboard_flow::ShedReason;

use crate::{
    catch_panic,
    core::{self, Core},
    core_ref::CoreRef,
    current,
    envelope::Envelope,
    id::ActorId,
    wait_graph,
    waiters::{Wait, WaitKey, Waiter},
};
use bundle::{Bundle, Flow, Panic, Part, Source};

/// Items pulled from iterators in one call of [`settle`], before other actors run.
const PULLS_MAX: u32 = 4_096;

/// The registration with the waiters of the first bundle's lane.
struct Waiting {
    target: CoreRef,
    key: WaitKey,
    /// Its edge is in the graph: the actor handles no messages.
    is_muted: bool,
    /// Capacity was granted, or the target has terminated.
    is_granted: bool,
}

/// Messages that wait for capacity elsewhere.
#[derive(Default)]
pub(crate) struct Outbox {
    /// One bundle per lane that was full, none of them empty.
    bundles: Vec<Bundle>,
    waiting: Option<Waiting>,
    /// In the stand-in for an outbox that is being flushed: that outbox's messages and lanes.
    flushing: usize,
    flushing_lanes: Vec<(ActorId, usize)>,
    /// Wakers of the actor's own futures that send behind these messages; woken when a bundle is sent.
    wakers: Vec<Waker>,
}

/// The state of an outbox after [`settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is empty.
    Empty,
    /// The actor waits, and [`core::UNMUTE`] will come.
    Muted,
    /// Muting would close a circle: the actor keeps handling messages. [`core::UNMUTE`] will come.
    Circular,
    /// There is more to pull; other actors run first.
    More,
}

/// Why an outbox did not keep an envelope.
pub(crate) enum NotKept {
    Full(Envelope),
    /// The receiver closes as soon as no outbox holds messages for it.
    Retiring(Envelope),
}

/// Keeps an envelope for a full lane in the outbox of the actor `sender`, which this thread runs.
pub(crate) fn keep(
    sender: &Core,
    target: &Core,
    lane: usize,
    envelope: Envelope,
) -> Result<(), NotKept> {
    // SAFETY: this thread runs the sender; the borrow ends with this function, which calls nothing
    // that could come back here.
    let outbox = unsafe { (*sender.outbox()).get_or_insert_default() };
    current::set_has_outbox();
    if outbox.len() >= sender.options().outbox_bound {
        return Err(NotKept::Full(envelope));
    }
    let parts = &mut outbox.bundle_for(sender.id(), target, lane).parts;
    // After the bundle has entered itself into the wait graph: see `retire`.
    if target.is_retiring() {
        outbox.bundles.retain(|bundle| !bundle.is_empty());
        return Err(NotKept::Retiring(envelope));
    }
    parts.push_back(Part::Message(envelope));
    Ok(())
}

/// Whether the outbox of the actor `sender`, which this thread runs, has capacity.
pub(crate) fn may_keep(sender: &Core) -> bool {
    // SAFETY: as in `keep`.
    unsafe { len(sender) < sender.options().outbox_bound }
}

/// Appends `source` to the messages for a lane of `target` in the outbox of `sender`, which this thread runs.
pub(crate) fn keep_source(sender: &Core, target: &Core, lane: usize, source: Source) {
    // SAFETY: as in `keep`.
    let outbox = unsafe { (*sender.outbox()).get_or_insert_default() };
    current::set_has_outbox();
    let parts = &mut outbox.bundle_for(sender.id(), target, lane).parts;
    parts.push_back(Part::Source(source));
}

/// Moves the bundle for a lane to the front, because a future of the actor `sender`, which this thread runs, sends
/// behind it; `waker` is woken when the bundle is sent. If the future had to wait for the bundles before it, their
/// receivers could wait for this actor, which handles nothing meanwhile.
pub(crate) fn hasten(sender: &Core, target: &Core, lane: usize, waker: &Waker) {
    // Before the outbox is borrowed: cloning a waker may run user code.
    let waker = waker.clone();
    // SAFETY: this thread runs the sender; the borrow ends here.
    let Some(outbox) = (unsafe { (*sender.outbox()).as_mut() }) else {
        return;
    };
    if let Some(position @ 1..) = outbox.position(target.id(), lane) {
        outbox.bundles[..=position].rotate_right(1);
        outbox.leave_line(sender);
    }
    if !outbox.wakers.iter().any(|known| known.will_wake(&waker)) {
        outbox.wakers.push(waker);
    }
}

/// Whether the actor has messages for this lane, which a newer one must not overtake.
pub(crate) fn has_messages_for(sender: &Core, target: &Core, lane: usize) -> bool {
    // SAFETY: this thread runs the sender; the borrow ends here.
    let outbox = unsafe { &*sender.outbox() };
    outbox
        .as_ref()
        .is_some_and(|outbox| outbox.has_messages_for(target.id(), lane))
}

/// Whether the actor waits for a lane, so that [`core::UNMUTE`] will come.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn is_waiting(core: &Core) -> bool {
    // SAFETY: the caller's promise; the borrow ends here.
    let outbox = unsafe { &*core.outbox() };
    outbox.as_ref().is_some_and(|it| it.waiting.is_some())
}

/// Messages in the actor's outbox; an iterator counts as one.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn len(core: &Core) -> usize {
    // SAFETY: the caller's promise; the borrow ends here.
    let outbox = unsafe { &*core.outbox() };
    outbox.as_ref().map_or(0, |outbox| outbox.len())
}

/// Sends as far as there is capacity. If messages are left, the actor waits for capacity.
///
/// # Errors
/// The panic of an iterator of [`crate::Context::send_all`], which is dropped then.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn settle(core: &Core) -> Result<Settled, Panic> {
    let mut pulls = PULLS_MAX;
    loop {
        // SAFETY: the caller's promise; the borrow ends before the flush, which may run user code.
        let Some(kept) = (unsafe { (*core.outbox()).as_mut() }) else {
            return Ok(Settled::Empty);
        };
        if kept.waiting.as_ref().is_some_and(|it| !it.is_granted) {
            return Ok(kept.wait_on(core));
        }
        // Messages sent meanwhile, by an observer of dead letters or an iterator, keep bound and order.
        let stand_in = kept.stand_in();
        let mut outbox = mem::replace(&mut **kept, stand_in);
        let flushed = outbox.flush(core, &mut pulls);
        // SAFETY: as above; no user code runs until it is put back.
        let kept = unsafe { (*core.outbox()).get_or_insert_default() };
        outbox.append(core.id(), mem::take(&mut **kept));
        let outcome = match flushed {
            Err(panic) => Some(Err(panic)),
            Ok(()) if outbox.bundles.is_empty() => {
                current::clear_has_outbox(core);
                // SAFETY: as above.
                unsafe { *core.outbox() = None };
                outbox.wake();
                return Ok(Settled::Empty);
            }
            Ok(()) if pulls == 0 => {
                outbox.leave_line(core);
                Some(Ok(Settled::More))
            }
            // `None`: the target has terminated, and the next flush finds its lane closed.
            Ok(()) => outbox.wait_for_first(core).map(Ok),
        };
        **kept = outbox;
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
}

/// Processes [`core::UNMUTE`]: capacity was granted, or the receiver has terminated.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn unmuted(core: &Core) {
    // SAFETY: the caller's promise.
    if let Some(waiting) = unsafe { (*core.outbox()).as_mut() }.and_then(|it| it.waiting.as_mut()) {
        // The signal of an earlier registration may come late.
        waiting.is_granted = waiting.target.waiters.poll(waiting.key, None) != Wait::Waiting;
        // Without a grant, an ask may have closed a circle with this edge: `settle` tries again to mute.
        waiting.is_muted = false;
        wait_graph::unmute(core);
    }
}

/// Drops all iterators: the actor stops or restarts.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn drop_sources(core: &Core) {
    // SAFETY: the caller's promise; the borrow ends before a source is dropped.
    let Some(outbox) = (unsafe { (*core.outbox()).as_mut() }) else {
        return;
    };
    let first = outbox.bundles.first().map(Bundle::key);
    let mut sources = Vec::new();
    for bundle in &mut outbox.bundles {
        let parts = mem::take(&mut bundle.parts);
        let (messages, sources_here): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .partition(|part| matches!(part, Part::Message(_)));
        bundle.parts = messages.into();
        sources.extend(sources_here);
    }
    outbox.bundles.retain(|bundle| !bundle.is_empty());
    if outbox.bundles.first().map(Bundle::key) != first {
        // It waited only to send items. A late signal for the old registration is ignored.
        outbox.leave_line(core);
    }
    if outbox.bundles.is_empty() {
        current::clear_has_outbox(core);
        // SAFETY: as above.
        if let Some(mut outbox) = unsafe { (*core.outbox()).take() } {
            outbox.wake();
        }
    }
    for source in sources {
        catch_panic::drop(source);
    }
}

/// Gives up: all messages become dead letters and count as undelivered in the shutdown report.
///
/// # Safety
/// The caller runs the actor `core`.
pub(crate) unsafe fn abandon(core: &Core) {
    // An observer of dead letters may send messages in turn. Those are given up in a second pass; then it ends.
    for _ in 0..2 {
        // SAFETY: the caller's promise; no handler runs while we hold the box.
        let Some(mut outbox) = (unsafe { (*core.outbox()).take() }) else {
            return;
        };
        current::clear_has_outbox(core);
        outbox.leave_line(core);
        outbox.wake();
        for bundle in outbox.bundles {
            for part in bundle.parts {
                core.system.undelivered.add(1);
                match part {
                    Part::Message(envelope) => {
                        let reason = ShedReason::SenderStopped;
                        bundle.target.shed(bundle.lane, envelope, reason);
                    }
                    source @ Part::Source(_) => catch_panic::drop(source),
                }
            }
        }
    }
}

impl Outbox {
    fn len(&self) -> usize {
        self.flushing + self.bundles.iter().map(|it| it.parts.len()).sum::<usize>()
    }

    fn position(&self, target: ActorId, lane: usize) -> Option<usize> {
        self.bundles
            .iter()
            .position(|bundle| bundle.lane == lane && bundle.target.id() == target)
    }

    fn has_messages_for(&self, target: ActorId, lane: usize) -> bool {
        self.position(target, lane).is_some() || self.flushing_lanes.contains(&(target, lane))
    }

    fn bundle_for(&mut self, sender: ActorId, target: &Core, lane: usize) -> &mut Bundle {
        let index = self.position(target.id(), lane).unwrap_or_else(|| {
            if self.bundles.is_empty() {
                // Most have one.
                self.bundles.reserve_exact(1);
            }
            self.bundles.push(Bundle::new(sender, target, lane));
            self.bundles.len() - 1
        });
        &mut self.bundles[index]
    }

    /// An empty outbox that counts the messages being flushed.
    fn stand_in(&self) -> Self {
        Self {
            flushing: self.len(),
            flushing_lanes: self.bundles.iter().map(Bundle::key).collect(),
            ..Self::default()
        }
    }

    fn append(&mut self, sender: ActorId, other: Self) {
        self.wakers.extend(other.wakers);
        for mut bundle in other.bundles {
            let own = self.bundle_for(sender, &bundle.target, bundle.lane);
            own.parts.append(&mut bundle.parts);
        }
    }

    fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            catch_panic::call(|| waker.wake());
        }
    }

    /// Sends each bundle's messages in order, as far as its lane has capacity.
    fn flush(&mut self, core: &Core, pulls: &mut u32) -> Result<(), Panic> {
        // The grant belongs to the first bundle.
        let granted = match &self.waiting {
            Some(waiting) => match waiting.target.waiters.poll(waiting.key, None) {
                Wait::Granted(messages) => messages,
                Wait::Waiting => 0,
            },
            None => 0,
        };
        let mut outcome = Ok(());
        for (index, bundle) in self.bundles.iter_mut().enumerate() {
            let granted = if index == 0 { granted } else { 0 };
            match bundle.flush(core, granted, pulls) {
                Ok(Flow::Goes | Flow::IsFull) => {}
                Ok(Flow::OutOfPulls) => break,
                Err(panic) => {
                    outcome = Err(panic);
                    break;
                }
            }
        }
        // An iterator that has sent goes to the back of the lane's waiters; otherwise it would stay first for ever.
        let first = self.bundles.first();
        if first.is_some_and(|it| it.is_empty() || granted > 0 && it.begins_with_source()) {
            self.leave_line(core);
        }
        let before = self.bundles.len();
        self.bundles.retain(|bundle| !bundle.is_empty());
        if self.bundles.len() < before {
            self.wake();
        }
        outcome
    }

    /// Gives up the registration, or an unused grant.
    fn leave_line(&mut self, core: &Core) {
        if let Some(waiting) = self.waiting.take() {
            wait_graph::unmute(core);
            if waiting.target.waiters.finish(&waiting.target, waiting.key) {
                waiting.target.signal(core::WAITERS);
            }
        }
    }

    /// Waits for the first bundle's lane. `None` if its actor has terminated.
    fn wait_for_first(&mut self, core: &Core) -> Option<Settled> {
        let first = self.bundles.first()?;
        let waiters = &first.target.waiters;
        let waiter = Waiter::Actor(CoreRef::of(core));
        let (lane, wanted) = (first.lane, first.wanted());
        let target = first.target.clone();
        // The edge first: the grant of capacity removes it.
        let is_muted = wait_graph::mute(core, &target);
        let key = match self.waiting.take() {
            Some(old) => waiters
                .requeue(&target, old.key, waiter, wanted)
                .map(|()| old.key),
            None => waiters.register(&target, lane, waiter, wanted),
        };
        let Some(key) = key else {
            wait_graph::unmute(core);
            return None;
        };
        target.signal(core::WAITERS);
        self.waiting = Some(Waiting {
            target,
            key,
            is_muted,
            is_granted: false,
        });
        Some(if is_muted {
            Settled::Muted
        } else {
            Settled::Circular
        })
    }

    /// The actor still waits. If it was not muted because of a circle, it tries again.
    fn wait_on(&mut self, core: &Core) -> Settled {
        let Some(waiting) = self.waiting.as_mut() else {
            return Settled::Muted;
        };
        if !waiting.is_muted {
            waiting.is_muted = wait_graph::mute(core, &waiting.target);
        }
        if waiting.is_muted {
            Settled::Muted
        } else {
            Settled::Circular
        }
    }
}
