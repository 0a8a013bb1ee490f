//! The run: a worker drives an actor for one budget.
//!
//! ```text
//!              ┌── restart (suspended: back-off, children) ◄─┐
//!              ▼                                        │ panic
//!   New ──> started ──> Active: signals, outbox, future, messages ──> Stopping ──> ended
//!                          ▲          │                                │ sheds the mailbox,
//!                          └── rest ──┘                                │ waits for the children,
//!                       (idle or suspended)                            └ calls stopped
//! ```
//!
//! A run processes the signals, then handles messages until the mailbox is empty, the budget is spent, or
//! the actor has to wait. Its last access to the cell is the change of the state word, or, for a terminated
//! actor, its removal from the registry.

use std::{
    any::Any,
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Context as TaskContext,
};

use freeboard_flow::{RestartHistory, WeightedRounds};
use freeboard_sched::{After, Budget, Rest, RunContext, Signals, Task};

use crate::{
    actor::Actor,
    catch_panic,
    cell::Cell,
    context::StopRequest,
    core::{self, Core},
    core_ref::CoreRef,
    current::{Polling, Running},
    envelope::Envelope,
    inlet::{Inlet, InletCounts},
    messages::{Pause, has_ready_lane},
    outbox::{self, Settled},
    span::HandleSpan,
    suspended::SuspendedFuture,
    termination::ExitReason,
};

/// Creates the actor, first at its start and again after each failure.
pub(crate) type Factory<A> = Box<dyn FnMut() -> A + Send>;

/// A [`Factory`] that may fail, with the error's text.
pub(crate) type TryFactory<A> = Box<dyn FnMut() -> Result<A, String> + Send>;

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

/// The end of an activation; see `directory`.
pub(crate) enum Last<A> {
    /// It has stopped between two messages.
    Stopped(A),
    /// A stop has interrupted an async handler, which may have changed a part of its state.
    Interrupted,
    /// It has failed, or never started.
    Failed,
}

/// Is called when an activation has ended.
pub(crate) type AtEnd<A> = Box<dyn FnOnce(Last<A>, &Core) -> Result<(), String> + Send>;

/// State that few actors need, outside the cell.
pub(crate) struct ColdState<A: Actor> {
    pub(crate) restarts: Option<RestartHistory>,
    pub(crate) rounds: Option<WeightedRounds>,
    pub(crate) at_end: Option<AtEnd<A>>,
    /// A stop has interrupted an async handler.
    pub(crate) is_interrupted: bool,
    /// Taken from the relations together with one that was handled since.
    pub(crate) notices: VecDeque<Envelope>,
    pub(crate) inlets: Vec<Box<dyn Inlet<A>>>,
    /// Inlets used up the last run, so this one begins with the lanes.
    pub(crate) is_lanes_turn: bool,
    /// Of the ring whose message is being handled by a future.
    pub(crate) unfinished: Option<Arc<InletCounts>>,
}

impl<A: Actor> Default for ColdState<A> {
    fn default() -> Self {
        Self {
            restarts: None,
            rounds: None,
            at_end: None,
            is_interrupted: false,
            notices: VecDeque::new(),
            inlets: Vec::new(),
            is_lanes_turn: false,
            unfinished: None,
        }
    }
}

/// The message being handled.
pub(crate) struct Handling {
    pub(crate) type_name: fn() -> &'static str,
    /// In one byte: each cell has one.
    lane: Option<u8>,
    /// Its future was polled when it was handled, and no signal has come since.
    was_polled: bool,
}

impl Handling {
    #[inline]
    pub(crate) fn new(type_name: fn() -> &'static str, lane: Option<usize>) -> Self {
        // There are at most `MAX_LANES`.
        let lane = lane.map(|lane| lane as u8);
        Self {
            type_name,
            lane,
            was_polled: false,
        }
    }

    pub(crate) fn set_polled(&mut self, was_polled: bool) {
        self.was_polled = was_polled;
    }

    /// The lane that it came through; `None` for a notice and for a message of a ring.
    pub(crate) fn lane(&self) -> Option<usize> {
        self.lane.map(usize::from)
    }
}

/// The worker's state of an actor, besides the actor and its context. Those two are beside the body in the cell, not in
/// it: a suspended future keeps pointers to them, which a `&mut Body` must not alias.
pub(crate) struct Body<A: Actor> {
    pub(crate) factory: Option<TryFactory<A>>,
    /// The async handler's future.
    pub(crate) suspended: Option<SuspendedFuture>,
    pub(crate) suspended_span: HandleSpan,
    pub(crate) cold: Option<Box<ColdState<A>>>,
    pub(crate) handling: Option<Handling>,
    pub(crate) life: Life,
    pub(crate) is_draining: bool,
    /// The relations may hold notices.
    pub(crate) has_notices: bool,
    pub(crate) has_waiters: bool,
    /// A caller waits for the next start.
    pub(crate) has_start_waiters: bool,
    /// `started` was called and returned, so `stopped` must be called.
    pub(crate) has_started: bool,
    /// The back-off of a restart is not over.
    pub(crate) is_backing_off: bool,
    /// The shutdown's deadline has passed: the outbox is no longer sent.
    pub(crate) abandons_outbox: bool,
}

/// The result of one step of the run.
pub(crate) enum Step {
    Rest(Rest),
    Again(After),
    /// The actor has terminated; the registry's reference, which may be the last one.
    Ended(CoreRef),
    Continue,
}

/// # Safety
/// As [`Vtable::run`]; the task is a `Cell<A>`'s.
pub(crate) unsafe fn run<A: Actor>(task: Task, run_context: &mut RunContext<'_>) -> After {
    // SAFETY: the vtable was made for this type, and the registry keeps the cell alive.
    let cell = unsafe { Cell::<A>::from_task(task) };
    let core = cell.core();
    let running = Running::enter(core);
    run_context
        .label()
        .begin(core.id().get(), std::any::type_name::<A>);
    let mut budget = run_context.budget();
    let mut signals = core.state.start();
    let (after, last) = loop {
        // SAFETY: the state word is ours since `start`, and with it the body.
        match unsafe { step(cell, &mut *cell.body(), signals, &mut budget) } {
            Step::Continue => signals = core.state.take_signals(),
            Step::Rest(Rest::Idle) if run_context.wait(|| is_wanted(cell)) => {
                signals = pending_signals(core);
            }
            // SAFETY: as above.
            Step::Rest(Rest::Idle) if !unsafe { (*cell.body()).sleep_inlets() } => {
                signals = pending_signals(core);
            }
            // After `rest` the cell may be freed at once: nothing accesses it any more.
            Step::Rest(rest) => match core.state.rest(rest) {
                Ok(()) => break (After::Done, None),
                Err(came) => signals = came,
            },
            // With no other actor to run, the worker would only run it again.
            Step::Again(After::BudgetSpent) if !run_context.is_wanted_elsewhere() => {
                run_context.account(&budget);
                budget = run_context.renew();
                signals = pending_signals(core);
            }
            Step::Again(after) => {
                core.state.requeue();
                break (after, None);
            }
            Step::Ended(last) => {
                run_context.end();
                break (After::Done, Some(last));
            }
        }
    };
    run_context.account(&budget);
    drop(running);
    drop(last);
    after
}

/// Pending signals other than that of a message, which stays set so that senders need not set it again.
#[inline]
fn pending_signals(core: &Core) -> Signals {
    if core.state.has_signals() {
        core.state.take_signals()
    } else {
        Signals::none()
    }
}

/// Whether the actor that this thread runs has a message to handle, or a signal other than that of a message.
#[inline]
fn is_wanted<A: Actor>(cell: &Cell<A>) -> bool {
    // SAFETY: this thread runs the actor, and nothing borrows its context or its body now.
    let has_message = unsafe { has_ready_lane(cell) || (*cell.body()).has_ready_inlet() };
    has_message || cell.core().state.has_signals()
}

/// # Safety
/// This thread runs the actor; `body` is the cell's.
unsafe fn step<A: Actor>(
    cell: &Cell<A>,
    body: &mut Body<A>,
    signals: Signals,
    budget: &mut Budget<'_>,
) -> Step {
    let core = cell.core();
    // Before the signals: a stop drops the future from the body.
    body.adopt_suspended(cell);
    if !signals.is_empty() {
        // One of them may be the future's.
        if let Some(handling) = &mut body.handling {
            handling.set_polled(false);
        }
        body.obey(cell, signals);
    }
    match body.life {
        Life::New => body.begin(cell),
        Life::Restarting => return body.restart_further(cell),
        Life::Stopping(reason) => return body.stop_further(cell, reason),
        Life::Delivering => return body.deliver_further(core),
        Life::Active => {}
    }
    if body.life != Life::Active {
        return Step::Continue;
    }
    body.adopt_requests(cell);
    if body.life != Life::Active {
        return Step::Continue;
    }
    if let Some(step) = body.wait_if_needed(cell, budget) {
        return step;
    }
    if body.life != Life::Active {
        return Step::Continue;
    }
    let pause = body.handle_messages(cell, budget);
    body.publish(core);
    match pause {
        Pause::Attention if !budget.is_spent() => Step::Continue,
        Pause::Attention | Pause::BudgetSpent => Step::Again(After::BudgetSpent),
        Pause::Pending => Step::Again(After::Yield),
        // SAFETY: this thread runs the actor.
        Pause::Empty | Pause::Paused if unsafe { (*core.outbox()).is_some() } => {
            // It was not muted, because that would close a circle: it is idle until its receiver grants capacity.
            // Messages that a notice has just sent are settled first.
            // SAFETY: as above.
            if unsafe { outbox::is_waiting(core) } {
                Step::Rest(Rest::Idle)
            } else {
                Step::Continue
            }
        }
        Pause::Empty | Pause::Paused if body.is_draining && body.has_handled_all(cell) => {
            body.stop(core, ExitReason::Drained);
            Step::Continue
        }
        Pause::Paused if !body.sleep_inlets() => Step::Continue,
        Pause::Paused => Step::Rest(Rest::Suspended),
        Pause::Empty => Step::Rest(Rest::Idle),
    }
}

impl<A: Actor> Body<A> {
    pub(crate) fn new(factory: Option<TryFactory<A>>) -> Self {
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
            has_start_waiters: false,
            has_started: false,
            is_backing_off: false,
            abandons_outbox: false,
        }
    }

    pub(crate) fn cold(&mut self) -> &mut ColdState<A> {
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

    fn obey(&mut self, cell: &Cell<A>, signals: Signals) {
        let core = cell.core();
        // First: the receivers that would free the outbox are about to be stopped, too.
        if signals.contains(core::ABANDON) {
            self.abandons_outbox = true;
            // SAFETY: this thread runs the actor.
            unsafe { outbox::abandon(core) };
        }
        if signals.contains(core::UNMUTE) {
            // SAFETY: this thread runs the actor.
            unsafe { outbox::unmuted(core) };
        }
        if signals.contains(core::WAITERS) {
            self.has_waiters = true;
            self.publish(core);
        }
        if signals.contains(core::RESUME) {
            self.is_backing_off = false;
        }
        if signals.contains(core::FAILED_BY_OTHER) {
            self.adopt_failure_of_other(cell);
        }
        if signals.contains(core::STOP) {
            self.stop(core, ExitReason::Stopped);
        }
        if signals.contains(core::DRAIN) {
            self.is_draining = true;
            self.close_inlets(core);
            core.announce_drain();
        }
        if signals.contains(core::INLET) {
            self.adopt_inlets(core);
        }
        if signals.contains(core::NOTICE) {
            self.has_notices = true;
        }
        if signals.contains(core::START_WAITERS) {
            self.has_start_waiters = true;
            if self.has_started {
                self.tell_started(core, &Ok(()));
            } else {
                self.complete_start(cell);
            }
        }
    }

    /// Whether no message is left: neither with the actor, nor in a paused lane, nor a reply that will come.
    fn has_handled_all(&self, cell: &Cell<A>) -> bool {
        // SAFETY: this thread runs the actor, and holds no other reference to its context.
        let (keeps_back, paused_lanes) = unsafe {
            let context = &*cell.context();
            let has_asks = context.asks.as_ref().is_some_and(|asks| !asks.is_empty());
            (context.keeps_back || has_asks, context.paused_lanes)
        };
        !keeps_back && (paused_lanes == 0 || cell.core().mailbox.depth() == 0)
    }

    /// Sends the outbox as far as the lanes have capacity. A panic of an iterator fails the actor.
    #[inline]
    fn settle(&mut self, cell: &Cell<A>) -> Settled {
        // The usual case, without a call.
        // SAFETY: this thread runs the actor.
        if unsafe { (*cell.core().outbox()).is_none() } {
            return Settled::Empty;
        }
        // SAFETY: this thread runs the actor.
        unsafe { outbox::settle(cell.core()) }.unwrap_or_else(|panic| {
            self.drop_suspended();
            self.fail_panicked(cell, panic);
            Settled::Empty
        })
    }

    /// Takes the future that an async handler has just returned.
    fn adopt_suspended(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and holds no other reference to its context.
        if let Some(future) = unsafe { (*cell.context()).suspended.take() } {
            self.suspended = Some(future);
        }
    }

    /// Executes the actor's requests to its context.
    fn adopt_requests(&mut self, cell: &Cell<A>) {
        // SAFETY: this thread runs the actor, and holds no other reference to its context.
        let stop = unsafe { &mut (*cell.context()).stop };
        match stop.take_if(|stop| *stop != StopRequest::Fail) {
            Some(StopRequest::Now) => self.stop(cell.core(), ExitReason::Stopped),
            Some(StopRequest::Drained) => {
                cell.core().mailbox.close();
                self.is_draining = true;
                self.close_inlets(cell.core());
            }
            // `adopt_failure` executes it, once the handler has returned.
            Some(StopRequest::Fail) | None => {}
        }
    }

    /// Settles the outbox and polls the suspended future; returns a step if the actor has to wait.
    fn wait_if_needed(&mut self, cell: &Cell<A>, budget: &mut Budget<'_>) -> Option<Step> {
        let core = cell.core();
        // SAFETY: this thread runs the actor.
        if self.suspended.is_none() && unsafe { (*core.outbox()).is_none() } {
            return None;
        }
        // The outbox first: the future's next message must not overtake earlier ones.
        let mut settled = self.settle(cell);
        if self.life != Life::Active {
            return None;
        }
        if self.suspended.is_some() {
            let handling = self.handling.as_mut();
            let polled = match handling.is_some_and(|it| mem::take(&mut it.was_polled)) {
                true => Ok(false),
                false => self.poll_suspended(cell),
            };
            match polled {
                Ok(true) => {
                    let handled = self.finish_suspended(core);
                    self.adopt_failure(cell, handled);
                    self.adopt_requests(cell);
                    if self.life != Life::Active {
                        return None;
                    }
                }
                Ok(false) => {
                    self.adopt_requests(cell);
                    if self.is_stopping() {
                        return None;
                    }
                    self.publish(core);
                    let settled = self.settle(cell);
                    if self.life != Life::Active {
                        return None;
                    }
                    // A future that wakes itself at once must not monopolise the worker.
                    let is_spent = !budget.spend();
                    let is_called = is_spent && core.state.has_signals();
                    return Some(if is_called || settled == Settled::More {
                        Step::Again(After::BudgetSpent)
                    } else {
                        Step::Rest(Rest::Suspended)
                    });
                }
                Err(panic) => {
                    self.drop_suspended();
                    self.fail_panicked(cell, panic);
                    return None;
                }
            }
            settled = self.settle(cell);
        }
        match settled {
            Settled::Muted => {
                self.publish(core);
                Some(Step::Rest(Rest::Suspended))
            }
            Settled::More => {
                self.publish(core);
                Some(Step::Again(After::BudgetSpent))
            }
            Settled::Empty | Settled::Circular => None,
        }
    }

    /// `Ok(true)` when the future is complete.
    pub(crate) fn poll_suspended(&mut self, cell: &Cell<A>) -> Result<bool, Box<dyn Any + Send>> {
        let Some(future) = self.suspended.as_mut() else {
            return Ok(true);
        };
        // SAFETY: the registry holds the cell while this thread runs the actor.
        let waker = unsafe { CoreRef::borrowed_waker(cell.core()) };
        let mut task_context = TaskContext::from_waker(&waker);
        catch_unwind(AssertUnwindSafe(|| {
            let _runtime = cell.core().system.enter_runtime();
            let _entered = self.suspended_span.enter();
            let _polling = Polling::enter();
            future.as_mut().poll(&mut task_context).is_ready()
        }))
    }

    /// Drops the future, which is complete.
    pub(crate) fn drop_complete(&mut self, core: &Core) {
        self.drop_suspended();
        // An ask that the future moved elsewhere no longer belongs to this actor.
        core.asking.take();
    }

    /// Completes the async handler's message, and returns it.
    fn finish_suspended(&mut self, core: &Core) -> Option<Handling> {
        self.drop_complete(core);
        let handling = self.handling.take();
        if let Some(lane) = handling.as_ref().and_then(Handling::lane) {
            core.mailbox.lane(lane).gauges.handled.bump(1);
        }
        self.count_unfinished(core);
        handling
    }
}
