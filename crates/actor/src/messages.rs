//! The message loop of a run: notices first, then the lanes by priority, until a condition pauses it.

use std::{
    mem::{self, ManuallyDrop},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
};

use freeboard_meter::clock;
use freeboard_queue::{PLAIN_MARK, Popped};
use freeboard_sched::{Budget, RunLabel, Signals};

use crate::{
    actor::Actor,
    catch_panic,
    cell::Cell,
    core::{self, Core},
    envelope::{Envelope, Handled},
    gauges::{arrived_ns, is_sampled},
    mailbox::MailboxLane,
    run::{Body, ColdState, Handling},
    span::{HandleSpan, SenderSpan},
};

/// Messages that are shed by age for the budget of one handled message. So an old backlog is shed in a few runs, and one
/// run sheds at most 16 times its budget, which takes about 100 us.
const SHED_PER_BUDGET: u32 = 16;

/// What became of a message that was taken from its lane.
#[derive(PartialEq, Eq)]
enum Taken {
    Handled,
    /// Its asker was gone, or its handler is a future that is still to be polled.
    Unfinished,
    /// It was too old.
    Shed,
}

/// Why the handling of messages paused.
pub(crate) enum Pause {
    Empty,
    BudgetSpent,
    /// A message was reserved but is not published yet.
    Pending,
    /// All lanes are paused; the actor handles notices only.
    Paused,
    /// A signal, a stop request, a suspended future or an outbox needs attention first.
    Attention,
}

impl<A: Actor> Body<A> {
    pub(crate) fn handle_messages(&mut self, cell: &Cell<A>, budget: &mut Budget<'_>) -> Pause {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.handle_notices(cell, budget);
            // The outbox does not count: an actor that must not be muted handles messages with a non-empty outbox. A
            // further notice does not count either: an actor that always notifies itself must handle messages, too.
            if is_called(cell, core::NOTICE) {
                return Pause::Attention;
            }
            if let Some(pause) = self.handle_inlets(cell, budget) {
                return pause;
            }
            let mailbox = &cell.core().mailbox;
            let pause = if is_all_paused(cell) {
                Pause::Paused
            } else if mailbox.has_one_lane() {
                self.handle_one_lane(cell, budget)
            } else {
                self.handle_lanes(cell, budget)
            };
            match pause {
                // A notice that came meanwhile counts against this budget, too: see above.
                Pause::Paused | Pause::Empty
                    if self.has_more_notices()
                        || self.has_ready_inlet()
                        || is_called(cell, Signals::none()) =>
                {
                    Pause::Attention
                }
                pause => pause,
            }
        }));
        match outcome {
            Ok(pause) => {
                // Once per batch: no user code runs between two messages.
                // SAFETY: as in `handle`.
                if unsafe { (*cell.context()).suspended.is_none() } {
                    let handled = self.handling.take();
                    self.adopt_failure(cell, handled);
                }
                pause
            }
            Err(panic) => {
                self.fail_panicked(cell, panic);
                Pause::Attention
            }
        }
    }

    fn handle_one_lane(&mut self, cell: &Cell<A>, budget: &mut Budget<'_>) -> Pause {
        let lane = cell.core().mailbox.lane(0);
        lane.gauges.high_water.raise(lane.depth());
        let mut batch = Batch { lane, handled: 0 };
        let mut is_first = true;
        let mut sheds = 0;
        loop {
            // SAFETY: this thread runs the actor.
            match unsafe { batch.lane.pop_in_place() } {
                Popped::Pending => return Pause::Pending,
                Popped::Empty => {
                    // SAFETY: as above.
                    unsafe { batch.lane.found_none() };
                    return Pause::Empty;
                }
                Popped::Value(envelope, mark) => {
                    let taken = self.handle(cell, budget.label(), 0, envelope, mark);
                    batch.handled += u64::from(taken == Taken::Handled);
                    if is_first {
                        // Messages that came during the first, possibly long, message.
                        is_first = false;
                        // SAFETY: this thread runs the actor.
                        let queued = unsafe { batch.lane.queued() };
                        batch.lane.gauges.high_water.raise(queued);
                    }
                    let goes_on = spend(budget, &taken, &mut sheds);
                    if needs_attention(cell) || is_paused(cell, 0) {
                        return Pause::Attention;
                    }
                    if !goes_on {
                        return Pause::BudgetSpent;
                    }
                }
            }
        }
    }

    fn handle_lanes(&mut self, cell: &Cell<A>, budget: &mut Budget<'_>) -> Pause {
        let core = cell.core();
        raise_high_water(core);
        let mut is_first = true;
        let mut sheds = 0;
        // After a panic in a handler the rounds begin anew.
        let rounds = self.cold().rounds.take();
        let mut rounds = rounds.unwrap_or_else(|| core.config().rounds());
        let pause = 'rounds: loop {
            // SAFETY: this thread runs the actor.
            let ready = |lane| unsafe { is_lane_ready(cell, lane) };
            let Some(index) = rounds.next(ready) else {
                let mut lanes = core.mailbox.lanes().enumerate();
                // SAFETY: as above.
                let has_more = |(index, lane): (usize, &MailboxLane)| unsafe {
                    lane.publish() > 0 && !is_paused(cell, index)
                };
                break if lanes.any(has_more) {
                    Pause::Pending
                } else {
                    Pause::Empty
                };
            };
            let lane = core.mailbox.lane(index);
            let mut batch = Batch { lane, handled: 0 };
            loop {
                // SAFETY: as above.
                let Popped::Value(envelope, mark) = (unsafe { lane.pop_in_place() }) else {
                    unreachable!("a lane that is ready has a message");
                };
                let taken = self.handle(cell, budget.label(), index, envelope, mark);
                batch.handled += u64::from(taken == Taken::Handled);
                if is_first {
                    // Messages that came during the first, possibly long, message.
                    is_first = false;
                    raise_high_water(core);
                }
                let goes_on = spend(budget, &taken, &mut sheds);
                if needs_attention(cell) {
                    break 'rounds Pause::Attention;
                }
                if !goes_on {
                    break 'rounds Pause::BudgetSpent;
                }
                if !rounds.again(index, ready) {
                    break;
                }
            }
        };
        self.cold().rounds = Some(rounds);
        pause
    }

    /// Records the message that is handled, and opens its span; a notice has no lane.
    #[inline]
    pub(crate) fn begin_handling(
        &mut self,
        core: &Core,
        label: &RunLabel,
        type_name: fn() -> &'static str,
        lane: Option<usize>,
        sender: &SenderSpan,
    ) -> HandleSpan {
        label.handling(type_name);
        self.handling = Some(Handling::new(type_name, lane));
        // A subscriber that panics must not lose the message.
        let span = catch_panic::call(|| HandleSpan::new(core, type_name, lane, sender));
        span.unwrap_or_else(HandleSpan::none)
    }

    /// Handles one message, or sheds it.
    #[inline]
    fn handle(
        &mut self,
        cell: &Cell<A>,
        label: &RunLabel,
        index: usize,
        envelope: NonNull<Envelope>,
        mark: u64,
    ) -> Taken {
        let mut sampled_ns = None;
        if mark != PLAIN_MARK {
            let now_ns = cell.core().mailbox.lane(index).stamps().now_ns(mark);
            // SAFETY: the envelope lies in its slot, and is not used again if it is shed.
            if unsafe { shed_if_old(cell.core(), index, envelope, mark, now_ns) } {
                return Taken::Shed;
            }
            sampled_ns = is_sampled(mark).then_some(now_ns);
        }
        // SAFETY: the envelope lies in its slot.
        let type_name = unsafe { Envelope::type_namer(envelope) };
        // SAFETY: as above; only this thread accesses it.
        let sender = unsafe { Envelope::take_span(envelope) };
        let span = self.begin_handling(cell.core(), label, type_name, Some(index), &sender);
        let handled = {
            let _entered = span.enter();
            // SAFETY: the envelope was made for this actor type, and its payload is taken once, here;
            // this thread runs the actor, and nothing else borrows it or its context: no future is suspended
            // while messages are handled.
            unsafe { Envelope::handle(envelope, cell.actor_pointer(), cell.context().cast()) }
        };
        if let Some(sampled_ns) = sampled_ns {
            let took_ns = clock::now_ns().saturating_sub(sampled_ns);
            cell.core().record_handling(took_ns);
        }
        // SAFETY: as above.
        if unsafe { (*cell.context()).suspended.is_some() } {
            return match self.poll_suspended_first(cell, span) {
                true => Taken::Handled,
                false => Taken::Unfinished,
            };
        }
        if let Handled::Unwanted(reason) = handled {
            cell.core().shed_consumed(index, type_name, reason);
            return Taken::Unfinished;
        }
        Taken::Handled
    }

    /// Polls the future that a handler has just returned to the context. `true` if it is complete: most need no other poll.
    pub(crate) fn poll_suspended_first(&mut self, cell: &Cell<A>, span: HandleSpan) -> bool {
        // SAFETY: this thread runs the actor, and holds no other reference to its context.
        self.suspended = unsafe { (*cell.context()).suspended.take() };
        self.suspended_span = span;
        match self.poll_suspended(cell) {
            Ok(true) => {
                self.drop_complete(cell.core());
                true
            }
            Ok(false) => {
                if let Some(handling) = &mut self.handling {
                    handling.set_polled(true);
                }
                // The run takes it over with the other requests.
                // SAFETY: as above.
                unsafe { (*cell.context()).suspended = self.suspended.take() };
                false
            }
            Err(panic) => {
                self.drop_suspended();
                resume_unwind(panic)
            }
        }
    }

    fn has_more_notices(&self) -> bool {
        let has_taken = |cold: &ColdState<A>| !cold.notices.is_empty();
        self.has_notices || self.cold.as_deref().is_some_and(has_taken)
    }

    /// The next notice. One lock takes all that are queued. An actor that has one at a time needs no second buffer.
    fn next_notice(&mut self, core: &Core) -> Option<Envelope> {
        let taken = self.cold.as_mut().and_then(|it| it.notices.pop_front());
        if taken.is_some() {
            return taken;
        }
        // A later one finds the queue empty, and signals.
        self.has_notices = false;
        let mut relations = core.lock_relations();
        let queue = &mut relations.as_mut()?.notices;
        let next = queue.pop_front();
        if !queue.is_empty() {
            mem::swap(queue, &mut self.cold().notices);
        }
        next
    }

    /// Handles the notices that were queued when it took the first one, as far as the budget goes.
    fn handle_notices(&mut self, cell: &Cell<A>, budget: &mut Budget<'_>) {
        while self.has_more_notices() && !is_called(cell, core::NOTICE) {
            let Some(notice) = self.next_notice(cell.core()) else {
                return;
            };
            let mut notice = ManuallyDrop::new(notice);
            let notice = NonNull::from(&mut *notice);
            // SAFETY: this thread owns the notice.
            let type_name = unsafe { Envelope::type_namer(notice) };
            // SAFETY: as above.
            let sender = unsafe { Envelope::take_span(notice) };
            let label = budget.label();
            let span = self.begin_handling(cell.core(), label, type_name, None, &sender);
            {
                let _entered = span.enter();
                // SAFETY: as in `handle`. A notice has no asker, so its result is `Done`.
                let _ = unsafe {
                    Envelope::handle(notice, cell.actor_pointer(), cell.context().cast())
                };
            }
            // SAFETY: as in `handle`.
            if unsafe { (*cell.context()).suspended.is_some() } {
                self.suspended_span = span;
            }
            if !budget.spend() {
                return;
            }
        }
    }
}

/// Records the time in the queue of a message that carries its arrival, and sheds it if its lane does so by age.
///
/// # Safety
/// The caller runs the actor, has just popped the envelope in place, and uses it no more if it was shed.
#[cold]
unsafe fn shed_if_old(
    core: &Core,
    index: usize,
    envelope: NonNull<Envelope>,
    mark: u64,
    now_ns: u64,
) -> bool {
    let lane = core.mailbox.lane(index);
    if is_sampled(mark) {
        let waited_ns = now_ns.saturating_sub(arrived_ns(mark));
        lane.gauges.record_time_in_queue(waited_ns);
    }
    // SAFETY: the caller's promise.
    let Some(reason) = (unsafe { lane.judge(mark, now_ns) }) else {
        return false;
    };
    // SAFETY: as above: it is moved out once.
    core.shed(index, unsafe { Envelope::read(envelope) }, reason);
    true
}

/// Spends the budget of a message. `false` when it is used up.
#[inline]
fn spend(budget: &mut Budget<'_>, taken: &Taken, sheds: &mut u32) -> bool {
    if *taken == Taken::Shed {
        *sheds += 1;
        if !sheds.is_multiple_of(SHED_PER_BUDGET) {
            return true;
        }
    }
    budget.spend()
}

/// Call while running the actor.
fn raise_high_water(core: &Core) {
    for lane in core.mailbox.lanes() {
        // SAFETY: the caller runs the actor.
        lane.gauges.high_water.raise(unsafe { lane.queued() });
    }
}

/// Whether something needs attention before the next message.
#[inline]
pub(crate) fn needs_attention<A: Actor>(cell: &Cell<A>) -> bool {
    // SAFETY: this thread runs the actor, and nothing borrows its outbox now.
    let has_outbox = unsafe { (*cell.core().outbox()).is_some() };
    has_outbox || is_called(cell, Signals::none())
}

/// Whether the actor made a request to its context, or was signalled by a signal that is not ignored.
#[inline]
fn is_called<A: Actor>(cell: &Cell<A>, ignored: Signals) -> bool {
    // SAFETY: this thread runs the actor, and nothing borrows its context now.
    let has_requests = unsafe { (*cell.context()).has_requests() };
    has_requests || cell.core().state.has_signals_besides(ignored)
}

/// Whether the lane is paused.
#[inline]
fn is_paused<A: Actor>(cell: &Cell<A>, lane: usize) -> bool {
    // SAFETY: as in `needs_attention`.
    unsafe { (*cell.context()).paused_lanes & 1 << lane != 0 }
}

/// Whether all lanes are paused.
#[inline]
fn is_all_paused<A: Actor>(cell: &Cell<A>) -> bool {
    // SAFETY: as in `needs_attention`.
    let paused_lanes = unsafe { (*cell.context()).paused_lanes };
    paused_lanes.trailing_ones() as usize >= cell.core().mailbox.lane_count()
}

/// Whether the lane has a message to handle now.
///
/// # Safety
/// The caller runs the actor, and nothing borrows its context now.
#[inline]
unsafe fn is_lane_ready<A: Actor>(cell: &Cell<A>, lane: usize) -> bool {
    // SAFETY: the caller's promise.
    !is_paused(cell, lane) && unsafe { cell.core().mailbox.lane(lane).is_ready() }
}

/// Whether any lane has a message to handle now.
///
/// # Safety
/// As [`is_lane_ready`].
#[inline]
pub(crate) unsafe fn has_ready_lane<A: Actor>(cell: &Cell<A>) -> bool {
    let mut lanes = 0..cell.core().mailbox.lane_count();
    // SAFETY: the caller's promise.
    lanes.any(|lane| unsafe { is_lane_ready(cell, lane) })
}

/// Counts the handled messages of a lane, also if a later handler panics.
struct Batch<'a> {
    lane: &'a MailboxLane,
    handled: u64,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.lane.gauges.handled.bump(self.handled);
    }
}
