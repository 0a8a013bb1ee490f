//! Faults that a test injects into the handling of messages.

use std::{any::TypeId, time::Duration};

use freeboard_queue::Barrier;
use freeboard_sched::{Task, manual::Node};

use super::kit::{Kit, active};
use crate::{
    actor::Message,
    core::{self, Core},
    current,
    id::ActorId,
    supervision::saturating_ns,
};

/// The faults of all actors of a thread's test systems.
#[derive(Default)]
pub(crate) struct FaultTable(Vec<Fault>);

struct Fault {
    actor: ActorId,
    kind: FaultKind,
}

enum FaultKind {
    /// Panic when this many messages have come, of one type if it is given.
    Panic {
        left: u64,
        message_type: Option<TypeId>,
    },
    /// Handling a message takes this long.
    Slow(Duration),
}

/// Called on the way to each handler.
///
/// # Panics
/// If the test has asked for it.
pub(crate) fn before_handler<M: Message>() {
    let Some(kit) = active() else { return };
    if kit.faults.borrow().0.is_empty() {
        return;
    }
    let Some(actor) = current::with(|core| core.map(Core::id)) else {
        return;
    };
    let (mut panics, mut takes) = (false, Duration::ZERO);
    kit.faults.borrow_mut().0.retain_mut(|fault| {
        if fault.actor != actor {
            return true;
        }
        match &mut fault.kind {
            FaultKind::Slow(time) => takes += *time,
            FaultKind::Panic { left, message_type } => {
                if message_type.is_none_or(|it| it == TypeId::of::<M>()) {
                    *left -= 1;
                    panics |= *left == 0;
                    return *left > 0;
                }
            }
        }
        true
    });
    if !takes.is_zero() {
        kit.advance(takes);
    }
    assert!(!panics, "a fault that the test injected");
}

/// Injects a fault into one of the actors that live on a node: `pick` chooses it. Returns its type, or `None` if there is
/// none, or no test system.
pub fn inject_into_any(
    node: Node,
    pick: u64,
    inject: impl FnOnce(Faults<'_>),
) -> Option<&'static str> {
    let kit = active()?;
    let cells = kit.cells_of(node);
    let index = (pick % (cells.len() as u64).max(1)) as usize;
    let core = cells.get(index)?;
    inject(Faults::of(&kit, core));
    Some(core.type_name())
}

/// Ends all faults of the calling thread's test systems, but full lanes.
pub fn clear_faults() {
    if let Some(kit) = active() {
        kit.faults.borrow_mut().0.clear();
        kit.executor().end_delays();
    }
}

/// Injects faults into one actor; made by [`TestSystem::faults`](super::TestSystem::faults). They last as long as the
/// system, also across restarts of the actor.
pub struct Faults<'a> {
    kit: &'a Kit,
    core: &'a Core,
}

impl std::fmt::Debug for Faults<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Faults({})", self.core.id())
    }
}

impl<'a> Faults<'a> {
    pub(super) fn of(kit: &'a Kit, core: &'a Core) -> Self {
        Self { kit, core }
    }

    fn add(self, kind: FaultKind) -> Self {
        let actor = self.core.id();
        let fault = Fault { actor, kind };
        self.kit.faults.borrow_mut().0.push(fault);
        self
    }

    /// The actor panics instead of handling the `nth` message from now, counted from 1.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn panic_on(self, nth: u64) -> Self {
        self.panic_on_type(nth, None)
    }

    /// The actor panics instead of handling the `nth` message of type `M` from now, counted from 1.
    ///
    /// # Panics
    /// If `nth` is 0.
    pub fn panic_on_message<M: Message>(self, nth: u64) -> Self {
        self.panic_on_type(nth, Some(TypeId::of::<M>()))
    }

    fn panic_on_type(self, nth: u64, message_type: Option<TypeId>) -> Self {
        assert!(nth > 0, "messages are counted from 1");
        self.add(FaultKind::Panic {
            left: nth,
            message_type,
        })
    }

    /// From now on, each message takes `time`: the clock moves by it before the handler is called, and other actors and
    /// timers run meanwhile.
    pub fn slow(self, time: Duration) -> Self {
        self.add(FaultKind::Slow(time))
    }

    /// From now on, the actor runs only this long after a message or signal woke it; zero for at once.
    pub fn delay_wakeups(self, delay: Duration) -> Self {
        let task: Task = self.core.task();
        let delay_ns = saturating_ns(delay);
        self.kit.executor().delay_wakeups(task, delay_ns);
        self
    }

    /// Senders find the lane full, until [`Faults::free_lane`]. Its policy applies: they wait, are muted, or are shed. The
    /// actor still handles the queued messages. An actor that itself pauses and resumes the lane ends the fault.
    ///
    /// # Panics
    /// If the mailbox has no such lane.
    pub fn full_lane(self, lane: usize) -> Self {
        self.check_lane(lane).raise(Barrier::Pause);
        self
    }

    /// Ends [`Faults::full_lane`].
    ///
    /// # Panics
    /// If the mailbox has no such lane.
    pub fn free_lane(self, lane: usize) -> Self {
        self.check_lane(lane).lower(Barrier::Pause);
        self.core.signal(core::WAITERS);
        self
    }

    fn check_lane(&self, lane: usize) -> &crate::mailbox::MailboxLane {
        let lane = self.core.mailbox.get(lane);
        lane.expect("the mailbox has this lane")
    }

    /// Ends panics and slowness.
    pub fn clear(self) -> Self {
        let actor = self.core.id();
        let mut faults = self.kit.faults.borrow_mut();
        faults.0.retain(|fault| fault.actor != actor);
        drop(faults);
        self
    }
}
