//! The body: the worker's state of an actor, besides the actor and its context.
//!
//! Those two are beside the body in the cell, not in it: a suspended future keeps pointers to them, which a
//! `&mut Body` must not alias.

use std::{future::Future, pin::Pin};

use freeboard_flow::{RestartHistory, WeightedRounds};

use crate::{actor::Actor, catch_panic, core::Core, span::HandleSpan, termination::ExitReason};

pub(crate) type SuspendedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Creates the actor, first at its start and again after each failure.
pub(crate) type Factory<A> = Box<dyn FnMut() -> A + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    New,
    Active,
    /// Waits for its back-off and for its children to terminate.
    Restarting,
    Stopping(ExitReason),
    /// It has terminated and still sends the messages in its outbox.
    Delivering,
}

/// State that few actors need, outside the cell.
#[derive(Default)]
pub(crate) struct ColdState {
    pub(crate) restarts: Option<RestartHistory>,
    pub(crate) rounds: Option<WeightedRounds>,
}

/// The message being handled.
pub(crate) struct Handling {
    pub(crate) type_name: fn() -> &'static str,
    /// The lane that it came through; `None` for a notice.
    pub(crate) lane: Option<usize>,
}

pub(crate) struct Body<A: Actor> {
    pub(crate) factory: Option<Factory<A>>,
    /// The async handler's future.
    pub(crate) suspended: Option<SuspendedFuture>,
    pub(crate) suspended_span: HandleSpan,
    pub(crate) cold: Option<Box<ColdState>>,
    pub(crate) handling: Option<Handling>,
    pub(crate) life: Life,
    pub(crate) is_draining: bool,
    pub(crate) has_notices: bool,
    pub(crate) has_waiters: bool,
    /// `started` was called and returned, so `stopped` must be called.
    pub(crate) has_started: bool,
    /// The back-off of a restart is not over.
    pub(crate) is_backing_off: bool,
    /// The shutdown's deadline has passed: the outbox is no longer sent.
    pub(crate) abandons_outbox: bool,
}

impl<A: Actor> Body<A> {
    pub(crate) fn new(factory: Option<Factory<A>>) -> Self {
        Self {
            factory,
            suspended: None,
            suspended_span: HandleSpan::none(),
            cold: None,
            handling: None,
            life: Life::New,
            is_draining: false,
            has_notices: false,
            has_waiters: false,
            has_started: false,
            is_backing_off: false,
            abandons_outbox: false,
        }
    }

    pub(crate) fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self.life, Life::Stopping(_) | Life::Delivering)
    }

    /// Publishes the freed capacity and grants it to waiting senders.
    pub(crate) fn publish(&mut self, core: &Core) {
        for lane in 0..core.mailbox.lane_count() {
            let lane = core.mailbox.lane(lane);
            // SAFETY: the owner of the body runs the actor.
            let depth = unsafe { lane.publish() };
            lane.gauges.high_water.raise(depth);
        }
        if self.has_waiters {
            self.has_waiters = core.waiters.release(core);
        }
    }

    /// Drops the future at its current await; a panic of its drop is caught.
    pub(crate) fn drop_suspended(&mut self) {
        catch_panic::drop(self.suspended.take());
        self.suspended_span = HandleSpan::none();
    }
}
